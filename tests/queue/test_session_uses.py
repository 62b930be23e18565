"""What workers learn of the use of sessions: whose, which instance, and the times that the clock has not been told."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from engramq.gateway.queue.bus import Bus
from engramq.gateway.sessions import Breadcrumbs
from engramq.schemas import limits
from engramq.schemas.commands import Ping, Pong
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.keys import Keys
from engramq.workers.queue.contract import Assignment, Completion, SessionState, SessionUse, WorkerSpec
from tests.lanes import lanes_at
from tests.queue.stage import ADA_ID, BOUND_S, NAMESPACE, Stage, an_actor, ping

WHOSE = (NAMESPACE, ADA_ID, "default")
GAP_MS = limits.SESSION_GAP_SECONDS * 1000


@dataclass
class Clock:
    """Hears of uses, and lets a session's times lie further back."""

    stage: Stage
    breadcrumbs: Breadcrumbs
    heard: list[SessionUse] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def hear(self, uses: Sequence[SessionUse]) -> None:
        self.heard += uses
        self.news.set()

    async def use(self, bus: Bus, line: str = "", **rest: str | Principal) -> SessionUse:
        """Make a call in the session and return what was heard of it."""
        self.news.clear()
        await ping(bus, line, in_session=True, **rest)
        async with asyncio.timeout(BOUND_S):
            await self.news.wait()
        return self.heard[-1]

    async def pass_ms(self, milliseconds: int) -> None:
        """Let this much time pass for the session."""
        key = self.stage.keys.session(*WHOSE).state
        for name in ("seen", "ticked"):
            await self.stage.redis.hincrby(key, name, -milliseconds)


async def answer(assignment: Assignment) -> Completion:
    """Answer a ping; refuse `no`, leave a session state for `store`."""
    assert isinstance(assignment.envelope.command, Ping)
    match assignment.envelope.command.payload:
        case b"no":
            raise refuse(FaultCode.FORBIDDEN, "no")
        case b"store":
            return Completion(Pong(), session_state=SessionState(stored="a"))
        case _:
            return Completion(Pong())


@pytest.fixture
def clock(stage: Stage, keys: Keys) -> Clock:
    return Clock(stage, Breadcrumbs(stage.redis, lanes_at("redis://unused", keys)))


@pytest.fixture
async def bus(stage: Stage, clock: Clock) -> Bus:
    plain = an_actor(answer)
    await stage.workers(WorkerSpec(plain.kind, plain.runners, sessions_used=clock.hear))
    return await stage.bus()


def length(use: SessionUse) -> int:
    return sum(until - since for since, until in use.intervals)


async def test_the_first_call_begins_an_instance_and_further_ones_tell_the_time_between(clock: Clock, bus: Bus) -> None:
    first = await clock.use(bus)
    assert (first.namespace, first.intervals) == (NAMESPACE, ())
    await clock.pass_ms(60_000)
    second = await clock.use(bus, "store")
    assert second.instance == first.instance
    assert second.session == first.session
    ((since, until),) = second.intervals
    assert 60_000 <= until - since < 70_000
    await clock.pass_ms(5_000)
    assert length(await clock.use(bus, "no")) < 10_000, "nothing is told twice"


async def test_a_refused_command_is_a_use_and_one_outside_sessions_is_not(clock: Clock, bus: Bus) -> None:
    await clock.use(bus, "no")
    await ping(bus)
    assert len(clock.heard) == 1
    assert (await clock.use(bus, session="other")).session != clock.heard[0].session


async def test_half_an_hour_of_silence_ends_an_instance_and_does_not_count(clock: Clock, bus: Bus) -> None:
    first = await clock.use(bus)
    await clock.pass_ms(GAP_MS - 5_000)
    assert length(await clock.use(bus)) >= GAP_MS - 5_000
    await clock.pass_ms(GAP_MS)
    after = await clock.use(bus)
    assert after.instance > first.instance
    assert after.intervals == ()


async def test_what_only_the_gateway_saw_is_told_with_the_next_command(clock: Clock, bus: Bus) -> None:
    await clock.use(bus)
    for _ in range(2):
        await clock.pass_ms(GAP_MS - 5_000)
        await clock.breadcrumbs.read(*WHOSE)
    assert length(await clock.use(bus)) >= 2 * (GAP_MS - 5_000)


async def test_what_only_the_gateway_saw_before_a_silence_is_told_too(clock: Clock, bus: Bus) -> None:
    await clock.use(bus)
    for _ in range(3):
        await clock.pass_ms(60_000)
        await clock.breadcrumbs.resolve("@stored", *WHOSE)
        await clock.pass_ms(GAP_MS)
    use = await clock.use(bus)
    assert len(use.intervals) == 1, "of three uses only the first had another one within half an hour before it"
    assert 60_000 <= length(use) < 70_000
    assert (await clock.use(bus)).instance == use.instance
    assert length(clock.heard[-1]) < 10_000, "nothing is owed any more"


async def test_begin_session_is_a_new_instance_and_loses_no_time(clock: Clock, bus: Bus) -> None:
    first = await clock.use(bus)
    await clock.pass_ms(60_000)
    instance = await clock.breadcrumbs.begin(*WHOSE)
    use = await clock.use(bus)
    assert use.instance == instance > first.instance
    assert 60_000 <= length(use) < 70_000
    await clock.pass_ms(60_000)
    await clock.breadcrumbs.read(*WHOSE)
    await clock.pass_ms(GAP_MS)
    await clock.breadcrumbs.begin(*WHOSE)
    assert 60_000 <= length(await clock.use(bus)) < 70_000


async def test_what_is_owed_stays_bounded(clock: Clock, bus: Bus, stage: Stage) -> None:
    await clock.use(bus)
    for _ in range(100):
        await clock.breadcrumbs.read(*WHOSE)
        await stage.redis.hincrby(stage.keys.session(*WHOSE).state, "ticked", -5)
        await clock.pass_ms(GAP_MS)
    await clock.breadcrumbs.read(*WHOSE)
    assert await stage.redis.hstrlen(stage.keys.session(*WHOSE).state, "owed") < 2_100
    assert len((await clock.use(bus)).intervals) > 50


@pytest.mark.promise("AG-11")
async def test_a_session_without_a_name_is_used_and_keeps_no_breadcrumbs(clock: Clock, bus: Bus, stage: Stage) -> None:
    first = await clock.use(bus, "store", session="")
    keys = stage.keys.session(NAMESPACE, ADA_ID, "")
    for name in ("seen", "ticked"):
        await stage.redis.hincrby(keys.state, name, -60_000)
    second = await clock.use(bus, "store", session="")
    assert (second.session, second.instance) == (first.session, first.instance)
    assert 60_000 <= length(second) < 70_000
    assert (await clock.use(bus, session="", principal=Principal(name="bob"))).session != first.session
    assert await stage.redis.hmget(keys.state, "stored", "recalled") == [None, None]
    assert not await stage.redis.exists(keys.touched)
    assert await clock.breadcrumbs.resolve("@stored", NAMESPACE, ADA_ID, "") is None
