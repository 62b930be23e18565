"""The way to the workers over every lane: one bus for each, a call goes over that of its namespace."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, Self

import msgspec

from engramq.gateway.queue.bus import Bus, Pending
from engramq.gateway.queue.callers import Callers
from engramq.gateway.queue.look import Look, NoLook, look_at_former
from engramq.schemas.commands import Command
from engramq.schemas.connection import pack
from engramq.schemas.envelope import Answer
from engramq.schemas.lanes import Lanes, lane_of, lanes_of
from engramq.schemas.overview import MailboxState
from engramq.schemas.scripts import RAISE_LANES
from engramq.schemas.settings import Settings


class LaneBuses:
    """The buses of all lanes, used as one; see Bus for what each method does and raises."""

    def __init__(self, buses: Sequence[Bus], lanes: Lanes) -> None:
        self._buses = buses
        self._lanes = lanes
        self._stack = AsyncExitStack()
        self._away = ""
        self._answered: list[Bus] = []  # when `ready` was asked last, the first ones

    async def __aenter__(self) -> Self:
        try:
            await self._connect()
            async with AsyncExitStack() as opened:
                for bus in self._buses:
                    await opened.enter_async_context(bus)
                self._stack = opened.pop_all()
        except BaseException:  # a bus that was not entered closes nothing itself
            for bus in self._buses:
                await bus.disconnect()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, problem, trace)

    async def _connect(self) -> None:
        tries = await asyncio.gather(*(bus.connect() for bus in self._buses), return_exceptions=True)
        for problem in tries:
            if problem is not None:
                raise problem

    async def ask(self, command: Command, *, namespace: str, **more: Any) -> Answer | Pending:
        """Send a command and wait for its answer."""
        return await self._of(namespace).ask(command, namespace=namespace, **more)

    async def ask_any(self, command: Command, *, namespace: str, **more: Any) -> Answer | Pending:
        """Send a command that all workers answer alike, by a lane that answered when `ready` was asked last."""
        own = self._of(namespace)
        bus = own if own in self._answered else next(iter(self._answered), own)
        return await bus.ask(command, namespace=namespace, **more)

    async def tell(self, command: Command, *, namespace: str, **more: Any) -> Pending:
        """Send a command and return when it is in its mailbox."""
        return await self._of(namespace).tell(command, namespace=namespace, **more)

    @property
    def waiting(self) -> int:
        """How many callers wait for an answer."""
        return sum(bus.waiting for bus in self._buses)

    @property
    def refused(self) -> str:
        """What Redis refused of late, as a sentence, or that some lanes were away at the last look."""
        return next((bus.refused for bus in self._buses if bus.refused), self._away)

    async def ready(self) -> None:
        """Return as soon as Redis answers for some lane: the others' callers are told, the rest are served."""
        asked = {asyncio.create_task(bus.ready()): bus for bus in self._buses}
        waiting: set[asyncio.Task[None]] = set(asked)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                self._answered = [asked[one] for one in done if one.exception() is None]
                if self._answered:
                    return
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        await next(iter(asked))  # raises what it has met

    async def look(self) -> Look:
        """Return the state of every mailbox, all lanes together that answer; raises NoLook where none does.

        Former lanes are counted in as far as they have something.
        """
        looking = asyncio.gather(*(bus.look() for bus in self._buses), return_exceptions=True)
        found, former = await asyncio.gather(looking, look_at_former(self._lanes))
        look, self._away = of_those_that_answer(found, former)
        return look

    def _of(self, namespace: str) -> Bus:
        return self._buses[lane_of(namespace, len(self._buses))]


AnyBus = Bus | LaneBuses


@asynccontextmanager
async def open_bus(
    settings: Settings, *, lanes: Lanes | None = None, on_failure: Callable[[], None] | None = None
) -> AsyncIterator[AnyBus]:
    """Open the way to the workers, for as long as the block lasts; `on_failure`: see Bus."""
    lanes, callers = lanes or lanes_of(settings), Callers()
    also = [[_marking(lanes)] if lanes.tagged and lane is lanes.first else [] for lane in lanes.all]
    buses = [
        Bus(
            lane.redis,
            lane.keys,
            mailbox_bound=max(1, settings.mailbox_bound // len(lanes.all)),
            reply_timeout_s=settings.reply_timeout_s,
            on_failure=on_failure,
            callers=callers,
            also=commands,
        )
        for lane, commands in zip(lanes.all, also, strict=True)
    ]
    async with LaneBuses(buses, lanes) as bus:
        yield bus


def _marking(lanes: Lanes) -> bytes:
    return pack("EVAL", RAISE_LANES.text, len(lanes.mark_keys), *lanes.mark_keys, len(lanes.all))


def of_those_that_answer(
    found: Sequence[Look | BaseException], former: Sequence[Look | NoLook] = ()
) -> tuple[Look, str]:
    """Return the looks at all lanes as one, and as a sentence that some are away; raises NoLook where all are."""
    looks = [one for one in found if isinstance(one, Look)]
    for problem in found:
        if isinstance(problem, BaseException) and (not looks or not isinstance(problem, NoLook)):
            raise problem
    left = [one for one in former if isinstance(one, Look)]
    away, of_all = len(found) + len(former) - len(looks) - len(left), len(found) + len(former)
    return _together(looks, left), f"Redis does not answer for {away} of {of_all} lanes." if away else ""


def _together(looks: Sequence[Look], former: Sequence[Look]) -> Look:
    """Return looks as one. A mailbox has as many workers as the lane has where it has the fewest.

    A former lane does not count for that: it is served a moment after something has come into it.
    """
    states = [
        msgspec.structs.replace(_sum(of_kind), workers=min(state.workers for state in of_kind[: len(looks)]))
        for of_kind in zip(*(look.mailboxes for look in (*looks, *former)), strict=True)
    ]
    ahead_s = max((look.ahead_s for look in looks), key=abs)
    return Look(states, ahead_s, next((look.refused for look in looks if look.refused), ""))


def _sum(states: Sequence[MailboxState]) -> MailboxState:
    rates = [state.per_s for state in states if state.per_s is not None]
    return MailboxState(
        kind=states[0].kind,
        depth=sum(state.depth for state in states),
        oldest_s=max(state.oldest_s for state in states),
        per_s=sum(rates) if rates else None,
        dead=sum(state.dead for state in states),
        workers=min(state.workers for state in states),
    )
