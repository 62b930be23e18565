"""The ledger by itself: an answer is kept once, found by its id or key, and blanked for what is erased."""

import json
from uuid import UUID

from engramq.schemas.commands import AddNode, Command, MemoryStats
from engramq.schemas.envelope import Envelope
from engramq.schemas.ids import uuid7
from engramq.workers.db import ledger
from engramq.workers.db.database import Store
from tests.assignments import OWNER, assignment

NAMESPACE = "default_user"
NODE = "0190b6a1-8c1e-7d2a-9f00-3c5b7e9d1a42"


async def keep(store: Store, envelope: Envelope, answer: str) -> bool:
    return await store.write(NAMESPACE, lambda tx: ledger.keep(tx, envelope, answer))


async def find(store: Store, command_id: str, key: str | None = None) -> ledger.LedgerEntry | None:
    return await store.read(NAMESPACE, lambda tx: ledger.find(tx, UUID(command_id), OWNER.identity, key))


async def blank(store: Store, wrote: type[Command], *about: UUID) -> None:
    await store.write(NAMESPACE, lambda tx: ledger.blank(tx, wrote, "node_id", about, {"properties": {}}))


async def test_an_answer_is_kept_once_and_the_first_one_stays(store: Store) -> None:
    envelope = assignment(MemoryStats(), idempotency_key="k").envelope
    assert await keep(store, envelope, '{"n": 1}')
    assert not await keep(store, envelope, '{"n": 2}')
    by_id, by_key = await find(store, envelope.id), await find(store, uuid7(), "k")
    assert by_id is not None
    assert (by_id.command_id, json.loads(by_id.answer)) == (UUID(envelope.id), {"n": 1})
    assert by_id.principal == OWNER.identity
    assert by_key is None, "what had no effect of its own keeps no key"
    assert await find(store, uuid7()) is None


async def test_answers_of_the_command_and_id_that_are_named_are_blanked(store: Store) -> None:
    ids = {name: assignment(AddNode(label="Person", name=name)).envelope for name in ("ada", "bob")}
    nodes = {"ada": NODE, "bob": uuid7()}
    for name, envelope in ids.items():
        answer = {"reply": {"node_id": nodes[name], "properties": {"of": name}}}
        assert await keep(store, envelope, json.dumps(answer))

    async def properties(name: str) -> object:
        entry = await find(store, ids[name].id)
        assert entry is not None
        return json.loads(entry.answer)["reply"]["properties"]

    await blank(store, AddNode)
    await blank(store, MemoryStats, UUID(NODE))
    assert await properties("ada") == {"of": "ada"}
    await blank(store, AddNode, UUID(NODE))
    assert (await properties("ada"), await properties("bob")) == ({}, {"of": "bob"})
