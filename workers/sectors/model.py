"""The sector of a memory, from its wording and its vector, by a few kilobytes of weights.

Knows: the weights file beside it. Refuses to know: who embedded the text, queues, the store. Numpy only; a text costs
about an eighth of a millisecond, on the thread that asks. A text gets a sector or is found to fit none: how sure, says
the confidence.
"""

import io
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from engramq.schemas.vocabulary import Sector
from engramq.workers.embedders.interface import Vectors
from engramq.workers.embedders.minilm import interchangeable
from engramq.workers.sectors.cues import NAMES, cue_rows
from engramq.workers.sectors.heads import OUTCOMES, Heads, Standard, assemble

WEIGHTS: Final = Path(__file__).parent / "weights.npz"


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
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                content = {name: file[name] for name in file.files}
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
            SectorGuess(OUTCOMES[place], confidence) if any(map(str.isalpha, content)) else _NOTHING_SAID
            for content, place, confidence in zip(
                contents, told.best.tolist(), heads.confidence(told).tolist(), strict=True
            )
        ]
