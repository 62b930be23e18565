"""SIGTERM: a worker finishes or hands back what it holds, within its grace period."""

import asyncio
import signal
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from engramq.schemas.codec import decode_job, encode, encode_job
from engramq.schemas.commands import Ping, Stored, StoreMemory
from engramq.schemas.connection import EXCHANGE_S, RedisConnection
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import JOB_KEY, TRIES_KEY
from engramq.schemas.scripts import CLAIM
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Assignment, Completion
from engramq.workers.queue.job import MAX_TRIES
from tests.queue.stage import ADA, BOUND_S, NAMESPACE, Stage, an_actor, echo, payload_of, ping, put, send
from tests.queue.worker_process import a_memory


@pytest.mark.promise("QP-10")
async def test_a_worker_finishes_what_it_holds_when_it_can(stage: Stage) -> None:
    child = await stage.child()
    bus = await stage.bus()
    asked = asyncio.create_task(ping(bus, "wait x"))
    assert await stage.pop("began") == "x"
    child.kill(signal.SIGTERM)
    await stage.push("go", "go")
    assert payload_of(await asked) == "wait x"
    assert await child.ended() == 0
    await stage.until(stage.empty)


@pytest.mark.promise("QP-10")
@pytest.mark.long
async def test_a_worker_hands_back_what_it_cannot_finish_and_another_takes_it_at_once(stage: Stage) -> None:
    child = await stage.child()
    bus = await stage.bus()
    asked = [asyncio.create_task(ping(bus, payload)) for payload in ("wait x", "echo 1", "echo 2")]
    assert await stage.pop("began") == "x"
    assert [payload_of(await task) for task in asked[1:]] == ["echo 1", "echo 2"]
    child.kill(signal.SIGTERM)
    assert await child.ended() == 0
    assert await stage.depth() == (1, 1)
    ((job, due_ms),) = await stage.redis.zrange(stage.keys.of[WorkerKind.RECALL].mailbox, 0, -1, withscores=True)
    assert not await stage.redis.exists(TRIES_KEY + job.decode()), "being handed back is no failed try"
    assert due_ms <= time.time() * 1000, "nobody waits for the end of a lease"
    assert await stage.leases() == []

    await stage.child()
    assert await stage.pop("began") == "x"
    await stage.push("go", "go")
    assert payload_of(await asked[0]) == "wait x"
    await stage.until(stage.empty)


@pytest.mark.promise("QP-10")
async def test_a_write_that_was_stopped_midway_is_never_refused_as_not_applied(stage: Stage) -> None:
    attempts: list[int] = []
    began = asyncio.Event()

    async def store(assignment: Assignment) -> Completion:
        """Be stopped, maybe while it commits; then find no database; then what the first has written."""
        attempts.append(assignment.envelope.attempt)
        began.set()
        if len(attempts) == 1:
            await asyncio.Event().wait()
        if len(attempts) == 2:
            raise refuse(FaultCode.UNAVAILABLE, "The database cannot be reached.")
        return Completion(Stored(stored=a_memory("x")), replayed=True)

    actor = an_actor(echo, store, kind=WorkerKind.EMBEDDING)
    worker = await stage.workers(actor, grace_s=0.1)
    sending = asyncio.create_task(send(await stage.bus(), StoreMemory(content="x")))
    await began.wait()
    await worker.stop()
    await stage.workers(actor)
    answer = await sending
    assert isinstance(answer, Answer)
    assert isinstance(answer.reply, Stored), answer
    assert attempts == [1, 2, 3]


@pytest.mark.promise("QP-10")
async def test_a_write_that_was_stopped_often_still_has_its_tries(stage: Stage) -> None:
    began, failed = asyncio.Queue[int](), asyncio.Event()

    async def store(assignment: Assignment) -> Completion:
        """Be stopped as often as a command may be tried; then fail, then work."""
        began.put_nowait(assignment.envelope.attempt)
        if assignment.envelope.attempt <= MAX_TRIES:
            await asyncio.Event().wait()
        if not failed.is_set():
            failed.set()
            raise RuntimeError("unexpected")
        return Completion(Stored(stored=a_memory("x")))

    actor = an_actor(echo, store, kind=WorkerKind.EMBEDDING)
    sending = asyncio.create_task(send(await stage.bus(), StoreMemory(content="x")))
    for attempt in range(1, MAX_TRIES + 1):
        worker = await stage.workers(actor, grace_s=0.01)
        assert await began.get() == attempt
        await worker.stop()
    await stage.workers(actor)
    answer = await sending
    assert isinstance(answer, Answer)
    assert isinstance(answer.reply, Stored), answer


@pytest.mark.promise("QP-10")
async def test_a_stopped_write_keeps_what_a_newer_gateway_has_written_in_it(stage: Stage) -> None:
    began = asyncio.Event()

    async def store(_assignment: Assignment) -> Completion:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError

    kind = WorkerKind.EMBEDDING
    envelope = Envelope(id=uuid7(), namespace=NAMESPACE, principal=ADA, command=StoreMemory(content="x"))
    newer = {**msgspec.msgpack.decode(encode(envelope)), "of_a_newer_version": [1, "a"]}
    job = stage.keys.job_id(envelope.id, 1, kind, NAMESPACE)
    await stage.enqueue(job, encode_job([msgspec.msgpack.encode(newer)], 0), bound=9, kind=kind)
    worker = await stage.workers(an_actor(echo, store, kind=kind), grace_s=0.01)
    await began.wait()
    await worker.stop()
    (job_id,) = await stage.redis.zrange(stage.keys.of[kind].mailbox, 0, -1)
    (left,) = decode_job(await stage.redis.get(JOB_KEY + job_id.decode()))
    assert msgspec.msgpack.decode(left) == {**newer, "attempt": 2, "stops": 1}


@pytest.mark.promise("QP-10")
@pytest.mark.long
async def test_no_call_fails_while_workers_are_restarted_under_load(stage: Stage) -> None:
    bus = await stage.bus()
    over = False
    answered = 0

    async def caller(number: int) -> None:
        nonlocal answered
        while not over:
            assert payload_of(await ping(bus, f"echo {number}")) == f"echo {number}"
            answered += 1

    worker = await stage.child()
    async with asyncio.TaskGroup() as group:
        for number in range(16):
            group.create_task(caller(number))
        for _ in range(3):
            await stage.reaches(lambda: answered, answered + 100)
            next_worker = await stage.child()
            worker.kill(signal.SIGTERM)
            assert await worker.ended() == 0
            worker = next_worker
        over = True
    await stage.until(stage.empty)


async def test_a_worker_that_stops_claims_nothing_more(stage: Stage) -> None:
    go = asyncio.Event()
    began = asyncio.Event()

    async def slow(assignment: Assignment) -> Completion:
        began.set()
        await go.wait()
        return await echo(assignment)

    worker = await stage.workers(an_actor(slow))
    bus = await stage.bus()
    first = asyncio.create_task(ping(bus, "first"))
    await began.wait()
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    for _ in range(3):
        await put(stage, Ping(payload=b"later"))
    go.set()
    await stopping
    assert payload_of(await first) == "first"
    assert (await stage.depth(WorkerKind.RECALL))[1] == 3


async def test_a_worker_that_is_stopped_while_a_claim_is_on_its_way_does_not_wait_for_a_wake_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramq.workers.queue.worker.POLL_S", 10 * BOUND_S)  # stopping has BOUND_S
    claiming, go = asyncio.Event(), asyncio.Event()

    class Holding(RedisConnection):
        """Holds the answer to a claim back."""

        async def exchange(self, commands: Sequence[bytes], timeout_s: float = EXCHANGE_S) -> list[Any]:
            replies = await super().exchange(commands, timeout_s)
            if any(CLAIM.sha.encode() in command for command in commands):
                claiming.set()
                await go.wait()
            return replies

    monkeypatch.setattr("engramq.workers.queue.worker.RedisConnection", Holding)
    worker = await stage.workers(an_actor(echo))
    await claiming.wait()
    stopping = asyncio.create_task(worker.stop())
    for _ in range(3):
        await asyncio.sleep(0)
    go.set()
    await stopping
