"""A mailbox is bounded: beyond the bound callers are refused at once, and it drains by itself."""

import asyncio
import time

import pytest

from engramq.gateway.queue.bus import Bus
from engramq.schemas.commands import Ping, Pong, StoreMemory
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.keys import JOB_KEY
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Assignment, Completion, FollowUp
from tests.queue.stage import NAMESPACE, Stage, an_actor, echo, payload_of, ping, put


async def outcome(bus: Bus, number: int) -> str:
    """Return what became of a ping: its payload, or the code it was refused with."""
    try:
        answer = await ping(bus, str(number), timeout_s=5)
    except EngramqError as refusal:
        return refusal.fault.code.value
    return payload_of(answer)


async def fill(stage: Stage, count: int) -> None:
    for _ in range(count):
        await put(stage, Ping())


@pytest.mark.promise("QP-8")
async def test_a_full_mailbox_refuses_at_once_with_the_time_to_wait_and_grows_no_further(stage: Stage) -> None:
    bus = await stage.bus(bound=20)
    await fill(stage, 20)
    began = time.monotonic()
    with pytest.raises(EngramqError) as refusal:
        await ping(bus)
    assert time.monotonic() - began < 1
    assert refusal.value.fault.code is FaultCode.OVERLOADED
    assert refusal.value.fault.retry_after_s == 1.0
    refused = [outcome(bus, number) for number in range(1_000)]
    assert set(await asyncio.gather(*refused)) == {"overloaded"}
    assert await stage.depth() == (20, 20)


@pytest.mark.promise("QP-9")
async def test_a_full_mailbox_drains_by_itself_and_takes_commands_again(stage: Stage) -> None:
    bus = await stage.bus(bound=20)
    await fill(stage, 20)
    await stage.workers(an_actor(echo))
    await stage.until(stage.empty)
    assert payload_of(await ping(bus, "again")) == "again"
    await stage.until(stage.empty)


async def test_of_a_job_that_does_not_fit_wholly_as_many_commands_as_fit_are_taken(stage: Stage) -> None:
    bus = await stage.bus(bound=20)
    await fill(stage, 13)
    asked = [asyncio.create_task(outcome(bus, number)) for number in range(16)]
    await stage.until(stage.depth, lambda depth: depth[1] == 20)
    await asyncio.wait(asked[7:])
    await stage.workers(an_actor(echo))
    assert await asyncio.gather(*asked) == [str(number) for number in range(7)] + ["overloaded"] * 9
    await stage.until(stage.empty)


async def test_what_was_refused_is_never_carried_out(stage: Stage) -> None:
    seen: list[bytes] = []

    async def note(assignment: Assignment) -> Completion:
        assert isinstance(assignment.envelope.command, Ping)
        seen.append(assignment.envelope.command.payload)
        return await echo(assignment)

    bus = await stage.bus(bound=10)
    asked = [asyncio.create_task(outcome(bus, number)) for number in range(30)]
    await asyncio.wait(asked[10:])
    await stage.workers(an_actor(note))
    answers = await asyncio.gather(*asked)
    await stage.until(stage.empty)
    assert answers == [str(number) for number in range(10)] + ["overloaded"] * 20
    assert sorted(seen) == sorted(str(number).encode() for number in range(10))


async def test_an_error_in_the_counter_does_not_outlast_the_mailbox(stage: Stage) -> None:
    bus = await stage.bus(bound=20)
    await stage.redis.set(stage.keys.of[WorkerKind.RECALL].depth, 10_000)
    await stage.workers(an_actor(echo))
    assert payload_of(await ping(bus, "x")) == "x"
    await stage.until(stage.empty)


async def test_callers_that_wait_are_bounded_too(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engramq.gateway.queue.lane.WAITING_MAX", 3)
    bus = await stage.bus()
    asked = [asyncio.create_task(outcome(bus, number)) for number in range(5)]
    await asyncio.wait(asked[3:])
    await stage.workers(an_actor(echo))
    assert await asyncio.gather(*asked) == ["0", "1", "2", "overloaded", "overloaded"]


async def test_the_same_job_sent_twice_is_one_job(stage: Stage) -> None:
    await put(stage, Ping())
    (job,) = await stage.redis.zrange(stage.keys.of[WorkerKind.RECALL].mailbox, 0, -1)
    payload = await stage.redis.get(JOB_KEY + job.decode())
    assert await stage.enqueue(job.decode(), payload, bound=20) == -1
    assert await stage.enqueue(job.decode(), payload, bound=1) == -1
    assert await stage.depth() == (1, 1)


async def test_a_job_whose_payload_has_vanished_is_cleaned_up(stage: Stage) -> None:
    await put(stage, Ping())
    (job,) = await stage.redis.zrange(stage.keys.of[WorkerKind.RECALL].mailbox, 0, -1)
    await stage.redis.delete(JOB_KEY + job.decode())
    await stage.workers(an_actor(echo))
    await stage.until(stage.empty)


async def test_follow_ups_go_beyond_the_gateways_bound(stage: Stage) -> None:
    seen = 0

    async def cause(assignment: Assignment) -> Completion:
        follow_ups = tuple(FollowUp(NAMESPACE, StoreMemory(content=str(number))) for number in range(40))
        return Completion((await echo(assignment)).reply, follow_ups=follow_ups)

    async def count(assignment: Assignment) -> Completion:
        nonlocal seen
        seen += 1
        return Completion(Pong())

    bus = await stage.bus(bound=5)
    await stage.workers(an_actor(cause))
    payload_of(await ping(bus))
    assert (await stage.depth(WorkerKind.EMBEDDING))[1] == 40
    await stage.workers(an_actor(echo, count, kind=WorkerKind.EMBEDDING))
    await stage.until(lambda: stage.empty(WorkerKind.EMBEDDING))
    assert seen == 40
