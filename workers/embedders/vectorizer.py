"""Texts to embeddings as the store keeps them: the embedder, and the id under which the store knows its model."""

from collections.abc import Sequence
from typing import Protocol

from engramq.workers.db.database import Store
from engramq.workers.db.vectors import Embedding
from engramq.workers.embedders.interface import EmbedderSpec, EmbedderUnavailable, Vectors


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

    @property
    def spec(self) -> EmbedderSpec:
        """The identity of the model."""
        return self._embedder.spec

    async def agree(self) -> None:
        """Go on with the model that the store began with, if the embedder has several.

        Raises EngramqError (`unavailable`).
        """
        if not self._agreed:
            first = await self._store.first_embedding_model(self.spec.name)
            if first is not None:
                self._embedder.adopt(first)
                self._agreed = True

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, questions: bool = False) -> list[Embedding]:
        """Return an embedding for each text; `questions` are compared only, not kept.

        Raises EmbedderUnavailable, or EngramqError (`unavailable`) when the model cannot be registered.
        """
        await self.agree()
        vectors = await self._embedder.embed(texts, bulk=bulk, questions=questions)
        if not len(vectors):
            return []
        model_id = self._model_ids.get(vectors.shape[1]) or await self.model_id(vectors.shape[1])
        if not self._agreed:
            # Nothing was there, so this model was registered; another process may have been first with another one.
            before = self.spec.sha256
            await self.agree()
            if self.spec.sha256 != before:
                self._model_ids.clear()
                return await self.embed(texts, bulk=bulk, questions=questions)
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
