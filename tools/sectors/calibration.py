"""A curve that makes a confidence of .8 right eight times in ten, and how far it misses."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engramq.workers.sectors.model import HeadOutput, Matrix, Shares
from tools.sectors import regression

_BINS: Final = 10
_PENALTY: Final = 1e-4


def curve(told: HeadOutput, right: NDArray[np.bool_], counts: Shares) -> Shares:
    """Return the `curve` of Heads under which it is likeliest that held-out texts were classified right or wrong, [4].

    `right` [n]; `counts` [n]: how much a text counts.
    """
    weights = regression.fit(
        told.evidence(), np.stack([~right, right], axis=1), penalty=_PENALTY, counts=counts, balanced=False
    )
    return np.asarray(weights[:, 1] - weights[:, 0])


def expected_error(confidence: Matrix, correct: NDArray[np.bool_]) -> float:
    """Return the mean gap between confidence and accuracy over ten bins of equal width, 0 to 1; both inputs [n]."""
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    gaps = [
        float(np.sum(bins == item)) * abs(float(confidence[bins == item].mean() - correct[bins == item].mean()))
        for item in np.unique(bins)
    ]
    return sum(gaps) / len(correct)
