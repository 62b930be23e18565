"""The adapter to the package `fastembed`, against a stand-in of its interface; tests/model_packages has the package."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engramq.workers.embedders.factory import create_embedder
from engramq.workers.embedders.interface import EmbedderUnavailable

NAME = "fastembed:some/model"


class TextEmbedding:
    """What the adapter uses of the package's class."""

    made: list[dict[str, Any]] = []
    embedding_size = 3

    def __init__(self, model_name: str, **options: Any) -> None:
        if model_name == "no/model":
            raise ValueError("Model no/model is not supported\nmore")
        self.made.append({"model": model_name, **options})

    def passage_embed(self, texts: Iterable[str], batch_size: int) -> Iterator[NDArray[np.float32]]:
        assert batch_size == 1
        yield from (np.array([len(text), 1, 0], dtype=np.float32) for text in texts)

    def query_embed(self, query: Iterable[str], batch_size: int) -> Iterator[NDArray[np.float32]]:
        yield from (vector[::-1] for vector in self.passage_embed(query, batch_size))


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> type[TextEmbedding]:
    module = ModuleType("fastembed")
    vars(module)["TextEmbedding"] = TextEmbedding
    monkeypatch.setitem(sys.modules, "fastembed", module)
    monkeypatch.setattr(TextEmbedding, "made", [])
    return TextEmbedding


async def test_texts_and_questions_get_unit_vectors(package: type[TextEmbedding], tmp_path: Path) -> None:
    model = create_embedder(NAME, home=tmp_path)
    assert (model.spec.name, model.spec.dimensions, model.spec.sha256) == (NAME, 0, "")
    texts, questions = await model.embed(["one", "\ud800"]), await model.embed(["one"], questions=True)
    assert model.spec.dimensions == 3
    np.testing.assert_allclose(np.linalg.norm(texts, axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(questions[0], texts[0][::-1])
    assert (await model.embed([])).shape == (0, 3)
    cache = str(tmp_path / "models" / "fastembed")
    assert package.made == [{"model": "some/model", "threads": 1, "cache_dir": cache}]
    await model.aclose()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await model.embed(["more"])


async def test_a_model_that_cannot_be_had_says_why(package: type[TextEmbedding]) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"fastembed:no/model: cannot load no/model: Model no/model is not"):
        await create_embedder("fastembed:no/model").warm()


async def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(EmbedderUnavailable, match=r"install engramq\[fastembed\]"):
        await create_embedder(NAME).warm()
