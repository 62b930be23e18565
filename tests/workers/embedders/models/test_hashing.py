import hashlib

import numpy as np
import pytest

from engramq.workers.embedders.hashing import DIMENSIONS, HashEmbedder
from engramq.workers.embedders.interface import EmbedderUnavailable

pytestmark = pytest.mark.anyio


async def test_texts_that_share_words_are_near_and_others_are_not() -> None:
    vectors = await HashEmbedder().embed(
        [
            "Alice likes red bicycles",
            "what bicycle does Alice like?",
            "The quarterly budget was approved by finance",
            "Bob moved to Lisbon in the spring",
        ]
    )
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > 0.8
    assert np.abs(cosines[:2, 2:]).max() < 0.15


async def test_rows_have_length_one_even_without_a_word() -> None:
    vectors = await HashEmbedder().embed(["", "   ", "?!", "the of and", "日本語", "\ud800 lone surrogate", "word"])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


async def test_no_texts_give_no_rows() -> None:
    assert (await HashEmbedder().embed([])).shape == (0, DIMENSIONS)


async def test_vectors_are_the_same_in_every_run_and_in_any_company() -> None:
    alone = await HashEmbedder().embed(["Caroline plays the violin"])
    company = await HashEmbedder().embed(["something else", "Caroline plays the violin"])
    assert np.array_equal(alone[0], company[1])
    # Recorded once: a new value means that vectors stored by an older version no longer fit.
    digest = hashlib.sha256(np.round(alone[0] * 1_000).astype("<i4").tobytes()).hexdigest()
    assert digest == "25d66d96b9c31de27e96983d0a36f06fddc71b2ef688fa99d9d3dface5810470"


async def test_a_closed_embedder_says_so() -> None:
    embedder = HashEmbedder()
    await embedder.aclose()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await embedder.embed(["a"])
