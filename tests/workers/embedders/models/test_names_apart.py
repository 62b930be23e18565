"""What a question asks, apart from the names in it. The bundled model, no database."""

import numpy as np
import pytest

from engramq.workers.db.vectors import unpacked
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.embedders.vectorizer import without


async def test_without_its_name_a_question_is_nearer_to_what_it_asks_than_to_who_else_is_greeted() -> None:
    embedder = MiniLmEmbedder()
    asked, name, greeting, answer = await embedder.embed(
        ["When did Caroline go to the support group?", "Caroline", "Hey Caroline! How have you been?",
         "I went there yesterday, and the others in the circle were so kind to me."]
    )  # fmt: skip
    apart = without(asked, [name])
    assert apart is not None
    rest = unpacked(apart)
    assert abs(rest @ name) < 1e-3
    assert asked @ greeting > asked @ answer
    assert rest @ answer > rest @ greeting
    assert np.linalg.norm(rest) == pytest.approx(1, abs=1e-3)
    await embedder.aclose()


def test_nothing_is_left_of_a_question_that_is_its_name() -> None:
    ada = np.array([1.0, 0.0], dtype=np.float32)
    assert without(ada, [ada]) is None


def test_names_stay_in_where_it_was_not_measured_that_they_drown_the_rest() -> None:
    assert MiniLmEmbedder().spec.names_drown
    assert not HashEmbedder().spec.names_drown
