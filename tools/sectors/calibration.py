"""A curve that makes a confidence of .8 right eight times in ten."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engramq.workers.sectors.model import HeadOutput, Shares
from tools.sectors import regression

_PENALTY: Final = 1e-4


def curve(told: HeadOutput, right: NDArray[np.bool_], counts: Shares) -> Shares:
    """Return the `curve` of Heads under which it is likeliest that held-out texts were classified right or wrong, [4].

    `right` [n]; `counts` [n]: how much a text counts.
    """
    weights = regression.fit(
        told.evidence(), np.stack([~right, right], axis=1), penalty=_PENALTY, counts=counts, balanced=False
    )
    return np.asarray(weights[:, 1] - weights[:, 0])
