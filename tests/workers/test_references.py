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
    VerifyMemory,
)
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError, Fault, FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import IfExists, Verification
from engramq.workers.db.queries import Query
from tests.assignments import assignment, repeated
from tests.workers.conftest import World

SECRET = "The safe opens with zwetschkenknoedel"
LONG = "The  release of the heron project\nis planned for the fourth of May at noon, in Vienna"


def told(answer: Reply | Fault) -> dict[str, str]:
    assert answer.resolved_references is not UNSET
    return {name: reference.id for name, reference in answer.resolved_references.items()}


async def refused(world: World, command: Command, **envelope: Any) -> Fault:
    with pytest.raises(EngramqError) as refusal:
        await world.complete(assignment(command, **envelope))
    return refusal.value.fault


def ledger(world: World) -> str:
    return repr(world.rows("select answer from ledger where command <> 'store_memory'"))


@pytest.mark.promise("AG-12")
async def test_a_write_keeps_what_each_reference_stood_for(world: World) -> None:
    one, other = [(await world.keep(text)).stored.id for text in (LONG, SECRET)]
    references = {"@stored": other, "@recalled[3]": one}
    linked = await world.ask(Connected, Connect(source=one, target=other), references=references)
    assert told(linked) == references
    plain = await world.ask(Connected, Connect(source=one, target=other, if_exists=IfExists.SKIP))
    assert plain.resolved_references is UNSET


@pytest.mark.promise("AG-12")
async def test_a_replay_tells_what_the_references_meant_at_first(world: World) -> None:
    one, other, later = [(await world.keep(text)).stored.id for text in (LONG, "Anything", "Something else")]
    connect = Connect(source="@stored", target=other)
    key: dict[str, Any] = {"idempotency_key": "k", "fingerprint": "f"}
    first = msgspec.structs.replace(connect, source=one)
    made = await world.ask(Connected, first, **key, references={"@stored": one})
    assert told(made) == {"@stored": one}
    second = msgspec.structs.replace(connect, source=later)
    replay = await world.complete(assignment(second, **key, references={"@stored": later}))
    assert replay.replayed
    assert told(replay.reply) == told(made)
    report = await world.ask(CommandReport, GetCommand(command_id=made.command_id))
    assert report.reply is not None
    assert report.reply["resolved_references"] == {"@stored": {"id": one}}
    assert "release" not in ledger(world)
    conflict = await refused(world, second, idempotency_key="k", references={"@stored": later})
    assert (conflict.code, told(conflict)) == (FaultCode.IDEMPOTENCY_CONFLICT, {"@stored": later})


@pytest.mark.promise("AG-12")
async def test_a_refusal_tells_it_too_and_again(world: World) -> None:
    one = (await world.keep(LONG)).stored.id
    await world.ask(Forgotten, ForgetMemory(memory_id=one))
    other = (await world.keep("Anything")).stored.id
    given = assignment(Connect(source=other, target=one), references={"@recalled[0]": one})
    faults = []
    for one_assignment in (given, repeated(given, attempt=2)):
        with pytest.raises(EngramqError) as refusal:
            await world.complete(one_assignment)
        faults.append(refusal.value.fault)
    assert [(fault.code, told(fault)) for fault in faults] == [(FaultCode.MEMORY_NOT_ACTIVE, {"@recalled[0]": one})] * 2
    report = await world.ask(CommandReport, GetCommand(command_id=given.envelope.id))
    assert report.reply is not None
    assert report.reply["resolved_references"] == {"@recalled[0]": {"id": one}}
    assert "release" not in ledger(world)


@pytest.mark.promise("AG-12", "MT-19")
async def test_an_erasure_leaves_no_preview(world: World, redis_url: str, key_prefix: str) -> None:
    one, other = [(await world.keep(text)).stored.id for text in (SECRET, "Anything")]
    references = {"@stored": one}
    given = assignment(Connect(source=one, target=other), references=references, idempotency_key="k")
    made = (await world.complete(given)).reply
    assert told(made) == {"@stored": one}
    fault = await refused(world, Connect(source=one, target=uuid7()), references=references)
    fault = msgspec.structs.replace(fault, memory_id=one)
    assert told(fault) == {"@stored": one}
    verified = VerifyMemory(memory_id=one, verification=Verification.VERIFIED)
    await world.complete(assignment(verified, references=references))

    keys = Keys(key_prefix)
    async with Redis.from_url(redis_url) as redis:
        plain = encode(Answer(id=uuid7(), fault=msgspec.structs.replace(fault, resolved_references=UNSET)))
        answers = (Answer(id=uuid7(), fault=fault), Answer(id=uuid7(), reply=made))
        await redis.rpush(keys.replies("gateway"), plain, *(encode(answer) for answer in answers))
        await redis.zadd(keys.reply_lists, {keys.replies("gateway"): 2**33})
        await world.ask(Forgotten, ForgetMemory(memory_id=one, erase=True))
        assert await redis.lrange(keys.replies("gateway"), 0, -1) == [plain]
    replay = await world.complete(repeated(given, id=uuid7()))
    assert replay.replayed
    assert told(replay.reply) == {"@stored": one}
    assert "zwetschkenknoedel" not in ledger(world)
    assert "zwetschkenknoedel" not in repr(world.rows("select * from audit_log"))


@pytest.mark.promise("AG-12")
async def test_a_reference_costs_a_refusal_and_a_read_no_statement(world: World, sent: list[Query]) -> None:
    one = (await world.keep(LONG)).stored.id
    sent.clear()
    counts = []
    for references in ({}, {"@stored": one}):
        await world.ask(MemoryFound, GetMemory(memory_id=one), references=references)
        await refused(world, Connect(source=one, target=uuid7()), references=references)
        counts.append(len(sent))
        sent.clear()
    assert counts[0] == counts[1]
