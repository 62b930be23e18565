"""Reads whose callers have gone: each ends, begun or not, unless somebody else waits for a part of its job."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

import pytest

from engramq.gateway.queue.bus import Bus
from engramq.schemas.commands import Command, Ping, Stored, StoreMemory
from engramq.schemas.envelope import Answer
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, TRIES_KEY
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue import worker
from engramq.workers.queue.contract import Assignment, CommandTry, Completion
from tests.queue.stage import Stage, an_actor, echo, payload_of, ping, send
from tests.queue.worker_process import a_memory

pytestmark = pytest.mark.promise("QP-11")


@pytest.fixture(autouse=True)
def _renewed_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "RENEW_S", 0.02)


class Slow:
    """A handler that takes until `go`, and counts what became of its commands."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.seen = Counter[str]()

    async def read(self, assignment: Assignment) -> Completion:
        self.seen["begun"] += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.seen["cancelled"] += 1
            raise
        self.seen["done"] += 1
        return await echo(assignment)

    async def write(self, assignment: Assignment) -> Completion:
        await self.read(assignment)
        return Completion(Stored(stored=a_memory("tea")))

    def saw(self, what: str, count: int = 1) -> Callable[[], object]:
        return lambda: self.seen[what] == count


async def leave(*calls: asyncio.Task[object]) -> None:
    """Have callers hang up."""
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


def call(bus: Bus, command: Command) -> asyncio.Task[object]:
    return asyncio.create_task(send(bus, command))


async def job_of(stage: Stage) -> str:
    """Return the id of the only job in the mailbox."""
    (job,) = await stage.redis.zrange(stage.keys.of[WorkerKind.RECALL].mailbox, 0, -1)
    return str(job.decode())


async def has_gone(stage: Stage, job: str) -> bool:
    """Say whether nothing is left of a job."""
    return await stage.empty() and not await stage.redis.exists(JOB_KEY + job, TRIES_KEY + job)


async def test_a_read_whose_caller_has_gone_ends(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    slow, seen = Slow(), list[CommandTry]()
    actor = an_actor(slow.read)
    await stage.workers(type(actor)(actor.kind, actor.runners, observe=seen.append))
    bus = await stage.bus()
    asked = call(bus, Ping())
    await stage.until(slow.saw("begun"))
    job = await job_of(stage)
    await leave(asked)
    await stage.until(slow.saw("cancelled"))
    assert await has_gone(stage, job)
    assert [found.outcome for found in seen] == ["abandoned"]
    slow.go.set()
    assert payload_of(await ping(bus, "next")) == "next"
    said = {record.message: record.levelname for record in caplog.records if record.name.startswith("engramq.workers")}
    assert said.get("Nobody waits for a job any more") == "INFO"
    assert "A lease was lost" not in said


async def test_a_read_that_was_not_begun_never_is(stage: Stage) -> None:
    bus, slow = await stage.bus(), Slow()
    slow.go.set()
    asked = call(bus, Ping())
    await stage.until(stage.depth, lambda depth: depth == (1, 1))
    job = await job_of(stage)
    await leave(asked)
    await stage.until(lambda: has_gone(stage, job))
    await stage.workers(an_actor(slow.read))
    await ping(bus)
    assert slow.seen == {"begun": 1, "done": 1}


async def test_reads_that_share_a_job_end_when_all_callers_have_gone(stage: Stage) -> None:
    bus, slow = await stage.bus(), Slow()
    first, second, third = [call(bus, Ping(payload=b"hello")) for _ in range(3)]
    await stage.until(stage.depth, lambda depth: depth == (1, 3))
    await stage.workers(an_actor(slow.read))
    await stage.until(slow.saw("begun", 3))
    await leave(first, second)
    due, job = await _due(stage), await job_of(stage)
    await stage.until(lambda: _due(stage), lambda later: later > due)
    assert slow.seen["cancelled"] == 0
    assert await stage.redis.exists(JOB_KEY + job)
    slow.go.set()
    answer = await third
    assert isinstance(answer, Answer)
    assert payload_of(answer) == "hello"
    await stage.until(stage.empty)
    slow.go.clear()
    slow.seen.clear()
    both = [call(bus, Ping()) for _ in range(2)]
    await stage.until(slow.saw("begun", 2))
    await leave(*both)
    await stage.until(slow.saw("cancelled", 2))


async def test_a_write_whose_caller_has_gone_is_carried_out(stage: Stage) -> None:
    bus, slow = await stage.bus(), Slow()
    await stage.workers(an_actor(slow.read, slow.write, kind=WorkerKind.EMBEDDING))
    asked = call(bus, StoreMemory(content="tea"))
    await stage.until(slow.saw("begun"))
    await leave(asked)
    slow.go.set()
    await stage.until(slow.saw("done"))
    await stage.until(lambda: stage.empty(WorkerKind.EMBEDDING))
    assert slow.seen["cancelled"] == 0


async def test_a_read_that_ends_as_its_caller_goes_is_no_lost_lease(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "RENEW_S", 30.0)  # so that the end of the job is what meets it
    slow, bus = Slow(), await stage.bus()
    await stage.workers(an_actor(slow.read))
    asked = call(bus, Ping())
    await stage.until(slow.saw("begun"))
    (lease,) = await stage.leases()
    await leave(asked)
    await stage.until(lambda: stage.redis.get(lease), lambda told: told == b"abandoned")
    slow.go.set()
    await stage.until(slow.saw("done"))
    assert payload_of(await ping(bus, "next")) == "next"
    assert "A lease was lost" not in caplog.messages
    assert lease.startswith(LEASE_KEY)


async def _due(stage: Stage) -> float:
    """Return when the lease of the job ends."""
    job = await job_of(stage)
    return float(await stage.redis.zscore(stage.keys.of[WorkerKind.RECALL].mailbox, job))
