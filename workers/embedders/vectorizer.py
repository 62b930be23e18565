"""Texts to embeddings as the store keeps them: the embedder, and the id under which the store knows its model."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from engramq.workers.db.database import Store
from engramq.workers.db.vectors import Embedding
from engramq.workers.embedders.interface import EmbedderSpec, EmbedderUnavailable, Vectors

PROBE: Final = "Which model makes the vectors?"  # embedded before it is registered, so that it is loaded or reached


class SharedEmbedder(Protocol):
    """What engramq.workers.embedders.batching.BatchingEmbedder offers."""

    @property
    def spec(self) -> EmbedderSpec:
        """The identity of the model."""

    def adopt(self, sha256: str) -> bool:
        """Make the vectors of the model with this digest from now on; False if it cannot."""

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, questions: bool = False) -> Vectors:
        """Return a vector for each text; raises EmbedderUnavailable."""


class Vectorizer:
    """One per process. The model is registered with its first vector, when its length is sure to be known."""

    def __init__(self, embedder: SharedEmbedder, store: Store) -> None:
        self._embedder = embedder
        self._store = store
        self._model_ids: dict[int, int] = {}  # by the number of dimensions
        self._agreed = False
        self._agreeing = asyncio.Lock()

    @property
    def spec(self) -> EmbedderSpec:
        """The identity of the model."""
        return self._embedder.spec

    async def spec_in_store(self) -> EmbedderSpec:
        """Return the identity of the model that makes the vectors, as far as it is known without loading one.

        Raises EngramqError (`unavailable`).
        """
        if not self._agreed:
            async with self._agreeing:
                await self._adopted()
        return self.spec

    async def agree(self) -> None:
        """Settle which model makes the vectors, before the first one is made: that which the store began with.

        A store without any gets the one that the embedder prefers; of several processes the first to register counts.
        Raises EmbedderUnavailable, EngramqError (`unavailable`).
        """
        if self._agreed:
            return
        async with self._agreeing:
            if not await self._adopted():
                (vector,) = await self._embedder.embed([PROBE])
                await self.model_id(len(vector))
                await self._adopted()
                self._model_ids.clear()
            self._agreed = True

    async def _adopted(self) -> bool:
        """Go on with the first model of the store that is one of the embedder's; False when there is none."""
        known = await self._store.embedding_models(self.spec.name)
        return any(self._embedder.adopt(sha256) for sha256 in known)

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, questions: bool = False) -> list[Embedding]:
        """Return an embedding for each text; `questions` are compared only, not kept.

        Raises EmbedderUnavailable, or EngramqError (`unavailable`) when the model cannot be registered.
        """
        await self.agree()
        vectors = await self._embedder.embed(texts, bulk=bulk, questions=questions)
        if not len(vectors):
            return []
        model_id = self._model_ids.get(vectors.shape[1]) or await self.model_id(vectors.shape[1])
        return [Embedding.of(model_id, vector) for vector in vectors]

    async def vectors(self, texts: Sequence[str], *, bulk: bool = False) -> Vectors:
        """Return a vector for each text as the model makes it; raises EmbedderUnavailable, EngramqError."""
        await self.agree()
        return await self._embedder.embed(texts, bulk=bulk)

    async def try_embed(self, text: str, *, question: bool = False) -> Embedding | None:
        """Return the embedding of a text that somebody waits for, None when the model is not to be had."""
        try:
            return (await self.embed([text], questions=question))[0]
        except EmbedderUnavailable:
            return None

    async def model_id(self, dimensions: int) -> int:
        """Return the store's id of this model with vectors of this length."""
        if dimensions not in self._model_ids:
            spec = self._embedder.spec
            self._model_ids[dimensions] = await self._store.register_embedding_model(spec.name, spec.sha256, dimensions)
        return self._model_ids[dimensions]
