"""Add to a candidate's score for its neighbours: those in its thread, or stored before and after it. Pure.

A short turn means what it means beside its neighbours; a long text stands for itself. So neighbours count by how short
a memory is. Where no thread was given, the order of storing stands for it as far as it means something: in a
conversation the cosines of neighbouring candidates resemble each other more than in a heap of notes.
"""

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Column: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]

SELF_CONTAINED: Final = 30.0  # different words; beyond them neighbours count the less the longer a memory is
PLACES: Final = 2**33  # more than a thread has, so that thread and place make one number
LEAST_PAIRS: Final = 30  # neighbours without a thread; fewer cannot show that their order means something
TRUST_IN_ORDER: Final = 3.0  # of the correlation of neighbours above chance, until they count in full
# What neighbours count: of the score of the next, of the one after it, and more of a question for its answer.
NEXT_TO: Final = 0.3
NEAR_TO: Final = 0.15
ANSWERS: Final = 0.3
RULES: Final = ("next_to", "near_to", "answers")


def leaning(words: Column) -> Column:
    """Return by how much neighbours count for memories of so many different words: from 0 to 1."""
    shortness: Column = np.minimum(1.0, SELF_CONTAINED / np.maximum(words, 1.0))
    return shortness**2


def in_threads(threads: NDArray[np.int64], positions: Column, fused: Column, asks: Mask) -> dict[str, Column]:
    """Return what each rule about neighbours in a thread adds to each candidate.

    `threads`: its number, -1 for none; positions nan where there is none.
    """
    boosts = {name: np.zeros(len(fused)) for name in RULES}
    placed = np.flatnonzero((threads >= 0) & ~np.isnan(positions))
    if len(placed) > 1:
        places = _Places(threads[placed] * PLACES + positions[placed].astype(np.int64), fused[placed])
        boosts["next_to"][placed] = NEXT_TO * (places.away(-1) + places.away(1))
        boosts["near_to"][placed] = NEAR_TO * (places.away(-2) + places.away(2))
        boosts["answers"][placed] = ANSWERS * places.away(-1, asks[placed])
    return boosts


def in_order_of_storing(rows: Rows, fused: Column, vectors: Column, asks: Mask) -> dict[str, Column]:
    """Return the same for rows that have no thread, given in the order in which they were stored.

    `vectors`: what the cosine counts in each score, by which it is seen what the order means.
    """
    boosts = {name: np.zeros(len(fused)) for name in RULES}
    if len(rows) <= LEAST_PAIRS:
        return boosts
    scores, known = fused[rows], vectors[rows]
    by_one, by_two = _likeness(known, 1), _likeness(known, 2)
    before, after = _move(scores, 1), _move(scores, -1)
    boosts["next_to"][rows] = NEXT_TO * by_one * (before + after)
    boosts["near_to"][rows] = NEAR_TO * by_two * (_move(scores, 2) + _move(scores, -2))
    boosts["answers"][rows] = ANSWERS * by_one * _move(np.where(asks[rows], scores, 0.0), 1)
    return boosts


def _likeness(values: Column, steps: int) -> float:
    """Return from 0 to 1 how sure values so many steps apart resemble each other more than by chance."""
    some, others = values[:-steps], values[steps:]
    spread = math.sqrt(float(some @ some) * float(others @ others))
    if not spread:
        return 0.0
    above_chance = float(some @ others) / spread - 1 / math.sqrt(len(some))
    return min(1.0, max(0.0, TRUST_IN_ORDER * above_chance))


def _move(values: Column, steps: int) -> Column:
    """Return the value so many places before (or after, if negative) each; 0 beyond the ends."""
    moved = np.zeros(len(values))
    if steps > 0:
        moved[steps:] = values[:-steps]
    else:
        moved[:steps] = values[-steps:]
    return moved


class _Places:
    """Scores of the candidates that have a place in a thread; of several in one place the best counts."""

    def __init__(self, places: NDArray[np.int64], scores: Column) -> None:
        self._places, self._scores = places, scores
        self._taken, self._of = np.unique(places, return_inverse=True)
        self._best = self._best_of(np.ones(len(places), dtype=bool))

    def away(self, steps: int, among: Mask | None = None) -> Column:
        """Return for each candidate the score of the place that is so many steps away, of those `among`."""
        best = self._best if among is None else self._best_of(among)
        wanted = self._places + steps
        index = np.minimum(np.searchsorted(self._taken, wanted), len(self._taken) - 1)
        return np.where(self._taken[index] == wanted, best[index], 0.0)

    def _best_of(self, among: Mask) -> Column:
        best = np.full(len(self._taken), -np.inf)
        np.maximum.at(best, self._of[among], self._scores[among])
        return np.where(np.isfinite(best), best, 0.0)


def number_threads(names: Sequence[tuple[bool, str | None]]) -> tuple[NDArray[np.int64], int]:
    """Return a number for each thread of each partition, -1 for none, and how many there are."""
    numbers: dict[tuple[bool, str | None], int] = {}
    by_row = [-1 if name[1] is None else numbers.setdefault(name, len(numbers)) for name in names]
    return np.array(by_row, dtype=np.int64), len(numbers)
