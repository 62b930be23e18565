"""Check what takes more than one record of an export: order, references, duplicates, supersessions.

The records are staged in a private SQLite database, whose keys and queries find what is wrong. It is a temporary file
of which SQLite keeps 2 MB in memory, so an export of a million memories takes no more than a small one.
"""

import re
import sqlite3
from datetime import datetime
from functools import singledispatchmethod
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
import numpy as np

from engramq.schemas import exports
from engramq.schemas.commands import LinkRequest
from engramq.schemas.limits import NAME_CHARS
from engramq.schemas.vocabulary import Partition, ProposalAction, Relation, SectorSource
from engramq.workers.db.viewers import EVERYTHING, Viewer, principal_of

HALF: Final = ">f2"
_PARTS: Final = re.split(r"^-- sqlite: (\w+)$", Path(__file__).with_suffix(".sql").read_text("utf-8"), flags=re.M)
SQL: Final = dict(zip(_PARTS[1::2], _PARTS[2::2], strict=True))


class RuleBroken(Exception):
    """A record breaks a rule: the field that does, and why. `line`: of an earlier record, None of this one."""

    def __init__(self, field: str, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.field, self.reason, self.line = field, reason, line


class _StagedMemory(NamedTuple):
    """The fields of a staged memory that links need; `promoted`: trusted, and untrusted once."""

    trusted: bool
    promoted: bool
    successor: bytes | None
    owner: str | None


class ExportRules:
    """The rules, and the staged records that came: one for each reading of a file."""

    def __init__(self) -> None:
        self._staged = sqlite3.connect("", isolation_level=None)
        self._staged.executescript(SQL["schema"])
        self._last: tuple[type[exports.Record], bytes] | None = None
        self._line = 0
        self._closed = False

    def check(self, record: exports.Record, line: int) -> None:
        """Stage a record; raises RuleBroken."""
        field, key = _key(record)
        if self._last is not None and self._last[0] is not type(record):
            self._last = None
            self._run("forget_once")
        if self._last is not None and key <= self._last[1]:
            raise RuleBroken(field, "it is not greater than the one before: records come by ids, each once.")
        self._last = (type(record), key)
        self._line = line
        self._check(record)

    def end_memories(self) -> None:
        """Say that no memory comes any more, as often as one likes; raises RuleBroken."""
        if self._closed:
            return
        self._closed = True
        wrong = self._run("wrong_pointer").fetchone()
        if wrong is not None:
            line, field, missing, apart = wrong
            if missing is not None:
                raise RuleBroken(field, f"there is no memory {UUID(bytes=missing)}.", line)
            if apart:
                raise RuleBroken(field, "one of the two is private to somebody, and the other is not.", line)
            raise RuleBroken(field, "an untrusted memory cannot supersede a trusted one.", line)
        self._run("index_successors")
        cycle = self._run("cycle").fetchone()
        if cycle is not None:
            raise RuleBroken("superseded_by", "its successors lead back to it.", cycle[0])

    def close(self) -> None:
        """Let the staged records go."""
        self._staged.close()

    def _run(self, name: str, **values: Any) -> sqlite3.Cursor:
        return self._staged.execute(SQL[name], values)

    @singledispatchmethod
    def _check(self, record: exports.Record) -> None:
        """Check what is particular to a type."""

    @_check.register
    def _(self, record: exports.MemoryRecord) -> None:
        if record.sector is not None and record.sector_source is SectorSource.NONE:
            raise RuleBroken("sector", "a memory that fits no sector has none.")
        _require_principal(record.owner)
        self._add_memory(record)
        self._require_new_external_id(record.external_id, record.owner)
        _require_forward(record.valid_from, record.valid_until)
        _require_vector(record)

    @_check.register
    def _(self, record: exports.NodeRecord) -> None:
        if self._memory(record.id) is not None:
            raise RuleBroken("id", f"{record.id} is a memory's.")
        self._run("add_node", id=record.id.bytes)
        self._require_new_external_id(record.external_id)
        self._require_new("name", f"a node {record.label}: {record.name}", record.label, record.name)

    @_check.register
    def _(self, record: exports.EdgeRecord) -> None:
        for field, end in (("source_id", record.source_id), ("target_id", record.target_id)):
            if self._memory(end) is None and self._run("node", id=end.bytes).fetchone() is None:
                raise RuleBroken(field, f"there is no node {end}.")
        self._require_owner_of_ends(record)
        _require_sector(record)
        _require_forward(record.valid_from, record.valid_until)
        ends = str(record.source_id), str(record.target_id)
        self._require_new("relation", f"an edge {record.relation} between these two nodes", *ends, record.relation)

    @_check.register
    def _(self, record: exports.LinkRecord) -> None:
        _require_sector(record)
        self._require_linkable("source_id", record.source_id, "target_id", record.target_id)
        self._require_allowed_partitions(record)
        self._require_owner_of_ends(record)
        _require_forward(record.valid_from, record.valid_until)
        self._require_new("target_id", "a link of these two", str(record.source_id), str(record.target_id))

    @_check.register
    def _(self, record: exports.DeferredLinkRecord) -> None:
        try:
            msgspec.convert({**record.request, "source": "source", "target": "target"}, LinkRequest)
        except msgspec.ValidationError as problem:
            raise RuleBroken("request", f"{problem}.") from None

    @_check.register
    def _(self, record: exports.TombstoneRecord) -> None:
        self._require_linkable("low_id", record.low_id, "high_id", record.high_id)

    @_check.register
    def _(self, record: exports.AuditRecord) -> None:
        if record.owner is not None and record.owner.encode() > EVERYTHING.owner_last.encode():
            raise RuleBroken("owner", "no principal is called so.")

    @_check.register
    def _(self, record: exports.ProposalRecord) -> None:
        for field, action in (("new_sector", ProposalAction.RECLASSIFY), ("change", ProposalAction.CHANGE)):
            given = bool(getattr(record, field))
            if field == "change" and record.action is ProposalAction.SHARE:
                continue  # older exports have none: nobody can use such a proposal
            if given is not (record.action is action):
                raise RuleBroken(field, f"a proposal to {record.action} {'has none' if given else 'needs one'}.")
        principals = [approval.principal for approval in record.approvals]
        if len({*principals}) < len(principals):
            raise RuleBroken("approvals", "a principal approves once.")

    def _add_memory(self, record: exports.MemoryRecord) -> None:
        trusted = record.partition is Partition.TRUSTED
        self._run(
            "add_memory", id=record.id.bytes, line=self._line, trusted=trusted,
            promoted=trusted and record.promoted_at is not None,
            successor=record.superseded_by.bytes if record.superseded_by else None, owner=record.owner,
        )  # fmt: skip
        for field, old, new in (
            ("superseded_by", record.id, record.superseded_by),
            ("supersedes", record.supersedes, record.id),
        ):
            if old == new:
                raise RuleBroken(field, "a memory cannot supersede itself.")
            if old is not None and new is not None:
                self._run("add_pointer", line=self._line, field=field, old=old.bytes, new=new.bytes)

    def _memory(self, memory_id: UUID) -> _StagedMemory | None:
        found = self._run("memory", id=memory_id.bytes).fetchone()
        return None if found is None else _StagedMemory(*found)

    def _require_owner_of_ends(self, record: exports.EdgeRecord | exports.LinkRecord) -> None:
        """Refuse an edge or link that others see than its ends.

        One that has a note may stay its owner's though both ends are shared: consent to these was none to the note.
        """
        ends = (self._memory(record.source_id), self._memory(record.target_id))
        (*owners,) = {end.owner for end in ends if end is not None and end.owner is not None}
        if len(owners) > 1:
            raise RuleBroken("target_id", "its ends are private to two principals.")
        _require_principal(record.owner)
        if not owners and record.owner is not None and record.note is None:
            raise RuleBroken("owner", "neither end is private, and it has no note.")
        if owners and record.owner != owners[0]:
            raise RuleBroken("owner", "it is not that of the private ends.")

    def _require_linkable(self, low_field: str, low: UUID, high_field: str, high: UUID) -> None:
        for field, end in ((low_field, low), (high_field, high)):
            if self._memory(end) is None:
                raise RuleBroken(field, f"there is no memory {end}.")
        if low >= high:
            raise RuleBroken(high_field, f"it is not greater than {low_field}, as that of a link of two memories is.")

    def _require_allowed_partitions(self, record: exports.LinkRecord) -> None:
        """Refuse a link across partitions unless a promotion or a supersession made it cross."""
        ends = [(end, self._memory(end)) for end in (record.source_id, record.target_id)]
        trusted = [(end, memory) for end, memory in ends if memory is not None and memory.trusted]
        untrusted = [memory for _, memory in ends if memory is not None and not memory.trusted]
        if not (trusted and untrusted):
            return
        ((end, above),), (below,) = trusted, untrusted
        if not above.promoted and (record.relation != Relation.SUPERSEDES or below.successor != end.bytes):
            raise RuleBroken("target_id", "one end is trusted, the other is not, and no promotion tells why.")

    def _require_new_external_id(self, external_id: str | None, owner: str | None = None) -> None:
        said = external_id if owner is None else msgspec.json.encode((owner, external_id)).decode()
        if external_id is not None and not self._run("add_once", kind="external_id", said=said).rowcount:
            raise RuleBroken("external_id", "another record has the same.")

    def _require_new(self, field: str, what: str, *said: str) -> None:
        if not self._run("add_once", kind="record", said=msgspec.json.encode(said).decode()).rowcount:
            raise RuleBroken(field, f"{what} is there already.")


def _require_principal(owner: str | None) -> None:
    """Refuse an owner who is nobody: what is done for all, as an erasure, would not reach what is theirs."""
    if owner is None:
        return
    principal = principal_of(owner)
    if Viewer.of(principal).owner != owner or len(principal.name) > NAME_CHARS:
        raise RuleBroken("owner", "no principal is called so.")


def _require_sector(record: exports.EdgeRecord | exports.LinkRecord) -> None:
    if record.sector_source is SectorSource.NONE:
        raise RuleBroken("sector_source", "only a memory can fit no sector.")


def _require_vector(record: exports.MemoryRecord) -> None:
    if (record.embedding is None) is not (record.embedding_model is None):
        raise RuleBroken("embedding_model", "a vector and its model come together.")
    if record.embedding is None or record.embedding_model is None:
        return
    if len(record.embedding) != 2 * record.embedding_model.dimensions:
        raise RuleBroken("embedding", f"it has {len(record.embedding)} bytes, two for each dimension are needed.")
    if not np.isfinite(np.frombuffer(record.embedding, dtype=HALF)).all():
        raise RuleBroken("embedding", "not all of its numbers are finite.")


def _require_forward(valid_from: datetime | None, valid_until: datetime | None) -> None:
    if valid_from is not None and valid_until is not None and valid_until <= valid_from:
        raise RuleBroken("valid_until", "it is not later than valid_from.")


def _key(record: exports.Record) -> tuple[str, bytes]:
    """Return by what the records of a type are sorted: the name of the field, and bytes that sort as its values do."""
    match record:
        case exports.TombstoneRecord():
            return "low_id", record.low_id.bytes + record.high_id.bytes
        case exports.ImportedRowRecord():
            return "digest", bytes.fromhex(record.digest)
        case exports.AuditRecord():
            return "id", record.id.to_bytes(8)
        case _:
            return "id", record.id.bytes
