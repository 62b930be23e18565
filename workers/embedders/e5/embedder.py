"""multilingual-e5-small, offline, from the files in the home. Some hundred languages; twice the time of minilm.

Knows: how to feed sessions cheaply. Refuses to know: queues, caches, the network. Implements `interface.Embedder`.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from anyio import CapacityLimiter, to_thread

from engramq.workers.embedders.e5 import files
from engramq.workers.embedders.e5.session import E5Session
from engramq.workers.embedders.interface import (
    BatchLimits,
    EmbedderSpec,
    EmbedderUnavailable,
    EmbeddingFailure,
    Vectors,
)
from engramq.workers.embedders.runs import TEXTS_PER_RUN, in_runs, usable_cores

T = TypeVar("T")

NAME: Final = "e5"


class E5Embedder:
    """Load on first use; embed sorted by length. Texts and questions have vectors of their own kind."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        """`folder` holds the files; `threads` is what one run may use."""
        self._folder, self._threads = folder, threads
        cores = usable_cores()
        self.spec = EmbedderSpec(
            name=NAME,
            sha256=files.MODEL_SHA256,
            dimensions=files.DIMENSIONS,
            max_tokens=files.MAX_TOKENS,
            batches=BatchLimits(texts=TEXTS_PER_RUN, concurrent=cores, alone=True),
        )
        self._limiter = CapacityLimiter(cores)
        self._loading = threading.Lock()
        self._loaded: E5Session | None = None
        self._closed = False

    def adopt(self, sha256: str) -> bool:
        """Say whether these are vectors of this model."""
        return sha256 == self.spec.sha256

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        vectors = np.empty((len(texts), files.DIMENSIONS), dtype=np.float32)
        if texts or self._closed:
            encoded = await self._in_thread(lambda: self._ready().encode(texts, questions=questions))
            for rows in in_runs([len(ids) for ids in encoded]):
                batch = [encoded[row] for row in rows]
                vectors[rows] = await self._in_thread(lambda batch=batch: self._ready().run(batch, questions=questions))  # type: ignore[misc]
        return vectors

    async def warm(self) -> None:
        await self.embed(["warm"])

    async def aclose(self) -> None:
        self._closed = True
        self._loaded = None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await to_thread.run_sync(work, limiter=self._limiter)

    def _ready(self) -> E5Session:
        if self._closed:
            raise EmbedderUnavailable(EmbeddingFailure(reason="the e5 embedder is closed"))
        with self._loading:
            if self._loaded is None:
                self._loaded = E5Session(self._folder, threads=self._threads)
            return self._loaded
