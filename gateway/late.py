"""Make a value with the first question for it, since most processes are never asked."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Late(Generic[T]):
    """A value that `make` makes for its first caller; others wait for it meanwhile."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._made: T | None = None
        self._turn = anyio.Lock(fast_acquire=True)

    async def get(self) -> T:
        """Return the value. Raises what `make` raises; the next caller then tries again."""
        async with self._turn:
            if self._made is None:
                self._made = await self._make()
            return self._made
