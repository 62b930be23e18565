"""Lanes on one server: what each command touches, what lanes share, and another number of them."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from operator import not_
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from engramq.gateway.identity.authorization import Caller, local_caller
from engramq.gateway.overview import overview_of
from engramq.gateway.queue import lane as lane_module
from engramq.gateway.queue.bus import Bus, Unanswered, open_bus
from engramq.gateway.queue.lane import BusLane
from engramq.gateway.sessions import Breadcrumbs
from engramq.gateway.ui.sign_in import SignedIn
from engramq.schemas import connection as lanes_module
from engramq.schemas import scripts
from engramq.schemas.commands import Ping, StoreMemory
from engramq.schemas.connection import Lanes, UnsupportedServer, lanes_of
from engramq.schemas.connection import Server as RedisServer
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.keys import lane_of, slot_of, tag_of
from engramq.schemas.scripts import Script
from engramq.schemas.settings import Settings, read_settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue import worker as worker_module
from engramq.workers.queue.contract import Assignment, Completion, FollowUp, Periodic, WorkerSpec
from engramq.workers.queue.dead_letters import DeadLetters
from engramq.workers.queue.inspection import Inspection
from engramq.workers.queue.process import serve
from tests.queue.server import Server
from tests.queue.stage import ADA, ADA_ID, BOUND_S, InProcess, echo, payload_of, until

KINDS = (WorkerKind.RECALL, WorkerKind.EMBEDDING)
SCRIPTS = {var.sha: name for name, var in vars(scripts).items() if isinstance(var, Script)}


@pytest.fixture
def prefix() -> str:
    return f"t-{uuid4().hex[:12]}"


def settings_of(server: Server, prefix: str, lanes: int) -> Settings:
    given = {"REDIS_URL": server.url, "KEY_PREFIX": prefix, "LANES": str(lanes), "MAILBOX_BOUND": "1000"}
    return read_settings({f"ENGRAMQ_{name}": value for name, value in given.items()})


def namespaces(lanes: int) -> list[str]:
    """Return a namespace of each lane."""
    by_lane = {lane_of(f"tenant-{number}", lanes): f"tenant-{number}" for number in range(100)}
    return [by_lane[lane] for lane in range(lanes)]


@asynccontextmanager
async def working(settings: Settings, *actors: WorkerSpec) -> AsyncIterator[InProcess]:
    """Run workers for as long as the block lasts."""
    workers = InProcess(list(actors), settings, 2.0)
    try:
        async with asyncio.timeout(BOUND_S):
            await workers.ready.wait()
        yield workers
    finally:
        await workers.stop()


async def ask(bus: Bus, namespace: str, payload: str) -> str:
    answer = await bus.ask(
        Ping(payload=payload.encode()), namespace=namespace, principal=ADA, session="s", in_session=True
    )
    return payload_of(answer)


async def store(bus: Bus, namespace: str, content: str = "x") -> Answer | Unanswered:
    return await bus.ask(StoreMemory(content=content), namespace=namespace, principal=ADA)


async def _holds(views: Inspection, stores: int) -> bool:
    return (await views.depths())[WorkerKind.EMBEDDING][0] == stores


async def _holds_a_command(bus: Bus) -> bool:
    return any(state.depth for state in (await bus.look()).mailboxes)


class Handlers:
    """Answers pings; a ping that says `slow` takes until `go`, and stores never succeed."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.running = self.most = 0
        self.seen: list[str] = []

    async def ping(self, assignment: Assignment) -> Completion:
        command = assignment.envelope.command
        assert isinstance(command, Ping)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if command.payload == b"slow":
                await self.go.wait()
        finally:
            self.running -= 1
        self.seen.append(assignment.envelope.namespace)
        return await echo(assignment)

    async def store(self, assignment: Assignment) -> Completion:
        raise ValueError(assignment.envelope.namespace)

    def actors(self, *, concurrency: int = 32, schedule: tuple[Periodic, ...] = ()) -> list[WorkerSpec]:
        return [
            WorkerSpec(WorkerKind.RECALL, {Ping: self.ping}, schedule, concurrency),
            WorkerSpec(WorkerKind.EMBEDDING, {StoreMemory: self.store}, concurrency=concurrency),
        ]


class Watched:
    """What a server is told by all its clients, scripts included, about keys with one prefix."""

    def __init__(self, prefix: str) -> None:
        self._key = re.compile(rf"arq:[a-z-]+:[^\" ]+|\{{{prefix}:[\d.]+\}}:[^\" ]*")
        self.commands: list[str] = []

    async def run(self, url: str, ready: asyncio.Event) -> None:
        async with Redis.from_url(url) as client, client.monitor() as monitor:
            ready.set()
            async for told in monitor.listen():
                self.commands.append(told["command"])

    def keys(self, command: str) -> set[str]:
        return set(self._key.findall(command))


@pytest.mark.promise("SC-2")
async def test_every_command_and_script_touches_one_slot_only(
    server: Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "RENEW_S", 0.02)
    monkeypatch.setattr("engramq.workers.queue.process.FIRST_TURN_S", 0.01)
    monkeypatch.setattr("engramq.workers.queue.job.RETRY_FIRST_S", 0.001)
    settings, handlers, watched = settings_of(server, prefix, 3), Handlers(), Watched(prefix)
    ready = asyncio.Event()
    watching = asyncio.create_task(watched.run(server.url, ready))
    await asyncio.wait_for(ready.wait(), BOUND_S)
    try:
        await _do_everything(settings, handlers)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    called = {SCRIPTS[sha] for sha in SCRIPTS if any(sha in item or _shown(sha) in item for item in watched.commands)}
    assert called == set(SCRIPTS.values())
    slots = set()
    for command in watched.commands:
        keys = watched.keys(command)
        found = {slot_of(key) for key in keys}
        assert len(found) <= 1, command
        slots |= found
        if keys and command.startswith(("EVAL", "EVALSHA")):
            assert any(key.endswith(":guard") for key in keys), command
    assert slots == {slot_of(tag_of(prefix, lane)) for lane in range(3)}


def _shown(sha: str) -> str:
    """Return how a script is shown that was sent as text: its last line."""
    text = next(var.text for var in vars(scripts).values() if isinstance(var, Script) and var.sha == sha)
    return text[-60:].replace("\n", "\\n")


async def _do_everything(settings: Settings, handlers: Handlers) -> None:
    """Have gateways, workers and operators do whatever they do with Redis, in every lane."""
    lanes = lanes_of(settings)
    turns = asyncio.Event()

    async def turn() -> tuple[FollowUp, ...]:
        turns.set()
        return tuple(FollowUp(namespace, Ping()) for namespace in namespaces(3))

    actors = handlers.actors(schedule=(Periodic("turn", 0.05, turn),))
    async with open_bus(settings) as bus, Inspection(lanes) as views:
        async with working(settings, *actors), lanes.server.client(timeout_s=2.0) as client:
            breadcrumbs, letters = Breadcrumbs(client, lanes), DeadLetters(client, lanes)
            for namespace in namespaces(3):
                await SignedIn(client, lanes.of(namespace)).keep("token", local_caller(namespace, "ada"), None)
                await breadcrumbs.begin(namespace, ADA_ID, "s")
                assert await ask(bus, namespace, "hello") == "hello"
                await breadcrumbs.read(namespace, ADA_ID, "s")
                slow = asyncio.create_task(ask(bus, namespace, "slow"))
                answer = await store(bus, namespace)
                assert isinstance(answer, Answer)
                died = partial(letters.show, answer.id)
                await until(died)
                assert await letters.retry(answer.id)
                await until(died)
                assert await letters.drop(answer.id)
                handlers.go.set()
                await slow
                handlers.go.clear()
                await _hang_up(bus, handlers, namespace)
            await asyncio.wait_for(turns.wait(), BOUND_S)
            look = await bus.look()
            assert {state.kind for state in look.mailboxes if state.workers == 1} == set(KINDS)
        for jobs, namespace in enumerate(namespaces(3), 1):  # scrubbed jobs stay, without their commands
            storing = asyncio.create_task(store(bus, namespace, "secret"))
            await until(partial(_holds, views, jobs))
            assert await views.scrub(namespace, {"00000000-0000-7000-8000-000000000000": "secret"}) == 1
            await views.scrub_namespace(namespace)
            await storing
        await views.rewrite_log()


async def _hang_up(bus: Bus, handlers: Handlers, namespace: str) -> None:
    """Ask for what takes long, and leave."""
    asked = asyncio.create_task(ask(bus, namespace, "slow"))
    await until(lambda: handlers.running == 1)
    asked.cancel()
    await until(lambda: handlers.running == 0)


@pytest.mark.promise("MT-19")
async def test_what_was_erased_leaves_the_lane_of_its_namespace(server: Server, prefix: str) -> None:
    lanes, names = Lanes(server.url, prefix, 4), namespaces(4)
    async with open_bus(settings_of(server, prefix, 4)) as bus, Inspection(lanes) as views:
        storing = [asyncio.create_task(store(bus, name, "secret")) for name in names]
        await until(lambda: _holds(views, 4))
        assert [await views.scrub(name, {"id": "secret"}) for name in names] == [1, 1, 1, 1]
        assert [await views.scrub(name, {"id": "secret"}) for name in names] == [0, 0, 0, 0]
        await asyncio.gather(*storing)


async def test_one_server_writes_its_file_anew_once_for_all_lanes(own_server: Server, prefix: str) -> None:
    lanes = Lanes(own_server.url, prefix, 4)
    async with Redis.from_url(own_server.url) as redis, Inspection(lanes) as views:
        await redis.config_set("appendonly", "yes")
        for name in namespaces(4):
            assert await views.scrub(name, {"id": "secret"}) == 0  # which leaves a mark in each lane
        await until(lambda: redis.info("persistence"), lambda info: not info["aof_rewrite_in_progress"])
        await redis.config_resetstat()
        assert await views.rewrite_log()
        assert not await views.rewrite_log()
        assert (await redis.info("commandstats"))["cmdstat_bgrewriteaof"]["calls"] == 1


@pytest.mark.parametrize(("before", "after"), [(1, 3), (4, 2), (3, 1)])
async def test_another_number_of_lanes_is_refused_until_nothing_waits(
    server: Server, prefix: str, before: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = settings_of(server, prefix, before), settings_of(server, prefix, after)
    async with open_bus(old) as bus:
        asked = asyncio.create_task(ask(bus, namespaces(before)[-1], "x"))
        await until(lambda: _holds_a_command(bus))
        asked.cancel()
    monkeypatch.setattr(lanes_module, "REGISTER_S", -1.0)  # the gateway has been gone for a while
    with pytest.raises(UnsupportedServer, match=f"is {after}, but this Redis is used with {before}: 1 waiting jobs"):
        await open_bus(new).__aenter__()
    with pytest.raises(UnsupportedServer, match="`engramq status` shows nothing that waits"):
        await serve([], new, handle_signals=False)
    handlers = Handlers()
    async with working(old, *handlers.actors()), open_bus(old) as bus:
        assert await ask(bus, "ada", "served") == "served"
        await until(lambda: _holds_a_command(bus), not_)
    async with open_bus(new) as bus, working(new, *handlers.actors()):
        assert await ask(bus, "ada", "new") == "new"
    with pytest.raises(UnsupportedServer, match=f"is used with {after}"):
        async with working(new, *handlers.actors()):
            await open_bus(old).__aenter__()


async def test_the_number_of_lanes_stays_while_a_gateway_or_a_dead_letter_is_there(server: Server, prefix: str) -> None:
    new = Lanes(server.url, prefix, 2)
    async with Redis.from_url(server.url) as redis:
        await redis.zadd(f"{prefix}:dead-index:recall", {"letter": 1})
        with pytest.raises(UnsupportedServer, match=r"used with 1: 1 dead letters\. Set it to 1"):
            await new.require_number()
        await redis.delete(f"{prefix}:dead-index:recall")
        async with open_bus(settings_of(server, prefix, 1)) as bus:
            await until(lambda: redis.exists(f"{prefix}:reply-lists"))
            with pytest.raises(UnsupportedServer, match=r"used with 1: 1 gateways\. Set it to 1"):
                await new.require_number()
            await bus.ready()
        await redis.delete(f"{prefix}:reply-lists")
        await new.require_number()
        assert await redis.get(f"{prefix}:lanes") == b"2"


async def test_an_installation_without_lanes_uses_no_key_with_a_tag(own_server: Server, prefix: str) -> None:
    rights = ("+@all", "-@dangerous", "+info", "allkeys", "resetkeys", f"~{prefix}:*", "~arq:*")
    async with Redis.from_url(own_server.url) as administrator:
        await administrator.execute_command("ACL", "SETUSER", "default", *rights)
        lanes = Lanes(own_server.url, prefix)
        await lanes.require_number()
        async with Inspection(lanes) as views:
            assert (await views.depths())[WorkerKind.RECALL] == (0, 0)
            assert await views.scrub("n", {"id": "secret"}) == 0
            assert await views.find(str(uuid4()), "n", None) is None
        assert await DeadLetters(administrator, lanes).list(WorkerKind.RECALL) == []


class HalfAway(RedisServer):
    """A server that is not there for the keys of one lane, like a cluster of which one master is dead."""

    away = ""

    async def locate(self, key: str) -> None:
        if key and key == self.away:
            raise RedisConnectionError(key)


def half_away(server: Server, prefix: str) -> Lanes:
    """Return two lanes, the second of which is away."""
    away = HalfAway(server.url)
    lanes = Lanes(away, prefix, 2)
    away.away = lanes.all[1].prefix
    return lanes


async def test_all_lanes_together_carry_out_no_more_than_a_kind_may(server: Server, prefix: str) -> None:
    handlers, settings = Handlers(), settings_of(server, prefix, 3)
    async with open_bus(settings) as bus, working(settings, *handlers.actors(concurrency=4)):
        asked = [asyncio.create_task(ask(bus, name, "slow")) for name in namespaces(3) * 8]
        await until(lambda: handlers.running == 4)
        handlers.go.set()
        assert await asyncio.gather(*asked) == ["slow"] * 24
    assert handlers.most == 4


async def test_callers_of_all_lanes_are_bounded_together(
    server: Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_module, "WAITING_MAX", 3)
    settings = settings_of(server, prefix, 3)
    async with open_bus(settings) as bus:
        asked = [asyncio.create_task(ask(bus, name, "x")) for name in namespaces(3)]
        await until(lambda: bus.waiting == 3)
        with pytest.raises(EngramqError) as refusal:
            await ask(bus, "tenant-0", "x")
        assert refusal.value.fault.code == FaultCode.OVERLOADED
        for item in asked:
            item.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


@pytest.mark.long
async def test_gateways_stay_ready_while_some_lanes_are_away(server: Server, prefix: str) -> None:
    lanes, (first, second) = half_away(server, prefix), namespaces(2)
    settings = settings_of(server, prefix, 2)
    async with working(settings, *Handlers().actors()), open_bus(settings, lanes=lanes) as bus:
        for namespace in (first, second):  # the gateway's own too
            checks = {check.name: check for check in (await overview_of(bus, Caller(namespace, ADA))).checks}
            assert checks["redis"].state == "degraded"
            assert checks["redis"].told == "Redis does not answer for 1 of 2 lanes."
            assert "No worker answers." not in checks["worker"].told
        assert await ask(bus, first, "x") == "x"
        with pytest.raises(EngramqError) as refusal:
            await store(bus, second)
        assert refusal.value.fault.code == FaultCode.UNAVAILABLE


async def test_idle_lanes_cost_hardly_a_command(own_server: Server, prefix: str) -> None:
    settings, handlers = settings_of(own_server, prefix, 8), Handlers()
    actors = handlers.actors()
    async with open_bus(settings) as bus, working(settings, *actors), Redis.from_url(own_server.url) as redis:
        for name in namespaces(8):
            assert await ask(bus, name, "x") == "x"
        before = await calls(redis)
        await asyncio.sleep(1.0)  # what is measured is that nothing happens
        assert await calls(redis) - before <= 8 * len(KINDS) * 2


async def calls(redis: Redis) -> int:
    """Return how many scripts have been called by their digest."""
    stats = await redis.info("commandstats")
    return int(stats.get("cmdstat_evalsha", {"calls": 0})["calls"])


async def test_a_start_that_is_cancelled_leaves_no_connection_open(
    server: Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane that does not answer holds up the start of all: a caller who gives up meanwhile leaves nothing behind."""
    hanging, connected, closed = asyncio.Event(), 0, 0
    connect, close = BusLane.connect, BusLane.close

    async def hang_once(lane: BusLane) -> None:
        nonlocal connected
        if not hanging.is_set():
            hanging.set()
            await asyncio.Event().wait()
        await connect(lane)
        connected += 1

    async def count(lane: BusLane) -> None:
        nonlocal closed
        await close(lane)
        closed += 1

    monkeypatch.setattr(BusLane, "connect", hang_once)
    monkeypatch.setattr(BusLane, "close", count)

    async def start() -> None:
        async with open_bus(settings_of(server, prefix, 3)):
            raise AssertionError("it should not get so far")

    starting = asyncio.create_task(start())
    async with asyncio.timeout(BOUND_S):
        while connected < 2:
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert closed == 3
