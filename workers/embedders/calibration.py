"""Turn the cosine of a best match into the chance that it is the memory that was meant. Pure.

A logistic curve with two constants, fitted (as Platt did) to queries whose right memory is known. Each query counts
twice: among all memories, and among all but the right one, where whatever it finds is wrong.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatMatrix: TypeAlias = NDArray[np.floating]
Mask: TypeAlias = NDArray[np.bool_]

ROUNDS: Final = 100
CLOSE: Final = 1e-9
LARGEST_EXPONENT: Final = 700.0  # beyond it there is no float; a model of few samples may have a very steep curve


@dataclass(frozen=True, slots=True)
class Calibration:
    """The curve: the chance is one half at cosine -offset / slope. The slope is never negative."""

    slope: float
    offset: float

    def confidence(self, cosine: float) -> float:
        """Return the chance, from 0 to 1, that the best match is the right one."""
        return 1.0 / (1.0 + math.exp(min(-(self.slope * cosine + self.offset), LARGEST_EXPONENT)))

    def cosine_of(self, cosine: float, other: "Calibration") -> float:
        """Return the cosine that is by this curve as good a sign as a cosine is by another model's.

        A flat curve tells none from another: then it stays as it is.
        """
        if self.slope <= CLOSE:
            return cosine
        same = (other.slope * cosine + other.offset - self.offset) / self.slope
        return max(-1.0, min(1.0, same))


class Samples(NamedTuple):
    """Best matches: the cosine of each, whether it was the right one, and the number of the memory that was meant."""

    cosines: FloatMatrix
    right: Mask
    meant: NDArray[np.intp]

    def of(self, chosen: Mask) -> "Samples":
        """Return those that are chosen."""
        return Samples(self.cosines[chosen], self.right[chosen], self.meant[chosen])


def best_matches(memories: FloatMatrix, queries: FloatMatrix, meant: NDArray[np.intp]) -> Samples:
    """Look each query up with and without its right memory. Unit vectors [n, d] and [q, d]; `meant` [q] are rows."""
    cosines = (queries @ memories.T).astype(np.float64)
    every = np.arange(len(queries))
    own = cosines[every, meant]
    cosines[every, meant] = -np.inf
    others = cosines.max(axis=1)
    return Samples(
        np.concatenate([np.maximum(own, others), others]),
        np.concatenate([own > others, np.zeros(len(queries), dtype=bool)]),
        np.concatenate([meant, meant]),
    )


def fit(samples: Samples) -> Calibration:
    """Return the curve under which the samples are likeliest; a flat one when a higher cosine is no better sign."""
    right, count = int(samples.right.sum()), len(samples.right)
    # Not quite 1 and 0: a model that makes no mistake here would be sure of everything.
    targets = np.where(samples.right, (right + 1) / (right + 2), 1 / (count - right + 2))
    rows = np.column_stack([samples.cosines, np.ones(count)])
    weights = np.zeros(2)
    for _ in range(ROUNDS):
        chances = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        spread = rows.T @ (rows * (chances * (1 - chances))[:, None]) + CLOSE * np.eye(2)
        step = np.linalg.solve(spread, rows.T @ (targets - chances))
        weights += step
        if np.abs(step).max() < CLOSE:
            break
    if not (np.isfinite(weights).all() and weights[0] > 0):
        mean = float(targets.mean())
        return Calibration(0.0, math.log(mean / (1 - mean)))
    return Calibration(float(weights[0]), float(weights[1]))
