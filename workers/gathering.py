"""Bookkeeping that nobody waits for: what is noted within a while is written together."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress


class Gathering:
    """Whoever notes first waits for others and writes all; the others return at once.

    `write` takes what has been noted so far. `stopping` ends the wait early.
    """

    def __init__(self, write: Callable[[], Awaitable[None]], gather_s: float, stopping: asyncio.Event | None) -> None:
        self._write = write
        self._gather_s = gather_s
        self._stopping = stopping or asyncio.Event()
        self._waiting = False

    async def soon(self) -> None:
        """Write what was noted, after a while, unless somebody is about to; raises what `write` raises."""
        if self._waiting:
            return
        self._waiting = True
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._gather_s)
        finally:
            self._waiting = False
        await self._write()
