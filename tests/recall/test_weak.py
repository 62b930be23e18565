"""Weak hits: what probably answers nothing is marked (AG-19)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engramq.workers.embedders.calibration import Calibration
from engramq.workers.search.selection import is_weak

CURVE = Calibration(15.0, -7.7)
cosines = st.none() | st.floats(-1, 1)
shares = st.none() | st.floats(0, 1)


@given(cosines, shares, st.floats(0, 1))
def test_more_of_the_words_never_makes_a_hit_weak(cosine: float | None, share: float | None, more: float) -> None:
    if not is_weak(cosine, share, CURVE):
        assert not is_weak(cosine, min(1.0, (share or 0.0) + more), CURVE)


@given(st.floats(-1, 1), shares, st.floats(0, 1))
def test_a_nearer_one_is_never_weak_where_a_farther_one_is_not(cosine: float, share: float | None, by: float) -> None:
    if not is_weak(cosine, share, CURVE):
        assert not is_weak(min(1.0, cosine + by), share, CURVE)


def test_the_same_chance_is_the_same_floor_whatever_the_model() -> None:
    other = Calibration(30.0, -7.7)
    for cosine in np.linspace(-1, 1, 41):
        assert is_weak(cosine, None, CURVE) == is_weak(other.cosine_of(cosine, CURVE), None, other) or abs(cosine) == 1


def test_without_a_vector_words_alone_decide() -> None:
    assert is_weak(None, None, CURVE)
    assert is_weak(None, 0.2, CURVE)
    assert not is_weak(None, 0.8, CURVE)
