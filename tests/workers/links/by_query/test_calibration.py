"""From cosines to chances: monotone, within bounds, honest on what the curve was not fitted to."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engramq.workers.embedders.calibration import Calibration, Samples, best_matches, fit
from engramq.workers.embedders.confidence import (
    PAIRS,
    SHIPPED,
    bystanders,
    calibration_of,
    calibration_texts,
    read_pairs,
    sample,
)
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import EmbedderSpec, Vectors
from engramq.workers.embedders.minilm import Arithmetic, MiniLmEmbedder
from tools.measure_confidence import cross_validated, expected_error
from tools.sectors.corpus import english_texts

FEW = 32
cosines = st.floats(-1, 1)


def samples_of(several: list[tuple[float, bool]]) -> Samples:
    return Samples(
        np.array([cosine for cosine, _ in several]), np.array([right for _, right in several]), np.arange(len(several))
    )


@example([(0.0, False), (0.001953125, True)], 0.0, -1.0)
@given(st.lists(st.tuples(cosines, st.booleans()), min_size=2, max_size=40), cosines, cosines)
def test_whatever_the_samples_a_confidence_is_a_chance_and_grows_with_the_cosine(
    several: list[tuple[float, bool]], one: float, other: float
) -> None:
    curve = fit(samples_of(several))
    low, high = sorted((one, other))
    assert 0 <= curve.confidence(low) <= curve.confidence(high) <= 1


def test_a_curve_is_found_again_from_what_it_gives() -> None:
    true = Calibration(12.0, -6.0)
    random = np.random.default_rng(1)
    several = [(float(item), bool(random.random() < true.confidence(item))) for item in random.uniform(-0.2, 1, 20_000)]
    curve = fit(samples_of(several))
    assert curve.slope == pytest.approx(12.0, rel=0.05)
    assert curve.confidence(0.5) == pytest.approx(0.5, abs=0.02)
    confidence = cross_validated(samples_of(several), 5)
    assert expected_error(confidence, samples_of(several).right) < 0.02


def test_a_model_that_makes_no_mistake_is_not_sure_of_everything() -> None:
    curve = fit(samples_of([(0.9, True)] * 50 + [(0.2, False)] * 50))
    assert curve.confidence(0.9) == pytest.approx(51 / 52, abs=1e-3)
    assert curve.confidence(0.2) == pytest.approx(1 / 52, abs=1e-3)


def test_queries_are_looked_up_with_and_without_the_memory_that_is_meant() -> None:
    memories = np.eye(3)
    queries = np.array([[0.8, 0.6, 0.0], [0.8, 0.6, 0.0]])
    samples = best_matches(memories, queries, np.array([0, 1]))
    assert samples.cosines.tolist() == pytest.approx([0.8, 0.8, 0.6, 0.8])
    assert samples.right.tolist() == [True, False, False, False]
    assert samples.meant.tolist() == [0, 1, 0, 1]


def test_the_texts_name_memories_that_are_there_each_once() -> None:
    texts = calibration_texts()
    assert len(texts.memories) == len(set(texts.memories)) == 500
    assert len(texts.queries) == len(set(texts.queries)) == len(texts.meant)
    assert not set(texts.queries) & set(texts.memories)


async def nobody(texts: object, *, questions: bool = False) -> Vectors:
    raise AssertionError("a shipped curve needs no vectors")


@pytest.mark.parametrize("arithmetic", list(Arithmetic))
async def test_the_shipped_curve_tells_what_the_bundled_model_found_from_what_is_merely_near(
    arithmetic: Arithmetic,
) -> None:
    """On a twelfth of the texts, for the sake of time; `measure` prints how it does on all of them."""
    model = MiniLmEmbedder(arithmetic=arithmetic)
    curve = await calibration_of(model.spec, nobody)
    assert curve is SHIPPED[model.spec.sha256]
    pairs = [pair for pair in read_pairs(PAIRS) if pair.paraphrase is not None][:FEW]
    memories = await model.embed([pair.memory for pair in pairs])
    queries = await model.embed([pair.paraphrase or "" for pair in pairs], questions=True)
    await model.aclose()
    samples = best_matches(memories, queries, np.arange(len(pairs)))
    confidence = np.array([curve.confidence(item) for item in samples.cosines.tolist()])
    assert np.mean(confidence[samples.right] >= 0.7) > 0.9
    assert np.mean(confidence[~samples.right] < 0.7) > 0.9


async def test_any_other_model_gets_a_curve_of_its_own() -> None:
    model = HashEmbedder()
    curve = await calibration_of(EmbedderSpec(name="another", dimensions=384, max_tokens=99), model.embed)
    assert curve != SHIPPED[MiniLmEmbedder().spec.sha256]
    samples = await sample(model.embed)
    confidence = cross_validated(samples, 5)
    assert expected_error(confidence, samples.right) < 0.1
    assert np.mean(confidence[~samples.right] < 0.7) > 0.95


def test_the_memories_that_nobody_asks_for_are_the_first_of_our_texts() -> None:
    assert bystanders() == english_texts()[: len(bystanders())]


@given(cosines, st.floats(1, 40), st.floats(1, 40), cosines, cosines)
def test_a_cosine_of_another_model_becomes_one_that_is_as_good_a_sign(
    cosine: float, slope: float, other_slope: float, middle: float, other_middle: float
) -> None:
    own, other = Calibration(slope, -slope * middle), Calibration(other_slope, -other_slope * other_middle)
    same = own.cosine_of(cosine, other)
    assert -1 <= same <= 1
    if abs(same) < 1:
        assert own.confidence(same) == pytest.approx(other.confidence(cosine))
    assert own.cosine_of(cosine, own) == pytest.approx(cosine)


def test_a_model_that_tells_nothing_apart_converts_nothing() -> None:
    assert Calibration(0.0, 1.0).cosine_of(0.25, Calibration(15.0, -7.0)) == 0.25
