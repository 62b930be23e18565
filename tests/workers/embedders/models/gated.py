"""An embedder whose batches end when the test says so: the scheduler's opposite number."""

from collections.abc import Sequence

import anyio

from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import BatchLimits, EmbedderSpec, EmbedderUnavailable, InputRejected, Vectors

BOUND_S = 5.0


class GatedEmbedder(HashEmbedder):
    """Record each batch as it starts; compute it like `hash` once `release` allowed it."""

    def __init__(self, limits: BatchLimits | None = None) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.rejected_texts: frozenset[str] = frozenset()
        self.failing = False
        self.closed = False
        self.spec = EmbedderSpec(name="gated", dimensions=384, max_tokens=1_000, batches=limits or BatchLimits())
        self._allowed = anyio.Semaphore(0)
        self._started = anyio.Event()

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        self.batches.append(list(texts))
        self._started.set()
        self._started = anyio.Event()
        await self._allowed.acquire()
        if self.failing:
            raise EmbedderUnavailable("out of order")
        if self.rejected_texts.intersection(texts):
            raise InputRejected("no such text, please")
        return await super().embed(texts, questions=questions)

    async def warm(self) -> None:
        self._allowed.release()
        await self.embed(["warm"])

    async def aclose(self) -> None:
        self.closed = True

    def release(self, batches: int = 1) -> None:
        for _ in range(batches):
            self._allowed.release()

    async def started(self, batches: int) -> None:
        """Wait until that many batches have begun in all."""
        with anyio.fail_after(BOUND_S):
            while len(self.batches) < batches:
                await self._started.wait()


def waiting_texts(embedder: BatchingEmbedder) -> int:
    """Return how many texts wait for their batch."""
    return len(embedder._waiting.interactive) + len(embedder._waiting.bulk)
