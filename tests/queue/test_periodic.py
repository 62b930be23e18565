"""Periodic work is done by one worker of a kind at a time, and what it returns is sent."""

import asyncio

import pytest

from engramq.schemas.commands import Ping
from engramq.workers.queue import process as schedule
from engramq.workers.queue.contract import Assignment, Completion, FollowUp, Periodic
from tests.queue.stage import NAMESPACE, Stage, an_actor, echo


async def test_two_workers_do_periodic_work_one_at_a_time(stage: Stage) -> None:
    running = most = times = 0
    enough = asyncio.Event()

    async def work() -> None:
        nonlocal running, most, times
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        times += 1
        if times == 4:
            enough.set()

    for _ in range(2):
        await stage.workers(an_actor(echo, schedule=(Periodic("work", 0.05, work),)))
    async with asyncio.timeout(5):
        await enough.wait()
    assert most == 1


async def test_what_periodic_work_returns_is_sent_as_the_system(stage: Stage) -> None:
    seen = asyncio.Event()
    principals: list[str] = []

    async def note(assignment: Assignment) -> Completion:
        principals.append(assignment.envelope.principal.name)
        seen.set()
        return await echo(assignment)

    async def work() -> tuple[FollowUp, ...]:
        return (FollowUp(NAMESPACE, Ping()),)

    await stage.workers(an_actor(note, schedule=(Periodic("work", 0.01, work),)))
    async with asyncio.timeout(5):
        await seen.wait()
    assert principals[0] == "engramq"


async def test_periodic_work_that_fails_is_done_again(stage: Stage) -> None:
    times = 0
    again = asyncio.Event()

    async def work() -> None:
        nonlocal times
        times += 1
        if times == 2:
            again.set()
        raise ValueError

    await stage.workers(an_actor(echo, schedule=(Periodic("work", 0.01, work),)))
    async with asyncio.timeout(5):
        await again.wait()


async def test_a_stack_that_never_lives_long_has_its_periodic_work_done_once_a_period(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "FIRST_TURN_S", 0.01)
    rare_turns = frequent_turns = 0

    async def rare() -> None:
        nonlocal rare_turns
        rare_turns += 1

    async def frequent() -> None:
        nonlocal frequent_turns
        frequent_turns += 1

    for _ in range(2):
        both = (Periodic("rare", 900.0, rare), Periodic("frequent", 0.01, frequent))
        worker = await stage.workers(an_actor(echo, schedule=both))
        await stage.reaches(lambda: frequent_turns, frequent_turns + 3)
        await stage.until(lambda: rare_turns)
        await worker.stop()
    assert rare_turns == 1


async def test_workers_say_that_they_live_and_when_they_end(stage: Stage) -> None:
    worker = await stage.workers(an_actor(echo))
    key = stage.keys.of[an_actor(echo).kind].alive
    await stage.until(lambda: stage.redis.zcard(key))
    await worker.stop()
    assert await stage.redis.zcard(key) == 0


@pytest.mark.promise("QP-10")
async def test_a_worker_ends_while_periodic_work_goes_on(stage: Stage) -> None:
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        await asyncio.Event().wait()

    worker = await stage.workers(an_actor(echo, schedule=(Periodic("work", 0.01, work),)))
    async with asyncio.timeout(5):
        await began.wait()
    await worker.stop()
