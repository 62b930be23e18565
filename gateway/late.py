"""Make what a process may never be asked for with the first question for it."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Late(Generic[T]):
    """What `make` makes, for the first who asks; others wait for it meanwhile."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._made: T | None = None
        self._turn = anyio.Lock(fast_acquire=True)

    async def get(self) -> T:
        """Return it; raises what making it raises, and the next who asks has it tried again."""
        async with self._turn:
            if self._made is None:
                self._made = await self._make()
            return self._made
