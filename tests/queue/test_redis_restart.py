"""Redis dies and comes back: gateways and workers reconnect by themselves, callers are told the truth."""

import asyncio
import time

import pytest

from engramq.gateway.queue.bus import Bus, Unanswered
from engramq.schemas.commands import Stored, StoreMemory
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Assignment, Completion
from tests.queue.server import Server
from tests.queue.stage import Stage, an_actor, echo, payload_of, ping, put, send
from tests.queue.worker_process import a_memory


@pytest.mark.promise("QP-4")
async def test_gateway_and_worker_survive_a_redis_that_is_killed_and_started_again(
    own_server: Server, own_stage: Stage
) -> None:
    child, bus = await own_stage.child(), await own_stage.bus()
    stored: list[str] = []
    over = False

    async def caller(number: int) -> None:
        count = 0
        while not over:
            content = f"{number}/{count}"
            answer = await send(bus, StoreMemory(content=content))
            count += 1
            if isinstance(answer, Answer):
                assert isinstance(answer.reply, Stored), answer
                stored.append(content)

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(caller(number))
        for _ in range(3):
            await own_stage.reaches(lambda: len(stored), len(stored) + 100)
            own_server.kill()
            own_server.start()
            back = time.monotonic()
            await own_stage.reaches(lambda: len(stored), len(stored) + 9)
            assert time.monotonic() - back < 3
        over = True
    await own_stage.until(lambda: own_stage.empty(WorkerKind.EMBEDDING))
    effects = await own_stage.redis.hgetall(f"{own_stage.keys.prefix}:test:effects")
    counted = {content.decode(): int(count) for content, count in effects.items()}
    assert set(stored) <= set(counted)
    assert set(counted.values()) == {1}
    assert child.alive


async def test_a_redis_that_was_emptied_is_served_again(stage: Stage) -> None:
    # A prefix of its own and one server for all: what the test may empty are its own keys and all scripts.
    await stage.workers(an_actor(echo))
    bus = await stage.bus()
    payload_of(await ping(bus, "before"))
    await stage.redis.script_flush()
    assert payload_of(await ping(bus, "after")) == "after"


@pytest.mark.long
async def test_while_redis_is_away_callers_are_refused_within_seconds_and_served_when_it_is_back(
    own_server: Server, own_stage: Stage
) -> None:
    await own_stage.workers(an_actor(echo))
    bus = await own_stage.bus()
    payload_of(await ping(bus, "before"))
    own_server.kill()
    began = time.monotonic()
    for refused in (ping(bus), send(bus, StoreMemory(content="x")), bus.ready()):
        with pytest.raises(EngramqError) as refusal:
            await refused
        assert refusal.value.fault.code is FaultCode.UNAVAILABLE
    assert time.monotonic() - began < 8
    own_server.start()
    await bus.ready()
    assert payload_of(await ping(bus, "after")) == "after"
    assert await own_stage.empty(WorkerKind.EMBEDDING), "what was refused is never applied"


@pytest.mark.long
async def test_a_write_whose_fate_is_unknown_is_pending_and_happens_once(own_server: Server, own_stage: Stage) -> None:
    seen: list[str] = []

    async def store(assignment: Assignment) -> Completion:
        seen.append(assignment.envelope.id)
        return Completion(Stored(stored=a_memory("x")))

    bus = await own_stage.bus(timeout_s=0.5)
    await bus.ready()
    own_server.pause()
    answer = await send(bus, StoreMemory(content="x"))
    with pytest.raises(EngramqError):
        await ping(bus)
    own_server.resume()
    assert isinstance(answer, Unanswered)
    await bus.ready()
    await own_stage.workers(an_actor(echo, store, kind=WorkerKind.EMBEDDING))
    await own_stage.until(lambda: own_stage.empty(WorkerKind.EMBEDDING))
    assert seen == [answer.command_id]


async def test_a_write_whose_fate_is_unknown_waits_for_a_full_mailbox_without_haste(
    own_server: Server, own_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramq.gateway.queue.lane.SEND_S", 0.2)
    bus = await own_stage.bus(bound=1, timeout_s=1.0)
    await put(own_stage, StoreMemory(content="x"))
    own_server.pause()
    asked = asyncio.create_task(send(bus, StoreMemory(content="y")))
    with pytest.raises(EngramqError):
        await bus.ready()
    own_server.resume()
    assert isinstance(await asked, Unanswered)
    stats = await own_stage.redis.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] < 50


async def test_a_gateway_starts_without_redis_and_serves_when_it_comes(own_server: Server, own_stage: Stage) -> None:
    own_server.kill()
    async with Bus(own_stage.lanes, mailbox_bound=10, reply_timeout_s=10) as bus:
        asked = asyncio.create_task(ping(bus, "x"))
        own_server.start()
        await own_stage.workers(an_actor(echo))
        assert payload_of(await asked) == "x"


async def test_a_worker_waits_for_a_redis_that_is_not_there(own_server: Server, own_stage: Stage) -> None:
    own_server.kill()
    starting = asyncio.create_task(own_stage.workers(an_actor(echo)))
    bus = await own_stage.bus()
    with pytest.raises(EngramqError):
        await bus.ready()
    own_server.start()
    await starting
    assert payload_of(await ping(bus, "x")) == "x"


async def test_at_its_memory_limit_redis_refuses_writes_as_overloaded_and_reads_go_on(
    own_server: Server, own_stage: Stage
) -> None:
    await own_stage.workers(an_actor(echo), an_actor(echo, echo_store, kind=WorkerKind.EMBEDDING))
    bus = await own_stage.bus()
    payload_of(await ping(bus, "before"))
    await own_stage.redis.config_set("maxmemory", "1mb")
    with pytest.raises(EngramqError) as refusal:
        await send(bus, StoreMemory(content="x" * 1000))
    assert refusal.value.fault.code is FaultCode.OVERLOADED
    assert payload_of(await ping(bus, "read")) == "read"
    await own_stage.redis.config_set("maxmemory", "0")
    assert isinstance(await send(bus, StoreMemory(content="x")), Answer)


async def echo_store(assignment: Assignment) -> Completion:
    return Completion(Stored(stored=a_memory("x"), command_id=assignment.envelope.id))
