"""Work that nobody waits for: what is noted within a while is done together."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress


class Debounce:
    """Whoever notes first waits for others and does the work of all; the others return at once.

    `work` takes what has been noted so far. It never runs twice at a time. `stopping` ends the wait early.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], debounce_s: float, stopping: asyncio.Event | None) -> None:
        self._work = work
        self._gather_s = debounce_s
        self._stopping = stopping or asyncio.Event()
        self._wanted = self._busy = False

    async def soon(self) -> None:
        """Do the work after a while, unless somebody is about to; raises what `work` raises."""
        self._wanted = True
        if self._busy:
            return
        self._busy = True
        try:
            while self._wanted:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), self._gather_s)
                self._wanted = False
                await self._work()
        finally:
            self._busy = False
