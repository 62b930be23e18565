"""Neighbours of a candidate: those of its thread, and those stored beside it where no thread was given."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.workers.search.neighbours import NEXT_TO, in_order_of_storing, leaning
from tests.workers.search.recall.test_ranking import made_of, ranked

heights = st.lists(st.floats(-3, 3), min_size=2, max_size=80)


def told_in_order(cosines: list[float], **fields: Any) -> list[dict[str, Any]]:
    return [{"similarity": cosine, **fields} for cosine in cosines]


def waves(count: int) -> list[float]:
    """Return cosines that rise and fall slowly, as the topics of a conversation do."""
    return [0.3 + 0.2 * math.sin(number / 4) for number in range(count)]


def test_what_was_stored_beside_a_good_match_is_lifted_where_neighbours_resemble_each_other() -> None:
    candidates = made_of([*told_in_order(waves(80)), {"similarity": 0.3}])
    lifted = ranked("tea?", candidates).parts["next_to"]
    best = max(range(80), key=lambda row: candidates.similarity[row] or 0)
    assert lifted[best - 1] > 0.2
    assert lifted[best + 1] > 0.2


def test_neighbours_count_nothing_where_their_order_means_nothing() -> None:
    """The second of each two is as far from the question as the first is near."""
    ranking = ranked("tea?", made_of(told_in_order([0.5 if row % 2 else 0.1 for row in range(80)])))
    assert not ranking.parts["next_to"].any()
    few = ranked("tea?", made_of(told_in_order(waves(20))))
    assert not few.parts["next_to"].any()


@given(heights, st.integers(0, 79))
def test_one_score_moves_no_other_by_more_than_the_rules_allow(scores: list[float], place: int) -> None:
    fused = np.array(scores)
    rows, asks = np.arange(len(fused)), np.zeros(len(fused), dtype=bool)
    boosts = in_order_of_storing(rows, fused, fused, asks)
    assert np.abs(boosts["next_to"]).max() <= 2 * NEXT_TO * np.abs(fused).max() + 1e-9
    assert not boosts["answers"].any()


def test_a_thread_that_was_given_is_believed_however_short_it_is() -> None:
    thread = [{"similarity": cosine, "thread": "a", "position": row} for row, cosine in enumerate((0.9, 0.1, 0.1))]
    lifted = ranked("tea?", made_of([*thread, {"similarity": 0.1}])).parts["next_to"]
    assert lifted[1] > lifted[2]
    assert lifted[3] == 0


@given(st.floats(0, 1e5), st.floats(0, 1e5))
def test_the_longer_a_memory_the_less_it_leans_on_others(one: float, other: float) -> None:
    shorter, longer = leaning(np.array(sorted((one, other))))
    assert 0 <= longer <= shorter <= 1


def test_a_long_memory_is_lifted_less_than_a_short_one_beside_the_same_match() -> None:
    match = {"similarity": 0.9, "thread": "a", "position": 1}
    short, long = (
        {"similarity": 0.1, "thread": "a", "position": at, "words": words} for at, words in ((0, 9), (2, 90))
    )
    lifted = ranked("tea?", made_of([match, short, long])).parts["next_to"]
    assert lifted[2] == pytest.approx(lifted[1] / 9)


def test_a_bare_question_falls_behind_what_tells_something() -> None:
    told = {"similarity": 0.5, "lexical": 1.0, "covered": 1.0}
    asked = told | {"asks": True}  # the newest: among equals it would be the first
    ranking = ranked("tea?", made_of([asked | {"tells_self": True}, told, asked]))
    assert ranking.order == [0, 1, 2]
