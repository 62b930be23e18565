"""Classify a memory into a sector by its wording and its vector, with a few kilobytes of weights.

Numpy only; a text costs about an eighth of a millisecond, on the thread that asks. A text gets a sector or fits none:
how sure, says the confidence. Texts that people write down to keep always have a sector; their talk often has none. One
classifier for both would lose texts of the first kind; so each has its own linear head, and the register of a text
mixes what they say.
"""

import io
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.schemas.vocabulary import Sector
from engramq.workers.embedders.interface import Vectors
from engramq.workers.embedders.minilm import interchangeable
from engramq.workers.sectors.cues import NAMES, Cues, cue_rows

WEIGHTS: Final = Path(__file__).parent / "weights.npz"


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


CLASSES: Final[tuple[Sector | None, ...]] = (*Sector, None)  # None: the text fits no sector
SECTORS: Final = len(Sector)
NOTHING: Final = CLASSES.index(None)

Matrix: TypeAlias = NDArray[np.float64]
Shares: TypeAlias = NDArray[np.float64]


class Register(StrEnum):
    """How a text is worded; the order is that of the columns."""

    WRITTEN = "written"
    TALK = "talk"


_COLUMNS: Final = (SECTORS, len(CLASSES), len(Register))
_LEAST: Final = 1e-12


class HeadOutput(msgspec.Struct, frozen=True):
    """The outputs of the heads for n texts: chances of CLASSES [n, 6], and how far each is talk [n], 0 to 1."""

    chances: Matrix
    talk: Shares

    @property
    def best(self) -> NDArray[np.intp]:
        """The place of each likeliest class in CLASSES, [n]."""
        return np.asarray(self.chances.argmax(axis=1))

    def evidence(self) -> Matrix:
        """Return the inputs of confidence, [n, 3]: the log odds of the likeliest class, times talk, and talk."""
        chance = np.clip(self.chances.max(axis=1), _LEAST, 1 - _LEAST)
        odds = np.log(chance / (1 - chance))
        return np.stack([odds, odds * self.talk, self.talk], axis=1)


class Heads(msgspec.Struct, frozen=True):
    """Weights [features + 1, 13], the intercepts last: columns of sectors for written texts, of classes for talk, and
    of registers. `curve` [4]: by the evidence and 1, the log odds that the likeliest class is right."""

    weights: Matrix
    curve: Shares

    def tell(self, features: Matrix) -> HeadOutput:
        """Return the chances of every class for texts with these features [n, features]."""
        logits = with_intercept(features) @ self.weights
        written, talk, register = np.split(logits, np.cumsum(_COLUMNS)[:-1], axis=1)
        share = softmax(register)[:, 1]
        by_written = np.pad(softmax(written), ((0, 0), (0, 1)))
        return HeadOutput(share[:, None] * softmax(talk) + (1 - share)[:, None] * by_written, share)

    def confidence(self, told: HeadOutput) -> Shares:
        """Return the calibrated chance, 0 to 1, that each likeliest class is right, [n]."""
        odds = with_intercept(told.evidence()) @ self.curve
        return np.asarray(1 / (1 + np.exp(-odds)))


def with_intercept(features: Matrix) -> Matrix:
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


def softmax(logits: Matrix) -> Matrix:
    """Return rows that sum to 1, [n, classes]."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


class SectorGuess(msgspec.Struct, frozen=True):
    """The likeliest sector, None when the text fits none, and the calibrated chance, 0 to 1, that this is right."""

    sector: Sector | None
    confidence: float


# All that numpy and zipfile raise over a file with wrong bytes in it.
_DAMAGE: Final = (
    OSError, EOFError, ValueError, TypeError, KeyError, RuntimeError, SyntaxError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
# Numbers, signs and blanks were not among the texts learned from: nobody knows how often this is right.
_NOTHING_SAID: Final = SectorGuess(None, 0.5)


class UnusableVectors(ValueError):
    """These vectors are not what the weights were made for: another embedder's, or not one finite row per text."""


class UnusableWeights(Exception):
    """The weights file is missing, damaged, or was made for other cues: install again, or train anew."""


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file of weights. Raises UnusableWeights."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except _DAMAGE as error:
        raise UnusableWeights(f"{path} cannot be used: {type(error).__name__}") from error


class SectorModel:
    """Classify by vector and wording, or by wording alone where the vector comes from an embedder of another make."""

    def __init__(self, *, embedder_sha256: str, standard: Standard, scale: float, heads: tuple[Heads, Heads]) -> None:
        """`heads`: with the vector, and without. `embedder_sha256` names the embedder that the first one knows."""
        self.embedder_sha256 = embedder_sha256
        self._standard = standard
        self._scale = scale
        self.heads = self._full, self._wording = heads
        self._dimensions = len(self._full.weights) - len(self._wording.weights)

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> "SectorModel":
        """Read the weights. Raises UnusableWeights."""
        content = read_weights(path)
        try:
            if (tuple(content["cues"]), tuple(content["sectors"])) != (NAMES, tuple(Sector)):
                raise UnusableWeights(f"{path} was made for other cues: run python -m tools.sectors.train")
            return cls(
                embedder_sha256=str(content["embedder_sha256"]),
                standard=Standard(content["mean"], content["spread"]),
                scale=float(content["scale"]),
                heads=(
                    Heads(content["full"].astype(np.float64), content["full_curve"]),
                    Heads(content["wording"].astype(np.float64), content["wording_curve"]),
                ),
            )
        except _DAMAGE as error:
            raise UnusableWeights(f"{path} cannot be used: {type(error).__name__}") from error

    def save(self, path: Path = WEIGHTS) -> None:
        """Write what `load` reads; the same weights give the same bytes."""
        np.savez_compressed(
            path,
            embedder_sha256=np.array(self.embedder_sha256),
            cues=np.array(NAMES),
            sectors=np.array([sector.value for sector in Sector]),
            mean=self._standard.mean,
            spread=self._standard.spread,
            scale=np.array(self._scale),
            full=self._full.weights.astype(np.float32),
            full_curve=self._full.curve,
            wording=self._wording.weights.astype(np.float32),
            wording_curve=self._wording.curve,
        )

    def knows(self, embedder_sha256: str) -> bool:
        """Whether `classify` takes this embedder's vectors; if not, use `classify_wording`."""
        return embedder_sha256 in interchangeable(self.embedder_sha256)

    def classify(self, content: str, vector: Vectors, *, embedder_sha256: str) -> SectorGuess:
        """Return the sector of one text; `vector` [dimensions] of the content alone. Raises UnusableVectors."""
        return self.classify_many([content], np.asarray(vector)[None], embedder_sha256=embedder_sha256)[0]

    def classify_many(self, contents: Sequence[str], vectors: Vectors, *, embedder_sha256: str) -> list[SectorGuess]:
        """Return a guess per text; `vectors` [len(contents), dimensions], the rows of the same order.

        `embedder_sha256` is the digest stored beside the vectors. Raises UnusableVectors.
        """
        if not self.knows(embedder_sha256):
            raise UnusableVectors(
                f"the sector weights belong to the embedder {self.embedder_sha256[:12]}, "
                f"not {embedder_sha256[:12] or 'one without a digest'}: classify the wording alone"
            )
        if vectors.shape != (len(contents), self._dimensions) or not np.isfinite(vectors).all():
            raise UnusableVectors(
                f"expected finite vectors of shape {(len(contents), self._dimensions)}, got {vectors.shape}"
            )
        return self._guesses(self._full, contents, vectors)

    def classify_wording(self, contents: Sequence[str]) -> list[SectorGuess]:
        """Return a guess per text from its wording alone, for vectors of other embedders; less sure, and says so."""
        return self._guesses(self._wording, contents, None)

    def _guesses(self, heads: Heads, contents: Sequence[str], vectors: Vectors | None) -> list[SectorGuess]:
        if not contents:
            return []
        told = heads.tell(assemble(vectors, cue_rows(contents), self._standard, self._scale))
        return [
            SectorGuess(CLASSES[place], confidence) if any(map(str.isalpha, content)) else _NOTHING_SAID
            for content, place, confidence in zip(
                contents, told.best.tolist(), heads.confidence(told).tolist(), strict=True
            )
        ]
