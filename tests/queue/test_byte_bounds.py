"""What nobody fetches is bounded by bytes: dead letters, callers who wait, answers for a gateway that reads none."""

import asyncio
import time

import pytest

from engramq.gateway.queue import lane
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import LEASE_KEY
from engramq.schemas.scripts import SETTLE
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue import settlement
from engramq.workers.queue.dead_letters import DeadLetter, DeadLetters, encode_letter
from engramq.workers.queue.settlement import Settlement
from tests.queue.stage import Stage, an_actor, echo, payload_of, ping

pytestmark = pytest.mark.promise("QP-6")

RECALL = WorkerKind.RECALL
MB = 1024 * 1024


def a_letter(size: int) -> DeadLetter:
    return DeadLetter(
        id=uuid7(), mailbox=RECALL, raw=b"\xc1" * size, error="E", message="m", attempts=5, died_at=time.time()
    )


async def settle(stage: Stage, *steps: tuple[str | bytes | float, ...]) -> None:
    """Let a worker that holds a job do these steps."""
    job, arguments = stage.job(uuid7()), list[str | bytes | float]()
    await stage.redis.set(LEASE_KEY + job, "me")
    for word, *rest in steps:
        arguments += [word, len(rest), *rest]
    assert await stage.redis.eval(SETTLE.text, 1, LEASE_KEY + job, "me", *arguments) == 1


async def bury(stage: Stage, letter: DeadLetter) -> None:
    made = Settlement(stage.keys, RECALL)
    made.bury(letter)
    await settle(stage, *made._actions)


async def counted(stage: Stage) -> int:
    return int(await stage.redis.get(stage.keys.of[RECALL].dead_bytes) or 0)


async def test_the_oldest_letters_make_room_for_newer_ones_by_bytes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "DEAD_BYTES_MAX", 10_000)
    dead = DeadLetters(stage.redis, stage.lanes)
    letters = [a_letter(2_000) for _ in range(9)]
    for letter in letters:
        await bury(stage, letter)
    kept = await dead.list(RECALL)
    assert {letter.id for letter in kept} == {letter.id for letter in letters[-4:]}
    assert await counted(stage) == sum(len(encode_letter(letter)) for letter in kept) <= 10_000

    # The same letter again counts once; one that is larger than all may be is kept alone.
    await bury(stage, letters[-1])
    assert len(await dead.list(RECALL)) == 4
    huge = a_letter(20_000)
    await bury(stage, huge)
    assert [letter.id for letter in await dead.list(RECALL)] == [huge.id]
    assert await dead.drop(huge.id)
    assert await counted(stage) == 0


async def test_callers_who_wait_are_bounded_by_the_bytes_of_their_commands(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "WAITING_BYTES", 100_000)
    bus = await stage.bus()
    asked = [asyncio.create_task(ping(bus, b"x" * 30_000)) for _ in range(3)]
    await stage.until(stage.depth, lambda depth: depth[1] == 3)
    with pytest.raises(EngramqError) as refusal:
        await ping(bus, b"x" * 30_000)
    assert refusal.value.fault.code is FaultCode.OVERLOADED
    small = asyncio.create_task(ping(bus, b"small"))
    await stage.workers(an_actor(echo))
    assert payload_of(await small) == "small"
    await asyncio.gather(*asked)
    for _ in range(10):  # room comes back with each answer
        assert len(payload_of(await ping(bus, b"x" * 60_000))) == 60_000


@pytest.mark.long
async def test_answers_for_a_gateway_that_reads_none_are_bounded(stage: Stage) -> None:
    lists = [stage.keys.replies(name) for name in ("stopped", "few")]
    answer = b"x" * (2 * MB)
    for _ in range(20):
        await settle(stage, ("reply", lists[0], 60, *[answer] * 4))
    kept = await stage.redis.llen(lists[0])
    assert 64 <= kept < 80
    await stage.redis.ltrim(lists[0], 0, 9)  # it reads again
    await settle(stage, ("reply", lists[0], 60, answer))
    assert await stage.redis.llen(lists[0]) == 11
    for _ in range(200):
        await settle(stage, ("reply", lists[1], 60, *[b"small"] * 100))
    assert await stage.redis.llen(lists[1]) == 20_000
    await stage.redis.delete(*lists)
