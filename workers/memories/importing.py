"""Importing: many records at once, embedded together, written in one transaction."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import zip_longest
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET

from engramq.schemas.commands import (
    Activated,
    BatchImported,
    ImportBatch,
    ImportMemories,
    ImportRecord,
    ImportRow,
    Receipt,
)
from engramq.schemas.commands.changes import DETAILS
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.ids import format_time
from engramq.schemas.records import Memory
from engramq.schemas.setting_values import Retention
from engramq.schemas.vocabulary import (
    Absence,
    AuditAction,
    MemoryState,
    OnDuplicate,
    Partition,
    ReceiptStatus,
    SectorSource,
)
from engramq.workers.db import audit
from engramq.workers.db.errors import Again
from engramq.workers.db.json_values import Jsonb
from engramq.workers.db.memory_rows import lock, read_memories
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.memories.bulk_loads import BulkLoads, Target
from engramq.workers.memories.change import BEGINNING, fits, refuse_backwards_with
from engramq.workers.memories.expiry import expiry_of, settle
from engramq.workers.memories.import_rows import (
    Batch,
    Known,
    Row,
    known,
    made_known,
    out_of,
    over_quota,
    rejected,
    sort,
)
from engramq.workers.memories.imported_rows import GoneIn, gone_in, let_in_again
from engramq.workers.memories.quotas import Allowance
from engramq.workers.memories.routing import VOUCHED_FOR, route
from engramq.workers.memories.store import Draft, columns_of
from engramq.workers.memories.supersession import move_end

log = logging.getLogger(__name__)

INSERT_MANY: Final = sql("insert_memories")
ABSENT: Final = sql("absent_memories")
REPLACE: Final = sql("replace_memory")
FORGET_SIMILARITY_LINKS: Final = sql("forget_similarity_links")

# What an update may change by a column of its own; content, metadata and sector have rules beside.
_UPDATED: Final = ("confidence", "source", "source_type", "tags", *DETAILS)

RECORDS: Final = "records"  # what a receipt names where a row is none at all
# Rows of one statement: what the event loop needs to write them down is then about 10 ms.
ROWS_AT_ONCE: Final = 100


def routed(envelope: Envelope, command: ImportBatch | ImportMemories, retention: Sequence[Retention]) -> Batch:
    """Put each record on its side of the trust boundary; what may not go there gets its receipt."""
    command.check()
    rows: dict[int, Row] = {}
    refused: list[Receipt] = []
    identities = command.identities if isinstance(command, ImportBatch) else ()
    for index, (record, identity) in enumerate(zip_longest(command.records, identities)):
        if isinstance(record, ImportRow) and record.fault is not UNSET:
            refused.append(
                rejected(index, record.fault.field or RECORDS, f"{record.fault.error} {record.fault.recovery}")
            )
            continue
        memory = record.memory
        try:
            partition = route(memory, envelope.principal)
        except EngramqError as refusal:
            name = "verification" if refusal.fault.code is FaultCode.FORBIDDEN else "partition"
            refused.append(rejected(index, name, refusal.fault.error))
        else:
            project = envelope.project_named(record.project)
            expires_at = expiry_of(retention, memory)
            draft = Draft(memory, partition, envelope.principal.name, None, project, expires_at)
            rows[index] = Row(record, draft, identity)
    return Batch(command.on_duplicate, rows, refused)


async def embedded(batch: Batch, known_already: set[int], vectorizer: Vectorizer) -> Batch:
    """Give the rows their vectors, but for those that are known already, by index."""
    wanted = {index: row for index, row in batch.rows.items() if index not in known_already}
    try:
        embeddings = await vectorizer.embed([row.record.content for row in wanted.values()], bulk=True)
    except EmbedderUnavailable as problem:
        log.warning("Imported without vectors", extra={"count": len(wanted), "reason": problem.failure.reason})
        return replace(batch, degraded=bool(wanted))
    vectors = dict(zip(wanted, embeddings, strict=True))
    rows = {
        index: replace(row, draft=replace(row.draft, embedding=vectors.get(index))) for index, row in batch.rows.items()
    }
    return replace(batch, rows=rows)


async def write(
    tx: Transaction, envelope: Envelope, batch: Batch, bulk_loads: BulkLoads, allowance: Allowance
) -> BatchImported:
    """Write a batch as far as there is room; return a receipt for each of its rows."""
    # First of all: whoever closes a load waits for its batches, and holds nothing that these want.
    loads = await bulk_loads.loads_of(tx, [row.draft for row in batch.rows.values()])
    known_ones, before = await known(tx, batch.external_ids), await gone_in(tx, batch.identities)
    out = out_of(batch, known_ones, before)
    sorted_rows = sort(batch, known_ones, out, allowance)
    await let_in_again(tx, [row.identity for row in sorted_rows.new.values() if row.identity in before])
    made = dict(zip(sorted_rows.new, await insert_all(tx, list(sorted_rows.new.values()), loads), strict=True))
    receipts = {receipt.index: receipt for receipt in (*batch.refused, *sorted_rows.refused)}
    for index, row in batch.rows.items():
        if index in receipts:
            continue
        if index in made:
            receipts[index] = Receipt(index=index, status=ReceiptStatus.STORED, memory_id=str(made[index]))
        elif index in out:
            receipts[index] = _stays_out(index, row, out[index])
        else:
            found = sorted_rows.known.get(index)
            if found is None:
                first = sorted_rows.again[index]
                found = made_known(batch.rows[first].draft, made[first])
            receipts[index] = await _repeated(tx, envelope, batch, index, found, allowance)
    receipts |= await _hidden(tx, [one for one in receipts.values() if one.status is ReceiptStatus.UPDATED])
    counts = Counter(receipt.status for receipt in receipts.values())
    return BatchImported(
        receipts=[receipts[index] for index in sorted(receipts)],
        stored=counts[ReceiptStatus.STORED],
        updated=counts[ReceiptStatus.UPDATED],
        skipped=counts[ReceiptStatus.SKIPPED],
        rejected=counts[ReceiptStatus.REJECTED],
        degraded=True if batch.degraded else UNSET,
    )


def lacking_sectors(command: ImportBatch, reply: BatchImported) -> list[str]:
    """Return the memories that were written without a sector; with a vector, since the others are pending."""
    if reply.degraded is not UNSET:
        return []
    return [
        receipt.memory_id
        for receipt in reply.receipts
        if receipt.status in {ReceiptStatus.STORED, ReceiptStatus.UPDATED}
        and receipt.memory_id is not UNSET
        and command.records[receipt.index].sector is UNSET
    ]


def stored_in(envelope: Envelope, command: ImportBatch, reply: BatchImported) -> Counter[Partition]:
    """Return how many new memories went into which partition."""
    made = [command.records[one.index].memory for one in reply.receipts if one.status is ReceiptStatus.STORED]
    return Counter(route(memory, envelope.principal) for memory in made)


def updated(reply: BatchImported) -> list[Activated]:
    """Return the memories that may have another content now, and so other neighbours."""
    if reply.degraded is not UNSET:
        return []
    ids = [one.memory_id for one in reply.receipts if one.status is ReceiptStatus.UPDATED]
    return [Activated(memory_id=one) for one in ids if isinstance(one, str)]


async def insert_all(tx: Transaction, new: Sequence[Row], loads: Mapping[Target, int]) -> list[UUID]:
    """Make memories, whose external ids and identities have to be different; return their ids in the order given.

    `loads`: the open loads that they belong to.

    Raises Again when somebody took one of the external ids, or brought one of the rows, in between.
    """
    rows = [
        {
            **_listed(columns_of(row.draft)),
            **_vector(row.draft),
            "load_id": _load(row.draft, loads),
            "identity": row.identity,
        }
        for row in new
    ]
    # All importers take external ids and identities in one order, so that two of them cannot wait for each other.
    ordered = sorted(rows, key=lambda row: (row["external_id"] or "", row["identity"] or b""))
    for start in range(0, len(ordered), ROWS_AT_ONCE):
        part = ordered[start : start + ROWS_AT_ONCE]
        columns: dict[str, Any] = {name: [row[name] for row in part] for name in part[0]}
        made = await tx.rows(INSERT_MANY, **columns | {"created_by": part[0]["created_by"]})
        if len(made) != len(part):
            raise Again
    return [row["id"] for row in rows]


async def _replace(tx: Transaction, envelope: Envelope, found: Known, row: Row) -> bool:
    """Let a known memory be what the row says of it, no more; return whether that changed anything.

    The audit row names what changed, never values that say what a memory contains.
    """
    given, draft = row.record.given, row.draft
    before = (await read_memories(tx, (found.id,)))[found.id]
    if not _says_anew(before, given, draft):
        return False
    # Without a vector for now the one that it has goes on, if it is of the same content.
    same = found.content == row.record.content
    columns = columns_of(draft)
    await tx.send(
        REPLACE,
        **{name: _column(given.get(name)) for name in _UPDATED},
        **{name: columns[name] for name in ("sector", "sector_source", "state")},
        id=found.id,
        content=row.record.content,
        metadata=Jsonb(given.get("metadata", {})),
        embedding=draft.embedding and draft.embedding.half,
        model_id=draft.embedding and draft.embedding.model_id,
        keep_vector=draft.embedding is None and same,
    )
    if BEGINNING in given:
        await move_end(tx, found.id)
    if not same:
        await tx.send(FORGET_SIMILARITY_LINKS, id=found.id)
    after = (await read_memories(tx, (found.id,)))[found.id]
    names = (*_UPDATED, "content", "metadata", "sector", "sector_source", "state")
    changed = sorted(name for name in names if getattr(before, name) != getattr(after, name))
    await audit.record(tx, envelope, AuditAction.UPDATE, found.id, old={}, new={"changed": changed})
    return True


def _says_anew(before: Memory, given: dict[str, Any], draft: Draft) -> bool:
    """Say whether a row says anything of a memory that is not so already, or brings the vector that it waits for."""
    said = {name: _as_told(given[name]) for name in ("content", *_UPDATED) if name in given}
    if any(getattr(before, name) != value for name, value in said.items()):
        return True
    if {**before.metadata, **given.get("metadata", {})} != before.metadata:
        return True
    manual = before.sector_source is SectorSource.MANUAL
    if "sector" in given and not manual:
        return True
    return before.state is MemoryState.PENDING and draft.embedding is not None


def _as_told(value: Any) -> Any:
    """Return a value of a row as a memory tells it."""
    return format_time(value) if isinstance(value, datetime) else _column(value)


def _column(value: Any) -> Any:
    """Return a value of a row as a memory has it, and a statement takes it."""
    return list(value) if isinstance(value, tuple) else value


async def _hidden(tx: Transaction, changed: Sequence[Receipt]) -> dict[int, Receipt]:
    """Return anew, by index, the receipts of changed memories that nobody finds, with the reason."""
    if not changed:
        return {}
    rows = await tx.rows(ABSENT, ids=[UUID(str(one.memory_id)) for one in changed])
    reasons = {str(row["id"]): Absence(row["absence"]) for row in rows}
    return {
        one.index: msgspec.structs.replace(one, absence=reasons[str(one.memory_id)])
        for one in changed
        if str(one.memory_id) in reasons
    }


def _stays_out(index: int, row: Row, found: GoneIn) -> Receipt:
    if row.draft.partition is Partition.TRUSTED and found.partition is Partition.UNTRUSTED:
        # Said aloud: whoever imports a file first must not keep what is trusted out in silence.
        return rejected(index, "content", f"It is the untrusted memory {found.memory_id}: promote or erase that one.")
    return Receipt(index=index, status=ReceiptStatus.SKIPPED, memory_id=str(found.memory_id), absence=found.absence)


async def _no_room_to_grow(
    tx: Transaction, allowance: Allowance, index: int, found: Known, record: ImportRecord
) -> Receipt | None:
    """Take the room that a known memory needs to become what a row says; return the row's receipt when it has none."""
    if not allowance.quotas.are_set:
        return None
    before = (await read_memories(tx, (found.id,)))[found.id]
    metadata = {**before.metadata, **record.given.get("metadata", {})}
    return over_quota(index, partial(allowance.grow, before, record.content, metadata))


async def _repeated(
    tx: Transaction, envelope: Envelope, batch: Batch, index: int, found: Known, allowance: Allowance
) -> Receipt:
    memory_id, row = str(found.id), batch.rows[index]
    draft = row.draft
    if draft.partition is Partition.TRUSTED and found.partition is Partition.UNTRUSTED:
        # Said aloud: whoever takes external ids first must not keep what is trusted out in silence.
        error = f"It belongs to the untrusted memory {memory_id}: promote or erase that one."
        return rejected(index, "external_id", error)
    if batch.on_duplicate is OnDuplicate.SKIP:
        return Receipt(index=index, status=ReceiptStatus.SKIPPED, memory_id=memory_id, absence=found.absence)
    if draft.partition is Partition.UNTRUSTED and found.partition is Partition.TRUSTED:
        error = f"It belongs to the trusted memory {memory_id}, and what this row says is untrusted."
        return rejected(index, "external_id", error)
    principal = envelope.principal
    if principal.untrusted and (found.created_by != principal.name or found.verification in VOUCHED_FOR):
        error = f"It belongs to memory {memory_id}, which an untrusted principal may not change."
        return rejected(index, "external_id", error)
    if _slips_in(found, draft):
        error = (
            f"Memory {memory_id} is {found.verification}, this text is not: set it to unverified with verify_memory."
        )
        return rejected(index, "content", error)
    if not fits(found.metadata, row.record.given.get("metadata", {})):
        return rejected(index, "metadata", "Merged with what is there it would be too large.")
    standing = (await lock(tx, found.id))[found.id]  # has been locked
    try:
        refuse_backwards_with(standing, row.record.given)
    except EngramqError as refusal:
        return rejected(index, str(refusal.fault.field), refusal.fault.error)
    refused = await _no_room_to_grow(tx, allowance, index, found, row.record)
    if refused is not None:
        return refused
    await settle(tx, standing)
    changed = await _replace(tx, envelope, found, row)
    if changed:
        return Receipt(index=index, status=ReceiptStatus.UPDATED, memory_id=memory_id)
    return Receipt(index=index, status=ReceiptStatus.SKIPPED, memory_id=memory_id, absence=found.absence)


def _slips_in(found: Known, draft: Draft) -> bool:
    """Say whether an untrusted memory would be promoted with a text that nobody has vouched for."""
    vouched_for = found.partition is Partition.UNTRUSTED and found.verification in VOUCHED_FOR
    return vouched_for and found.content != draft.memory.content and draft.memory.verification not in VOUCHED_FOR


def _listed(columns: dict[str, Any]) -> dict[str, Any]:
    """Return columns of which arrays are made: one of arrays would want them all to be of one length."""
    return {**columns, "tags": None if columns["tags"] is None else Jsonb(columns["tags"])}


def _load(draft: Draft, loads: Mapping[Target, int]) -> int | None:
    return None if draft.embedding is None else loads.get((draft.partition, draft.embedding.model_id))


def _vector(draft: Draft) -> dict[str, Any]:
    embedding = draft.embedding
    return {
        "embedding": None if embedding is None else embedding.text,
        "model_id": None if embedding is None else embedding.model_id,
    }
