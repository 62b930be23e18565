"""Know how sure a lookup by query may be of its best match, by the curve of the running model."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.workers.embedders import minilm
from engramq.workers.embedders.calibration import Calibration, Samples, best_matches, fit
from engramq.workers.embedders.e5 import build
from engramq.workers.embedders.interface import EmbedderSpec, Vectors
from engramq.workers.embedders.vectorizer import Vectorizer

PAIRS: Final = Path(__file__).with_name("calibration_pairs.jsonl")
BYSTANDERS: Final = Path(__file__).with_name("calibration_bystanders.jsonl")  # with the pairs 500 memories


class CalibrationPair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory and what asks for it."""

    memory: str
    hint: str
    paraphrase: str | None = None


class Texts(NamedTuple):
    """The texts that are embedded to calibrate a model; `meant` has the row of the right memory for each query."""

    memories: Sequence[str]
    queries: Sequence[str]
    meant: NDArray[np.intp]


def read_pairs(path: Path) -> list[CalibrationPair]:
    """Return the pairs of a file, one a line."""
    return [msgspec.json.decode(line, type=CalibrationPair) for line in path.read_bytes().splitlines()]


def bystanders() -> list[str]:
    """Return memories that no query means; the same ones in the same order each time."""
    return [msgspec.json.decode(line, type=str) for line in BYSTANDERS.read_bytes().splitlines()]


def calibration_texts() -> Texts:
    """Return what a model is calibrated by."""
    pairs = read_pairs(PAIRS)
    memories = [pair.memory for pair in pairs] + bystanders()
    asked = [(pair.hint, row) for row, pair in enumerate(pairs)]
    asked += [(pair.paraphrase, row) for row, pair in enumerate(pairs) if pair.paraphrase is not None]
    return Texts(memories, [query for query, _ in asked], np.array([row for _, row in asked], dtype=np.intp))


SHIPPED: Final[Mapping[str, Calibration]] = {
    minilm.MODEL_SHA256: Calibration(15.425, -7.865),
    minilm.INT8_SHA256: Calibration(15.224, -7.726),
    build.MODEL_SHA256: Calibration(26.554, -11.703),  # e5; English, as the others
}


AT_ONCE: Final = 64  # texts of one call, so that those who wait for one text are served in between


class Embed(Protocol):
    """How a model embeds."""

    async def __call__(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        """Return a vector for each text; raises EmbedderUnavailable."""
        ...


async def calibration_of(spec: EmbedderSpec, embed: Embed) -> Calibration:
    """Return the curve of a model; one that is not shipped is found by embedding the texts.

    Raises EmbedderUnavailable.
    """
    shipped = SHIPPED.get(spec.sha256)
    if shipped is not None:
        return shipped
    samples = await sample(embed)
    return await asyncio.to_thread(fit, samples)


async def sample(embed: Embed) -> Samples:
    """Look the queries of the texts up. Raises EmbedderUnavailable."""
    texts = await asyncio.to_thread(calibration_texts)
    memories = await _vectors(embed, texts.memories, questions=False)
    queries = await _vectors(embed, texts.queries, questions=True)
    return await asyncio.to_thread(best_matches, memories, queries, texts.meant)


async def _vectors(embed: Embed, texts: Sequence[str], *, questions: bool) -> Vectors:
    parts = [
        await embed(texts[start : start + AT_ONCE], questions=questions) for start in range(0, len(texts), AT_ONCE)
    ]
    return np.concatenate(parts)


class ConfidenceCurve:
    """One per process. The curve is found when it is first asked for, once; who asks meanwhile waits for it."""

    def __init__(self, vectorizer: Vectorizer) -> None:
        self._vectorizer = vectorizer
        self._finding = asyncio.Lock()
        self._found: Calibration | None = None

    @property
    def known(self) -> Calibration | None:
        """The curve if it is shipped or has been found."""
        return self._found or SHIPPED.get(self._vectorizer.spec.sha256)

    async def calibration(self) -> Calibration:
        """Return the curve of the model. Raises EmbedderUnavailable; then the next caller tries again."""
        async with self._finding:
            if self._found is None:
                embed = partial(self._vectorizer.vectors, bulk=True)
                self._found = await calibration_of(self._vectorizer.spec, embed)
            return self._found
