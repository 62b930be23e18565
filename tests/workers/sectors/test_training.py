"""What the weights and the figures rest on: corpus, cues, regression, splits, calibration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engramq.workers.sectors.cues import NAMES, cues
from engramq.workers.sectors.model import NOTHING, Heads, Matrix, Standard, assemble, softmax, with_intercept
from tools.sectors import evaluation, regression


def test_a_cue_answers_to_its_wording() -> None:
    for cue, text in [
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
        ("asking", "It is late. Why?"),
        ("ends by asking", "It is late. Why?"),
        ("exclaiming", "Late again!"),
        ("reactions", "It is late. Oh well."),
        ("opens with a reaction", "Wow, that late?"),
        ("telling", "Hey you! We sold the old van. And you?"),
        ("addressed", "Keep your coat on."),
        ("thanks", "Many thanks."),
        ("greeting", "Take care, Tom."),
        ("cheering on", "You’ve got this."),
        ("praise", "A gorgeous view."),
        ("comment", "That sounds fine."),
        ("request", "Could you shorten it."),
        ("opens small", "late again"),
        ("smile", "Late again :)"),
        ("code", "Call run() first."),
        ("lines", "One\nTwo"),
        ("listed", "Buy:\n- tea"),
    ]:
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


def test_a_cue_far_outside_of_what_was_seen_counts_no_more_than_three_spreads() -> None:
    standard = Standard(np.zeros(len(NAMES), dtype=np.float32), np.ones(len(NAMES), dtype=np.float32))
    rows = np.full((1, len(NAMES)), 1_000.0, dtype=np.float32)
    assert assemble(None, rows, standard, 0.1).max() == pytest.approx(0.3)


def test_regression_finds_the_minimum_of_its_penalised_loss() -> None:
    random = np.random.default_rng(7)
    features = random.normal(size=(60, 4))
    labels = np.arange(60) % 3
    found = regression.fit(features, np.eye(3, dtype=bool)[labels], penalty=0.01)

    def loss(weights: Matrix) -> float:
        chances = softmax(with_intercept(features) @ weights)
        return -float(np.log(chances[np.arange(60), labels]).mean()) + 0.005 * float(np.sum(weights[:-1] ** 2))

    nearby = [loss(found + random.normal(size=found.shape) * size) for size in (1e-3, 1e-2, 1e-1) for _ in range(20)]
    assert loss(found) < min(nearby)


def test_softmax_of_huge_logits_stays_a_distribution() -> None:
    assert softmax(np.array([[1e5, 0.0], [-1e5, -1e5]])).tolist() == [[1.0, 0.0], [0.5, 0.5]]


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=10, max_size=60), st.integers(0, 5))
def test_a_group_is_never_on_both_sides_and_every_text_is_tested_once(numbers: list[int], seed: int) -> None:
    groups = np.array(numbers)
    tested: list[int] = []
    for train, test in evaluation.folds(groups, 3, seed):
        assert set(groups[train]).isdisjoint(groups[test])
        tested += test.tolist()
    assert sorted(tested) == list(range(len(numbers)))


def test_a_text_that_is_written_for_sure_is_told_by_its_own_head() -> None:
    """Three blocks of columns: sectors, classes, registers; the feature says written below zero, talk above."""
    weights = np.zeros((2, 13))
    weights[1, 1], weights[1, 5 + NOTHING] = 9.0, 9.0
    weights[0, 11:] = -99.0, 99.0
    said = Heads(weights, np.zeros(4)).tell(np.array([[-1.0], [1.0], [0.0]]))
    assert said.best.tolist()[:2] == [1, NOTHING]
    assert said.talk == pytest.approx([0.0, 1.0, 0.5], abs=1e-6)
    assert said.chances[0, NOTHING] == pytest.approx(0.0)
    assert said.chances[2, [1, NOTHING]] == pytest.approx([0.5, 0.5], abs=0.01)
    assert said.chances.sum(axis=1) == pytest.approx([1.0] * 3)
