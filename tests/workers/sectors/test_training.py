"""What the weights and the figures rest on: corpus, cues, regression, splits, calibration."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engramq.schemas.vocabulary import Sector
from engramq.workers.sectors.cues import NAMES, OF_TALK, cue_rows, cues
from engramq.workers.sectors.model import (
    NOTHING,
    OUTCOMES,
    HeadOutput,
    Heads,
    Matrix,
    Standard,
    assemble,
    softmax,
    with_intercept,
)
from tools.sectors import calibration, corpus, evaluation, regression
from tools.sectors.corpus import Labelled, Text, Turn
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
    found = regression.fit(features, np.eye(3, dtype=bool)[labels], penalty=0.01)

    def loss(weights: Matrix) -> float:
        chances = softmax(with_intercept(features) @ weights)
        return -float(np.log(chances[np.arange(60), labels]).mean()) + 0.005 * float(np.sum(weights[:-1] ** 2))

    nearby = [loss(found + random.normal(size=found.shape) * size) for size in (1e-3, 1e-2, 1e-1) for _ in range(20)]
    assert loss(found) < min(nearby)


def test_a_rare_class_weighs_as_much_as_a_common_one() -> None:
    features = np.zeros((100, 1))
    labels = np.array([0] * 95 + [1] * 5)
    allowed = np.eye(2, dtype=bool)[labels]
    one = with_intercept(features[:1])
    weights = regression.fit(features, allowed, penalty=0.01)
    assert softmax(one @ weights)[0] == pytest.approx([0.5, 0.5], abs=1e-4)
    weights = regression.fit(features, allowed, penalty=0.01, balanced=False)
    assert softmax(one @ weights)[0] == pytest.approx([0.95, 0.05], abs=1e-4)


def test_where_two_classes_are_allowed_either_is_right() -> None:
    """The two rows of one kind pull the doubtful ones, which allow it too; the sum of both chances is what counts."""
    features = np.array([[1.0], [1.0], [1.0], [-1.0]])
    allowed = np.array([[True, False, False], [True, True, False], [True, True, False], [False, True, True]])
    weights = regression.fit(features, allowed, penalty=1e-4)
    chances = softmax(with_intercept(features) @ weights)
    assert chances[0, 0] > 0.9
    assert chances[3, 1:].sum() > 0.95


def test_what_a_row_counts_is_how_often_it_would_stand_there() -> None:
    features, allowed = np.array([[0.0], [1.0], [1.0]]), np.eye(2, dtype=bool)[[0, 1, 0]]
    thrice = np.array([0, 1, 1, 1, 2])
    counted = regression.fit(features, allowed, penalty=0.01, counts=np.array([1.0, 3.0, 1.0]))
    assert counted == pytest.approx(regression.fit(features[thrice], allowed[thrice], penalty=0.01), abs=1e-4)


def test_softmax_of_huge_logits_stays_a_distribution() -> None:
    assert softmax(np.array([[1e5, 0.0], [-1e5, -1e5]])).tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_texts_linked_by_a_chain_of_likeness_are_one_group() -> None:
    angles = np.radians([0.0, 40.0, 80.0, 180.0])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    written = [Labelled(text=one, sector=Sector.SEMANTIC, hard=False, lang="en") for one in "abcd"]
    first, second, third, far = corpus.groups(written, vectors)
    assert first == second == third != far


def test_turns_of_a_topic_are_one_group_with_all_that_is_like_one_of_them() -> None:
    turns = [Turn(text=topic, sectors=("none",), topic=topic) for topic in ("tea", "rain", "tea", "snow", "rain")]
    vectors = np.eye(5, dtype=np.float32)
    vectors[3] = vectors[2]
    groups = corpus.groups(turns, vectors).tolist()
    assert groups[0] == groups[2] == groups[3]
    assert groups[1] == groups[4] != groups[0]


def test_a_turn_with_a_word_that_is_no_sector_is_refused() -> None:
    for words in ((), ("semantics",), ("none", "other")):
        with pytest.raises(ValueError, match="not sectors"):
            Turn(text="x", sectors=words, topic="t")


def test_there_are_turns_of_talk_enough_and_of_every_kind() -> None:
    turns = [*corpus.chat_turns(), *corpus.held_out_turns()]
    assert len({one.text.casefold() for one in turns}) == len(turns) >= 600
    kinds = Counter(name for one in turns for name in one.sectors)
    assert set(kinds) == {*Sector, corpus.NONE}
    assert min(kinds.values()) >= 50
    assert all(len(set(one.sectors)) == len(one.sectors) <= 2 for one in turns)


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=10, max_size=60), st.integers(0, 5))
def test_a_group_is_never_on_both_sides_and_every_text_is_tested_once(numbers: list[int], seed: int) -> None:
    groups = np.array(numbers)
    tested: list[int] = []
    for train, test in evaluation.folds(groups, 3, seed):
        assert set(groups[train]).isdisjoint(groups[test])
        tested += test.tolist()
    assert sorted(tested) == list(range(len(numbers)))


def told(*likeliest: float, talk: float = 0.0) -> HeadOutput:
    """Return what is said of texts whose first outcome has these chances."""
    chances = np.zeros((len(likeliest), len(OUTCOMES)))
    chances[:, 0] = likeliest
    return HeadOutput(chances, np.full(len(likeliest), talk))


def test_the_curve_lowers_what_is_too_sure_and_raises_what_is_timid() -> None:
    right, counts = np.array([True] * 8 + [False] * 2), np.ones(10)
    for chance in (0.99, 0.6):
        said = told(*[chance] * 10)
        heads = Heads(np.zeros((1, 13)), calibration.curve(said, right, counts))
        assert heads.confidence(said) == pytest.approx([0.8] * 10, abs=0.01)


def test_the_curve_of_talk_is_not_that_of_written_texts() -> None:
    right = np.array([True] * 9 + [False] + [True] * 5 + [False] * 5)
    written, talk = told(*[0.7] * 10), told(*[0.7] * 10, talk=1.0)
    both = HeadOutput(np.concatenate([written.chances, talk.chances]), np.concatenate([written.talk, talk.talk]))
    heads = Heads(np.zeros((1, 13)), calibration.curve(both, right, np.ones(20)))
    assert heads.confidence(both) == pytest.approx([0.9] * 10 + [0.5] * 10, abs=0.02)


def test_a_text_that_is_written_for_sure_is_told_by_its_own_head() -> None:
    """Three blocks of columns: sectors, outcomes, registers; the feature says written below zero, talk above."""
    weights = np.zeros((2, 13))
    weights[1, 1], weights[1, 5 + NOTHING] = 9.0, 9.0
    weights[0, 11:] = -99.0, 99.0
    said = Heads(weights, np.zeros(4)).tell(np.array([[-1.0], [1.0], [0.0]]))
    assert said.best.tolist()[:2] == [1, NOTHING]
    assert said.talk == pytest.approx([0.0, 1.0, 0.5], abs=1e-6)
    assert said.chances[0, NOTHING] == pytest.approx(0.0)
    assert said.chances[2, [1, NOTHING]] == pytest.approx([0.5, 0.5], abs=0.01)
    assert said.chances.sum(axis=1) == pytest.approx([1.0] * 3)


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
    chances = np.zeros((3, len(OUTCOMES)))
    chances[[0, 2], place] = 1.0
    chances[1, 0] = 1.0
    told = HeadOutput(chances, np.zeros(3))
    scores = evaluation.scores(texts, told)
    assert (scores["all"], scores["en"], scores["en_easy"], scores["en_hard"], scores["de"]) == (
        0.667,
        0.5,
        1.0,
        0.0,
        1.0,
    )
    assert evaluation.confusion(texts, told)[Sector.SEMANTIC][Sector.EMOTIONAL] == 1


def test_the_recipe_of_a_fold_is_chosen_without_that_fold() -> None:
    random = np.random.default_rng(1)
    labels = np.arange(60) % len(OUTCOMES)
    texts: list[Text] = [
        Turn(text="x", sectors=(corpus.NONE,), topic=str(row))
        if OUTCOMES[label] is None
        else Labelled(text="x", sector=list(Sector)[label], hard=False, lang="en")
        for row, label in enumerate(labels)
    ]
    texts += [Turn(text="x", sectors=(sector,), topic=sector) for sector in Sector for _ in range(5)]
    labels = np.concatenate([labels, np.repeat(np.arange(len(Sector)), 5)])
    vectors = (np.eye(len(OUTCOMES))[labels] + 0.1 * random.normal(size=(len(texts), len(OUTCOMES)))).astype(np.float32)
    data = Data(
        texts=texts,
        vectors=vectors,
        cues=cue_rows(["x"] * len(texts)),
        fits=corpus.fits(texts),
        talk=np.array([isinstance(one, Turn) for one in texts]),
        groups=np.arange(len(texts)),
    )
    useless, useful = Recipe(vectors=False), Recipe()
    told, chosen = evaluation.nested(data, [useless, useful], count=3, seed=0)
    assert chosen == [useful] * 3
    assert data.right(data.everything, told).all()


def test_written_texts_are_told_as_if_there_was_no_talk() -> None:
    random = np.random.default_rng(2)
    written: list[Text] = [
        Labelled(text=f"Thanks {row}!", sector=list(Sector)[row % 5], hard=False, lang="en") for row in range(20)
    ]
    turns = [Turn(text=f"Hi {row}?", sectors=("none", *Sector)[row % 6 : row % 6 + 1], topic="t") for row in range(12)]
    data = Data.of([*written, *turns], random.normal(size=(32, 3)).astype(np.float32))
    weights = evaluation.fitted(data, data.everything, evaluation.standard_of(data, data.everything), Recipe())
    of_talk = slice(-1 - len(OF_TALK), -1)
    assert not weights[of_talk, : len(Sector)].any()
    assert weights[of_talk, len(Sector) :].any()
