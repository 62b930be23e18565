"""multilingual-e5-small, offline, from the files in the home. Some hundred languages; twice the time of minilm.

Knows: how to feed sessions cheaply. Refuses to know: queues, caches, the network. Implements `interface.Embedder`.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from engramq.workers.embedders.e5 import files
from engramq.workers.embedders.e5.session import E5Session
from engramq.workers.embedders.interface import BatchLimits, EmbedderSpec, Vectors
from engramq.workers.embedders.onnx_session import TEXTS_PER_RUN, LazyModel, in_runs, usable_cores

NAME: Final = "e5"


class E5Embedder:
    """Load on first use; embed sorted by length. Texts and questions have vectors of their own kind."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        """`folder` holds the files; `threads` is what one run may use."""
        cores = usable_cores()
        self.spec = EmbedderSpec(
            name=NAME,
            sha256=files.MODEL_SHA256,
            dimensions=files.DIMENSIONS,
            max_tokens=files.MAX_TOKENS,
            batches=BatchLimits(texts=TEXTS_PER_RUN, concurrent=cores, alone=True),
        )
        self._model = LazyModel(
            lambda: E5Session(folder, threads=threads), at_once=cores, closed_reason="the e5 embedder is closed"
        )

    def adopt(self, sha256: str) -> bool:
        """Say whether these are vectors of this model."""
        return sha256 == self.spec.sha256

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        vectors = np.empty((len(texts), files.DIMENSIONS), dtype=np.float32)
        if texts or self._model.closed:
            encoded = await self._model.run(lambda model: model.encode(texts, questions=questions))
            for rows in in_runs([len(ids) for ids in encoded]):
                batch = [encoded[row] for row in rows]
                vectors[rows] = await self._model.run(partial(E5Session.run, batch=batch, questions=questions))
        return vectors

    async def warm(self) -> None:
        await self.embed(["warm"])

    async def aclose(self) -> None:
        self._model.close()
