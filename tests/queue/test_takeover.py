"""Workers that die or stall in mid-command: another takes over, nothing is lost or answered twice."""

import asyncio
import random
import signal
import time
from collections.abc import Sequence
from typing import Any

import pytest

from engramq.gateway.queue.bus import Unanswered
from engramq.schemas.clocks import clock
from engramq.schemas.commands import Pong, Stored, StoreMemory
from engramq.schemas.connection import EXCHANGE_S, RedisConnection
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError
from engramq.schemas.keys import LEASE_KEY, TRIES_KEY
from engramq.schemas.scripts import CLAIM
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import LEASE_S, Assignment, Completion, Lease, LeaseLost
from engramq.workers.queue.worker import RENEW_S
from tests.queue.stage import BOUND_S, Stage, an_actor, counts, echo, payload_of, ping, send

KILLS = 6


@pytest.mark.promise("QP-3")
@pytest.mark.long
async def test_writes_survive_workers_killed_at_random(stage: Stage) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    bus = await stage.bus()
    stored: list[str] = []
    over = False

    async def caller(number: int) -> None:
        count = 0
        while not over:
            content = f"{number}/{count}"
            answer = await send(bus, StoreMemory(content=content))
            assert isinstance(answer, Answer), (seed, answer)
            assert isinstance(answer.reply, Stored), (seed, answer)
            stored.append(content)
            count += 1

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(caller(number))
        for _ in range(KILLS):
            worker = await stage.child()
            await stage.reaches(lambda: len(stored), len(stored) + rng.randrange(1, 150))
            worker.kill()
            await worker.ended()
            await stage.leases_run_out(WorkerKind.EMBEDDING)
        await stage.child()
        over = True
    await stage.until(lambda: stage.empty(WorkerKind.EMBEDDING))
    effects = await stage.redis.hgetall(f"{stage.keys.prefix}:test:effects")
    assert {content.decode(): count.decode() for content, count in effects.items()} == dict.fromkeys(stored, "1"), seed


@pytest.mark.promise("QP-3")
@pytest.mark.long
async def test_a_dead_workers_command_is_taken_over_within_its_lease(stage: Stage) -> None:
    child, bus = await stage.child(), await stage.bus()
    asked = asyncio.create_task(ping(bus, "wait x"))
    assert await stage.pop("began") == "x"
    other = await stage.child()
    began = time.monotonic()
    child.kill()
    assert await stage.pop("began") == "x"
    assert time.monotonic() - began < LEASE_S + 1.5
    await stage.push("go", "go", "go")
    assert payload_of(await asked) == "wait x"
    assert other.alive
    await stage.until(stage.empty)


@pytest.mark.long
async def test_a_paused_worker_that_wakes_late_answers_nothing_and_ends_nothing(stage: Stage) -> None:
    late, bus = await stage.child(), await stage.bus()
    asked = asyncio.create_task(ping(bus, "wait x"))
    assert await stage.pop("began") == "x"
    late.kill(signal.SIGSTOP)
    await stage.leases_run_out()
    other = await stage.child()
    assert await stage.pop("began") == "x"
    (lease,) = await stage.leases()
    holder = await stage.redis.get(lease)
    late.kill(signal.SIGCONT)
    # The late one finds its lease lost when it renews or settles; the other still holds the job.
    await stage.push("go", "go", "go")
    assert payload_of(await asked) == "wait x"
    await stage.until(stage.empty)
    assert holder
    assert other.alive
    assert late.alive
    assert payload_of(await ping(bus, "echo")) == "echo"


async def test_a_worker_whose_lease_is_gone_gives_no_answer(stage: Stage) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def slow(assignment: Assignment) -> Completion:
        began.set()
        await go.wait()
        return Completion(Pong())

    bus = await stage.bus(timeout_s=1)
    asked = asyncio.create_task(send(bus, StoreMemory(content="x")))
    worker = await stage.workers(an_actor(slow, slow, kind=WorkerKind.EMBEDDING))
    await began.wait()
    (lease,) = await stage.leases(WorkerKind.EMBEDDING)
    await stage.redis.set(lease, "somebody else", px=60_000)
    go.set()
    assert isinstance(await asked, Unanswered)
    assert await stage.redis.get(lease) == b"somebody else"
    assert await stage.depth(WorkerKind.EMBEDDING) == (1, 1)
    assert not worker.task.done()


@pytest.mark.long
async def test_what_runs_under_a_lease_that_another_holds_is_cancelled(stage: Stage) -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()
    leases: list[Lease] = []

    async def endless(assignment: Assignment) -> Completion:
        leases.append(assignment.lease)
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    await stage.workers(an_actor(endless))
    bus = await stage.bus(timeout_s=0.2)
    with pytest.raises(EngramqError):
        await ping(bus)
    await began.wait()
    (key,) = await stage.leases()
    await stage.redis.set(key, "somebody else", px=60_000)
    async with asyncio.timeout(RENEW_S + 1):
        await cancelled.wait()
    with pytest.raises(LeaseLost):
        leases[0].require()
    assert await stage.depth() == (1, 1)


@pytest.mark.long
async def test_a_command_that_takes_longer_than_a_lease_keeps_it(stage: Stage) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def slow(assignment: Assignment) -> Completion:
        began.set()
        await go.wait()
        assignment.lease.require(LEASE_S - RENEW_S - 1)
        return await echo(assignment)

    await stage.workers(an_actor(slow))
    asked = asyncio.create_task(ping(await stage.bus(), "x"))
    await began.wait()
    (key,) = await stage.leases()
    await stage.redis.pexpire(key, 2_500)
    await stage.until(lambda: stage.redis.pttl(key), lambda left_ms: left_ms > 3_000)
    go.set()
    assert payload_of(await asked) == "x"


@pytest.mark.long
async def test_a_job_that_the_same_worker_claims_again_while_its_first_run_ends_is_renewed_and_ends(
    stage: Stage,
) -> None:
    runs = 0
    began, cancelled, release, go = asyncio.Queue[int](), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(assignment: Assignment) -> Completion:
        nonlocal runs
        runs += 1
        began.put_nowait(assignment.envelope.attempt)
        if runs > 1:
            await go.wait()
            return await echo(assignment)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
            await release.wait()
        raise AssertionError

    worker = await stage.workers(an_actor(slow))
    asked = asyncio.create_task(ping(await stage.bus(), "x"))
    async with asyncio.timeout(BOUND_S):
        assert await began.get() == 1
        (key,) = await stage.leases()
        await stage.redis.delete(key)
        await cancelled.wait()
        await stage.leases_run_out()
        assert await began.get() == 2
    holder = await stage.redis.get(key)
    release.set()
    await stage.redis.pexpire(key, 2_500)
    await stage.until(lambda: stage.redis.pttl(key), lambda left_ms: left_ms > 3_000)
    assert await stage.redis.get(key) == holder
    go.set()
    assert payload_of(await asked) == "x"
    await stage.until(stage.empty)
    await worker.stop()
    assert runs == 2


async def test_a_claim_whose_answer_was_lost_is_given_back_at_once_and_is_no_failed_try(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[Any] = []

    class Losing(RedisConnection):
        """Loses the first answer that gives jobs to a claim."""

        async def exchange(self, commands: Sequence[bytes], timeout_s: float = EXCHANGE_S) -> list[Any]:
            replies = await super().exchange(commands, timeout_s)
            for command, reply in zip(commands, replies, strict=True):
                if not lost and CLAIM.sha.encode() in command and reply[4:]:
                    lost.extend(reply)
                    await self.close()
                    raise ConnectionError("the answer was lost")
            return replies

    tries: list[bytes] = []

    async def see_tries(assignment: Assignment) -> Completion:
        tries.append(await stage.redis.get(TRIES_KEY + stage.keys.job_id(assignment.envelope.id, 1)))
        return await echo(assignment)

    monkeypatch.setattr("engramq.workers.queue.worker.RedisConnection", Losing)
    await stage.workers(an_actor(see_tries))
    began = time.monotonic()
    assert payload_of(await ping(await stage.bus(), "x")) == "x"
    assert time.monotonic() - began < LEASE_S / 2
    assert lost
    assert tries == [b"1"]


class Holding(RedisConnection):
    """Holds the first answer that gives jobs to a claim back, as if the process had been paused."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.held, self.go = HOLDING

    async def exchange(self, commands: Sequence[bytes], timeout_s: float = EXCHANGE_S) -> list[Any]:
        replies = await super().exchange(commands, timeout_s)
        if CLAIM.sha.encode() in commands[-1] and replies[-1][4:] and not self.held.is_set():
            self.held.set()
            await self.go.wait()
        return replies


HOLDING: list[asyncio.Event] = []


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Event]:
    """Return when an answer is held back, and what lets it through."""
    HOLDING[:] = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr("engramq.workers.queue.worker.RedisConnection", Holding)
    return HOLDING


async def test_a_lease_that_came_late_counts_from_a_renewal(
    stage: Stage, holding: list[asyncio.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measure(assignment: Assignment) -> Completion:
        assignment.lease.require(LEASE_S - 1)
        return await echo(assignment)

    held, go = holding
    await stage.workers(an_actor(measure))
    asked = asyncio.create_task(ping(await stage.bus(), "x"))
    await held.wait()
    # For this worker all of a lease has passed since the claim was sent; for Redis the lease holds.
    monkeypatch.setattr("engramq.workers.queue.worker.clock", lambda: clock() + LEASE_S)
    monkeypatch.setattr("engramq.workers.queue.contract.clock", lambda: clock() + LEASE_S)
    go.set()
    assert payload_of(await asked) == "x"


async def test_a_job_whose_lease_ran_out_before_its_claim_was_answered_is_not_begun(
    stage: Stage, holding: list[asyncio.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []

    async def see(assignment: Assignment) -> Completion:
        attempts.append(assignment.envelope.attempt)
        return await echo(assignment)

    held, go = holding
    await stage.workers(an_actor(see))
    asked = asyncio.create_task(ping(await stage.bus(), "x"))
    await held.wait()
    await stage.leases_run_out()
    monkeypatch.setattr("engramq.workers.queue.worker.STALE_CLAIM_S", -1.0)
    go.set()
    assert payload_of(await asked) == "x"
    await stage.until(stage.empty)
    assert attempts == [2], "it was begun by its second claim only"


async def test_what_a_claim_brings_to_a_worker_that_stops_is_given_back_at_once(
    stage: Stage, holding: list[asyncio.Event]
) -> None:
    held, go = holding
    worker = await stage.workers(an_actor(echo))
    asked = asyncio.create_task(ping(await stage.bus(), "x"))
    await held.wait()
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    go.set()
    await stopping
    (job,) = await stage.redis.zrange(stage.keys.of[WorkerKind.RECALL].mailbox, 0, -1)
    assert not await stage.redis.exists(LEASE_KEY + job.decode(), TRIES_KEY + job.decode())
    await stage.workers(an_actor(echo))
    assert payload_of(await asked) == "x"


async def test_jobs_come_with_the_wake_up(stage: Stage) -> None:
    await stage.workers(an_actor(echo))
    bus = await stage.bus()
    for _ in range(3):
        payload_of(await ping(bus, "x"))
    before = counts(await stage.redis.info("commandstats"))
    for _ in range(20):
        payload_of(await ping(bus, "x"))
    after = counts(await stage.redis.info("commandstats"))
    assert after["blpop"] - before["blpop"] <= 21
    assert after["evalsha"] - before["evalsha"] <= 3 * 21, "one to enqueue, one to claim, one to settle"


def test_a_lease_counts_from_when_it_was_asked_for() -> None:
    lease = Lease("token", clock())
    lease.require()
    lease.require(LEASE_S - 1)
    with pytest.raises(LeaseLost):
        lease.require(LEASE_S)
    stale = Lease("token", clock() - LEASE_S)
    with pytest.raises(LeaseLost):
        stale.require()
    stale.sent_at = clock()
    stale.require()
    stale.lost = True
    with pytest.raises(LeaseLost):
        stale.require()


async def test_a_handler_is_told_less_than_redis_granted(stage: Stage) -> None:
    async def measure(assignment: Assignment) -> Completion:
        assignment.lease.require(LEASE_S - 1)
        with pytest.raises(LeaseLost):
            assignment.lease.require(LEASE_S)
        return await echo(assignment)

    await stage.workers(an_actor(measure))
    assert payload_of(await ping(await stage.bus(), "x")) == "x"
