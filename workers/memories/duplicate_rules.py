"""Which memories are duplicates, and which of them stays. Pure.

Vectors hardly tell "the server has 16 GB" from "the server has 32 GB", nor tea from coffee in a long sentence, nor who
reports to whom: texts that differ in a number, a name, a negation, in the order of the same words, or in one word that
took another's place say different things, however near they are.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from engramq.schemas.vocabulary import Verification

Vector = NDArray[np.float32]

_VOUCHED: Final = {Verification.VERIFIED: 1, Verification.APPROVED: 2}  # others: 0
_NUMBER: Final = re.compile(r"[-\u2212+]?\d+(?:[.,:/-]\d+)*")
_WORD: Final = re.compile(r"[^\W\d_]+")
_BEGINS: Final = re.compile(r"(?:^|[.!?:;\n])[\s\"'(\[*-]*$")  # the text before the first word of a sentence
_BEFORE_CHARS: Final = 8  # of the text before a word that are looked at
_NEGATION: Final = re.compile(
    r"\b(?:not|no|never|none|nor|neither|nobody|nothing|nowhere|without|cannot)\b|n['\u2019]t\b", re.IGNORECASE
)
# Words that may take each other's place without a change of what is said.
_LIGHT: Final = frozenset(
    re.findall(
        r"\w+",
        "a an the this that these those our my your his her their its it we i you he she they is are was were be been "
        "has have had do does did will would shall and or of to in on at for with by from as",
    )
)
_STEM_CHARS: Final = 4  # that forms of one word share at least


class _Said:
    """What a text says that vectors do not tell apart."""

    def __init__(self, content: str) -> None:
        self.text = " ".join(content.casefold().split())
        self._content = content

    @cached_property
    def numbers(self) -> list[str]:
        return _NUMBER.findall(self._content)

    @cached_property
    def negations(self) -> int:
        return len(_NEGATION.findall(self._content))

    @cached_property
    def names(self) -> frozenset[str]:
        """Capitalised words, but for the first of each sentence; in lower case."""
        return frozenset(
            found[0].casefold()
            for found in _WORD.finditer(self._content)
            if found[0][0].isupper()
            and not _BEGINS.search(self._content, max(0, found.start() - _BEFORE_CHARS), found.start())
        )

    @cached_property
    def every_word(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.text))

    @cached_property
    def words(self) -> list[str]:
        return [word for word in _WORD.findall(self.text) if word not in _LIGHT]


@dataclass(frozen=True, slots=True)
class Compared:
    """A memory as it is compared. `kept`: somebody has chosen or linked it by hand, so it never goes.

    `is_told`: its text may be compared with equal ones; `is_telling`: with alike ones too. `vector`: of unit length,
    None when another model made it.
    """

    id: UUID
    kind: str
    said: _Said
    vector: Vector | None
    verification: Verification
    created_at: datetime
    kept: bool
    is_told: bool
    is_telling: bool

    @property
    def rank(self) -> tuple[int, bool, datetime, UUID]:
        """What stays has the highest: what is vouched for, then what is kept, then what is newest."""
        return _VOUCHED.get(self.verification, 0), self.kept, self.created_at, self.id


def said(content: str) -> _Said:
    """Return what a content says."""
    return _Said(content)


def unit(vector: Vector) -> Vector:
    """Return a vector at the length of one."""
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm else vector


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


def says_the_same(one: _Said, other: _Said) -> bool:
    """Say whether texts that are near each other differ in nothing that vectors are blind to."""
    return (
        one.numbers == other.numbers
        and one.negations == other.negations
        and one.names <= other.every_word
        and other.names <= one.every_word
        and not _swapped(one.words, other.words)
    )


def _swapped(one: list[str], other: list[str]) -> bool:
    """Say whether the same words stand in another order, or one word took the place of one other."""
    of_one, of_other = Counter(one), Counter(other)
    only_one, only_other = list((of_one - of_other).elements()), list((of_other - of_one).elements())
    if not only_one and not only_other:
        return one != other
    if len(only_one) != 1 or len(only_other) != 1:
        return False
    left, right = only_one[0], only_other[0]
    stem = max(_STEM_CHARS, min(len(left), len(right)) - 1)
    return left[:stem] != right[:stem]


@dataclass(frozen=True, slots=True)
class Group:
    """The memory that stays, and those that it stands for, with the similarity of each to it."""

    stays: Compared
    goes: list[tuple[Compared, float]]


def groups(memories: Sequence[Compared], least: float) -> list[Group]:
    """Return who stands for whom.

    Each that goes is itself alike to the one that stays: no chain leads from one to another.
    """
    free = sorted(memories, key=lambda one: one.rank, reverse=True)
    found = []
    while free:
        stays, *others = free
        near = {one.id: value for one in others if (value := similarity_to(stays, one, least)) is not None}
        if near:
            found.append(Group(stays, [(one, near[one.id]) for one in others if one.id in near]))
        free = [one for one in others if one.id not in near]
    return found
