"""A store keeps to the model that it began with, whichever process would rather have another."""

from collections.abc import Sequence

import anyio
import pytest

from engramq.workers.db.database import Store
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import EmbedderSpec, Vectors
from engramq.workers.embedders.vectorizer import Vectorizer

pytestmark = pytest.mark.anyio


class TwoModels(HashEmbedder):
    """Prefers one of two models, and makes the vectors of either; those of the second are turned round."""

    def __init__(self, preferred: str) -> None:
        super().__init__()
        self.made: list[tuple[str, bool]] = []
        self.adopt(preferred)

    def adopt(self, sha256: str) -> bool:
        self.spec = EmbedderSpec(name="hash", dimensions=384, max_tokens=9, sha256=sha256)
        return True

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        self.made += [(self.spec.sha256, questions)] * len(texts)
        vectors = await super().embed(texts, questions=questions)
        return -vectors if self.spec.sha256 == "second" else vectors


async def test_the_first_model_of_a_store_is_everybodys(store: Store) -> None:
    first, second = TwoModels("first"), TwoModels("second")
    async with BatchingEmbedder(first) as one, BatchingEmbedder(second) as other:
        (kept,) = await Vectorizer(one, store).embed(["a kettle"])
        vectorizer = Vectorizer(other, store)
        assert await vectorizer.embed(["a kettle"]) == [kept]
        assert await vectorizer.embed(["a kettle"], questions=True) == [kept]
        assert second.made == [("first", False), ("first", True)]


async def test_who_registers_second_makes_its_vectors_again(store: Store) -> None:
    """Both found a store without a model, and each embedded with its own."""
    models = [TwoModels("first"), TwoModels("second")]
    async with BatchingEmbedder(models[0]) as one, BatchingEmbedder(models[1]) as other:
        found: list[bytes] = []

        async def embed(vectorizer: Vectorizer) -> None:
            found.extend(embedding.half for embedding in await vectorizer.embed(["a kettle"]))

        async with anyio.create_task_group() as group:
            for vectorizer in (Vectorizer(one, store), Vectorizer(other, store)):
                group.start_soon(embed, vectorizer)
        kept = await store.first_embedding_model("hash")
        assert [model.spec.sha256 for model in models] == [kept, kept]
        assert found[0] == found[1]
