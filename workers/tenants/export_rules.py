"""What no single field of an export tells: order, references, what may be there once. In bounded memory.

A million memories take less than 200 MB: what export_memories.py keeps of them, and digests of what no two records may
share.
"""

import hashlib
from datetime import datetime
from functools import singledispatchmethod
from typing import Final

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
from engramq.schemas.vocabulary import ProposalAction, SectorSource
from engramq.workers.tenants.export_memories import Broken, Ids, Memories

HALF: Final = ">f2"


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
