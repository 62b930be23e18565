"""The memories of an export, as what comes after them may refer to them: what supersedes what, and who is trusted.

In bounded memory: 21 bytes for each memory, 29 for each that it names.
"""

from array import array
from bisect import bisect_left
from typing import Final
from uuid import UUID

from engramq.schemas.exports import MemoryRecord
from engramq.schemas.vocabulary import Partition, Relation

_ID_BYTES: Final = 16
_NOBODY: Final = -1
_PROMOTED: Final = 2  # the standing of a trusted memory that was untrusted once; 1 is of others, 0 of untrusted ones

SUPERSEDED_BY: Final = "superseded_by"
_POINTERS: Final = (SUPERSEDED_BY, "supersedes")  # the fields that name another memory


class Broken(Exception):
    """A record breaks a rule: the field that does, and why. `line`: of an earlier record, None of this one."""

    def __init__(self, field: str, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.field, self.reason, self.line = field, reason, line


class Ids:
    """Ids that came in ascending order, 16 bytes each."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, one: UUID) -> None:
        """Add the next one."""
        self._bytes += one.bytes

    def place(self, one: UUID) -> int | None:
        """Return how many came before it, None when it did not come."""
        wanted, place = one.bytes, bisect_left(range(len(self)), one.bytes, key=self._at)
        return place if place < len(self) and self._at(place) == wanted else None

    def __contains__(self, one: UUID) -> bool:
        return self.place(one) is not None

    def __len__(self) -> int:
        return len(self._bytes) // _ID_BYTES

    def _at(self, place: int) -> bytes:
        return bytes(self._bytes[place * _ID_BYTES : (place + 1) * _ID_BYTES])


class Memories:
    """All memories, and what supersedes what. Records name memories that come later, so `close` looks at the pairs."""

    def __init__(self) -> None:
        self._ids = Ids()
        self._standings = bytearray()  # by place; see _standing
        self._successors = array("i")  # by place, the place of what supersedes it
        self._pointers = bytearray()  # ids that memories name
        self._pointing = array("i")  # the places of those memories
        self._lines = array("Q")  # and their lines; together in the order of `_pointers`
        self._fields = bytearray()  # and by which of _POINTERS

    def __contains__(self, one: UUID) -> bool:
        return one in self._ids

    def add(self, record: MemoryRecord, line: int) -> None:
        """Add the next one; raises Broken."""
        place = len(self._ids)
        self._ids.add(record.id)
        self._standings.append(_standing(record))
        self._successors.append(_NOBODY)
        for number, field in enumerate(_POINTERS):
            other: UUID | None = getattr(record, field)
            if other == record.id:
                raise Broken(field, "a memory cannot supersede itself.")
            if other is not None:
                self._pointers += other.bytes
                self._pointing.append(place)
                self._lines.append(line)
                self._fields.append(number)

    def close(self) -> None:
        """Look at all supersessions, as no memory comes any more; raises Broken."""
        for number, (place, line) in enumerate(zip(self._pointing, self._lines, strict=True)):
            other = UUID(bytes=bytes(self._pointers[number * _ID_BYTES : (number + 1) * _ID_BYTES]))
            field, found = _POINTERS[self._fields[number]], self._ids.place(other)
            if found is None:
                raise Broken(field, f"there is no memory {other}.", line)
            old, new = (place, found) if field == SUPERSEDED_BY else (found, place)
            if self._standings[old] and not self._standings[new]:
                raise Broken(field, "an untrusted memory cannot supersede a trusted one.", line)
            if field == SUPERSEDED_BY:
                self._successors[old] = new
        self._require_no_cycle()
        self._pointers, self._pointing, self._lines = bytearray(), array("i"), array("Q")
        self._fields = bytearray()

    def require_linkable(self, low_field: str, low: UUID, high_field: str, high: UUID) -> tuple[int, int]:
        """Return the places of a pair that a link or its tombstone is of; raises Broken."""
        places = []
        for field, one in ((low_field, low), (high_field, high)):
            place = self._ids.place(one)
            if place is None:
                raise Broken(field, f"there is no memory {one}.")
            places.append(place)
        if low >= high:
            raise Broken(high_field, f"it is not greater than {low_field}, as that of a link of two memories is.")
        return places[0], places[1]

    def require_one_partition(self, low: int, high: int, relation: str) -> None:
        """Raise Broken where a link crosses the partitions that neither a promotion nor a supersession made cross."""
        trusted, other = (low, high) if self._standings[low] else (high, low)
        if bool(self._standings[trusted]) is bool(self._standings[other]) or self._standings[trusted] == _PROMOTED:
            return
        if relation != Relation.SUPERSEDES or self._successors[other] != trusted:
            raise Broken("target_id", "one end is trusted, the other is not, and no promotion tells why.")

    def _require_no_cycle(self) -> None:
        seen = bytearray(len(self._successors))  # 1 on the way that is followed, 2 when that has ended
        for number, begin in enumerate(self._pointing):
            place = begin
            while place != _NOBODY and not seen[place]:
                seen[place] = 1
                place = self._successors[place]
            if place != _NOBODY and seen[place] == 1:
                raise Broken(SUPERSEDED_BY, "what supersedes it is superseded by it in the end.", self._lines[number])
            place = begin
            while place != _NOBODY and seen[place] == 1:
                seen[place] = 2
                place = self._successors[place]


def _standing(record: MemoryRecord) -> int:
    if record.partition is Partition.UNTRUSTED:
        return 0
    return 1 if record.promoted_at is None else _PROMOTED
