"""Weak hits: what probably answers nothing is marked (AG-19)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.vocabulary import Origin
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.search import search
from engramq.workers.search.boosts import Boosted, Reached
from engramq.workers.search.ranking import Candidates, Ranked

CURVE = Calibration(15.0, -7.7)
cosines = st.none() | st.floats(-1, 1)
shares = st.none() | st.floats(0, 1)
worths = st.none() | st.floats(0, 3)


@given(cosines, shares, worths, st.floats(0, 1))
def test_more_of_the_words_never_makes_a_hit_weak(
    cosine: float | None, share: float | None, worth: float | None, more: float
) -> None:
    if not search.is_weak(cosine, share, worth, CURVE):
        assert not search.is_weak(cosine, min(1.0, (share or 0.0) + more), worth, CURVE)


@given(st.floats(-1, 1), shares, worths, st.floats(0, 1))
def test_a_nearer_one_is_never_weak_where_a_farther_one_is_not(
    cosine: float, share: float | None, worth: float | None, by: float
) -> None:
    if not search.is_weak(cosine, share, worth, CURVE):
        assert not search.is_weak(min(1.0, cosine + by), share, worth, CURVE)


def test_the_same_chance_is_the_same_floor_whatever_the_model() -> None:
    other = Calibration(30.0, -7.7)
    for cosine in np.linspace(-1, 1, 41):
        assert (
            search.is_weak(cosine, None, None, CURVE)
            == search.is_weak(other.cosine_of(cosine, CURVE), None, None, other)
            or abs(cosine) == 1
        )


def test_without_a_vector_words_alone_decide() -> None:
    assert search.is_weak(None, None, 1.0, CURVE)
    assert search.is_weak(None, 0.2, 1.0, CURVE)
    assert not search.is_weak(None, 0.8, 1.0, CURVE)


def test_few_of_the_words_say_little_and_all_of_them_much() -> None:
    assert search.is_weak(0.32, 0.5, 1.0, CURVE)  # half of the words are worth a quarter of what all of them are
    assert not search.is_weak(0.32, 1.0, 1.0, CURVE)


def test_a_hit_over_a_link_is_as_weak_as_the_hit_that_it_is_linked_to() -> None:
    candidates = Candidates(
        ids=["seed", "linked", "alone"], similarity=[0.9, 0.1, 0.1], covered=[None] * 3, worth=[None] * 3
    )
    ranked = Ranked(candidates=candidates, scores=np.zeros(3), parts={}, order=[0, 1, 2])
    link = Reached("seed", "linked", "supports", 1.0, Origin.AGENT, 0.0)
    found = Boosted(ranked=ranked, via={1: link})
    assert [search.is_weak_hit(found, row, CURVE) for row in ranked.order] == [False, False, True]


def test_ordinary_words_say_nothing_where_the_meaning_is_far() -> None:
    assert search.is_weak(0.12, 1.0, 0.8, CURVE)  # "run it again"
    assert not search.is_weak(0.15, 1.0, 1.0, CURVE)  # a name that one memory alone has


def test_a_weak_hit_may_bear_by_a_rare_word_or_a_near_meaning() -> None:
    assert search.may_bear(0.28, 1.0, CURVE)
    assert search.may_bear(0.37, None, CURVE)
    assert not search.may_bear(0.28, None, CURVE)
    assert not search.may_bear(0.2, 1.0, CURVE)
    assert not search.may_bear(None, 1.0, CURVE)
