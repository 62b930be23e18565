"""What no single field of an export tells: order, references, what may be there once. In bounded memory.

A million memories take less than 200 MB: 21 bytes for each, 32 for each supersession, and digests of what no two
records may share.
"""

import hashlib
from array import array
from bisect import bisect_left
from datetime import datetime
from functools import singledispatchmethod
from typing import Final
from uuid import UUID

import msgspec
import numpy as np

from engramq.schemas.commands import LinkRequest
from engramq.schemas.exports import (
    AuditRecord,
    DeferredLinkRecord,
    EdgeRecord,
    ImportedRowRecord,
    LinkRecord,
    MemoryRecord,
    NodeRecord,
    ProposalRecord,
    Record,
    TombstoneRecord,
)
from engramq.schemas.occurrences import Occurrences
from engramq.schemas.vocabulary import Partition, ProposalAction, Relation, SectorSource

_ID_BYTES: Final = 16
_NOBODY: Final = -1
_PROMOTED: Final = 2  # the standing of a trusted memory that was untrusted once; 1 is of others, 0 of untrusted ones
HALF: Final = ">f2"

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


class Rules:
    """The rules, and what is remembered of the records that came: one for each reading of a file."""

    def __init__(self) -> None:
        self._memories, self._nodes = Memories(), Ids()
        self._external_ids = Occurrences()
        self._once = Occurrences()  # what is there once among the records of one type
        self._last: tuple[type[Record], bytes] | None = None
        self._line = 0
        self._closed = False

    def check(self, record: Record, line: int) -> None:
        """Remember a record; raises Broken."""
        field, key = _key(record)
        if self._last is not None and self._last[0] is not type(record):
            self._last, self._once = None, Occurrences()
        if self._last is not None and key <= self._last[1]:
            raise Broken(field, "it is not greater than the one before: records come by ids, each once.")
        self._last = (type(record), key)
        self._line = line
        self._check(record)

    def close(self) -> None:
        """Say that no memory comes any more, as often as one likes; raises Broken."""
        if not self._closed:
            self._closed = True
            self._memories.close()

    @singledispatchmethod
    def _check(self, record: Record) -> None:
        """Check what is particular to a type."""

    @_check.register
    def _(self, record: MemoryRecord) -> None:
        self._memories.add(record.id)
        if record.superseded_by is not None:
            if record.superseded_by == record.id:
                raise Broken("superseded_by", "a memory cannot supersede itself.")
            self._superseding += record.superseded_by.bytes
            self._superseding_lines.append(self._line)
        if record.sector is not None and record.sector_source is SectorSource.NONE:
            raise Broken("sector", "a memory that fits no sector has none.")
        self._memories.add(record, self._line)
        self._require_new_external_id(record.external_id)
        _require_forward(record.valid_from, record.valid_until)
        _require_vector(record)

    @_check.register
    def _(self, record: NodeRecord) -> None:
        if record.id in self._memories:
            raise Broken("id", f"{record.id} is a memory's.")
        self._nodes.add(record.id)
        self._require_new_external_id(record.external_id)
        self._require_new("name", f"a node {record.label}: {record.name}", record.label, record.name)

    @_check.register
    def _(self, record: EdgeRecord) -> None:
        for field, end in (("source_id", record.source_id), ("target_id", record.target_id)):
            if end not in self._memories and end not in self._nodes:
                raise Broken(field, f"there is no node {end}.")
        _require_sector(record)
        _require_forward(record.valid_from, record.valid_until)
        ends = str(record.source_id), str(record.target_id)
        self._require_new("relation", f"an edge {record.relation} between these two nodes", *ends, record.relation)

    @_check.register
    def _(self, record: LinkRecord) -> None:
        self._require_pair("source_id", record.source_id, "target_id", record.target_id)
        _require_sector(record)
        ends = self._memories.require_linkable("source_id", record.source_id, "target_id", record.target_id)
        self._memories.require_one_partition(*ends, record.relation)
        _require_forward(record.valid_from, record.valid_until)
        self._require_new("target_id", "a link of these two", str(record.source_id), str(record.target_id))

    @_check.register
    def _(self, record: DeferredLinkRecord) -> None:
        try:
            msgspec.convert({**record.request, "source": "source", "target": "target"}, LinkRequest)
        except msgspec.ValidationError as problem:
            raise Broken("request", f"{problem}.") from None

    @_check.register
    def _(self, record: TombstoneRecord) -> None:
        self._memories.require_linkable("low_id", record.low_id, "high_id", record.high_id)

    @_check.register
    def _(self, record: ProposalRecord) -> None:
        for field, action in (("new_sector", ProposalAction.RECLASSIFY), ("change", ProposalAction.CHANGE)):
            given = bool(getattr(record, field))
            if given is not (record.action is action):
                raise Broken(field, f"a proposal to {record.action} {'has none' if given else 'needs one'}.")
        principals = [one.principal for one in record.approvals]
        if len({*principals}) < len(principals):
            raise Broken("approvals", "a principal approves once.")

    def _require_new_external_id(self, external_id: str | None) -> None:
        if external_id is not None and self._external_ids.count(_digest(external_id)):
            raise Broken("external_id", "another record has the same.")

    def _require_new(self, field: str, what: str, *said: str) -> None:
        if self._once.count(_digest(*said)):
            raise Broken(field, f"{what} is there already.")


def _standing(record: MemoryRecord) -> int:
    if record.partition is Partition.UNTRUSTED:
        return 0
    return 1 if record.promoted_at is None else _PROMOTED


def half_floats(embedding: bytes) -> "np.ndarray[tuple[int], np.dtype[np.float16]]":
    """Return the numbers of an exported vector, float16 [dimensions]."""
    return np.frombuffer(embedding, dtype=HALF).astype(np.float16)


def _require_sector(record: EdgeRecord | LinkRecord) -> None:
    if record.sector_source is SectorSource.NONE:
        raise Broken("sector_source", "only a memory can fit no sector.")


def _require_vector(record: MemoryRecord) -> None:
    if (record.embedding is None) is not (record.embedding_model is None):
        raise Broken("embedding_model", "a vector and its model come together.")
    if record.embedding is None or record.embedding_model is None:
        return
    if len(record.embedding) != 2 * record.embedding_model.dimensions:
        raise Broken("embedding", f"it has {len(record.embedding)} bytes, two for each dimension are needed.")
    if not np.isfinite(half_floats(record.embedding)).all():
        raise Broken("embedding", "not all of its numbers are finite.")


def _require_forward(valid_from: datetime | None, valid_until: datetime | None) -> None:
    if valid_from is not None and valid_until is not None and valid_until <= valid_from:
        raise Broken("valid_until", "it is not later than valid_from.")


def _digest(*said: str) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(said), digest_size=8).digest()


def _key(record: Record) -> tuple[str, bytes]:
    """Return by what the records of a type are sorted: the name of the field, and bytes that sort as its values do."""
    match record:
        case TombstoneRecord():
            return "low_id", record.low_id.bytes + record.high_id.bytes
        case ImportedRowRecord():
            return "digest", bytes.fromhex(record.digest)
        case AuditRecord():
            return "id", record.id.to_bytes(8)
        case _:
            return "id", record.id.bytes
