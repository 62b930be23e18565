"""Debounce: what is collected within a while is handled together."""

import asyncio
from collections.abc import Awaitable, Callable

from engramq.workers.queue.activity import Activity


class Debounce:
    """Runs `work` once for all calls of `soon` within `debounce_s`, or within `at_most_s` while somebody is waited on.

    The first caller waits and runs it; the others return at once. `work` handles what has been collected so far; it
    never runs twice at a time. `stopping` ends the wait early; `activity` knows whether somebody waits for the process.
    """

    def __init__(
        self,
        work: Callable[[], Awaitable[None]],
        debounce_s: float,
        stopping: asyncio.Event | None,
        *,
        activity: Activity | None = None,
        at_most_s: float = 0.0,
    ) -> None:
        self._work = work
        self._debounce_s = debounce_s
        self._at_most_s = at_most_s
        self._stopping = stopping or asyncio.Event()
        self._activity = activity or Activity()
        self._requested = self._running = False

    async def soon(self) -> None:
        """Run the work after a while, unless another caller is about to; raises what `work` raises."""
        self._requested = True
        if self._running:
            return
        self._running = True
        try:
            while self._requested:
                await self._activity.pause(self._debounce_s, self._at_most_s, self._stopping)
                self._requested = False
                await self._work()
        finally:
            self._running = False
