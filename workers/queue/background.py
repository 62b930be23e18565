"""Background tasks that commands leave behind after their reply: best effort, bounded, nobody waits for them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

log = logging.getLogger(__name__)

AT_ONCE: Final = 4
WAITING_MAX: Final = 1_000


class BackgroundTasks:
    """Owns the background tasks, AT_ONCE of which run at a time; beyond WAITING_MAX it drops the newest."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(AT_ONCE)

    def start(self, run: Callable[[], Awaitable[None]], command_id: str) -> None:
        """Run this when there is room."""
        if len(self._tasks) >= WAITING_MAX:
            log.warning("Background task dropped", extra={"command_id": command_id})
            return
        task = asyncio.create_task(self._run(run, command_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, run: Callable[[], Awaitable[None]], command_id: str) -> None:
        try:
            async with self._room:
                await run()
        except Exception as problem:  # noqa: BLE001 - it is best effort, and the reply is out
            log.warning("Background task failed", extra={"command_id": command_id, "error": type(problem).__name__})

    async def finish(self, timeout_s: float) -> None:
        """Wait for the tasks, at most so long, and cancel the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
