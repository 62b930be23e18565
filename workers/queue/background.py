"""Run work that nobody waits for: it gives way to callers and bulk loads; what comes close together is done at once."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

log = logging.getLogger(__name__)

QUIET_S: Final = 0.05  # without a command before a pause ends: a lone caller's next call comes sooner than that
BETWEEN_BATCHES_S: Final = 2.0  # of one bulk load: a longer gap ends it
NOTES_S: Final = 0.5  # calls of this long leave notes for one statement,
BUSY_S: Final = 3.0  # or of this long while somebody waits for the process
AT_ONCE: Final = 4
WAITING_MAX: Final = 1_000


class Activity:
    """Counts the commands under way that somebody waits for, and those of bulk loads; one per process."""

    def __init__(self) -> None:
        self._serving = 0
        self._served_at = -QUIET_S  # when the last one ended, in monotonic seconds
        self._loading = 0
        self._loaded_at = -BETWEEN_BATCHES_S
        self._load_began_at = 0.0

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Count a command that somebody waits for, while the block runs."""
        self._serving += 1
        try:
            yield
        finally:
            self._serving -= 1
            self._served_at = time.monotonic()

    def is_single(self) -> bool:
        """Whether somebody waits for one command and no other, and no bulk load is under way."""
        return self._serving == 1 and not self._loading

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Count a command of a bulk load, while the block runs."""
        if not self.loading_s:
            self._load_began_at = time.monotonic()
        self._loading += 1
        try:
            yield
        finally:
            self._loading -= 1
            self._loaded_at = time.monotonic()

    @property
    def loading_s(self) -> float:
        """For how long bulk loads have been under way; 0 when none is."""
        now = time.monotonic()
        if not self._loading and now - self._loaded_at >= BETWEEN_BATCHES_S:
            return 0.0
        return now - self._load_began_at

    async def pause(self, at_least_s: float, at_most_s: float, stopping: asyncio.Event) -> None:
        """Wait for `at_least_s`, then until nobody has been waiting for a moment, but no longer than `at_most_s`.

        `stopping` ends the pause at once.
        """
        until, wait_s = time.monotonic() + at_most_s, at_least_s
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), wait_s)
            now = time.monotonic()
            quiet_s = 0.0 if self._serving else now - self._served_at
            wait_s = min(until - now, QUIET_S - quiet_s)
            if stopping.is_set() or wait_s <= 0:
                return


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

    @classmethod
    def of_notes(
        cls, work: Callable[[], Awaitable[None]], activity: Activity, stopping: asyncio.Event | None
    ) -> "Debounce":
        """Return one whose work makes one statement for each namespace of the notes that calls have left."""
        return cls(work, NOTES_S, stopping, activity=activity, at_most_s=BUSY_S)

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
