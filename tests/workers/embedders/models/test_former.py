"""Models that made vectors before: bundled ones read questions still, others are never guessed at."""

import numpy as np
import pytest

from engramq.workers.db.vectors import unpack
from engramq.workers.embedders import other_models
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import EmbedderUnavailable, Vectors
from engramq.workers.embedders.minilm import INT8_SHA256, MODEL_SHA256
from engramq.workers.embedders.other_models import FormerModels, KnownModel

HASH = KnownModel(1, "hash", "", 384)


async def test_both_arithmetics_of_the_bundled_model_can_be_read() -> None:
    models = [KnownModel(4, "minilm", MODEL_SHA256, 384), KnownModel(5, "minilm", INT8_SHA256, 384)]
    readers = FormerModels()
    found = await readers.read(["a kettle"], models)
    assert found.keys() == {4, 5}
    assert [found[item].embeddings[0].model_id for item in (4, 5)] == [4, 5]
    one, other = (unpack(found[number].embeddings[0].half) for number in (4, 5))
    assert float(np.dot(one, other)) > 0.97
    assert found[4].curve != found[5].curve
    await readers.keep(())


@pytest.mark.promise("AG-20")
@pytest.mark.parametrize(
    "model",
    [
        KnownModel(2, "openai:other", "", 384),  # some endpoints answer for any name
        KnownModel(2, "minilm", "0" * 64, 384),  # which another version shipped
        KnownModel(2, "hash", "", 256),
    ],
)
async def test_a_model_that_is_not_here_reads_nothing(model: KnownModel) -> None:
    assert (await FormerModels().read(["a kettle"], [model, HASH])).keys() == {1}


async def test_a_model_that_fails_reads_nothing_and_later_again(monkeypatch: pytest.MonkeyPatch) -> None:
    readers, embed = FormerModels(), HashEmbedder.embed

    async def fail(*_: object, **__: object) -> Vectors:
        raise EmbedderUnavailable("no room")

    monkeypatch.setattr(HashEmbedder, "embed", fail)
    assert await readers.read(["a kettle"], [HASH]) == {}
    monkeypatch.setattr(HashEmbedder, "embed", embed)
    assert (await readers.read(["a kettle"], [HASH])).keys() == {1}


async def test_what_is_retired_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[HashEmbedder] = []

    def create(_name: str, **_: object) -> HashEmbedder:
        made.append(HashEmbedder())
        return made[-1]

    monkeypatch.setattr(other_models, "create_embedder", create)
    readers = FormerModels()
    for kept in ({1}, set[int](), {1}):
        assert await readers.read(["a kettle"], [HASH])
        await readers.keep(kept)
    assert len(made) == 2
    with pytest.raises(EmbedderUnavailable):
        await made[0].embed(["a kettle"])
