"""What the classifier sees of a text: its vector beside its standardised cues."""

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.workers.embedders.interface import Vectors
from engramq.workers.sectors.cues import NAMES, Cues

# A long text must not be pushed far outside of what the short training texts span.
_FURTHEST: Final = 3.0


class Standard(msgspec.Struct, frozen=True):
    """Mean and spread of each cue over the training texts, [cues] each."""

    mean: Cues
    spread: Cues

    @classmethod
    def of(cls, rows: Cues) -> "Standard":
        return cls(rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-6))


def assemble(vectors: Vectors | None, rows: Cues, standard: Standard, scale: float) -> NDArray[np.float64]:
    """Return [n, dimensions + cues], or [n, cues] without vectors. `scale` is what one spread of a cue counts."""
    if rows.shape[1:] != (len(NAMES),):
        raise ValueError(f"cues have {len(NAMES)} columns, not {rows.shape[1:]}")
    standardised = np.clip((rows - standard.mean) / standard.spread, -_FURTHEST, _FURTHEST) * scale
    parts = [standardised] if vectors is None else [vectors, standardised]
    return np.concatenate(parts, axis=1).astype(np.float64)
