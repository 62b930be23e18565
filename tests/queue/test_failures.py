"""Commands that fail: tried again, set aside in the end, in nobody's way."""

import asyncio
import logging
from collections import Counter

import msgspec
import pytest

from engramq.schemas.codec import decode_envelope, encode, encode_job
from engramq.schemas.commands import Ping, Stored, StoreMemory
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import TRIES_KEY
from engramq.schemas.scripts import POISON_TRIES
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue import job as job_module
from engramq.workers.queue.contract import Assignment, Completion, LeaseLost, ResultUnknown
from engramq.workers.queue.dead_letters import DeadLetters
from tests.queue.stage import ADA, BOUND_S, NAMESPACE, Stage, an_actor, echo, payload_of, ping, put, send
from tests.queue.worker_process import a_memory


@pytest.fixture(autouse=True)
def _tries_follow_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module, "RETRY_FIRST_S", 0.001)


class Flaky:
    """Fails for the payload `bad` with the errors given, one after the other, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries: Counter[bytes] = Counter()

    async def __call__(self, assignment: Assignment) -> Completion:
        assert isinstance(assignment.envelope.command, Ping)
        self.tries[assignment.envelope.command.payload] += 1
        if assignment.envelope.command.payload == b"bad" and self.errors:
            raise self.errors.pop(0)
        return await echo(assignment)


@pytest.mark.promise("QP-6")
async def test_a_command_that_always_fails_is_set_aside_after_its_tries_and_blocks_nobody(stage: Stage) -> None:
    handler = Flaky(*(ValueError("secret content") for _ in range(100)))
    await stage.workers(an_actor(handler))
    bus = await stage.bus()
    bad = asyncio.create_task(ping(bus, "bad"))
    good = await asyncio.gather(*(ping(bus, str(number)) for number in range(50)))
    assert [payload_of(answer) for answer in good] == [str(number) for number in range(50)]
    answer = await bad
    assert isinstance(answer, Answer)
    assert answer.fault is not None
    assert (answer.fault.code, answer.fault.command_id) == (FaultCode.INTERNAL, answer.id)
    assert "secret" not in answer.fault.error
    assert handler.tries == Counter({b"bad": 5} | {str(number).encode(): 1 for number in range(50)})

    dead = DeadLetters(stage.redis, stage.lanes)
    (letter,) = await dead.list(WorkerKind.RECALL)
    assert (letter.id, letter.mailbox, letter.error, letter.attempts) == (answer.id, "recall", "ValueError", 5)
    assert "secret" not in letter.message
    assert letter.fault == answer.fault
    assert letter.died_at >= letter.issued_at > 0
    assert await dead.show(letter.id) == letter
    await stage.until(stage.empty)

    handler.errors.clear()
    assert await dead.retry(letter.id)
    await stage.until(lambda: handler.tries[b"bad"] == 6)
    assert await dead.show(letter.id) is None
    assert not await dead.retry(letter.id)


@pytest.mark.parametrize("error", [ResultUnknown(), LeaseLost(), ValueError()])
async def test_a_command_whose_try_fails_is_tried_again_alone(stage: Stage, error: Exception) -> None:
    handler = Flaky(error)
    await stage.workers(an_actor(handler))
    bus = await stage.bus()
    answers = await asyncio.gather(*(ping(bus, payload) for payload in ("a", "bad", "b")))
    assert [payload_of(answer) for answer in answers] == ["a", "bad", "b"]
    assert handler.tries == Counter({b"a": 1, b"bad": 2, b"b": 1})
    await stage.until(stage.empty)


async def test_an_unknown_outcome_is_tried_for_as_long_as_it_takes(stage: Stage) -> None:
    handler = Flaky(*(ResultUnknown() for _ in range(8)))
    await stage.workers(an_actor(handler))
    monkey = asyncio.create_task(ping(await stage.bus(), "bad"))
    assert payload_of(await monkey) == "bad"
    assert handler.tries[b"bad"] == 9


@pytest.mark.promise("QP-7")
async def test_undecodable_bytes_are_set_aside_raw_at_once_and_block_nobody(stage: Stage) -> None:
    bus = await stage.bus()
    good = Envelope(id=uuid7(), namespace=NAMESPACE, principal=ADA, command=Ping(payload=b"good"))
    unknown = encode(good).replace(b"\xa4ping", b"\xa4pong")
    seen = asyncio.Event()

    async def see(assignment: Assignment) -> Completion:
        seen.set()
        return await echo(assignment)

    job, foreign = stage.keys.job_id(good.id, 3), stage.job("not-one-of-ours")
    await stage.enqueue(job, encode_job([b"\xc1 garbage", encode(good), unknown], 0), bound=100)
    await stage.enqueue(foreign, b"\x80\x04 pickle", bound=100)
    await stage.workers(an_actor(see))
    assert payload_of(await ping(bus, "others")) == "others"
    async with asyncio.timeout(5):
        await seen.wait()
    await stage.until(stage.empty)
    letters = {letter.id: letter for letter in await DeadLetters(stage.redis, stage.lanes).list(WorkerKind.RECALL)}
    assert {name: letter.raw for name, letter in letters.items()} == {
        f"{job}#0": b"\xc1 garbage",
        f"{job}#2": unknown,
        foreign: b"\x80\x04 pickle",
    }
    assert letters[foreign].whole_job
    assert {letter.envelope() for letter in letters.values()} == {None}


@pytest.mark.promise("QP-7")
async def test_undecodable_bytes_can_be_retried_and_dropped(stage: Stage) -> None:
    dead = DeadLetters(stage.redis, stage.lanes)
    await stage.workers(an_actor(echo))
    for job, payload in (("whole", b"\xc1"), ("part", encode_job([b"\xc1"], 0))):
        await stage.enqueue(stage.keys.job_id(job, 1), payload, bound=100)
    await stage.until(lambda: _dead(stage, 2))
    for letter in await dead.list(WorkerKind.RECALL):
        assert await dead.retry(letter.id)
    await stage.until(lambda: _dead(stage, 2))
    assert sorted(letter.raw for letter in await dead.list(WorkerKind.RECALL)) == [b"\xc1", b"\xc1"]
    for letter in await dead.list(WorkerKind.RECALL):
        assert await dead.drop(letter.id)
    await stage.until(stage.empty)


async def test_a_dead_letter_names_what_took_the_place_of_a_command_of_before(stage: Stage) -> None:
    await stage.workers(an_actor())
    envelope = Envelope(id=uuid7(), namespace=NAMESPACE, principal=ADA, command=Ping())
    former = {**msgspec.to_builtins(envelope), "command": {"type": "propose_reclassification", "edge_id": "e"}}
    await stage.enqueue(stage.keys.job_id("former", 1), encode_job([msgspec.msgpack.encode(former)], 0), bound=100)
    await stage.until(lambda: _dead(stage, 1))
    (letter,) = await DeadLetters(stage.redis, stage.lanes).list(WorkerKind.RECALL)
    assert "propose_reclassification went: Call reclassify_memory_sector" in letter.message


async def test_a_command_that_no_handler_takes_is_set_aside_and_its_caller_told(stage: Stage) -> None:
    await stage.workers(an_actor(kind=WorkerKind.EMBEDDING))
    answer = await send(await stage.bus(), StoreMemory(content="x"))
    assert isinstance(answer, Answer)
    assert answer.fault is not None
    assert answer.fault.code is FaultCode.INTERNAL
    letter = await DeadLetters(stage.redis, stage.lanes).show(answer.id)
    assert letter is not None
    assert letter.error == "UnknownCommand"


async def test_an_answer_that_cannot_be_encoded_is_a_failure_of_its_command_alone(stage: Stage) -> None:
    async def unanswerable(assignment: Assignment) -> Completion:
        return Completion(Stored(stored=a_memory("x"), similar_memories=[object()]))  # type: ignore[list-item]

    await stage.workers(an_actor(echo, unanswerable, kind=WorkerKind.EMBEDDING))
    answer = await send(await stage.bus(), StoreMemory(content="x"))
    assert isinstance(answer, Answer)
    assert answer.fault is not None
    assert answer.fault.code is FaultCode.INTERNAL


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_command_that_kills_its_worker_takes_only_itself_to_the_dead_letters(stage: Stage) -> None:
    bus = await stage.bus(timeout_s=240)  # six processes start meanwhile
    asked = [asyncio.create_task(ping(bus, payload)) for payload in ("a", "die", "b")]
    await stage.until(stage.depth, lambda depth: depth[1] == 3)
    for _ in range(5):
        child = await stage.child()
        assert await child.ended() != 0
        await stage.leases_run_out()
    child = await stage.child()
    answers = await asyncio.gather(*asked)
    assert [payload_of(answer) for answer in (answers[0], answers[2])] == ["a", "b"]
    assert isinstance(answers[1], Answer)
    assert answers[1].fault is not None
    assert answers[1].fault.code is FaultCode.INTERNAL
    (letter,) = await DeadLetters(stage.redis, stage.lanes).list(WorkerKind.RECALL)
    assert (letter.id, letter.error, letter.attempts) == (answers[1].id, "WorkerDied", 5)
    assert decode_envelope(letter.raw).command == Ping(payload=b"die")
    assert child.alive
    await stage.until(stage.empty)


async def test_a_process_runs_one_poison_job_at_a_time_in_all_its_mailboxes_and_others_beside_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever left a poison job is woken when the slot is free: looking again by itself comes after the test's bound.
    monkeypatch.setattr("engramq.workers.queue.worker.POLL_S", 10 * BOUND_S)
    running, ended = set[str](), list[str]()
    go, began = asyncio.Event(), asyncio.Queue[str]()

    async def poison(assignment: Assignment) -> Completion:
        running.add(assignment.envelope.id)
        assert len(running) == 1
        began.put_nowait(assignment.envelope.id)
        await go.wait()
        running.remove(assignment.envelope.id)
        ended.append(assignment.envelope.id)
        return (
            await echo(assignment)
            if isinstance(assignment.envelope.command, Ping)
            else Completion(Stored(stored=a_memory("x")))
        )

    async def harmless_or_poison(assignment: Assignment) -> Completion:
        assert isinstance(assignment.envelope.command, Ping)
        return await (echo if assignment.envelope.command.payload == b"harmless" else poison)(assignment)

    bus = await stage.bus()
    for command in (Ping(), Ping(), StoreMemory(content="x"), StoreMemory(content="y")):
        await stage.redis.set(TRIES_KEY + stage.keys.job_id(await put(stage, command), 1), POISON_TRIES)
    recall, embedding = an_actor(harmless_or_poison), an_actor(echo, poison, kind=WorkerKind.EMBEDDING)
    await stage.workers(recall, embedding)
    first = await began.get()
    assert payload_of(await ping(bus, "harmless")) == "harmless"
    assert running == {first}
    assert began.empty()
    go.set()
    await stage.until(stage.empty)
    await stage.until(lambda: stage.empty(WorkerKind.EMBEDDING))
    assert len(set(ended)) == len(ended) == 4


async def test_no_content_is_logged_when_a_command_fails(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await stage.workers(an_actor(Flaky(*(ValueError("secret content") for _ in range(5)))))
    await ping(await stage.bus(), "bad")
    records = [record for record in caplog.records if record.name.startswith("engramq.workers.")]
    assert {"Command set aside", "Command will be tried again"} <= {record.getMessage() for record in records}
    assert "secret" not in "".join(str(record.__dict__) for record in records)


async def _dead(stage: Stage, count: int) -> bool:
    return len(await DeadLetters(stage.redis, stage.lanes).list(WorkerKind.RECALL)) == count and await stage.empty()
