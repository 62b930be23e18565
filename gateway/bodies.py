"""Hold the bodies of requests within a bound of memory; large ones take turns."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final
from weakref import WeakValueDictionary

from engramq.schemas.faults import EngramqError, FaultCode, refuse

ROOM_BYTES: Final = 64 * 1024 * 1024  # of all bodies that are not whole yet, or wait for their turn
RETRY_S: Final = 1.0
REST: Final = 3.0  # times as long as a large body took, before the next one


class NoRoom(EngramqError):
    """There is no room for more of this caller's bodies: `overloaded`."""


class Turns:
    """Lets large bodies through one by one, those of all callers in turn, and the event loop rest in between."""

    def __init__(self) -> None:
        self._next = asyncio.Lock()
        self._of_callers: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def take(self, whose: Hashable) -> None:
        """Wait for this caller's turn. It lasts until the event loop goes on: decoding does not wait."""
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
