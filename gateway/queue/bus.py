"""Send each command by the lane of its namespace, and wait for its answer.

An answer is true: `overloaded` and `unavailable` mean that the command is not applied and never will be; a write that
may or may not have been applied is Unanswered.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import msgspec

from engramq.gateway.queue.lane import BusLane, Callers
from engramq.gateway.queue.look import Look, look_at_mailboxes
from engramq.schemas.codec import fingerprint
from engramq.schemas.commands import Command
from engramq.schemas.connection import Lanes, lanes_of
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import lane_of
from engramq.schemas.settings import Settings

log = logging.getLogger(__name__)


class Unanswered(msgspec.Struct, frozen=True):
    """The command is on its way, or may be: get_command tells later what became of it."""

    command_id: str


class BusFailed(EngramqError):
    """A task of the bus ended that never should: only a new process helps."""


class Bus:
    """Use as `async with Bus(...) as bus`; all its tasks and connections end with the block.

    `mailbox_bound`: commands that may wait in one mailbox. `reply_timeout_s`: how long `ask` waits by default.
    When the bus fails for good, every waiting caller is answered, and all later calls are refused. The block is then
    cancelled, unless `on_failure` is given, which is called instead and has to end the block. It ends with BusFailed.
    """

    def __init__(
        self, lanes: Lanes, *, mailbox_bound: int, reply_timeout_s: float, on_failure: Callable[[], None] | None = None
    ) -> None:
        self._all = lanes
        self._reply_timeout_s = reply_timeout_s
        bound, callers = max(1, mailbox_bound // len(lanes.all)), Callers()
        self._lanes = [BusLane(lanes, keys, bound, callers) for keys in lanes.all]
        self._answered = self._lanes  # by these Redis answered when `ready` was asked last
        self._away = ""
        self._tasks: list[asyncio.Task[None]] = []
        self._on_failure = on_failure
        self._failure: BaseException | None = None
        self._owner: asyncio.Task[Any] | None = None
        self._cancelled_owner = False

    async def __aenter__(self) -> "Bus":
        """Start; raises UnsupportedServer when the Redis there is too old. One that is away is waited for later."""
        try:
            tries = await asyncio.gather(*(lane.connect() for lane in self._lanes), return_exceptions=True)
            for problem in tries:
                if problem is not None:
                    raise problem
        except BaseException:
            await self._close()
            raise
        self._owner = asyncio.current_task()
        for lane in self._lanes:
            lane.is_open = True
            self._tasks += [asyncio.create_task(lane.send_forever()), asyncio.create_task(lane.read_forever())]
        for task in self._tasks:
            task.add_done_callback(self._fail)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lane in self._lanes:
            lane.expire_all()
        await self._close()
        if self._failure is not None:
            # A block that another task has cancelled too stays cancelled.
            cancelled_by_us = self._cancelled_owner and self._owner is not None and self._owner.uncancel() == 0
            if kind is None or (cancelled_by_us and issubclass(kind, asyncio.CancelledError)):
                self.check()

    def check(self) -> None:
        """Raise BusFailed if it has failed for good."""
        if self._failure is not None:
            error = f"The connection to the queue has failed for good ({type(self._failure).__name__})."
            raise BusFailed(refuse(FaultCode.UNAVAILABLE, error).fault) from self._failure

    async def _close(self) -> None:
        for lane in self._lanes:
            await lane.close()

    async def ask(
        self, command: Command, *, timeout_s: float | None = None, anywhere: bool = False, **around: Any
    ) -> Answer | Unanswered:
        """Send a command and wait, as `send` does; `around` are more fields of its envelope."""
        digest = fingerprint(command) if command.write else ""
        envelope = Envelope(id=uuid7(), command=command, **{"session": "", "fingerprint": digest, **around})
        return await self.send(envelope, timeout_s, anywhere=anywhere)

    async def send(
        self, envelope: Envelope, timeout_s: float | None = None, *, anywhere: bool = False
    ) -> Answer | Unanswered:
        """Send an envelope and wait for its answer; a refusal by the worker is the answer's fault.

        The times of the envelope and the key of the reply list are written here. `anywhere`: it may go by any lane,
        since all workers answer it alike. A write that is not answered in time is Unanswered. Raises EngramqError
        `overloaded` or `unavailable`.
        """
        timeout_s = self._reply_timeout_s if timeout_s is None else timeout_s
        lane = self._lanes[0] if len(self._lanes) == 1 else self._lane_of(envelope.namespace, anywhere=anywhere)
        return await lane.deliver(envelope, timeout_s) or Unanswered(envelope.id)

    @property
    def waiting(self) -> int:
        """How many callers wait for an answer."""
        return sum(lane.waiting for lane in self._lanes)

    @property
    def refused(self) -> str:
        """The last refusal of Redis, as a sentence, or that some lanes were away at the last look."""
        return next((lane.refused for lane in self._lanes if lane.refused), self._away)

    async def ready(self) -> None:
        """Return when Redis answers for some lane: callers of other lanes are refused, the rest are served.

        Raises EngramqError `unavailable`, within about 2 s when it does not; the error says what Redis refuses.
        """
        asked = {asyncio.create_task(lane.ready()): lane for lane in self._lanes}
        left: set[asyncio.Task[None]] = set(asked)
        try:
            while left:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                if answered := [asked[task] for task in done if task.exception() is None]:
                    self._answered = answered
                    return
        finally:
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        await next(iter(asked))  # raises what it has met

    async def look(self) -> Look:
        """Return the state of every mailbox, all lanes together; raises NoLook within about 4 s."""
        look = await look_at_mailboxes(self._all)
        self._away = look.away
        return look

    def _lane_of(self, namespace: str, *, anywhere: bool) -> BusLane:
        lane = self._lanes[lane_of(namespace, len(self._lanes))]
        return self._answered[0] if anywhere and lane not in self._answered else lane

    def _fail(self, task: asyncio.Task[None]) -> None:
        """Fail for good, since a task ended that never should."""
        if task.cancelled() or self._failure is not None:
            return
        self._failure = task.exception() or RuntimeError("a task of the bus returned")
        log.critical("The queue's connection has failed for good", extra={"error": type(self._failure).__name__})
        for other in self._tasks:
            other.cancel()
        for lane in self._lanes:
            lane.expire_all()
        if self._on_failure is not None:
            self._on_failure()
        elif self._owner is not None and self._tasks:
            self._cancelled_owner = self._owner.cancel()


@asynccontextmanager
async def open_bus(
    settings: Settings, *, lanes: Lanes | None = None, on_failure: Callable[[], None] | None = None
) -> AsyncIterator[Bus]:
    """Open the way to the workers, for as long as the block lasts; `on_failure`: see Bus."""
    async with Bus(
        lanes or lanes_of(settings),
        mailbox_bound=settings.mailbox_bound,
        reply_timeout_s=settings.reply_timeout_s,
        on_failure=on_failure,
    ) as bus:
        yield bus
