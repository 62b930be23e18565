"""Restore an export into a namespace that holds nothing: all of it, or, whatever happens, nothing.

One transaction writes everything. So nobody ever sees a half of it or works on it, and a restoration that was killed
has left nothing behind. It holds up vacuum and builds of indexes for as long as it takes, as an export does.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import msgspec

from engramq.schemas.exports import (
    OF_NAMESPACE,
    AuditRecord,
    EdgeRecord,
    EmbeddingModel,
    Head,
    MemoryRecord,
    NodeRecord,
    type_of,
)
from engramq.schemas.fields import compose_letters
from engramq.schemas.ids import format_time
from engramq.schemas.vocabulary import AuditAction, MemoryState, Partition
from engramq.workers.db import audit, audit_chain, namespaces
from engramq.workers.db.database import Store
from engramq.workers.db.errors import BadValue, Duplicate
from engramq.workers.db.loads import LARGE_ROWS, LARGE_SHARE, next_load
from engramq.workers.db.readiness import packaged
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.db.vectors import Embedding, Sizes
from engramq.workers.tenants.export_check import FILE, LINE, CheckedLine, ExportReader, ExportRefused, ExportSummary

# Records with texts that others are found by, and these texts: kept in one normal form, see `compose_letters`.
_COMPOSED: Final = (MemoryRecord, NodeRecord, EdgeRecord)
_TEXTS: Final = frozenset(
    ("content", "external_id", "source_type", "speaker", "thread", "tags", "project", "label", "name", "relation")
)
ROWS_AT_ONCE: Final = 500
BYTES_AT_ONCE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Writing:
    """How records of one type, but memories, are written."""

    query: str
    values: Mapping[str, Any] = field(default_factory=dict)


WRITINGS: Final[Mapping[str, Writing]] = {
    "node": Writing("write_exported_nodes"),
    "edge": Writing("write_exported_edges", {"layer": "knowledge"}),
    "link": Writing("write_exported_edges", {"layer": "association"}),
    "deferred_link": Writing("write_exported_deferred_links"),
    "tombstone": Writing("write_exported_tombstones"),
    "proposal": Writing("write_exported_proposals"),
    "imported_row": Writing("write_exported_imported_rows"),
    "audit": Writing("write_exported_audit"),
}

ReadLines = Callable[[], Iterable[bytes]]  # the lines of an export, from the first one each time
# What is being done, with how many records it is, and of how many (None: nobody knows yet).
ReportRecords = Callable[[str, int, int | None], None]


class NamespaceOccupied(Exception):
    """The namespace does not take an export; the message says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedExport:
    """The findings of the first reading."""

    head: Head
    summary: ExportSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The restored records: how many by type, and how many memories wait for a vector."""

    counts: Mapping[str, int]
    pending: int


def check(lines: ReadLines, report: ReportRecords) -> CheckedExport:
    """Read a whole export without writing anything; raises ExportRefused, UnusableFile."""
    reading = ExportReader(lines(), packaged().version)
    head = reading.head()
    for count, _ in enumerate(reading.records(), start=1):
        report("checked", count, None)
    return CheckedExport(head=head, summary=reading.summary)


async def require_empty(store: Store, namespace: str) -> None:
    """Raise NamespaceOccupied unless the namespace holds nothing, EngramqError with `unavailable`."""
    await store.read(namespace, _require_empty)


async def restore_records(
    store: Store, namespace: str, found: CheckedExport, lines: ReadLines, actor: str, report: ReportRecords
) -> Restored:
    """Write an export that `check` has found to be whole, in the name of `actor`.

    Raises NamespaceOccupied; ExportRefused when the lines are other ones by now or the database refuses one;
    EngramqError with `unavailable`. Nothing was written then. Raises ResultUnknown when that cannot be said.
    """

    async def write(tx: Transaction) -> Restored:
        await tx.send("plan_by_keys")
        row = await tx.row("lock_restoration")
        if row is None or not row["locked"]:
            raise NamespaceOccupied(
                f"Namespace {namespace!r} is being restored by somebody else. Wait until that has ended."
            )
        await _require_empty(tx)
        model = await _model(tx, found.summary)
        return await _Restoration(tx, found, model, actor, report).run(lines())

    try:
        return await store.write_at_length(namespace, write)
    except _KeyTaken as problem:
        raise await _refuse_taken(store, namespace, problem) from None


async def _require_empty(tx: Transaction) -> None:
    row = await tx.row("what_is_there")
    there = [] if row is None else row["found"]
    if there:
        raise NamespaceOccupied(
            f"Namespace {tx.namespace!r} is not empty: it holds {', '.join(there)}. Name another one with --namespace, "
            "or empty it with engramq tenant delete."
        )


class _KeyTaken(Exception):
    """Somebody else's row has a key of one of these records by now; `constraint`: which, as the database calls it."""

    def __init__(self, batch: Sequence[CheckedLine], constraint: str) -> None:
        super().__init__(constraint)
        self.batch, self.constraint = batch, constraint


async def _refuse_taken(store: Store, namespace: str, problem: _KeyTaken) -> ExportRefused:
    """Return the refusal that names the record and its key, as far as that is still to be seen."""
    first = problem.batch[0].number
    if isinstance(problem.batch[0].record, MemoryRecord | NodeRecord):
        lines = [checked.line.decode() for checked in problem.batch]
        row = await store.read(namespace, lambda tx: tx.row("taken_key", lines=lines))
        if row is not None:
            number, key = problem.batch[row["place"] - 1].number, f"{row['field']} {row['value']!r}"
            return ExportRefused(number, row["field"], f"somebody has written {key} meanwhile ({problem.constraint}).")
    reason = _in_lines(problem.batch, f"something has a key that somebody has written meanwhile ({problem.constraint})")
    return ExportRefused(first, LINE, reason)


@dataclass(frozen=True, slots=True)
class _Model:
    """The model whose vectors are taken."""

    id: int
    model: EmbeddingModel


async def _model(tx: Transaction, summary: ExportSummary) -> _Model | None:
    """Return the model of the store, if the export has vectors of it. A store without any gets the export's.

    Within the transaction, so that one which fails leaves no model chosen. Until it ends nobody else writes memories
    into a store without any model, since the index of its first one is made.
    """
    vectors: Counter[EmbeddingModel] = Counter()
    for (model, _), count in summary.vectors.items():
        vectors[model] += count
    if not vectors:
        return None
    for row in await tx.rows("chosen_model"):
        chosen = EmbeddingModel(name=row["name"], sha256=row["sha256"], dimensions=row["dimensions"])
        return _Model(row["id"], chosen) if chosen in vectors else None
    ((model, _),) = vectors.most_common(1)
    made = await tx.only_row("register_model", name=model.name, sha256=model.sha256, dimensions=model.dimensions)
    return _Model(made["id"], model)


@dataclass(slots=True)
class _Restoration:
    """A restoration under way, in its transaction."""

    tx: Transaction
    found: CheckedExport
    model: _Model | None
    actor: str
    report: ReportRecords
    loaded: set[Partition] = field(default_factory=set)  # whose vectors come as loads
    pending: int = 0
    written: int = 0

    async def run(self, lines: Iterable[bytes]) -> Restored:
        tx, head = self.tx, self.found.head
        reading = ExportReader(lines, packaged().version)
        if reading.head() != head:
            raise _refuse_changed()
        if self.found.summary.last_audit_id:
            await tx.send("advance_audit_ids", last=self.found.summary.last_audit_id)
        await tx.send("write_exported_namespace", **{name: getattr(head, name) for name in OF_NAMESPACE})
        await self._choose_loaded()
        whole = self.found.summary.counts.total()
        for batch in _batches(reading.records()):
            await self._write(batch)
            self.written += len(batch)
            self.report("restored", self.written, whole)
        if reading.summary.digest != self.found.summary.digest:
            raise _refuse_changed()
        counts = dict(reading.summary.counts)
        contents = {"from": head.namespace, "exported_at": format_time(head.exported_at), **counts}
        await audit.write(tx, self.actor, AuditAction.RESTORE_TENANT, None, old={}, new=contents)
        last = await audit_chain.extend(tx, 0)
        while last:
            last = await audit_chain.extend(tx, last)
        await namespaces.note(tx)
        return Restored(counts=counts, pending=self.pending)

    async def _choose_loaded(self) -> None:
        """Let many vectors come as loads, whose index is built afterwards: inserting each would take 3 ms."""
        for partition in Partition if self.model is not None else ():
            assert self.model is not None
            rows = self.found.summary.vectors[self.model.model, partition]
            everybodys = (await Sizes().of(self.tx, (partition,))).everybodys
            if rows >= LARGE_ROWS and rows >= LARGE_SHARE * everybodys:
                self.loaded.add(partition)

    async def _load(self, batch: Sequence[MemoryRecord], partition: Partition) -> int | None:
        """Return the load that the vectors of a partition belong to; None where they are indexed one by one."""
        rows = sum(memory.partition is partition and self._takes(memory) for memory in batch)
        if not rows or partition not in self.loaded or self.model is None:
            return None
        load = await next_load(self.tx, partition, self.model.id, rows=rows)
        if load is None:
            self.loaded.discard(partition)
        return load

    async def _write(self, batch: Sequence[CheckedLine]) -> None:
        kind = type_of(batch[0].record)
        lines = [_composed_line(checked) for checked in batch]
        try:
            if kind == type_of(MemoryRecord):
                row = await self._write_memories(
                    [checked.record for checked in batch if isinstance(checked.record, MemoryRecord)], lines
                )
            else:
                writing = WRITINGS[kind]
                of_log = {"brought_from": self.found.head.namespace} if kind == type_of(AuditRecord) else {}
                row = await self.tx.row(writing.query, lines=lines, **writing.values, **of_log)
        except Duplicate as problem:
            raise _KeyTaken(batch, problem.diag.constraint_name or "") from None
        except BadValue as problem:
            reason = _in_lines(batch, f"the database does not take it: {problem.diag.message_primary}")
            raise ExportRefused(batch[0].number, LINE, reason) from None
        if row is None or row["rows"] != len(batch):
            raise ExportRefused(batch[0].number, "id", _in_lines(batch, "another entry of the audit log has this id"))

    async def _write_memories(self, batch: Sequence[MemoryRecord], lines: Sequence[str]) -> Row | None:
        return await self.tx.row(
            "write_exported_memories",
            lines=lines,
            vectors=[self._vector(memory) for memory in batch],
            model_id=None if self.model is None else self.model.id,
            trusted_load=await self._load(batch, Partition.TRUSTED),
            untrusted_load=await self._load(batch, Partition.UNTRUSTED),
        )

    def _vector(self, record: MemoryRecord) -> str | None:
        """Return the vector of a memory as PostgreSQL reads it, None where it has none that can be taken."""
        if self._takes(record) and self.model is not None and record.embedding is not None:
            return Embedding.exported(self.model.id, record.embedding).text
        self.pending += record.state is not MemoryState.ARCHIVED
        return None

    def _takes(self, record: MemoryRecord) -> bool:
        return self.model is not None and record.embedding is not None and record.embedding_model == self.model.model


def _composed_line(checked: CheckedLine) -> str:
    """Return a line with the texts of a memory, a node or an edge as engramq keeps them, and all else as it is."""
    if not isinstance(checked.record, _COMPOSED) or (checked.line.isascii() and b"\\u" not in checked.line):
        return checked.line.decode()
    fields = msgspec.json.decode(checked.line, type=dict[str, msgspec.Raw])
    for name in _TEXTS & fields.keys():
        fields[name] = msgspec.Raw(msgspec.json.encode(compose_letters(msgspec.json.decode(fields[name]))))
    return msgspec.json.encode(fields).decode()


def _batches(records: Iterator[CheckedLine]) -> Iterator[list[CheckedLine]]:
    """Put records of one type together, as many as one statement takes."""
    for _, several in groupby(records, key=lambda checked: type(checked.record)):
        batch, size = list[CheckedLine](), 0
        for checked in several:
            batch.append(checked)
            size += len(checked.line)
            if len(batch) >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch


def _in_lines(batch: Sequence[CheckedLine], reason: str) -> str:
    return f"in this line or up to line {batch[-1].number}, {reason}."


def _refuse_changed() -> ExportRefused:
    return ExportRefused(1, FILE, "it was changed while it was read.")
