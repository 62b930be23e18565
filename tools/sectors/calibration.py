"""One temperature that makes a confidence of .8 right eight times in ten, and how far it misses."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engramq.workers.sectors.regression import Matrix, softmax

_TEMPERATURES: Final = np.geomspace(0.2, 5.0, 161)
_BINS: Final = 10


def temperature(logits: Matrix, labels: NDArray[np.intp]) -> float:
    """Return the divisor of the logits under which held-out labels are likeliest. `logits` [n, classes]."""

    def surprise(candidate: float) -> float:
        chances = softmax(logits / candidate)[np.arange(len(labels)), labels]
        return -float(np.mean(np.log(np.maximum(chances, 1e-300))))

    return float(min(_TEMPERATURES, key=surprise))


def expected_error(confidence: Matrix, correct: NDArray[np.bool_]) -> float:
    """Return the mean gap between confidence and accuracy over ten bins of equal width, 0 to 1; both inputs [n]."""
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    gaps = [
        float(np.sum(bins == one)) * abs(float(confidence[bins == one].mean() - correct[bins == one].mean()))
        for one in np.unique(bins)
    ]
    return sum(gaps) / len(correct)
