"""Commands reach a worker and answers the gateway that asked."""

import asyncio
import time

import pytest

from engramq.gateway.queue.bus import Unanswered
from engramq.schemas.commands import Ping, Stored, StoreMemory
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.limits import REPLY_LIST_MAX_AGE_S
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Assignment, Completion, SessionUse
from tests.queue.stage import ADA, NAMESPACE, Stage, an_actor, counts, echo, payload_of, ping, send
from tests.queue.worker_process import a_memory


@pytest.mark.promise("QP-2")
async def test_every_answer_reaches_the_gateway_that_asked_with_three_gateways_and_three_workers(stage: Stage) -> None:
    for _ in range(3):
        await stage.workers(an_actor(echo))
    buses = [await stage.bus() for _ in range(3)]

    async def ask(gateway: int, number: int) -> None:
        assert payload_of(await ping(buses[gateway], f"{gateway}/{number}")) == f"{gateway}/{number}"

    await asyncio.gather(*(ask(gateway, number) for number in range(200) for gateway in range(3)))
    await stage.until(stage.empty)


@pytest.mark.promise("QP-15")
async def test_two_workers_share_the_load_within_a_fifth(stage: Stage) -> None:
    done = [0, 0]

    async def work(worker: int, assignment: Assignment) -> Completion:
        done[worker] += 1
        await asyncio.sleep(0)
        return await echo(assignment)

    await stage.workers(an_actor(lambda job: work(0, job)))
    await stage.workers(an_actor(lambda job: work(1, job)))
    bus = await stage.bus()

    async def caller() -> None:
        for _ in range(40):
            await ping(bus)

    await asyncio.gather(*(caller() for _ in range(64)))
    assert sum(done) == 64 * 40
    assert min(done) >= 0.8 * max(done), done


async def test_sixty_four_callers_cost_at_most_four_redis_commands_each(stage: Stage) -> None:
    await stage.workers(an_actor(echo))
    bus = await stage.bus()
    await ping(bus)
    before = counts(await stage.redis.info("commandstats"))

    async def caller() -> None:
        for _ in range(20):
            await ping(bus)

    await asyncio.gather(*(caller() for _ in range(64)))
    after = counts(await stage.redis.info("commandstats"))
    spent = {name: calls - before.get(name, 0) for name, calls in after.items() if calls != before.get(name, 0)}
    assert sum(spent.values()) <= 4 * 64 * 20, spent


async def test_a_refusal_travels_with_the_command_id(stage: Stage) -> None:
    async def refusing(_: Assignment) -> Completion:
        raise refuse(FaultCode.FORBIDDEN, "not you")

    await stage.workers(an_actor(refusing))
    answer = await ping(await stage.bus())
    assert isinstance(answer, Answer)
    assert answer.fault is not None
    assert (answer.fault.code, answer.fault.error, answer.fault.command_id) == ("forbidden", "not you", answer.id)


@pytest.mark.promise("QP-11")
async def test_a_read_past_its_deadline_is_dropped_and_a_write_is_not(stage: Stage) -> None:
    seen: list[str] = []

    async def read(assignment: Assignment) -> Completion:
        seen.append(assignment.envelope.id)
        return await echo(assignment)

    async def write(assignment: Assignment) -> Completion:
        seen.append(assignment.envelope.id)
        return Completion(Stored(stored=a_memory("tea")))

    bus = await stage.bus(timeout_s=0.05)
    with pytest.raises(EngramqError):
        await ping(bus)
    pending = await send(bus, StoreMemory(content="tea"))
    assert isinstance(pending, Unanswered)
    await stage.workers(an_actor(read), an_actor(read, write, kind=WorkerKind.EMBEDDING))
    await stage.until(stage.empty)
    await stage.until(lambda: stage.empty(WorkerKind.EMBEDDING))
    assert seen == [pending.command_id]


async def test_a_command_arrives_with_all_that_was_said_of_it(stage: Stage) -> None:
    seen: list[Envelope] = []

    async def note(assignment: Assignment) -> Completion:
        seen.append(assignment.envelope)
        return Completion(Stored(stored=a_memory("tea")))

    await stage.workers(an_actor(echo, note, kind=WorkerKind.EMBEDDING))
    bus = await stage.bus()
    command = StoreMemory(content="tea")
    said = {"session": "s", "idempotency_key": "k", "traceparent": "00-1-2-01"}
    answers = [await send(bus, command, **said, timeout_s=5) for _ in range(2)]
    first, second = seen
    assert {name: getattr(first, name) for name in said} == said
    assert (first.command, first.namespace, first.principal, first.attempt) == (command, NAMESPACE, ADA, 1)
    assert first.deadline - first.issued_at == pytest.approx(5, abs=0.1)
    assert (first.fingerprint, first.idempotency_key) == (second.fingerprint, "k")
    assert first.id < second.id
    replies = [answer.reply for answer in answers if isinstance(answer, Answer)]
    assert [reply.command_id for reply in replies if isinstance(reply, Stored)] == [first.id, second.id]


async def test_a_slow_command_does_not_hold_the_answers_of_its_job_up(stage: Stage) -> None:
    go = asyncio.Event()

    async def some_slow(assignment: Assignment) -> Completion:
        assert isinstance(assignment.envelope.command, Ping)
        if assignment.envelope.command.payload == b"slow":
            await go.wait()
        return await echo(assignment)

    await stage.workers(an_actor(some_slow))
    bus = await stage.bus()
    slow = asyncio.create_task(ping(bus, "slow"))
    quick = [asyncio.create_task(ping(bus, str(number))) for number in range(10)]
    assert [payload_of(answer) for answer in await asyncio.gather(*quick)] == [str(number) for number in range(10)]
    assert not slow.done()
    go.set()
    assert payload_of(await slow) == "slow"


async def test_what_a_reply_leaves_to_be_done_is_done_after_it(stage: Stage) -> None:
    done = asyncio.Event()

    async def leaving(assignment: Assignment) -> Completion:
        async def later(_use: SessionUse | None) -> None:
            done.set()

        return Completion((await echo(assignment)).reply, after_reply=later)

    await stage.workers(an_actor(leaving))
    payload_of(await ping(await stage.bus()))
    async with asyncio.timeout(5):
        await done.wait()


async def test_a_gateway_says_that_its_reply_list_is_in_use_and_forgets_those_long_silent(stage: Stage) -> None:
    lists = stage.keys.reply_lists
    await stage.redis.zadd(lists, {"silent": time.time() - REPLY_LIST_MAX_AGE_S - 1, "living": time.time()})
    await stage.bus()
    await stage.until(
        lambda: stage.redis.zrange(lists, 0, -1), lambda found: len(found) == 2 and b"silent" not in found
    )
    assert await stage.redis.zscore(lists, "living")
