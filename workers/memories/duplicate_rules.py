"""Decide which memories are duplicates, and which of them stays. No I/O.

Vectors hardly tell "heating is on" from "heating is off" (.96), "is married" from "was married" (.98), nor who lent
what to whom (.97). Texts that differ in any word, number, sign or in their order say different things, however near
they are; no list of words, of whatever language, holds all those by which facts contradict each other.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import blake2b
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from engramq.schemas.vocabulary import Verification

Vector = NDArray[np.float32]

_VOUCHED: Final = {Verification.VERIFIED: 1, Verification.APPROVED: 2}  # others: 0
# The article that says nothing. "a" does: "a few" are more than "few", and in Spanish or Polish it is another word.
_ARTICLE: Final = "the"
_END_MARKS: Final = " .!\u2026\u3002\uff01\u0964"  # of a statement; a question mark makes it another thing
_TYPED: Final = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011\u2212", "''\"\"---")  # signs that keyboards lack
DIGEST_BYTES: Final = 16


class _TextDetails:
    """The details of a text that vectors do not tell apart."""

    def __init__(self, content: str) -> None:
        self.text = plain(content)

    @cached_property
    def words(self) -> str:
        """The text without its last marks and the article."""
        kept = [word for word in self.text.rstrip(_END_MARKS).translate(_TYPED).split() if word != _ARTICLE]
        return _begun(" ".join(kept)) or self.text


def plain(content: str) -> str:
    """Return a text with single spaces, its first word small unless it has capitals within.

    Other capitals count: MB are no Mb, May is no verb.
    """
    return _begun(" ".join(unicodedata.normalize("NFC", content).split()))


def _begun(text: str) -> str:
    word, space, rest = text.partition(" ")
    return word[:1].lower() + word[1:] + space + rest if word[1:] == word[1:].lower() else text


def digest(kind: str, content: str) -> bytes:
    """Return what memories of one kind and of equal text have in common, 16 bytes."""
    return blake2b(f"{kind} {plain(content)}".encode(), digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Compared:
    """A memory as it is compared. `kept`: somebody has chosen, linked or named it, so it never goes.

    `is_told`: its text may be compared with equal ones; `is_telling`: with alike ones too. `vector`: of unit length,
    None when another model made it.
    """

    id: UUID
    kind: str
    said: _TextDetails
    vector: Vector | None
    verification: Verification
    created_at: datetime
    kept: bool
    is_told: bool
    is_telling: bool

    @property
    def rank(self) -> tuple[int, bool, datetime, UUID]:
        """The memory that stays has the highest: a vouched-for one, then a kept one, then the newest."""
        return _VOUCHED.get(self.verification, 0), self.kept, self.created_at, self.id


def extract_details(content: str) -> _TextDetails:
    """Return what a content says."""
    return _TextDetails(content)


def similarity_to(stays: Compared, goes: Compared, least: float) -> float | None:
    """Return how similar a memory is to one that may stand for it; None when that one may not."""
    if goes.kept or stays.kind != goes.kind or stays.rank < goes.rank or stays.id == goes.id:
        return None
    if stays.said.text == goes.said.text:
        return 1.0 if stays.is_told and goes.is_told else None
    if stays.vector is None or goes.vector is None or not (stays.is_telling and goes.is_telling):
        return None
    cosine = min(1.0, float(stays.vector @ goes.vector))
    return cosine if cosine >= least and says_the_same(stays.said, goes.said) else None


def says_the_same(first: _TextDetails, other: _TextDetails) -> bool:
    """Say whether texts are of the same words and marks, in the same order."""
    return first.words == other.words


@dataclass(frozen=True, slots=True)
class AlikeGroup:
    """The memory that stays, and those that it stands for, with the similarity of each to it."""

    stays: Compared
    goes: list[tuple[Compared, float]]


def groups(memories: Iterable[Compared], least: float) -> list[AlikeGroup]:
    """Return who stands for whom.

    Each that goes is itself alike to the one that stays: no chain leads from one to another.
    """
    alike: dict[tuple[str, str], list[Compared]] = {}
    for memory in sorted(memories, key=lambda memory: memory.rank, reverse=True):
        alike.setdefault((memory.kind, memory.said.words), []).append(memory)
    return [group for several in alike.values() if len(several) > 1 for group in _group(several, least)]


def _group(several: Sequence[Compared], least: float) -> list[AlikeGroup]:
    """Return who stands for whom among memories of one kind and the same words, the highest rank first."""
    numbers = {text: number for number, text in enumerate({memory.said.text for memory in several})}
    texts = np.array([numbers[memory.said.text] for memory in several])
    is_told = np.array([memory.is_told for memory in several])
    vectors = [memory.vector if memory.is_telling else None for memory in several]
    dimensions = next((len(vector) for vector in vectors if vector is not None), 0)
    nothing = np.full(dimensions, np.nan, dtype=np.float32)  # near nothing: all that is compared with NaN is false
    matrix = np.stack([nothing if vector is None else vector for vector in vectors])
    gone, kept = np.zeros(len(several), dtype=bool), np.array([memory.kept for memory in several])
    found = []
    for place, stays in enumerate(several):
        if gone[place]:
            continue
        cosines = matrix @ matrix[place]
        same = texts == texts[place]
        near = np.where(same, is_told & is_told[place], cosines >= least) & ~gone & ~kept
        near[: place + 1] = False
        if near.any():
            gone |= near
            cosines = np.where(same, 1.0, np.minimum(cosines, 1.0))
            found.append(
                AlikeGroup(stays, [(several[row], float(cosines[row])) for row in np.flatnonzero(near).tolist()])
            )
    return found
