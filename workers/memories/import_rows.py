"""Route and sort the rows of one import by what went in before, known by external id or, for good, by identity."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from engramq.schemas.commands import ImportBatch, ImportMemories, ImportRecord, ImportRow, Original, Receipt
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.fields import or_none, tag_key
from engramq.schemas.setting_values import Retention
from engramq.schemas.vocabulary import EVERY_PROJECT, Absence, OnDuplicate, Partition, ReceiptStatus, Verification
from engramq.workers.db.loads import IDLE_S, LARGE_ROWS, LARGE_SHARE, LOAD_ROWS, load_of, open_load
from engramq.workers.db.privacy import CAPTURED, Usual, usual_visibility
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.db.vectors import Sizes
from engramq.workers.db.viewers import Viewer
from engramq.workers.memories.quotas import Allowance
from engramq.workers.memories.store import Draft, route_draft
from engramq.workers.runner import Context
from engramq.workers.trust import may_displace

RECORDS: Final = "records"  # what a receipt names where a row is none at all
NAMESPACES_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class KnownMemory:
    """A memory that has an external id already; locked. `absence`: why it is not to be found; UNSET when it is.

    `owner`: whose it is if it is private.
    """

    id: UUID
    partition: Partition
    verification: Verification
    created_by: str
    absence: Absence | UnsetType
    content: str
    metadata: dict[str, Any]
    owner: str | None
    project: str | None = None

    @classmethod
    def made(cls, made: Draft, memory_id: UUID) -> "KnownMemory":
        """Return what is known of a memory that this batch has made."""
        memory, metadata = made.memory, or_none(made.memory.metadata) or {}
        verification, by, owner = memory.verification, made.created_by, made.owner
        return cls(memory_id, made.partition, verification, by, UNSET, memory.content, metadata, owner)


def known_of(row: Row) -> KnownMemory:
    """Return what a row tells of a memory."""
    words = {
        "partition": Partition(row["partition"]),
        "verification": Verification(row["verification"]),
        "absence": _absence_of(row),
    }
    return KnownMemory(**{**row, **words})


@dataclass(frozen=True, slots=True)
class EarlierRow:
    """A row that went in before: the memory that it became.

    `partition`: where the memory is, or was. `absence`: why it is not to be found; UNSET when it is.
    """

    memory_id: UUID
    partition: Partition
    absence: Absence | UnsetType

    def stays_out_of(self, partition: Partition) -> bool:
        """Return whether the row is not to go in once more.

        An erased untrusted memory is no reason to keep a trusted row out: else whoever imports a file first, and is
        not trusted, would decide what others cannot import.
        """
        return self.absence is not Absence.ERASED or may_displace(self.partition, partition)


@dataclass(frozen=True, slots=True)
class RoutedRow:
    """A record and the memory that it is where there is none yet; `identity`: by which it is known for good.

    `private_identity`: by which it is known once it turns out to be private. `original`: the memory that it was
    exported from. `replaces`: the one that it corrects; by its identity the newest of such corrections is known.
    """

    record: ImportRecord
    draft: Draft
    identity: bytes | None
    private_identity: bytes | None = None
    original: Original | None = None
    replaces: UUID | None = None

    @property
    def identities(self) -> list[bytes]:
        """By what it may be known already."""
        return [each for each in (self.identity, self.private_identity) if each is not None]

    def kept_to_author(self, owner: str | None) -> "RoutedRow":
        """Return the same row as its owner alone sees it."""
        identity = self.private_identity or self.identity
        return replace(self, draft=replace(self.draft, owner=owner), identity=identity)

    def beside(self) -> "RoutedRow":
        """Return the same row without the external id, which the memory has that it would correct and may not."""
        if self.record.external_id is UNSET:
            return self
        text = self.record.content
        identity, private = (
            known and hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=known, digest_size=len(known)).digest()
            for known in (self.identity, self.private_identity)
        )
        return replace(self._drop_name(), identity=identity, private_identity=private)

    def in_place_of(self, known: KnownMemory, identity: bytes) -> "RoutedRow | None":
        """Return the row as a correction, whose the memory is and in its project; None if it says otherwise."""
        if self.record.visibility is not UNSET and self.draft.owner != known.owner:
            return None
        row = self._drop_name()
        project = EVERY_PROJECT if known.project is None else known.project
        drafted = replace(row.draft, owner=known.owner, project=project, may_correct=False)
        return replace(row, draft=drafted, identity=identity, private_identity=None, replaces=known.id)

    def _drop_name(self) -> "RoutedRow":
        record = msgspec.structs.replace(self.record, external_id=UNSET)
        return replace(self, record=record, draft=replace(self.draft, memory=record.memory))


@dataclass(frozen=True, slots=True)
class RoutedBatch:
    """The rows of one import that may be written, by their index, and receipts for the others.

    `degraded`: some had to go without a vector. `vectors_later`: what was embedded was so to be compared.
    """

    on_duplicate: OnDuplicate
    rows: dict[int, RoutedRow]
    refused: list[Receipt]
    degraded: bool = False
    vectors_later: bool = False

    @property
    def external_ids(self) -> list[str]:
        """The external ids of the rows, each once."""
        return sorted({row.record.external_id for row in self.rows.values() if row.record.external_id is not UNSET})

    @property
    def identities(self) -> list[bytes]:
        """The identities of the rows."""
        return [identity for row in self.rows.values() for identity in row.identities]


@dataclass(slots=True)
class SortedRows:
    """Which rows are new, which say again what another row or a known memory said, and which are over a quota."""

    new: dict[int, RoutedRow] = field(default_factory=dict)
    again: dict[int, int] = field(default_factory=dict)  # index -> index of the row that made the memory
    known: dict[int, KnownMemory] = field(default_factory=dict)
    refused: list[Receipt] = field(default_factory=list)  # there is no room for them


async def find_usual(command: ImportBatch | ImportMemories, context: Context) -> Usual:
    """Return the usual visibility; it is looked up only if a record states none."""
    if all(record.visibility is not UNSET for record in command.records):
        return Usual()
    store, envelope = context.store, context.envelope
    return await usual_visibility(partial(store.look_up, envelope.namespace), envelope.principal, store.viewer.owner)


def route_records(
    envelope: Envelope, command: ImportBatch | ImportMemories, retention: Sequence[Retention], usual: Usual
) -> RoutedBatch:
    """Put each record on its side of the trust boundary; what may not go there gets its receipt.

    `usual`: who sees what does not say so. A turn of a past session is as private as what a hook captures.
    """
    command.check()
    rows: dict[int, RoutedRow] = {}
    refused: list[Receipt] = []
    identities, originals = (command.identities, command.originals) if isinstance(command, ImportBatch) else ((), ())
    keeps_private = usual.may_correct  # or does so by a row before
    for index, (record, identity, original) in enumerate(zip_longest(command.records, identities, originals)):
        if isinstance(record, ImportRow) and record.fault is not UNSET:
            error = f"{record.fault.error} {record.fault.recovery}"
            refused.append(rejected(index, record.fault.field or RECORDS, error))
            continue
        try:
            who_sees = usual.captured if CAPTURED in map(tag_key, or_none(record.tags) or ()) else usual.said
            drafted = route_draft(record.memory, envelope, retention, record.project, who_sees)
            may_correct = keeps_private and drafted.owner is None and record.visibility is UNSET
            keeps_private |= drafted.owner is not None and envelope.principal.visibility is UNSET
            rows[index] = RoutedRow(
                record,
                replace(drafted, may_correct=may_correct),
                _own_identity(identity, drafted.owner),
                _own_identity(identity, Viewer.of(envelope.principal).owner) if may_correct else None,
                original,
            )
        except EngramqError as refusal:
            name = "verification" if refusal.fault.code is FaultCode.FORBIDDEN else "partition"
            refused.append(rejected(index, name, refusal.fault.error))
    return RoutedBatch(command.on_duplicate, rows, refused)


def _own_identity(identity: bytes | None, owner: str | None) -> bytes | None:
    """Return by what a row is known again: what is private keeps nobody else's row out."""
    if identity is None or owner is None:
        return identity
    return hashlib.blake2b(owner.encode(), key=identity, digest_size=len(identity)).digest()


async def lock_known(tx: Transaction, external_ids: Sequence[str]) -> dict[str, list[KnownMemory]]:
    """Lock the memories that have these external ids, and return them by external id.

    Two may have the same one: what everybody sees, and what is private to the caller.
    """
    known: dict[str, list[KnownMemory]] = {}
    for row in await tx.rows("with_external_ids", external_ids=list(external_ids)) if external_ids else ():
        known.setdefault(row.pop("external_id"), []).append(known_of(row))
    return known


async def earlier_rows(tx: Transaction, identities: Sequence[bytes]) -> dict[bytes, EarlierRow]:
    """Return what became of those of these rows that went in before, by identity."""
    if not identities:
        return {}
    return {
        bytes(row["digest"]): EarlierRow(row["memory_id"], Partition(row["partition"]), _absence_of(row))
        for row in await tx.rows("imported_rows", digests=list(identities))
    }


def _meant(known: Sequence[KnownMemory], owner: str | None) -> KnownMemory:
    """Return which of the memories with its external id a row means: the one whose owner it has, if there is one."""
    return next((memory for memory in known if memory.owner == owner), known[0])


def _absence_of(row: Row) -> Absence | UnsetType:
    return UNSET if row["absence"] is None else Absence(row["absence"])


def out_of(batch: RoutedBatch, taken: Container[str], before: Mapping[bytes, EarlierRow]) -> dict[int, EarlierRow]:
    """Return the rows, by index, that went in before and stay out.

    Where an external id is `taken` the memory that has it decides.
    """
    return {
        index: before[known]
        for index, row in batch.rows.items()
        if row.record.external_id not in taken and row.replaces is None
        for known in reversed(row.identities)  # the first decides
        if known in before and before[known].stays_out_of(row.draft.partition)
    }


def sort(
    batch: RoutedBatch, known: Mapping[str, Sequence[KnownMemory]], out: Container[int], allowance: Allowance
) -> SortedRows:
    """Tell the new rows, which take their room, from those that say again what is there; without what stays `out`."""
    rows, first_with = SortedRows(), dict[str | bytes, int]()
    for index, row in batch.rows.items():
        external_id, memory = row.record.external_id, row.draft.memory
        name = row.identity if external_id is UNSET else external_id  # by what another row says the same
        if index in out:
            continue
        if external_id is not UNSET and external_id in known:
            rows.known[index] = _meant(known[external_id], row.draft.owner)
        elif name is not None and name in first_with:
            rows.again[index] = first_with[name]
        elif refused := over_quota(index, partial(allowance.take, memory.content, or_none(memory.metadata) or {})):
            rows.refused.append(refused)
        else:
            rows.new[index] = row
            if name is not None:
                first_with[name] = index
    return rows


def over_quota(index: int, take: Callable[[], None]) -> Receipt | None:
    """Take room for a row; return its receipt when there is none."""
    try:
        take()
    except EngramqError as refusal:
        return rejected(index, "content", f"{refusal.fault.error} {refusal.fault.recovery}")
    return None


def rejected(index: int, name: str, error: str) -> Receipt:
    """Return the receipt of a row that does not go in, for what its field `name` says."""
    return Receipt(index=index, status=ReceiptStatus.REJECTED, field=name, error=error)


IndexedPart = tuple[Partition, int]  # a partition and the model whose index it is


@dataclass(slots=True)
class BulkLoads:
    """How much came of late, by namespace and partition; one per process.

    Rows of a large import stay out of the vector index until it is built anew. Nobody announces one: an import is large
    once so much has come without a break that building the index anew costs less than inserting the rest. Rows before
    that are in the index already.
    """

    sizes: Sizes
    large_rows: int = LARGE_ROWS  # that came without a break
    _came: dict[tuple[str, Partition], tuple[int, float]] = field(default_factory=dict)  # rows; last, by monotonic

    def came(self, namespace: str, partition: Partition, rows: int) -> None:
        """Note that a batch has brought new rows."""
        now = time.monotonic()
        if len(self._came) >= NAMESPACES_KEPT:
            self._came = {key: (count, last) for key, (count, last) in self._came.items() if now - last < IDLE_S}
        count, last = self._came.get((namespace, partition), (0, 0.0))
        self._came[namespace, partition] = rows if now - last >= IDLE_S else count + rows, now

    async def loads_of(self, tx: Transaction, drafts: Sequence[Draft]) -> dict[IndexedPart, int]:
        """Return the open loads that new memories belong to, by partition and model; open those that are due."""
        targets = Counter((new.partition, new.embedding.model_id) for new in drafts if new.embedding is not None)
        loads: dict[IndexedPart, int] = {}
        for partition, model_id in sorted(targets):
            if await self._is_large(tx, partition):
                await open_load(tx, partition, model_id)
            load = await load_of(tx, partition, model_id, rows=targets[partition, model_id])
            if load is not None:
                loads[partition, model_id] = load
        return loads

    async def _is_large(self, tx: Transaction, partition: Partition) -> bool:
        rows, last = self._came.get((tx.namespace, partition), (0, 0.0))
        if rows < self.large_rows or time.monotonic() - last >= IDLE_S:
            return False
        # A load brings no more than LOAD_ROWS, however many come: each is paid for by a build of everybody's index.
        return min(rows, LOAD_ROWS) >= LARGE_SHARE * (await self.sizes.of(tx, (partition,))).everybodys
