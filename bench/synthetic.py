"""Made-up memories for measuring size, not quality: clustered vectors, words as frequent as in a language."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import Sector
from engramq.workers.db.vectors import HalfBytes
from tools.loading import Loaded

DIMENSIONS: Final = 384
WORDS: Final = 50_000  # of the vocabulary
STOP_WORDS: Final = 25  # ranks that are left out of a language's Zipf curve, since full text leaves them out too
LENGTH: Final = (8, 30)  # words of a memory
PER_CLUSTER: Final = 50  # memories about one thing
SPREAD: Final = 0.75  # length of the noise added to a cluster's unit vector
SECTORS: Final = tuple(Sector)
THREAD: Final = 25  # memories of a thread
BLOCK: Final = 10_000
FIRST_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)


class Corpus:
    """As many memories as asked for, the same ones for the same seed, and queries about them."""

    def __init__(self, size: int, *, seed: int = 1, shares: dict[str, float] | None = None) -> None:
        """`shares` divides the memories among namespaces; the shares add up to 1."""
        self.size = size
        self._random = np.random.default_rng(seed)
        self._shares = shares or {"bench": 1.0}
        self._centres = _unit(self._random.standard_normal((max(1, size // PER_CLUSTER), DIMENSIONS)))
        weights = 1.0 / np.arange(STOP_WORDS + 1, STOP_WORDS + WORDS + 1)
        self._cumulative = np.cumsum(weights / weights.sum())

    def memories(self) -> Iterator[Loaded]:
        """Make the memories one after another."""
        names, shares = list(self._shares), np.array(list(self._shares.values()))
        made = 0
        while made < self.size:
            count = min(BLOCK, self.size - made)
            vectors = self._vectors(count)
            owners = self._random.choice(len(names), count, p=shares / shares.sum())
            sectors = self._random.integers(0, len(SECTORS), count)
            for offset in range(count):
                number = made + offset
                yield Loaded(
                    id=UUID(uuid7()),
                    namespace=names[owners[offset]],
                    content=self.text(),
                    embedding=half(vectors[offset]),
                    sector=SECTORS[sectors[offset]],
                    speaker=f"speaker{number % 7}",
                    occurred_at=FIRST_DAY + timedelta(minutes=number),
                    thread=f"thread-{number // THREAD}",
                    position=number % THREAD,
                )
            made += count

    def text(self, least: int = LENGTH[0], most: int = LENGTH[1]) -> str:
        """Make a text of so many words."""
        count = int(self._random.integers(least, most + 1))
        ranks = np.searchsorted(self._cumulative, self._random.random(count))
        return " ".join(word(int(rank)) for rank in ranks)

    def query(self) -> tuple[str, NDArray[np.float32]]:
        """Make a question: a few words, and a vector near one cluster."""
        return self.text(3, 8), self._vectors(1)[0]

    def _vectors(self, count: int) -> NDArray[np.float32]:
        centres = self._centres[self._random.integers(0, len(self._centres), count)]
        noise = self._random.standard_normal((count, DIMENSIONS)) * (SPREAD / DIMENSIONS**0.5)
        return _unit(centres + noise)


def half(vector: NDArray[np.float32]) -> HalfBytes:
    """Return a vector as the store keeps it."""
    return HalfBytes(HalfVector(vector).to_binary())


def word(rank: int) -> str:
    """Return the word of a rank: pronounceable, and no two alike after stemming."""
    syllables = []
    rank += 1_000
    while rank:
        rank, part = divmod(rank, 100)
        syllables.append("bdfgklmnprtvz"[part % 10] + "aiou"[part // 10 % 4] + "kmnprtx"[part // 10 // 4 * 3 % 7])
    return "".join(syllables)


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit
