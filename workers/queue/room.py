"""How many commands of one kind a process carries out at a time, whatever lanes they come from."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Room:
    """The room of one kind, which the workers of its lanes share.

    Each claim asks for its lane's share of what is left, and has it reserved until it is answered: so a lane alone
    fills the room in a few claims, and all together hold no more than it. A claim that waits for a wake-up first
    reserves nothing; what it then takes beyond the room has to be given back.
    """

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.handlers = asyncio.Semaphore(concurrency)  # that run at a time
        self._running: list[Callable[[], int]] = []  # of each lane
        self._reserved = 0
        self._freed = asyncio.Event()

    def join(self, running: Callable[[], int]) -> None:
        """Let another lane share the room; `running` tells how many of its commands are claimed or run."""
        self._running.append(running)

    def leave(self, running: Callable[[], int]) -> None:
        """Let a lane that joined share the room no more."""
        if running in self._running:
            self._running.remove(running)
            self.freed()

    @property
    def left(self) -> int:
        """For how many commands there is room now."""
        return self.concurrency - self._reserved - sum(running() for running in self._running)

    @contextmanager
    def reserved(self, count: int) -> Iterator[None]:
        """Keep room for so many commands from the claims of other lanes."""
        self._reserved += count
        try:
            yield
        finally:
            self._reserved -= count
            if count:
                self.freed()

    def share(self, left: int) -> int:
        """Return how many of these one lane asks for."""
        return -(-left // len(self._running))

    async def wait(self) -> None:
        """Wait until there may be room again."""
        self._freed.clear()
        await self._freed.wait()

    def freed(self) -> None:
        """Wake whoever waits for room."""
        self._freed.set()
