"""A store keeps to the model that it began with, whichever process would rather have another."""

from collections.abc import Sequence

import anyio

from engramq.workers.db.database import Store
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import EmbedderSpec, Vectors
from engramq.workers.embedders.vectorizer import Vectorizer


class TwoModels(HashEmbedder):
    """Prefers one of two models, and makes the vectors of either; those of the second are turned round."""

    def __init__(self, preferred: str, name: str) -> None:
        super().__init__()
        self.name = name  # of each test its own: models stay in the database
        self.made: list[tuple[str, bool]] = []
        self.adopt(preferred)

    def adopt(self, sha256: str) -> bool:
        self.spec = EmbedderSpec(name=self.name, dimensions=384, max_tokens=9, sha256=sha256)
        return True

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        self.made += [(self.spec.sha256, questions)] * len(texts)
        vectors = await super().embed(texts, questions=questions)
        return -vectors if self.spec.sha256 == "second" else vectors


async def test_the_first_model_of_a_store_is_everybodys(store: Store) -> None:
    first, second = TwoModels("first", "one"), TwoModels("second", "one")
    async with BatchingEmbedder(first) as one, BatchingEmbedder(second) as other:
        (kept,) = await Vectorizer(one, store).embed(["a kettle"])
        vectorizer = Vectorizer(other, store)
        assert await vectorizer.embed(["a kettle"]) == [kept]
        assert await vectorizer.embed(["a kettle"], questions=True) == [kept]
        assert second.made == [("first", False), ("first", True)]


async def test_no_vector_is_made_before_it_is_settled_by_which_model(store: Store) -> None:
    """However many come first at once: the model is settled by a text of its own, which is kept nowhere."""
    model = TwoModels("second", "three")
    async with BatchingEmbedder(model) as one:
        vectorizer = Vectorizer(one, store)
        async with anyio.create_task_group() as group:
            for number in range(9):
                group.start_soon(vectorizer.embed, [f"kettle {number}"])
        assert await store.embedding_models("three") == ["second"]
        assert model.made == [("second", False)] * 10


async def test_a_model_that_the_embedder_does_not_have_is_left_aside(store: Store) -> None:
    class OneModel(TwoModels):
        def adopt(self, sha256: str) -> bool:
            return sha256 == "first" and super().adopt(sha256)

    await store.register_embedding_model("four", "long gone", 384)
    async with BatchingEmbedder(OneModel("first", "four")) as embedder:
        vectorizer = Vectorizer(embedder, store)
        await vectorizer.embed(["a kettle"])
        assert (await vectorizer.spec_in_store()).sha256 == "first"
    assert await store.embedding_models("four") == ["long gone", "first"]


async def test_who_registers_second_makes_its_vectors_again(store: Store) -> None:
    """Both found a store without a model, and each embedded with its own."""
    models = [TwoModels("first", "two"), TwoModels("second", "two")]
    async with BatchingEmbedder(models[0]) as one, BatchingEmbedder(models[1]) as other:
        found: list[bytes] = []

        async def embed(vectorizer: Vectorizer) -> None:
            found.extend(embedding.half for embedding in await vectorizer.embed(["a kettle"]))

        async with anyio.create_task_group() as group:
            for vectorizer in (Vectorizer(one, store), Vectorizer(other, store)):
                group.start_soon(embed, vectorizer)
        kept, *_ = await store.embedding_models("two")
        assert [model.spec.sha256 for model in models] == [kept, kept]
        assert found[0] == found[1]
