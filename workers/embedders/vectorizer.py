"""Turn texts into embeddings, and know the id of the model that makes them."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engramq.workers.db.database import Store
from engramq.workers.db.vectors import Embedding, HalfBytes, pack, unpack
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.interface import EmbedderSpec, EmbedderUnavailable, Vectors

PROBE: Final = "Which model makes the vectors?"  # embedded before it is registered, so that it is loaded or reached
# Of a question, that the model is given. Splitting the 32,000 of the longest into tokens costs 14 to 26 ms of CPU, and
# the bundled model then reads 256 of them.
QUESTION_CHARS: Final = 4_096
LEAST_REST: Final = 0.1  # of a question's vector beside the names in it; else it asks for nothing but them
USED_EVERY_S: Final = 60.0  # how often the store is told that the model's vectors are written


class Vectorizer:
    """One per process. The model is registered with its first vector, when its length is sure."""

    def __init__(self, embedder: BatchingEmbedder, store: Store, is_alone: Callable[[], bool] = bool) -> None:
        """`is_alone`: whether one call alone is waited for in this process."""
        self._embedder = embedder
        self._store = store
        self._is_alone = is_alone
        self._model_ids: dict[int, int] = {}  # by the number of dimensions
        self._used_until: dict[int, float] = {}  # until when the store knows that vectors of these ids are written
        self._began = time.monotonic()
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
                await self._adopt_known()
        return self.spec

    async def agree(self) -> None:
        """Settle which model makes the vectors, before the first one is made: that which the store began with.

        A store without any gets the one that the embedder prefers; of several processes the first to register counts.
        Raises EmbedderUnavailable, EngramqError (`unavailable`).
        """
        if self._agreed:
            return
        async with self._agreeing:
            if not await self._adopt_known():
                (vector,) = await self._embedder.embed([PROBE])
                await self.model_id(len(vector))
                await self._adopt_known()
                self._model_ids.clear()
            self._agreed = True

    async def _adopt_known(self) -> bool:
        """Go on with the first model of the store that is one of the embedder's; False when there is none."""
        known = await self._store.embedding_models(self.spec.name)
        return any(self._embedder.adopt(sha256) for sha256 in known)

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, questions: bool = False) -> list[Embedding]:
        """Return an embedding for each text; `questions` are compared only, not kept.

        Raises EmbedderUnavailable, or EngramqError (`unavailable`) when the model cannot be registered.
        """
        if not self._agreed:
            await self.agree()
        if questions:
            texts = [text[:QUESTION_CHARS] for text in texts]
        alone = not bulk and self._is_alone()
        vectors = await self._embedder.embed(texts, bulk=bulk, questions=questions, alone=alone)
        if not len(vectors):
            return []
        dimensions = vectors.shape[1]
        if questions:
            model_id = self._model_ids.get(dimensions) or await self.model_id(dimensions)
        else:
            model_id = await self._note_used(dimensions)
        return [Embedding.of(model_id, vector) for vector in vectors]

    async def vectors(self, texts: Sequence[str], *, bulk: bool = False, questions: bool = False) -> Vectors:
        """Return a vector for each text as the model makes it; raises EmbedderUnavailable, EngramqError."""
        await self.agree()
        return await self._embedder.embed(texts, bulk=bulk, questions=questions)

    async def try_embed(self, text: str) -> Embedding | None:
        """Return the embedding of a text that somebody waits for, None when the model is not to be had."""
        try:
            return (await self.embed([text]))[0]
        except EmbedderUnavailable:
            return None

    async def try_read(self, question: str, names: Sequence[str]) -> Embedding | None:
        """Return the embedding of a question with what remains `apart` from the names in it; None as for `try_embed`.

        On LoCoMo the vector of a question that names somebody finds .31 of the evidence among the first ten, without
        the direction of the name .57, and not less where the memories have the name too. Vectors of names are cached.
        """
        apart = names if names and self.spec.names_drown else ()
        try:
            asked, *named = await self.embed([question, *apart], questions=True)
        except EmbedderUnavailable:
            return None
        if not named:
            return asked
        return replace(asked, apart=remove_directions(unpack(asked.half), [unpack(name.half) for name in named]))

    async def running_model_id(self) -> int:
        """Return the store's id of this model, for who is about to write its vectors.

        Raises EmbedderUnavailable, EngramqError (`unavailable`).
        """
        await self.agree()
        return await self._note_used(self.spec.dimensions or (await self.vectors([PROBE], bulk=True)).shape[1])

    async def _note_used(self, dimensions: int) -> int:
        known = self._model_ids.get(dimensions)
        now = time.monotonic()
        if known is not None and now < self._used_until.get(known, now):
            return known
        spec = self._embedder.spec
        model_id = self._model_ids[dimensions] = await self._store.use_embedding_model(
            spec.name, spec.sha256, dimensions, began_s_ago=now - self._began
        )
        self._used_until[model_id] = now + USED_EVERY_S
        return model_id

    async def model_id(self, dimensions: int) -> int:
        """Return the store's id of this model with vectors of this length."""
        if dimensions not in self._model_ids:
            spec = self._embedder.spec
            self._model_ids[dimensions] = await self._store.register_embedding_model(spec.name, spec.sha256, dimensions)
        return self._model_ids[dimensions]


def remove_directions(vector: NDArray[np.float32], directions: Sequence[NDArray[np.float32]]) -> HalfBytes | None:
    """Return a vector of length 1 without what it has of these directions, each of length 1; None if little is left."""
    rest = vector.copy()
    for direction in directions:
        rest -= (rest @ direction) * direction
    length = float(np.linalg.norm(rest))
    return pack(rest / length) if length > LEAST_REST else None
