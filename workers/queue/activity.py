"""What a process is about, so that what nobody waits for can give way: to callers, and to bulk loads."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

QUIET_S: Final = 0.05  # without a command before a pause ends: a lone caller's next call comes sooner than that
BETWEEN_BATCHES_S: Final = 2.0  # of one bulk load: a longer gap ends it


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
        until = time.monotonic() + at_most_s
        await _wait(stopping, at_least_s)
        while not stopping.is_set() and (left_s := until - time.monotonic()) > 0:
            quiet_s = 0.0 if self._serving else time.monotonic() - self._served_at
            if quiet_s >= QUIET_S:
                return
            await _wait(stopping, min(left_s, QUIET_S - quiet_s))


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
