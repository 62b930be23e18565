"""What the weights and the figures rest on: corpus, cues, regression, splits, calibration."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engramq.schemas.vocabulary import Sector
from engramq.workers.sectors import regression
from engramq.workers.sectors.cues import NAMES, cue_rows, cues
from engramq.workers.sectors.features import Standard, assemble
from tools.sectors import calibration, corpus, evaluation
from tools.sectors.corpus import Labelled
from tools.sectors.evaluation import Data, Recipe

LEAST_PER_SECTOR = 120


def test_every_sector_has_texts_enough_and_a_third_of_them_without_cue_words() -> None:
    texts = corpus.own_texts()
    total = Counter(one.sector for one in texts)
    hard = Counter(one.sector for one in texts if one.hard)
    assert set(total) == set(Sector)
    assert [sector for sector in Sector if total[sector] < LEAST_PER_SECTOR or 3 * hard[sector] < total[sector]] == []


def test_no_text_occurs_twice_or_in_both_files() -> None:
    texts = [one.text.casefold() for one in [*corpus.own_texts(), *corpus.dev_texts()]]
    assert [text for text, count in Counter(texts).items() if count > 1] == []


@pytest.mark.parametrize(
    ("cue", "text"),
    [
        ("past tense", "We sold the van and left."),
        ("imperative start", "Never restart both nodes."),
        ("imperative start", "Don't edit a migration."),
        ("imperative clauses", "Open the valve, wait, close it."),
        ("to do", "To change a tyre, loosen the nuts."),
        ("time", "The board meets next Thursday."),
        ("feeling", "She was furious."),
        ("feeling predicate", "She was really very furious."),
        ("body", "Her hands would not keep still."),
        ("idiom", "I can’t stand it."),
        ("insight", "In hindsight it was luck."),
        ("definition", "A mutex is a lock."),
        ("stative verb", "Team Heron owns the stack."),
        ("I", "I think my way."),
        ("the user", "User prefers tea."),
        ("questions", "Why?"),
    ],
)
def test_a_cue_answers_to_its_wording(cue: str, text: str) -> None:
    assert cues(text)[NAMES.index(cue)] > 0
    assert cues("Basalt.")[NAMES.index(cue)] == 0


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_has_finite_cues_of_the_same_number(content: str) -> None:
    row = cues(content)
    assert row.shape == (len(NAMES),)
    assert np.isfinite(row).all()
    assert (row >= 0).all()


@pytest.mark.parametrize("part", ["is ", "feel the ", "'", "i'm ", "and ", "12:", "a", " ", "to be "])
def test_cues_of_a_long_text_are_those_of_its_beginning(part: str) -> None:
    content = part * 20_000
    assert cues(content).tolist() == cues(content[:2_000]).tolist()


def test_no_text_has_no_rows_but_all_columns() -> None:
    assert cue_rows([]).shape == (0, len(NAMES))


def test_a_cue_far_outside_of_what_was_seen_counts_no_more_than_three_spreads() -> None:
    standard = Standard(np.zeros(len(NAMES), dtype=np.float32), np.ones(len(NAMES), dtype=np.float32))
    rows = np.full((1, len(NAMES)), 1_000.0, dtype=np.float32)
    assert assemble(None, rows, standard, 0.1).max() == pytest.approx(0.3)


def test_cues_of_another_number_are_refused() -> None:
    standard = Standard.of(cue_rows(["one", "two"]))
    with pytest.raises(ValueError, match="columns"):
        assemble(None, np.zeros((1, 3), dtype=np.float32), standard, 0.1)


def test_regression_finds_the_minimum_of_its_penalised_loss() -> None:
    random = np.random.default_rng(7)
    features = random.normal(size=(60, 4))
    labels = np.arange(60) % 3
    found = regression.fit(features, labels, classes=3, penalty=0.01)

    def loss(weights: regression.Matrix) -> float:
        chances = regression.softmax(regression.with_intercept(features) @ weights)
        return -float(np.log(chances[np.arange(60), labels]).mean()) + 0.005 * float(np.sum(weights[:-1] ** 2))

    nearby = [loss(found + random.normal(size=found.shape) * size) for size in (1e-3, 1e-2, 1e-1) for _ in range(20)]
    assert loss(found) < min(nearby)


def test_a_rare_class_weighs_as_much_as_a_common_one() -> None:
    features = np.zeros((100, 1))
    labels = np.array([0] * 95 + [1] * 5)
    weights = regression.fit(features, labels, classes=2, penalty=0.01)
    assert regression.softmax(regression.with_intercept(features[:1]) @ weights)[0] == pytest.approx(
        [0.5, 0.5], abs=1e-4
    )


def test_softmax_of_huge_logits_stays_a_distribution() -> None:
    assert regression.softmax(np.array([[1e5, 0.0], [-1e5, -1e5]])).tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_texts_linked_by_a_chain_of_likeness_are_one_group() -> None:
    angles = np.radians([0.0, 40.0, 80.0, 180.0])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    first, second, third, far = corpus.groups(vectors)
    assert first == second == third != far


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=10, max_size=60), st.integers(0, 5))
def test_a_group_is_never_on_both_sides_and_every_text_is_tested_once(numbers: list[int], seed: int) -> None:
    groups = np.array(numbers)
    tested: list[int] = []
    for train, test in evaluation.folds(groups, 3, seed):
        assert set(groups[train]).isdisjoint(groups[test])
        tested += test.tolist()
    assert sorted(tested) == list(range(len(numbers)))


def test_temperature_cools_logits_that_are_too_sure_and_warms_timid_ones() -> None:
    labels = np.array([0] * 8 + [1] * 2)
    sure = np.tile([[10.0, 0.0]], (10, 1))
    timid = np.tile([[0.5, 0.0]], (10, 1))
    assert calibration.temperature(sure, labels) > 1 > calibration.temperature(timid, labels)


def test_calibration_error_is_the_mean_gap_between_confidence_and_accuracy() -> None:
    confidence = np.array([0.95] * 10 + [0.55] * 10)
    correct = np.array([True] * 10 + [True] * 2 + [False] * 8)
    assert calibration.expected_error(confidence, correct) == pytest.approx((0.05 + 0.35) / 2)


def test_scores_keep_languages_and_hardness_apart() -> None:
    texts = [
        Labelled(text="a", sector=Sector.SEMANTIC, hard=False, lang="en"),
        Labelled(text="b", sector=Sector.SEMANTIC, hard=True, lang="en"),
        Labelled(text="c", sector=Sector.SEMANTIC, hard=True, lang="de"),
    ]
    place = list(Sector).index(Sector.SEMANTIC)
    logits = np.zeros((3, len(Sector)))
    logits[[0, 2], place] = 1.0
    logits[1, 0] = 1.0
    scores = evaluation.scores(texts, logits)
    assert (scores["all"], scores["en"], scores["en_easy"], scores["en_hard"], scores["de"]) == (
        0.667,
        0.5,
        1.0,
        0.0,
        1.0,
    )
    assert evaluation.confusion(texts, logits)[Sector.SEMANTIC][Sector.EMOTIONAL] == 1


def test_the_recipe_of_a_fold_is_chosen_without_that_fold() -> None:
    random = np.random.default_rng(1)
    labels = np.arange(60) % len(Sector)
    texts = [Labelled(text="x", sector=list(Sector)[label], hard=False, lang="en") for label in labels]
    vectors = (np.eye(len(Sector))[labels] + 0.1 * random.normal(size=(60, len(Sector)))).astype(np.float32)
    data = Data(texts=texts, vectors=vectors, cues=cue_rows(["x"] * 60), labels=labels, groups=np.arange(60))
    useless, useful = Recipe(vectors=False), Recipe()
    logits, chosen = evaluation.nested(data, [useless, useful], count=3, seed=0)
    assert chosen == [useful] * 3
    assert (logits.argmax(axis=1) == labels).all()
