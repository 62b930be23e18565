"""Memories that are alike, directly or through others: disjoint sets of ids. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final
from uuid import UUID

from engramq.schemas.commands import DuplicateGroup

ID_BYTES: Final = 16


class Digests:
    """Digests of many memories: 32 bytes and an object for each, about 75 bytes."""

    def __init__(self) -> None:
        self._known: list[bytes] = []

    def __len__(self) -> int:
        return len(self._known)

    def add(self, digests: Mapping[str, bytes]) -> None:
        """Take digests by the ids of their memories."""
        self._known += [one + UUID(memory_id).bytes for memory_id, one in digests.items()]

    def equal(self) -> Iterator[list[str]]:
        """Yield the ids of each at least two memories with the same digest, and forget all of them."""
        known, self._known = self._known, []
        known.sort()
        for _, several in groupby(known, key=lambda one: one[:-ID_BYTES]):
            ids = [str(UUID(bytes=one[-ID_BYTES:])) for one in several]
            if len(ids) > 1:
                yield ids


class Sets:
    """Only what is alike to something is kept: about 200 bytes for each id."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._parents)

    def join(self, ids: Sequence[str]) -> None:
        """Put ids, and all that is alike to any of them, into one set."""
        first = self._root(ids[0])
        for one in ids[1:]:
            self._parents[self._root(one)] = first

    def all(self) -> list[list[str]]:
        """Return the sets, each in the order of its ids, in the order of their first ones: the oldest first."""
        found: dict[str, list[str]] = {}
        for one in sorted(self._parents):
            found.setdefault(self._root(one), []).append(one)
        return list(found.values())

    def _root(self, one: str) -> str:
        parent = self._parents.setdefault(one, one)
        while parent != one:
            # Halves the way for whoever comes next.
            self._parents[one] = above = self._parents[parent]
            one, parent = above, self._parents[above]
        return one


def packed(sets: Sequence[Sequence[str]], most: int) -> Iterator[list[Sequence[str]]]:
    """Put sets of at least two ids together until they have so many ids; a larger set goes in pieces, alone."""
    together: list[Sequence[str]] = []
    count = 0
    for one in sets:
        for piece in pieces(one, most):
            if count + len(piece) > most:
                yield together
                together, count = [], 0
            together.append(piece)
            count += len(piece)
    if together:
        yield together


def pieces(ids: Sequence[str], most: int) -> list[Sequence[str]]:
    """Cut ids into pieces of at most so many; a single one at the end is left out."""
    cut = [ids[start : start + most] for start in range(0, len(ids), most)]
    return [one for one in cut if len(one) > 1]


def transactions(groups: Sequence[DuplicateGroup], most: int) -> Iterator[list[DuplicateGroup]]:
    """Put groups together for transactions of at most so many that go; what stays in one goes in a later one only."""
    together: list[DuplicateGroup] = []
    count, stays, goes = 0, set[str](), set[str]()
    for group in groups:
        for start in range(0, len(group.goes), most):
            piece = DuplicateGroup(stays=group.stays, goes=group.goes[start : start + most])
            clash = piece.stays in goes or not stays.isdisjoint(piece.goes)
            if together and (clash or count + len(piece.goes) > most):
                yield together
                together, count, stays, goes = [], 0, set(), set()
            together.append(piece)
            count += len(piece.goes)
            stays.add(piece.stays)
            goes.update(piece.goes)
    if together:
        yield together
