"""What is left in lanes of other numbers of lanes, and lanes whose server is away."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from engramq.gateway import operator as overview_command
from engramq.gateway.identity.authorization import settings_caller
from engramq.gateway.overview import overview_of
from engramq.gateway.queue.bus import Bus
from engramq.gateway.queue.lanes import open_bus
from engramq.schemas.commands import Ping, StoreMemory
from engramq.schemas.envelope import Answer
from engramq.schemas.lanes import Lane, Lanes, lane_of
from engramq.schemas.sentinel import server_of
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import OutcomeUnknown
from engramq.workers.queue.lane_views import LaneLetters, LaneViews
from tests.queue.server import Server
from tests.queue.stage import ADA, ADA_ID, BOUND_S
from tests.queue.test_lanes import Handlers, ask, namespaces, settings_of, until, working

pytestmark = pytest.mark.anyio

# A namespace that is in lane 1 of two or three, in lane 3 of four.
MOVED = next(
    name
    for name in (f"tenant-{number}" for number in range(1000))
    if [lane_of(name, count) for count in (2, 3, 4)] == [1, 1, 3]
)


@pytest.fixture
def prefix() -> str:
    return f"t-{uuid4().hex[:12]}"


def one_away(server: Server, prefix: str) -> Lanes:
    """Return two lanes, the second of which is at a server that is not there."""
    lanes = Lanes(server.url, prefix, 2)
    away = server_of(f"unix:///tmp/{prefix}-is-not-there.sock")
    lanes.all = (lanes.all[0], Lane(lanes.all[1].keys, away))
    return lanes


@pytest.mark.promise("MT-19")
@pytest.mark.parametrize(("before", "after"), [(3, 4), (1, 3), (4, 3)])
async def test_what_a_namespace_left_in_another_lane_is_found_and_erased(
    server: Server, prefix: str, before: int, after: int
) -> None:
    """The lane that it left is among those of the settings: no former one."""
    async with open_bus(settings_of(server, prefix, before)) as old:
        pending = await old.ask(StoreMemory(content="secret"), namespace=MOVED, principal=ADA, timeout_s=0.05)
        await old.tell(StoreMemory(content="other"), namespace=MOVED, principal=ADA)
        assert not isinstance(pending, Answer)
        async with LaneViews(Lanes(server.url, prefix, after)) as views:
            assert await views.find(pending.command_id, MOVED, ADA_ID) is False
            assert await views.scrub(MOVED, {"id": "secret"}) == 1
            assert await views.scrub_namespace(MOVED) == 1


async def test_an_installation_without_lanes_uses_no_key_with_a_tag(own_server: Server, prefix: str) -> None:
    """An upgrade must not need more rights than there were."""
    rights = ("+@all", "-@dangerous", "+info", "allkeys", "resetkeys", f"~{prefix}:*", "~arq:*")
    async with Redis.from_url(own_server.url) as administrator:
        await administrator.execute_command("ACL", "SETUSER", "default", *rights)
    lanes = Lanes(own_server.url, prefix)
    async with LaneViews(lanes) as views, LaneLetters(lanes) as letters:
        assert (await views.depths())[WorkerKind.RECALL] == (0, 0)
        assert await views.scrub("n", {"id": "secret"}) == 0
        assert await letters.list(WorkerKind.RECALL) == []
        assert letters.away == 0
        async with Redis.from_url(own_server.url) as client:
            before = (await client.info("commandstats"))["cmdstat_get"]["calls"]
            await views.find(str(uuid4()), "n", None)
            # The note alone: how many lanes there have been was read a moment ago.
            assert (await client.info("commandstats"))["cmdstat_get"]["calls"] == before + 1


async def test_a_lane_that_is_away_holds_up_only_what_may_be_in_it(server: Server, prefix: str) -> None:
    first, second = namespaces(2)
    lanes = one_away(server, prefix)
    async with open_bus(settings_of(server, prefix, 2)) as bus, LaneViews(lanes) as views:
        await bus.tell(StoreMemory(content="secret"), namespace=first, principal=ADA)
        assert (await views.depths())[WorkerKind.EMBEDDING] == (1, 0)
        assert await views.find("unknown", first, ADA_ID) is None
        assert await views.scrub(first, {"id": "secret"}) == 1
        with pytest.raises(OutcomeUnknown):
            await views.find("unknown", second, ADA_ID)
        with pytest.raises(OutcomeUnknown):
            await views.scrub(second, {"id": "secret"})
    async with LaneLetters(lanes) as letters:
        assert await letters.list(WorkerKind.EMBEDDING) == []
        assert letters.away == 1
        with pytest.raises(RedisConnectionError):
            await letters.show("unknown")


async def test_a_gateway_is_ready_while_the_lane_of_its_own_namespace_is_away(
    server: Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second = namespaces(2)
    settings, lanes = settings_of(server, prefix, 2), one_away(server, prefix)
    caller = replace(settings_caller(settings), namespace=second)
    actors = Handlers().actors()
    async with working(settings, *actors), open_bus(settings, lanes=lanes) as bus:
        found = {one.name: one for one in (await overview_of(bus, caller)).checks}
        assert (found["redis"].state, found["redis"].told) == ("degraded", "Redis does not answer for 1 of 2 lanes.")
        assert "No worker answers." not in found["worker"].told
    monkeypatch.setattr(overview_command, "lanes_of", lambda _: lanes)
    alone = await asyncio.to_thread(overview_command.redis_alone, settings)
    assert (alone.state, alone.told) == ("degraded", "Redis does not answer for 1 of 2 lanes.")


@pytest.mark.parametrize(("before", "after"), [(4, 2), (3, 1)])
async def test_what_is_stuck_or_dead_in_a_former_lane_is_told(
    server: Server, prefix: str, redis: Any, before: int, after: int
) -> None:
    async with open_bus(settings_of(server, prefix, before)) as old:
        for name in namespaces(before):
            await old.tell(Ping(), namespace=name, principal=ADA)
    former = Lanes(server.url, prefix, before).all[-1].keys.of[WorkerKind.EDGES]
    await redis.zadd(former.dead_index, {"x": 1})
    async with open_bus(settings_of(server, prefix, after)) as bus:
        found = {one.kind: one for one in (await bus.look()).mailboxes}
    assert found[WorkerKind.RECALL].depth == before
    assert found[WorkerKind.EDGES].dead == 1


async def test_buses_are_opened_side_by_side(server: Server, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    together, meeting = 0, asyncio.Event()
    connect = Bus.connect

    async def meet(bus: Bus) -> None:
        nonlocal together
        together += 1
        if together == 3:
            meeting.set()
        await asyncio.wait_for(meeting.wait(), BOUND_S)
        await connect(bus)

    monkeypatch.setattr(Bus, "connect", meet)
    async with open_bus(settings_of(server, prefix, 3)) as bus:
        await bus.ready()


async def test_a_process_holds_no_job_that_it_has_no_room_for(server: Server, prefix: str) -> None:
    settings, one, other = settings_of(server, prefix, 12), Handlers(), Handlers()
    async with open_bus(settings) as bus, working(settings, *one.actors(concurrency=2)):
        asked = [asyncio.create_task(ask(bus, name, "slow")) for name in namespaces(12)]

        async def full(handlers: Handlers = one) -> bool:
            return handlers.running == 2

        await until(full)
        async with working(settings, *other.actors(concurrency=2)):
            await until(partial(full, other))
            one.go.set()
            other.go.set()
            assert await asyncio.gather(*asked) == ["slow"] * 12
    assert (one.most, other.most) == (2, 2)
