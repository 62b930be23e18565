"""Replies tell what the references of their calls stood for, and no store keeps more of it than ids."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from redis.asyncio import Redis

from engramq.schemas.codec import encode
from engramq.schemas.commands import (
    Command,
    CommandReport,
    Connect,
    Connected,
    ForgetMemory,
    Forgotten,
    GetCommand,
    GetMemory,
    MemoryFound,
    Reply,
    UpdateMemory,
    VerifyMemory,
)
from engramq.schemas.envelope import Answer, Principal
from engramq.schemas.faults import EngramqError, Fault, FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import Partition, Scope, Verification
from engramq.workers.db.queries import Query
from engramq.workers.db.transaction import Transaction
from tests.jobs import job, repeated
from tests.workers.conftest import World

SECRET = "The safe opens with zwetschkenknoedel"
LONG = "The  release of the heron project\nis planned for the fourth of May at noon, in Vienna"
BEGINNING = "The release of the heron project is planned for the fourth…"


def told(answer: Reply | Fault) -> dict[str, tuple[str, str | None]]:
    assert answer.resolved_references is not UNSET
    return {name: (reference.id, reference.preview) for name, reference in answer.resolved_references.items()}


async def refused(world: World, command: Command, **envelope: Any) -> Fault:
    with pytest.raises(EngramqError) as refusal:
        await world.outcome(job(command, **envelope))
    return refusal.value.fault


def ledger(world: World) -> str:
    return repr(world.rows("select answer from ledger where command <> 'store_memory'"))


@pytest.mark.promise("AG-12")
async def test_a_reply_tells_what_each_reference_stood_for(world: World) -> None:
    one, other = [(await world.keep(text)).stored.id for text in (LONG, SECRET)]
    references = {"@stored": other, "@recalled[3]": one}
    linked = await world.ask(Connected, Connect(source=one, target=other), references=references)
    assert told(linked) == {"@stored": (other, SECRET), "@recalled[3]": (one, BEGINNING)}
    found = await world.ask(MemoryFound, GetMemory(memory_id=one), references={"@recalled[3]": one})
    assert told(found) == {"@recalled[3]": (one, BEGINNING)}
    plain = await world.ask(MemoryFound, GetMemory(memory_id=one))
    assert plain.resolved_references is UNSET
    gone = uuid7()
    missing = await world.ask(MemoryFound, GetMemory(memory_id=gone), references={"@stored": gone})
    assert told(missing) == {"@stored": (gone, None)}
    assert (await world.ask(MemoryFound, GetMemory(memory_id=gone))).resolved_references is UNSET


@pytest.mark.promise("AG-12", "TP-21")
async def test_no_preview_shows_what_is_untrusted_unasked_nor_what_may_not_be_read(world: World) -> None:
    trusted, poison = [
        (await world.keep(text, partition=partition)).stored.id
        for text, partition in ((LONG, Partition.TRUSTED), (SECRET, Partition.UNTRUSTED))
    ]
    references = {"@stored": poison}
    hidden = await world.ask(MemoryFound, GetMemory(memory_id=poison), references=references)
    assert told(hidden) == {"@stored": (poison, None)}
    asked = await world.ask(MemoryFound, GetMemory(memory_id=poison, include_untrusted=True), references=references)
    assert told(asked) == {"@stored": (poison, SECRET)}
    fault = await refused(world, Connect(source=trusted, target=poison), references=references)
    assert (fault.code, told(fault)) == (FaultCode.UNTRUSTED_LINK, {"@stored": (poison, None)})
    writer = Principal(name="writer", scopes=(Scope.WRITE,))
    change = UpdateMemory(memory_id=trusted, confidence=0.5)
    blind = (await world.outcome(job(change, principal=writer, references={"@stored": trusted}))).reply
    assert told(blind) == {"@stored": (trusted, None)}


@pytest.mark.promise("AG-12")
async def test_a_replay_tells_what_the_references_meant_at_first(world: World) -> None:
    one, other, later = [(await world.keep(text)).stored.id for text in (LONG, "Anything", "Something else")]
    connect = Connect(source="@stored", target=other)
    key: dict[str, Any] = {"idempotency_key": "k", "fingerprint": "f"}
    first = msgspec.structs.replace(connect, source=one)
    made = await world.ask(Connected, first, **key, references={"@stored": one})
    assert told(made) == {"@stored": (one, BEGINNING)}
    second = msgspec.structs.replace(connect, source=later)
    replay = await world.outcome(job(second, **key, references={"@stored": later}))
    assert replay.replayed
    assert told(replay.reply) == told(made)
    report = await world.ask(CommandReport, GetCommand(command_id=made.command_id))
    assert report.reply is not None
    assert report.reply["resolved_references"] == {"@stored": {"id": one, "preview": BEGINNING}}
    assert "release" not in ledger(world)
    conflict = await refused(world, second, idempotency_key="k", references={"@stored": later})
    assert (conflict.code, told(conflict)) == (
        FaultCode.IDEMPOTENCY_CONFLICT,
        {"@stored": (later, "Something else")},
    )


@pytest.mark.promise("AG-12")
async def test_a_refusal_tells_it_too_and_again(world: World) -> None:
    one = (await world.keep(LONG)).stored.id
    await world.ask(Forgotten, ForgetMemory(memory_id=one))
    other = (await world.keep("Anything")).stored.id
    given = job(Connect(source=other, target=one), references={"@recalled[0]": one})
    faults = []
    for one_job in (given, repeated(given, attempt=2)):
        with pytest.raises(EngramqError) as refusal:
            await world.outcome(one_job)
        faults.append(refusal.value.fault)
    assert [(fault.code, told(fault)) for fault in faults] == [
        (FaultCode.MEMORY_NOT_ACTIVE, {"@recalled[0]": (one, BEGINNING)})
    ] * 2
    report = await world.ask(CommandReport, GetCommand(command_id=given.envelope.id))
    assert report.reply is not None
    assert report.reply["resolved_references"] == {"@recalled[0]": {"id": one, "preview": BEGINNING}}
    assert "release" not in ledger(world)


@pytest.mark.promise("AG-12", "MT-19")
async def test_an_erasure_leaves_no_preview(world: World, redis_url: str, key_prefix: str) -> None:
    one, other = [(await world.keep(text)).stored.id for text in (SECRET, "Anything")]
    references = {"@stored": one}
    given = job(Connect(source=one, target=other), references=references, idempotency_key="k")
    made = (await world.outcome(given)).reply
    assert told(made) == {"@stored": (one, SECRET)}
    fault = await refused(world, Connect(source=one, target=uuid7()), references=references)
    fault = msgspec.structs.replace(fault, memory_id=one)
    assert told(fault) == {"@stored": (one, SECRET)}
    verified = VerifyMemory(memory_id=one, verification=Verification.VERIFIED)
    await world.outcome(job(verified, references=references))

    keys = Keys(key_prefix)
    async with Redis.from_url(redis_url) as redis:
        plain = encode(Answer(id=uuid7(), fault=msgspec.structs.replace(fault, resolved_references=UNSET)))
        answers = (Answer(id=uuid7(), fault=fault), Answer(id=uuid7(), reply=made))
        await redis.rpush(keys.replies("gateway"), plain, *(encode(answer) for answer in answers))
        await redis.zadd(keys.reply_lists, {keys.replies("gateway"): 2**33})
        await world.ask(Forgotten, ForgetMemory(memory_id=one, erase=True))
        assert await redis.lrange(keys.replies("gateway"), 0, -1) == [plain]
    replay = await world.outcome(repeated(given, id=uuid7()))
    assert replay.replayed
    assert told(replay.reply) == {"@stored": (one, None)}
    assert "zwetschkenknoedel" not in ledger(world)
    assert "zwetschkenknoedel" not in repr(world.rows("select * from audit_log"))


@pytest.mark.promise("AG-12")
async def test_a_reference_costs_a_read_one_statement_and_no_reference_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = (await world.keep(LONG)).stored.id
    sent: list[Query] = []
    send = Transaction.send

    async def noting(tx: Transaction, query: Query, **values: Any) -> Any:
        sent.append(query)
        return await send(tx, query, **values)

    monkeypatch.setattr(Transaction, "send", noting)
    await world.ask(MemoryFound, GetMemory(memory_id=one))
    plain, sent[:] = len(sent), []
    await world.ask(MemoryFound, GetMemory(memory_id=one), references={"@stored": one})
    assert len(sent) == plain + 1
