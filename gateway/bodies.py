"""Read the bodies of requests within a bound of memory: large ones take turns, of refused ones a part is read."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

import anyio
from starlette.types import Message, Receive, Scope, Send

from engramq.gateway.identity.authorization import CALLER, Caller
from engramq.gateway.limits import network_of
from engramq.schemas import limits
from engramq.schemas.faults import EngramqError, FaultCode, refuse

ROOM_BYTES: Final = 64 * 1024 * 1024  # of all bodies that are not whole yet, or wait for their turn
RETRY_S: Final = 1.0
DISCARD_S: Final = 5.0  # so long and so much of a body that is refused is read before the refusal is sent
DISCARD_BYTES: Final = 16 * limits.BODY_BYTES
DISCARD_PAUSE_S: Final = 0.02  # between two parts of it, of 64 to 256 KB: nobody waits for what it says
LARGE_BYTES: Final = 64 * 1024  # a body of more takes turns: to decode 4 MB may take 150 ms, and others wait meanwhile
REST: Final = 3.0  # times as long as a large body took, before the next one


class NoRoom(EngramqError):
    """There is no room for more of this caller's bodies: `overloaded`."""


class Turns:
    """Lets large bodies through one by one, those of all callers in turn, and the event loop rest in between."""

    def __init__(self) -> None:
        self._next = asyncio.Lock()
        self._of_callers: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def take(self, whose: Hashable) -> None:
        """Wait for this caller's turn. It lasts until the event loop goes on: whoever decodes a body does not wait."""
        of_caller = self._of_callers.setdefault(whose, asyncio.Lock())
        async with of_caller:
            await self._next.acquire()
        asyncio.get_running_loop().call_soon(self._rest, time.perf_counter())

    def _rest(self, since: float) -> None:
        asyncio.get_running_loop().call_later(REST * (time.perf_counter() - since), self._next.release)


class Bodies:
    """The bodies that a gateway holds. `refused` is called for each that finds no room."""

    def __init__(self, room: int = ROOM_BYTES, refused: Callable[[], None] | None = None) -> None:
        self.turns = Turns()
        self.held = 0
        self._room = room
        self._refused = refused
        self._of_callers: Counter[Hashable] = Counter()

    def hold(self, whose: Hashable, count: int) -> None:
        """Count so many bytes more of this caller's; raises NoRoom beyond half of what the others leave."""
        own = self._of_callers[whose] + count
        if 2 * own > self._room - (self.held + count - own):
            if self._refused is not None:
                self._refused()
            error = "Too many bytes of requests wait to be read."
            raise NoRoom(refuse(FaultCode.OVERLOADED, error, retry_after_s=RETRY_S).fault)
        self._of_callers[whose] = own
        self.held += count

    def let_go(self, whose: Hashable, count: int) -> None:
        """Take so many bytes of this caller's off the count."""
        self._of_callers[whose] -= count
        self.held -= count
        if not self._of_callers[whose]:
            del self._of_callers[whose]


@dataclass(slots=True)
class Exchange:
    """A request's body on its way in, and its answer on its way out. Whoever ends it calls `let_go`."""

    scope: Scope
    take: Receive
    give: Send
    bodies: Bodies
    body_bytes: int = 0
    is_read: bool = False
    _held: int = 0
    _whose: Hashable = field(default=None)

    async def receive(self) -> Message:
        """Return the next part of the body, the last one of a large body when it is its turn; raises NoRoom."""
        message = await self._receive()
        if message["type"] != "http.request":
            return message
        if not (self.is_read and self.body_bytes <= LARGE_BYTES):  # a small one that is whole waits for nothing
            self._hold(self.body_bytes - self._held)
            if self.is_read:
                await self.bodies.turns.take(self._whose)
        if self.is_read:
            self.let_go()
        return message

    def _hold(self, count: int) -> None:
        if not self._held:
            caller: Caller | None = self.scope.get(CALLER)
            self._whose = caller.namespace if caller else network_of((self.scope.get("client") or ("",))[0])
        self.bodies.hold(self._whose, count)
        self._held += count

    def let_go(self) -> None:
        """Give back the room of what was read: it was handed on, or nobody waits for it any more."""
        if self._held:
            self.bodies.let_go(self._whose, self._held)
            self._held = 0

    async def _receive(self) -> Message:
        message = await self.take()
        self.body_bytes += len(message.get("body", b""))
        self.is_read = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Answer once the body is read: a client that still sends would see a broken connection, not an answer."""
        if not self.is_read:
            self.let_go()  # nobody keeps what is read now
            with anyio.move_on_after(DISCARD_S):
                more = True
                while more and self.body_bytes < DISCARD_BYTES:
                    more = (await self._receive()).get("more_body", False)
                    if more:
                        await anyio.sleep(DISCARD_PAUSE_S)
            self.is_read = True
        await self.give(message)
