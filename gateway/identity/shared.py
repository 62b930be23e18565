"""One piece of work at a time for each key; all callers that want its result share it."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from engramq.schemas.faults import FaultCode, refuse

T = TypeVar("T")


class Shared(Generic[T]):
    """Runs at most `bound` pieces of work. A piece that has begun goes on when its callers have gone."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._running: dict[Hashable, asyncio.Task[T]] = {}

    async def run(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the work under way for `key`, begun now if there is none.

        Raises what the work raises, or EngramqError with `overloaded` when too much is under way.
        """
        return await asyncio.shield(self.begin(key, work))

    def begin(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Return the task that does the work for `key`, begun now if there is none; see `run`."""
        task = self._running.get(key)
        if task is None:
            if len(self._running) >= self._bound:
                raise refuse(FaultCode.OVERLOADED, "Too many requests are waiting.", retry_after_s=1.0)
            task = self._running[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._end(key, done))
        return task

    def _end(self, key: Hashable, task: asyncio.Task[T]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not complain when nobody waits any more
