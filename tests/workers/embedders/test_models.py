"""A store keeps to the model that it began with, and the worker of a home keeps its embedder's name."""

import logging
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from engramq.schemas.embedder_choice import KeptEmbedder, encode_choice, kept_in
from engramq.schemas.settings import read_settings
from engramq.workers.db.database import Store
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.factory import EmbedderFile, create_embedder
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import EmbedderSpec, EmbedderUnavailable, Vectors
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


BOUND_S = 20.0
NOWHERE = "http://127.0.0.1:1/v1"


def of(path: Path, name: str, url: str = "") -> EmbedderFile:
    return EmbedderFile(path, read_settings({"ENGRAMQ_EMBEDDER": name, "ENGRAMQ_EMBEDDER_URL": url}))


async def settled(kept: EmbedderFile) -> None:
    with anyio.fail_after(BOUND_S):
        await kept.settled.wait()


async def test_the_first_vectors_are_what_keeps_a_name(tmp_path: Path) -> None:
    path = tmp_path / "embedder"
    kept = of(path, "hash")
    async with kept.kept(), BatchingEmbedder(create_embedder("hash"), observers=[kept.seen]) as embedder:
        await embedder.embed(["a text"])
        await settled(kept)
    assert kept_in(path.read_text()) == KeptEmbedder("hash")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.long
async def test_an_embedder_that_makes_none_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "embedder"
    path.write_text(encode_choice(KeptEmbedder("e5")))
    kept = of(path, "openai:m", NOWHERE)
    async with kept.kept(), BatchingEmbedder(create_embedder("openai:m", NOWHERE), observers=[kept.seen]) as embedder:
        with pytest.raises(EmbedderUnavailable):
            await embedder.embed(["a text"])
    assert kept_in(path.read_text()) == KeptEmbedder("e5")


async def test_a_home_that_cannot_be_written_to_is_told_and_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "embedder.new").mkdir()
    kept = of(tmp_path / "embedder", "openai:m", NOWHERE)
    with caplog.at_level(logging.ERROR):
        async with kept.kept():
            kept.seen(1, 0.1, made=True)
            await settled(kept)
    assert caplog.records[0].getMessage() == "The home's embedder cannot be kept"
