"""A bound on the time for which somebody waits for a server.

The driver answers a cancellation by asking the server to cancel, and waits some ten seconds for one that is silent.
So nobody waits for that.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_leaving: Final[set[asyncio.Task[Any]]] = set()  # what nobody waits for any more


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns; raises TimeoutError when that takes longer, and lets it end by itself."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        if not task.done():
            _leaving.add(task)
            task.add_done_callback(_left)
            task.cancel()
    if not task.done():
        raise TimeoutError
    return task.result()


def _left(task: asyncio.Task[Any]) -> None:
    _leaving.discard(task)
    if not task.cancelled():
        task.exception()  # of a server that nobody waits for
