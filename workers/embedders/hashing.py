"""Make deterministic vectors without a model, for unit tests: the `hash` embedder.

Knows: words, their rough stems, character trigrams. Refuses to know: meaning. Texts that share words are near, others
are not; nothing more may be concluded from its scores. Implements `interface.Embedder`.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from engramq.workers.embedders.interface import Embedder, EmbedderSpec, EmbedderUnavailable, Vectors

NAME = "hash"
DIMENSIONS = 384

_Feature: TypeAlias = tuple[int, float]  # a number for its name, its weight
_KNOWN_WORDS = 4_096
_KNOWN_TEXTS = 512  # each pipeline of a test embeds the same hundred examples
# A word outweighs its trigrams together, so that a shared spelling fragment alone never makes two texts near.
_STEM_WEIGHT = 1.0
_TRIGRAM_WEIGHT = 0.15
_WORD = re.compile(r"[^\W_]+")
_SUFFIXES = ("ations", "ation", "ings", "ing", "edly", "ies", "ed", "es", "ly", "s", "e", "y")
_SHORTEST_STEM = 3
# Words so common that sharing them says nothing; without this every two English sentences look alike.
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be been but by did do does for from had has have he her his i in is it its me my not of on "
        "or our she so that the their them they this to was we were what when where which who will with you your",
    )
)


class HashEmbedder(Embedder):
    """Hash stems and trigrams into 384 signed buckets (blake2b, so equal over runs and machines)."""

    spec = EmbedderSpec(name=NAME, dimensions=DIMENSIONS, max_tokens=1_000_000)

    def __init__(self) -> None:
        self._closed = False

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:  # noqa: ARG002 - all alike
        if self._closed:
            raise EmbedderUnavailable("the hash embedder is closed")
        vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[:] = _vector(text)
        return vectors

    async def warm(self) -> None:
        """There is nothing to load."""

    async def aclose(self) -> None:
        self._closed = True


@lru_cache(_KNOWN_TEXTS)
def _vector(text: str) -> Vectors:
    totals = [0.0] * DIMENSIONS
    for (number, weight), count in Counter(_features(text)).items():
        sign = 1.0 if number & 1 else -1.0
        totals[(number >> 1) % DIMENSIONS] += sign * weight * math.sqrt(count)
    vector = np.array(totals)
    norm = float(np.linalg.norm(vector))
    if norm == 0.0:
        # Cosine distance needs a direction: texts without a word share one of their own.
        vector[0] = norm = 1.0
    return (vector / norm).astype(np.float32)


def forget_texts() -> None:
    """Keep nothing of any text: one of them was erased."""
    _vector.cache_clear()
    _features_of.cache_clear()


def _features(text: str) -> Iterator[_Feature]:
    words = _WORD.findall(text.casefold())
    telling = [word for word in words if word not in _STOP_WORDS]
    for word in telling or words:
        yield from _features_of(word)


@lru_cache(_KNOWN_WORDS)
def _features_of(word: str) -> tuple[_Feature, ...]:
    stem = _stem(word)
    marked = f"<{stem}>"
    parts = [marked[start : start + 3] for start in range(len(marked) - 2)]
    return (_feature(f"word:{stem}", _STEM_WEIGHT), *(_feature(f"part:{part}", _TRIGRAM_WEIGHT) for part in parts))


def _feature(name: str, weight: float) -> _Feature:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little"), weight


def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return word.removesuffix(suffix)
    return word
