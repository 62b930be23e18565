"""Write the rows of one import: make new memories, update known ones, and say of each row what became of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET

from engramq.schemas.commands import BatchImported, Receipt
from engramq.schemas.commands.changes import DETAILS
from engramq.schemas.envelope import Envelope
from engramq.schemas.evidence import says_otherwise
from engramq.schemas.faults import EngramqError
from engramq.schemas.fields import OFFSETS
from engramq.schemas.ids import format_time
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import (
    Absence,
    AuditAction,
    MemoryState,
    OnDuplicate,
    Partition,
    ReceiptStatus,
    SectorSource,
    StandingSource,
)
from engramq.workers.db import audit
from engramq.workers.db.errors import Again
from engramq.workers.db.memory_rows import details_of, lock, read_memories
from engramq.workers.db.privacy import own_partition
from engramq.workers.db.transaction import Jsonb, Transaction
from engramq.workers.db.vectors import compare_all
from engramq.workers.memories.change import BEGINNING, archive_if_expired, fits, refuse_backwards_with
from engramq.workers.memories.grounds import find_cited, refuse_untrusted_ground
from engramq.workers.memories.import_rows import (
    BulkLoads,
    EarlierRow,
    IndexedPart,
    KnownMemory,
    RoutedBatch,
    RoutedRow,
    earlier_rows,
    lock_known,
    out_of,
    over_quota,
    rejected,
    sort,
)
from engramq.workers.memories.originals import replace_originals
from engramq.workers.memories.quotas import Allowance
from engramq.workers.memories.store import CORRECTED_FROM, Draft, columns_of_draft, find_why_private
from engramq.workers.memories.supersession import move_end
from engramq.workers.runner import Context
from engramq.workers.trust import VOUCHED_FOR, may_displace

# Fields that an update may change by a column of their own; content, metadata and sector have rules beside.
_UPDATED: Final = ("confidence", "source", "source_type", "tags", *DETAILS)
_COMPARED: Final = tuple(name for name in _UPDATED if name not in OFFSETS.values())  # a time is shown with its offset
# Rows of one statement, of which each is planned anew: what the event loop needs to write them down is about 10 ms.
ROWS_AT_ONCE: Final = 128


async def write(tx: Transaction, context: Context, batch: RoutedBatch) -> BatchImported:
    """Write a batch as far as there is room; return a receipt for each of its rows."""
    envelope, allowance = context.envelope, Allowance.of(tx, context)
    # `keep_batch_apart` has locked what the rows change. The end of a load waits for its batches, and wants none.
    drafts = [] if batch.vectors_later else [row.draft for row in batch.rows.values()]
    loads = await context.services[BulkLoads].loads_of(tx, drafts)
    known, before = await lock_known(tx, batch.external_ids), await earlier_rows(tx, batch.identities)
    out = out_of(batch, known, before)
    private = await _corrections(tx, envelope, batch, known, out)
    rows = batch.rows | private
    if batch.vectors_later:
        rows = {index: replace(row, draft=replace(row.draft, embedding=None)) for index, row in rows.items()}
    batch = replace(batch, rows=rows)
    sorted_rows = sort(batch, known, out, allowance)
    again = sorted(row.identity for row in sorted_rows.new.values() if row.identity in before and row.identity)
    if again:
        await tx.send("forget_imported_rows", digests=again)
    made = dict(zip(sorted_rows.new, await _insert_all(tx, list(sorted_rows.new.values()), loads), strict=True))
    corrected = await replace_originals(tx, envelope, {made[index]: row for index, row in sorted_rows.new.items()})
    receipts = {receipt.index: receipt for receipt in (*batch.refused, *sorted_rows.refused)}
    for index, row in batch.rows.items():
        if index in receipts:
            continue
        if index in made:
            receipts[index] = Receipt(index=index, status=ReceiptStatus.STORED, memory_id=str(made[index]))
        elif index in out:
            receipts[index] = _stays_out(index, row, out[index])
        else:
            memory = sorted_rows.known.get(index)
            if memory is None:
                first = sorted_rows.again[index]
                memory = KnownMemory.made(batch.rows[first].draft, made[first])
            receipts[index] = _refusal(envelope, batch.on_duplicate, index, memory, row) or await _update(
                tx, envelope, index, memory, row, allowance
            )
    receipts |= await _absent(tx, [row for row in receipts.values() if row.status is ReceiptStatus.UPDATED])
    counts = Counter(receipt.status for receipt in receipts.values())
    return BatchImported(
        receipts=[receipts[index] for index in sorted(receipts)],
        stored=counts[ReceiptStatus.STORED],
        updated=counts[ReceiptStatus.UPDATED],
        skipped=counts[ReceiptStatus.SKIPPED],
        rejected=counts[ReceiptStatus.REJECTED],
        kept_to_author=sum(index in made for index in private) or UNSET,
        corrected=corrected or UNSET,
        degraded=True if batch.degraded else UNSET,
    )


async def _corrections(
    tx: Transaction,
    envelope: Envelope,
    batch: RoutedBatch,
    known: Mapping[str, Sequence[KnownMemory]],
    out: Mapping[int, EarlierRow],
) -> dict[int, RoutedRow]:
    """Return the rows, by index and as private ones, that may correct a private memory of who brings them, or a row.

    As for a store: they would tell everybody what that one does not.
    """
    private: dict[int, RoutedRow] = {}
    if not any(row.draft.may_correct for row in batch.rows.values()):
        return private
    own, kept = own_partition(envelope.principal), list[int]()
    embedded = {index: row.draft.embedding for index, row in batch.rows.items() if row.draft.embedding is not None}
    places = {index: place for place, index in enumerate(embedded)}
    cosines = compare_all(list(embedded.values())) if embedded else None
    for index, row in batch.rows.items():
        if index in out:
            continue
        if row.draft.owner is not None and row.draft.partition is own and index in places:
            kept.append(places[index])
        if not row.draft.may_correct:
            continue
        external_id = row.record.external_id
        named = known.get(external_id, ()) if external_id is not UNSET else ()
        if named and (
            batch.on_duplicate is OnDuplicate.SKIP or any(row.record.content == one.content for one in named)
        ):
            continue
        is_like_row = cosines is not None and index in places and (cosines[places[index], kept] >= CORRECTED_FROM).any()
        if is_like_row or await find_why_private(tx, row.draft, own):
            private[index] = row.kept_to_author(tx.viewer.owner)
            if index in places:
                kept.append(places[index])
    return private


async def _insert_all(tx: Transaction, new: Sequence[RoutedRow], loads: Mapping[IndexedPart, int]) -> list[UUID]:
    """Make memories, whose external ids and identities have to be different; return their ids in the order given.

    `loads`: the open loads that they belong to.

    Raises Again when somebody took one of the external ids, or brought one of the rows, in between.
    """
    # Ids are made in the order given: rows of one time, as the turns of a session, are listed by them.
    rows = [_columns_of(row, loads) for row in new]
    # All importers take external ids and identities in one order, so that two of them cannot wait for each other.
    ordered = sorted(rows, key=lambda row: (row["external_id"] or "", row["identity"] or ""))
    for start in range(0, len(ordered), ROWS_AT_ONCE):
        part = ordered[start : start + ROWS_AT_ONCE]
        given = msgspec.json.encode(part, enc_hook=_unwrap).decode()
        if len(await tx.rows("insert_memories", rows=given, created_by=new[0].draft.created_by)) != len(part):
            raise Again
    return [row["id"] for row in rows]


def _columns_of(row: RoutedRow, loads: Mapping[IndexedPart, int]) -> dict[str, Any]:
    embedding, identity = row.draft.embedding, row.identity
    return columns_of_draft(row.draft) | {
        "embedding": embedding and embedding.text,
        "model_id": embedding and embedding.model_id,
        "load_id": embedding and loads.get((row.draft.partition, embedding.model_id)),
        "identity": identity and rf"\x{identity.hex()}",
    }


def _unwrap(value: Any) -> Any:
    """Return what a column of JSON holds."""
    assert isinstance(value, Jsonb)
    return value.obj


def _stays_out(index: int, row: RoutedRow, earlier: EarlierRow) -> Receipt:
    if not may_displace(earlier.partition, row.draft.partition):
        # Named: the first importer of a file must not keep trusted rows out in silence.
        return rejected(index, "content", f"It is the untrusted memory {earlier.memory_id}: promote or erase that one.")
    memory_id = str(earlier.memory_id)
    return Receipt(index=index, status=ReceiptStatus.SKIPPED, memory_id=memory_id, absence=earlier.absence)


def _refusal(
    envelope: Envelope, on_duplicate: OnDuplicate, index: int, known: KnownMemory, row: RoutedRow
) -> Receipt | None:
    """Return the receipt of a row that does not change the memory which it names; None when it may."""
    draft, principal = row.draft, envelope.principal
    if not may_displace(known.partition, draft.partition):
        # Named: the first user of an external id must not keep trusted rows out in silence.
        error = f"It belongs to the untrusted memory {known.id}: promote or erase that one."
        return rejected(index, "external_id", error)
    if on_duplicate is OnDuplicate.SKIP:
        return _skip(index, known)
    is_said = row.record.visibility is not UNSET or principal.visibility is not UNSET
    # What everybody sees gets no text that would be private by what the namespace says.
    if draft.owner != known.owner and (known.owner is None or is_said):
        whose, wanted, is_now = ("which is private", "private", "shared")
        if known.owner is None:
            whose, wanted, is_now = ("which everybody sees", "shared", "private")
        error = f'It belongs to memory {known.id}, {whose}, and this row is {is_now}: say visibility="{wanted}" in it.'
        return rejected(index, "visibility", error)
    if not may_displace(draft.partition, known.partition):
        error = f"It belongs to the trusted memory {known.id}, and what this row says is untrusted."
        return rejected(index, "external_id", error)
    if principal.untrusted and (known.created_by != principal.name or known.verification in VOUCHED_FOR):
        error = f"It belongs to memory {known.id}, which an untrusted principal may not change."
        return rejected(index, "external_id", error)
    is_vouched_for = known.partition is Partition.UNTRUSTED and known.verification in VOUCHED_FOR
    if is_vouched_for and known.content != draft.memory.content and draft.memory.verification not in VOUCHED_FOR:
        # Else an untrusted memory would be promoted with a text that nobody has vouched for.
        error = f"Memory {known.id} is {known.verification}, this text is not: set it to unverified with verify_memory."
        return rejected(index, "content", error)
    if is_vouched_for and find_cited(row.record.evidence):
        return rejected(
            index, "evidence", f"Memory {known.id} is {known.verification}: update_memory gives it grounds."
        )
    if not fits(known.metadata, row.record.given.get("metadata", {})):
        return rejected(index, "metadata", "Merged with what is there it would be too large.")
    return None


def _skip(index: int, known: KnownMemory) -> Receipt:
    return Receipt(index=index, status=ReceiptStatus.SKIPPED, memory_id=str(known.id), absence=known.absence)


async def _update(
    tx: Transaction, envelope: Envelope, index: int, known: KnownMemory, row: RoutedRow, allowance: Allowance
) -> Receipt:
    """Let a known memory be what the row says of it, if it has the room; return the row's receipt."""
    given, content = row.record.given, row.record.content
    locked = (await lock(tx, known.id))[known.id]  # has been locked
    try:
        refuse_backwards_with(locked, given)
        if given.get("evidence"):
            kept = (await read_memories(tx, (known.id,)))[known.id].evidence
            await refuse_untrusted_ground(tx, locked, given["evidence"], kept)
    except EngramqError as refusal:
        field = "evidence" if refusal.fault.field is UNSET else refusal.fault.field
        return rejected(index, field, refusal.fault.error)
    if allowance.quotas.are_set:
        before = (await read_memories(tx, (known.id,)))[known.id]
        metadata = {**before.metadata, **given.get("metadata", {})}
        refused = over_quota(index, partial(allowance.grow, before, content, metadata))
        if refused is not None:
            return refused
    await archive_if_expired(tx, locked)
    if await _replace(tx, envelope, known, row):
        return Receipt(index=index, status=ReceiptStatus.UPDATED, memory_id=str(known.id))
    return _skip(index, known)


async def _replace(tx: Transaction, envelope: Envelope, known: KnownMemory, row: RoutedRow) -> bool:
    """Let a known memory be what the row says of it, no more; return whether that changed anything.

    The audit row names what changed, never values that say what a memory contains.
    """
    given, draft = row.record.given, row.draft
    before = (await read_memories(tx, (known.id,)))[known.id]
    if not _changes(before, given, draft):
        return False
    # Without a vector for now the one that it has goes on, if it is of the same content.
    same = known.content == row.record.content
    columns = columns_of_draft(draft)
    await tx.send(
        "replace_memory",
        **details_of({name: _column(given.get(name)) for name in _UPDATED}),
        **{name: columns[name] for name in ("sector", "sector_source", "state")},
        id=known.id,
        content=row.record.content,
        metadata=Jsonb(given.get("metadata", {})),
        embedding=draft.embedding and draft.embedding.half,
        model_id=draft.embedding and draft.embedding.model_id,
        keep_vector=draft.embedding is None and same,
    )
    if BEGINNING in given:
        await move_end(tx, known.id)
    if not same:
        await tx.send("forget_similarity_links", id=known.id)
    after = (await read_memories(tx, (known.id,)))[known.id]
    names = (*_COMPARED, "content", "metadata", "sector", "sector_source", "state")
    changed = sorted(name for name in names if getattr(before, name) != getattr(after, name))
    await audit.record(tx, envelope, AuditAction.UPDATE, known.id, old={}, new={"changed": changed})
    return True


def _changes(before: Memory, given: dict[str, Any], draft: Draft) -> bool:
    """Return whether a row says anything of a memory that is not so already, or brings the vector that it waits for."""
    values = {name: given[name] for name in ("content", *_COMPARED) if name in given and name != "evidence"}
    offsets = {name: given.get(offset) for name, offset in OFFSETS.items()}
    return (
        any(
            getattr(before, name)
            != (format_time(value, offsets.get(name)) if isinstance(value, datetime) else _column(value))
            for name, value in values.items()
        )
        or {**before.metadata, **given.get("metadata", {})} != before.metadata
        or ("evidence" in given and says_otherwise(given["evidence"], before.evidence))
        or ("sector" in given and before.sector_source is not SectorSource.MANUAL)
        or ("standing" in given and before.standing_source is not StandingSource.GIVEN)
        or (before.state is MemoryState.PENDING and draft.embedding is not None)
    )


def _column(value: Any) -> Any:
    """Return a value of a row as a memory has it, and a statement takes it."""
    return list(value) if isinstance(value, tuple) else value


async def _absent(tx: Transaction, changed: Sequence[Receipt]) -> dict[int, Receipt]:
    """Return anew, by index, the receipts of changed memories that nobody finds, with the reason."""
    if not changed:
        return {}
    rows = await tx.rows("absent_memories", ids=[UUID(str(receipt.memory_id)) for receipt in changed])
    reasons = {str(row["id"]): Absence(row["absence"]) for row in rows}
    return {
        receipt.index: msgspec.structs.replace(receipt, absence=reasons[str(receipt.memory_id)])
        for receipt in changed
        if str(receipt.memory_id) in reasons
    }
