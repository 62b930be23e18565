"""A model that is loaded with its first use: what all embedders of this process have in common. Knows no model."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread

from engramq.workers.embedders.interface import EmbedderUnavailable, EmbeddingFailure

M = TypeVar("M")
T = TypeVar("T")


class LazyModel(Generic[M]):
    """Loads in a thread, once, and works in threads of its own; `closed` says that it was let go for good."""

    def __init__(self, load: Callable[[], M], *, at_once: int, closed_reason: str) -> None:
        """`load` blocks; `at_once` is how many threads there are; `closed_reason` is told after the end."""
        self._load = load
        self._limiter = CapacityLimiter(at_once)
        self._loading = threading.Lock()
        self._loaded: M | None = None
        self._closed_reason = closed_reason
        self.closed = False

    async def run(self, work: Callable[[M], T]) -> T:
        """Return what `work` makes of the model, in a thread; raises EmbedderUnavailable once it is closed."""
        return await to_thread.run_sync(lambda: work(self._ready()), limiter=self._limiter)

    @contextmanager
    def another(self) -> Iterator[None]:
        """Let the next use load anew; nothing is loaded within the block."""
        with self._loading:
            yield
            self._loaded = None

    def close(self) -> None:
        """Let the model go."""
        self.closed = True
        self._loaded = None

    def _ready(self) -> M:
        if self.closed:
            raise EmbedderUnavailable(EmbeddingFailure(reason=self._closed_reason))
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded
