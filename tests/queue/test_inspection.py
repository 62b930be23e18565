"""What handlers may ask about the queue: depths, where a command is, and that an erased memory vanish."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from engramq.gateway.queue.bus import Unanswered
from engramq.gateway.sessions import Breadcrumbs
from engramq.schemas.codec import decode_job, encode, encode_job
from engramq.schemas.commands import (
    DeleteTenant,
    ForgetMemory,
    ImportBatch,
    ImportRecord,
    MemoryList,
    Ping,
    Pong,
    Stored,
    StoreMemory,
    UpdateMemory,
)
from engramq.schemas.connection import RedisConnection
from engramq.schemas.envelope import Answer, Envelope, Principal, PrincipalId
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, TRIES_KEY
from engramq.schemas.scripts import SETTLE
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue import inspection
from engramq.workers.queue import job as job_module
from engramq.workers.queue.contract import Assignment, Completion, ResultUnknown, SessionState
from engramq.workers.queue.dead_letters import DeadLetter, DeadLetters
from engramq.workers.queue.inspection import Inspection
from engramq.workers.queue.settlement import Settlement
from tests.queue.server import Server
from tests.queue.stage import ADA, ADA_ID, BOUND_S, NAMESPACE, Stage, an_actor, echo, ping, put, send
from tests.queue.worker_process import a_memory

EVE = PrincipalId("eve")
UNTRUSTED_ADA = PrincipalId("ada", untrusted=True)

SECRET = "the launch code is 0000"
ERASED = uuid7()


@pytest.fixture
async def view(stage: Stage) -> AsyncIterator[Inspection]:
    async with Inspection(stage.lanes) as view:
        yield view


async def store(assignment: Assignment) -> Completion:
    return Completion(Stored(stored=a_memory("x"), command_id=assignment.envelope.id))


async def everything(stage: Stage) -> bytes:
    """Return all that stands in Redis under this test's keys and in the jobs of its mailboxes."""
    found = [key async for key in stage.redis.scan_iter(f"{stage.keys.prefix}:*")]
    for kind in WorkerKind:
        found += [b"arq:job:" + job for job in await stage.redis.zrange(stage.keys.of[kind].mailbox, 0, -1)]
    dumps = []
    for key in found:
        match await stage.redis.type(key):
            case b"string":
                dumps.append(await stage.redis.get(key) or b"")
            case b"hash":
                dumps += [part for pair in (await stage.redis.hgetall(key)).items() for part in pair]
            case b"list":
                dumps += await stage.redis.lrange(key, 0, -1)
            case b"zset":
                dumps += await stage.redis.zrange(key, 0, -1)
    return b"\n".join(dumps)


async def test_depths_count_commands_waiting_and_dead_letters(stage: Stage, view: Inspection) -> None:
    for _ in range(3):
        await put(stage, Ping())
    await stage.enqueue(stage.job("bad.1"), b"\xc1", bound=10, kind=WorkerKind.EDGES)
    await stage.workers(an_actor(echo, kind=WorkerKind.EDGES))
    await stage.until(lambda: stage.empty(WorkerKind.EDGES))
    depths = await view.depths()
    assert depths[WorkerKind.RECALL] == (3, 0)
    assert depths[WorkerKind.EDGES] == (0, 1)
    assert set(depths) == set(WorkerKind)


async def test_a_pending_write_is_found_waiting_then_running_then_nowhere(stage: Stage, view: Inspection) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def slow(assignment: Assignment) -> Completion:
        began.set()
        await go.wait()
        return await store(assignment)

    bus = await stage.bus(timeout_s=0.05)
    # Together with another one, so that the job does not bear this command's id.
    _, pending = await asyncio.gather(send(bus, StoreMemory(content="a")), send(bus, StoreMemory(content="b")))
    assert isinstance(pending, Unanswered)
    assert await view.find(pending.command_id, NAMESPACE, ADA_ID) is False
    await stage.workers(an_actor(echo, slow, kind=WorkerKind.EMBEDDING))
    await began.wait()
    assert await view.find(pending.command_id, NAMESPACE, ADA_ID) is True
    for stranger in (EVE, UNTRUSTED_ADA):
        assert await view.find(pending.command_id, NAMESPACE, stranger) is None
    assert await view.find(pending.command_id, NAMESPACE, None) is True
    assert await view.find(pending.command_id, "other", ADA_ID) is None
    assert await view.find(pending.command_id, "other", None) is None
    go.set()
    await stage.until(lambda: stage.empty(WorkerKind.EMBEDDING))
    assert await view.find(pending.command_id, NAMESPACE, ADA_ID) is None
    assert await view.find("nobody's", NAMESPACE, ADA_ID) is None


async def test_a_pending_write_that_is_tried_again_is_still_found(
    stage: Stage, view: Inspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "RETRY_FIRST_S", 60.0)
    monkeypatch.setattr(job_module, "RETRY_MAX_S", 60.0)

    async def unsure(assignment: Assignment) -> Completion:
        raise ResultUnknown

    await stage.workers(an_actor(echo, unsure, kind=WorkerKind.EMBEDDING))
    bus = await stage.bus(timeout_s=0.2)
    _, pending = await asyncio.gather(send(bus, StoreMemory(content="a")), send(bus, StoreMemory(content="b")))
    assert isinstance(pending, Unanswered)
    assert await view.find(pending.command_id, NAMESPACE, ADA_ID) is False


async def find_all(view: Inspection, *command_ids: str) -> list[Answer | bool | None]:
    return [await view.find(command_id, NAMESPACE, ADA_ID) for command_id in command_ids]


async def pending_pair(stage: Stage) -> tuple[str, str]:
    """Put two stores into one job and return their ids when their caller has been told `pending`."""
    bus = await stage.bus(timeout_s=0.05)
    first, second = await asyncio.gather(*(send(bus, StoreMemory(content=content)) for content in "ab"))
    assert isinstance(first, Unanswered)
    assert isinstance(second, Unanswered)
    assert await stage.depth(WorkerKind.EMBEDDING) == (1, 2)
    return first.command_id, second.command_id


@pytest.mark.promise("QP-16")
async def test_pending_writes_that_a_worker_hands_back_are_found_waiting_and_end(
    stage: Stage, view: Inspection
) -> None:
    go, stored = asyncio.Event(), list[str]()

    async def all_but_the_first_wait(assignment: Assignment) -> Completion:
        assert isinstance(assignment.envelope.command, StoreMemory)
        if assignment.envelope.command.content != "first":
            await go.wait()
        stored.append(assignment.envelope.id)
        return await store(assignment)

    actor = an_actor(echo, all_but_the_first_wait, kind=WorkerKind.EMBEDDING)
    bus = await stage.bus(timeout_s=0.6)
    asked = [asyncio.create_task(send(bus, StoreMemory(content=each))) for each in ("first", "second", "third")]
    worker = await stage.workers(actor, grace_s=0.1)
    first, *pending = await asyncio.gather(*asked)
    assert isinstance(first, Answer)
    ids = [answer.command_id for answer in pending if isinstance(answer, Unanswered)]
    assert await stage.depth(WorkerKind.EMBEDDING) == (1, 3)
    assert await find_all(view, *ids) == [True, True]
    await worker.stop()
    assert await find_all(view, *ids) == [False, False]
    assert (await stage.depth(WorkerKind.EMBEDDING))[1] == 2

    await stage.workers(actor)
    go.set()
    await stage.until(lambda: stage.empty(WorkerKind.EMBEDDING))
    assert sorted(stored) == sorted([first.id, *ids])
    assert await find_all(view, *ids) == [None, None]


@pytest.mark.promise("QP-16")
async def test_pending_writes_of_a_job_whose_worker_died_are_still_found(stage: Stage, view: Inspection) -> None:
    began, go = asyncio.Queue[None](), asyncio.Event()

    async def slow(assignment: Assignment) -> Completion:
        began.put_nowait(None)
        await go.wait()
        return await store(assignment)

    ids = await pending_pair(stage)
    await stage.redis.set(TRIES_KEY + stage.keys.job_id(ids[0], 2), 1)
    await stage.workers(an_actor(echo, slow, kind=WorkerKind.EMBEDDING))
    async with asyncio.timeout(BOUND_S):
        await began.get()
        await began.get()
    assert await stage.depth(WorkerKind.EMBEDDING) == (2, 2), "each is a job of its own"
    assert await find_all(view, *ids) == [True, True]
    go.set()
    await stage.until(lambda: stage.empty(WorkerKind.EMBEDDING))


@pytest.mark.promise("QP-16")
@pytest.mark.parametrize("whole_job", [False, True])
async def test_pending_writes_that_an_older_version_could_not_read_are_found_when_they_are_retried(
    stage: Stage, view: Inspection, whole_job: bool
) -> None:
    kind, ids = WorkerKind.EMBEDDING, await pending_pair(stage)
    job = stage.keys.job_id(ids[0], 2)
    payload = await stage.redis.get(JOB_KEY + job)
    settlement = Settlement(stage.keys, kind)
    raws = {job: payload} if whole_job else {f"{job}#{place}": raw for place, raw in enumerate(decode_job(payload))}
    for letter_id, raw in raws.items():
        letter = DeadLetter(
            id=letter_id,
            mailbox=kind,
            raw=raw,
            error="DecodeError",
            message="Unreadable.",
            attempts=1,
            died_at=time.time(),
            whole_job=whole_job,
        )
        settlement.bury(letter)
    await stage.redis.set(LEASE_KEY + job, "me")
    connection = RedisConnection(stage.server, (SETTLE,), key=stage.keys.prefix)
    await connection.open()
    assert await connection.exchange([settlement.pack(job, "me", 1)]) == [1]
    await connection.close()
    assert await stage.empty(kind)
    assert [await DeadLetters(stage.redis, stage.lanes).retry(letter_id) for letter_id in raws] == [True] * len(raws)
    assert (await stage.depth(kind))[1] == 2
    assert await find_all(view, *ids) == [False, False]
    await stage.workers(an_actor(echo, store, kind=kind))
    await stage.until(lambda: stage.empty(kind))


async def test_a_dead_letter_is_found_with_the_fault_its_caller_got(stage: Stage, view: Inspection) -> None:
    await stage.workers(an_actor(kind=WorkerKind.EMBEDDING))
    answer = await send(await stage.bus(), StoreMemory(content="x"))
    assert isinstance(answer, Answer)
    assert await view.find(answer.id, NAMESPACE, ADA_ID) == answer
    for stranger in (EVE, UNTRUSTED_ADA):
        assert await view.find(answer.id, NAMESPACE, stranger) is None
    assert await view.find(answer.id, NAMESPACE, None) == answer
    assert await view.find(answer.id, "other", None) is None


async def test_an_erased_memory_of_unknown_content_takes_no_unreadable_letter_along(
    stage: Stage, view: Inspection
) -> None:
    """An empty text is one byte in msgpack, which anything may hold."""
    await stage.workers(an_actor(echo))
    await stage.enqueue(stage.job("whole.1"), b"\xc1\xa0" + NAMESPACE.encode(), bound=100)

    async def set_aside() -> bool:
        return len(await DeadLetters(stage.redis, stage.lanes).list(WorkerKind.RECALL)) == 1

    await stage.until(set_aside)
    await view.scrub(NAMESPACE, {ERASED: ""})
    assert await set_aside()


@pytest.mark.promise("MT-19")
async def test_an_erased_memory_vanishes_from_every_queue(stage: Stage, view: Inspection) -> None:
    bus = await stage.bus()
    breadcrumbs = Breadcrumbs(stage.redis, stage.lanes)

    async def leave(assignment: Assignment) -> Completion:
        return Completion(Pong(), session_state=SessionState(stored=ERASED, recalled=("a", ERASED, "b")))

    leaving = await stage.workers(an_actor(leave))
    await ping(bus)
    await leaving.stop()
    # In mailboxes, alone and beside others; among the dead, readable or not; in an answer nobody fetched.
    asked = [
        asyncio.create_task(send(bus, command))
        for command in (
            StoreMemory(content=SECRET),
            StoreMemory(content="harmless"),
            UpdateMemory(memory_id=ERASED, metadata={}),
            ImportBatch(records=(ImportRecord(content="fine"), ImportRecord(content=SECRET))),
        )
    ]
    await stage.workers(an_actor(kind=WorkerKind.SECTORS))
    dead = Envelope(id=uuid7(), namespace=NAMESPACE, principal=ADA, command=StoreMemory(content=SECRET))
    raw = encode(dead)
    await stage.enqueue(stage.job("dead.1"), encode_job([raw], 0), bound=10, kind=WorkerKind.SECTORS)
    await stage.enqueue(stage.job("dead.2"), encode_job([raw + b"\xc1", b"\xc1"], 0), bound=10, kind=WorkerKind.SECTORS)
    await stage.until(lambda: stage.empty(WorkerKind.SECTORS))
    await stage.until(lambda: _count(stage), lambda count: count == 4)
    undelivered = Answer(id=uuid7(), reply=MemoryList(memories=[a_memory(SECRET, ERASED)], count=1))
    await stage.redis.rpush(stage.keys.replies("gone"), encode(undelivered))
    await stage.redis.zadd(stage.keys.reply_lists, {stage.keys.replies("gone"): 2**40})
    assert SECRET.encode() in await everything(stage)

    places = await view.scrub(NAMESPACE, {ERASED: SECRET})

    left = await everything(stage)
    assert SECRET.encode() not in left
    assert ERASED.encode() not in left
    assert places == 9, "3 commands, 2 dead letters, 1 answer, 3 breadcrumbs"
    for refused in (asked[0], asked[2], asked[3]):
        with pytest.raises(EngramqError) as refusal:
            _raise(await refused)
        assert refusal.value.fault.code is FaultCode.UNAVAILABLE
    found = await breadcrumbs.read(NAMESPACE, ADA_ID, "default")
    assert (found.last_stored_id, found.last_recalled_ids) == (None, ["a", None, "b"])
    assert found.session_memory_ids == ["a", "b"]
    assert await breadcrumbs.resolve("@recalled[2]", NAMESPACE, ADA_ID, "default") == "b"
    await stage.workers(*(an_actor(echo, store, kind=kind) for kind in (WorkerKind.EMBEDDING, WorkerKind.PROMOTION)))
    assert isinstance(await asked[1], Answer)
    await stage.until(lambda: stage.empty(WorkerKind.EMBEDDING))
    await stage.until(lambda: stage.empty(WorkerKind.PROMOTION))


async def test_scrubbing_leaves_other_memories_and_other_namespaces_alone(stage: Stage, view: Inspection) -> None:
    for command in (
        StoreMemory(content=SECRET + "!"),
        StoreMemory(content="x", speaker=SECRET),
        ForgetMemory(memory_id=ERASED, erase=True),
    ):
        await put(stage, command)
    await put(stage, StoreMemory(content=SECRET), namespace="other", principal=Principal(name="bob"))
    assert await view.scrub(NAMESPACE, {ERASED: SECRET}) == 0
    assert await _count(stage) == 4


async def test_a_command_that_somebody_has_begun_is_scrubbed_without_an_answer(stage: Stage, view: Inspection) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def slow(assignment: Assignment) -> Completion:
        began.set()
        await go.wait()
        return await store(assignment)

    await stage.workers(an_actor(echo, slow, kind=WorkerKind.EMBEDDING))
    bus = await stage.bus()
    asked = asyncio.create_task(send(bus, StoreMemory(content=SECRET)))
    await began.wait()
    assert await view.scrub(NAMESPACE, {ERASED: SECRET}) == 1
    assert SECRET.encode() not in await everything(stage)
    go.set()
    answer = await asked
    assert isinstance(answer, Answer)
    assert answer.fault is None
    await stage.until(lambda: stage.empty(WorkerKind.EMBEDDING))


@pytest.mark.long
async def test_a_command_that_will_be_tried_again_is_scrubbed_without_an_answer(
    stage: Stage, view: Inspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "RETRY_FIRST_S", 60.0)
    monkeypatch.setattr(job_module, "RETRY_MAX_S", 60.0)

    async def perhaps(assignment: Assignment) -> Completion:
        raise ResultUnknown

    mailbox = stage.keys.of[WorkerKind.EMBEDDING].mailbox
    await stage.workers(an_actor(echo, perhaps, kind=WorkerKind.EMBEDDING))
    bus = await stage.bus(timeout_s=2.0)
    asked = asyncio.create_task(send(bus, StoreMemory(content=SECRET)))
    await stage.until(lambda: stage.redis.zcount(mailbox, (time.time() + 20) * 1000, "+inf"))
    assert await view.scrub(NAMESPACE, {ERASED: SECRET}) == 1
    assert isinstance(await asked, Unanswered), "it may have been stored"


async def test_without_redis_the_outcome_is_unknown(own_server: Server, own_stage: Stage) -> None:
    own_server.kill()
    async with Inspection(own_stage.lanes) as view:
        with pytest.raises(ResultUnknown):
            await view.scrub(NAMESPACE, {ERASED: SECRET})
        with pytest.raises(ResultUnknown):
            await view.find("x", NAMESPACE, ADA_ID)
        with pytest.raises(ResultUnknown):
            await view.depths()


async def test_what_was_scrubbed_cannot_be_brought_back_by_a_retry(stage: Stage, view: Inspection) -> None:
    await stage.workers(an_actor(kind=WorkerKind.EMBEDDING))
    answer = await send(await stage.bus(), StoreMemory(content=SECRET))
    assert isinstance(answer, Answer)
    assert await view.scrub(NAMESPACE, {ERASED: SECRET}) >= 1
    assert not await DeadLetters(stage.redis, stage.lanes).retry(answer.id)


def _raise(answer: Answer | Unanswered) -> None:
    assert isinstance(answer, Answer)
    assert answer.fault is not None
    raise EngramqError(answer.fault)


async def _count(stage: Stage) -> int:
    depths = [(await stage.depth(kind))[1] for kind in WorkerKind]
    return sum(depths)


async def test_an_erasure_looks_through_many_sessions_in_few_trips(
    stage: Stage, view: Inspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "READS_PER_TRIP", 2)
    sessions = [stage.keys.session(NAMESPACE, ADA_ID, f"session {number}") for number in range(5)]
    for session in sessions:
        await stage.redis.hset(session.state, "stored", ERASED)
        await stage.redis.zadd(session.touched, {ERASED: 1, "another": 2})
        await stage.redis.zadd(session.sessions, {session.name: 2**50})
        await stage.redis.zadd(session.principals, {session.sessions: 2**50})
    assert await view.scrub(NAMESPACE, {ERASED: SECRET}) == 10
    for session in sessions:
        assert await stage.redis.hget(session.state, "stored") is None
        assert await stage.redis.zrange(session.touched, 0, -1) == [b"another"]


async def test_an_erasure_takes_four_trips_to_redis_whatever_waits(
    stage: Stage, view: Inspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each mailbox, dead letters and session, twice an erasure, made it half as quick as a store."""
    waiting = [await put(stage, StoreMemory(content=f"text {number}")) for number in range(3)]
    session = stage.keys.session(NAMESPACE, ADA_ID, "a session")
    await stage.redis.zadd(session.sessions, {session.name: 2**50})
    await stage.redis.zadd(session.principals, {session.sessions: 2**50})
    trips = []
    for kind, method in ((Redis, "execute_command"), (Pipeline, "execute")):
        sent = getattr(kind, method)

        async def counted(self: Any, *given: Any, sent: Any = sent, **options: Any) -> Any:
            trips.append(given)
            return await sent(self, *given, **options)

        monkeypatch.setattr(kind, method, counted)
    assert await view.scrub(NAMESPACE, {ERASED: SECRET}) == 0
    assert len(trips) == 4
    assert await _count(stage) == len(waiting)


@pytest.mark.promise("MT-19")
async def test_a_deletion_that_was_given_up_goes_with_its_namespace(stage: Stage, view: Inspection) -> None:
    await stage.workers(an_actor(kind=WorkerKind.PROMOTION))  # no handler: it is set aside
    await send(await stage.bus(), DeleteTenant(reason="they left"))
    letters = DeadLetters(stage.redis, stage.lanes)
    assert len(await letters.list(WorkerKind.PROMOTION)) == 1
    await view.scrub_namespace(NAMESPACE)
    assert await letters.list(WorkerKind.PROMOTION) == []
