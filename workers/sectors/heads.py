"""The linear classifiers behind a sector: one for written texts, one for talk, and which of them a text is a case for.

Knows: weights, chances, the curve of confidence. Refuses to know: texts, files, embedders.
`assemble` puts a text's vector beside its cues.

What people write down to be kept always has a sector, what they say to each other often has none. One classifier for
both would lose texts of the first kind; so each has its own, and the register of a text mixes what they say.
"""

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.schemas.vocabulary import Sector
from engramq.workers.embedders.interface import Vectors
from engramq.workers.sectors.cues import NAMES, Cues
from engramq.workers.sectors.regression import Matrix, softmax, with_intercept

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


OUTCOMES: Final[tuple[Sector | None, ...]] = (*Sector, None)  # None: the text fits no sector
SECTORS: Final = len(Sector)
NOTHING: Final = OUTCOMES.index(None)

Shares: TypeAlias = NDArray[np.float64]


class Register(StrEnum):
    """How a text is worded; the order is that of the columns."""

    WRITTEN = "written"
    TALK = "talk"


_COLUMNS: Final = (SECTORS, len(OUTCOMES), len(Register))
_LEAST: Final = 1e-12


class Told(msgspec.Struct, frozen=True):
    """What heads say of n texts: chances of OUTCOMES [n, 6], and how far each is talk [n], 0 to 1."""

    chances: Matrix
    talk: Shares

    @property
    def best(self) -> NDArray[np.intp]:
        """The place of each likeliest outcome in OUTCOMES, [n]."""
        return np.asarray(self.chances.argmax(axis=1))

    def evidence(self) -> Matrix:
        """Return what confidence is told from, [n, 3]: the log odds of the likeliest outcome, times talk, and talk."""
        chance = np.clip(self.chances.max(axis=1), _LEAST, 1 - _LEAST)
        odds = np.log(chance / (1 - chance))
        return np.stack([odds, odds * self.talk, self.talk], axis=1)


class Heads(msgspec.Struct, frozen=True):
    """Weights [features + 1, 13], the intercepts last: columns of sectors for written texts, of outcomes for talk, and
    of registers. `curve` [4]: by the evidence and 1, the log odds that the likeliest outcome is right."""

    weights: Matrix
    curve: Shares

    def tell(self, features: Matrix) -> Told:
        """Return the chances of every outcome for texts with these features [n, features]."""
        logits = with_intercept(features) @ self.weights
        written, talk, register = np.split(logits, np.cumsum(_COLUMNS)[:-1], axis=1)
        share = softmax(register)[:, 1]
        by_written = np.pad(softmax(written), ((0, 0), (0, 1)))
        return Told(share[:, None] * softmax(talk) + (1 - share)[:, None] * by_written, share)

    def confidence(self, told: Told) -> Shares:
        """Return the calibrated chance, 0 to 1, that each likeliest outcome is right, [n]."""
        odds = with_intercept(told.evidence()) @ self.curve
        return np.asarray(1 / (1 + np.exp(-odds)))
