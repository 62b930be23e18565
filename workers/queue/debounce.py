"""Debounce: what is collected within a while is handled together."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress


class Debounce:
    """Runs `work` once for all calls of `soon` within `debounce_s`.

    The first caller waits and runs it; the others return at once. `work` handles what has been collected so far; it
    never runs twice at a time. `stopping` ends the wait early.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], debounce_s: float, stopping: asyncio.Event | None) -> None:
        self._work = work
        self._debounce_s = debounce_s
        self._stopping = stopping or asyncio.Event()
        self._requested = self._running = False

    async def soon(self) -> None:
        """Run the work after a while, unless another caller is about to; raises what `work` raises."""
        self._requested = True
        if self._running:
            return
        self._running = True
        try:
            while self._requested:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), self._debounce_s)
                self._requested = False
                await self._work()
        finally:
            self._running = False
