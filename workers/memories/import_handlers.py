"""The `imports` kind: many records at once, embedded together, written in one transaction."""

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import UNSET

from engramq.schemas.commands import BatchImported, ImportBatch, Newcomer, NewMemory, Receipt, Reply
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.vocabulary import AuditAction, OnDuplicate, Partition, ReceiptStatus, WorkerKind
from engramq.workers.db import audit
from engramq.workers.db.database import Store
from engramq.workers.db.ledger import Effect, Ledger
from engramq.workers.db.transaction import Transaction
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.links.similarity import linking
from engramq.workers.memories import importing as imports
from engramq.workers.memories.importing import Standing
from engramq.workers.memories.routing import VOUCHED_FOR, route
from engramq.workers.memories.store import Draft
from engramq.workers.queue.contract import Actor, Job, Outcome
from engramq.workers.sectors.handlers import classifying

log = logging.getLogger(__name__)

BATCHES_AT_ONCE: Final = 2  # one is embedded while the other is written


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one import that may be written, by their index, and receipts for the others."""

    envelope: Envelope
    on_duplicate: OnDuplicate
    drafts: dict[int, Draft]
    refused: list[Receipt]


@dataclass(slots=True)
class Sorted:
    """Which rows are new, and which say again what another row or a standing memory said."""

    new: dict[int, Draft] = field(default_factory=dict)
    again: dict[int, int] = field(default_factory=dict)  # index -> index of the row that made the memory
    standing: dict[int, Standing] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """The handlers of the kind."""

    store: Store
    ledger: Ledger
    vectorizer: Vectorizer

    async def import_batch(self, job: Job) -> Outcome:
        """Carry out ImportBatch."""

        async def prepare() -> Effect:
            batch = _routed(job.envelope)
            embedded, degraded = await self._embedded(batch)
            return lambda tx: _write(tx, embedded, degraded=degraded)

        recorded = await self.ledger.run_prepared(job, prepare)
        namespace, reply = job.envelope.namespace, recorded.reply
        follow_ups = classifying(namespace, _lacking_sectors(job.envelope, reply)) + linking(namespace, _updated(reply))
        return Outcome(recorded.reply, follow_ups=follow_ups, replayed=recorded.replayed)

    async def _embedded(self, batch: Batch) -> tuple[Batch, bool]:
        """Give the drafts their vectors; return whether some had to go without."""
        wanted = dict(batch.drafts)
        if batch.on_duplicate is OnDuplicate.SKIP:
            names = imports.external_ids(list(wanted.values()))
            known = await self.store.read(batch.envelope.namespace, lambda tx: imports.known(tx, names))
            wanted = {index: draft for index, draft in wanted.items() if draft.memory.external_id not in known}
        try:
            embeddings = await self.vectorizer.embed([one.memory.content for one in wanted.values()], bulk=True)
        except EmbedderUnavailable as problem:
            log.warning("Imported without vectors", extra={"count": len(wanted), "reason": problem.failure.reason})
            return batch, bool(wanted)
        vectors = dict(zip(wanted, embeddings, strict=True))
        drafts = {index: replace(draft, embedding=vectors.get(index)) for index, draft in batch.drafts.items()}
        return replace(batch, drafts=drafts), False


def actor(importer: Importer) -> Actor:
    """Return the worker kind."""
    return Actor(WorkerKind.IMPORTS, {ImportBatch: importer.import_batch}, concurrency=BATCHES_AT_ONCE)


def _routed(envelope: Envelope) -> Batch:
    command = envelope.command
    assert isinstance(command, ImportBatch)
    drafts: dict[int, Draft] = {}
    refused: list[Receipt] = []
    for index, record in enumerate(command.records):
        try:
            partition = route(record, envelope.principal)
        except EngramqError as refusal:
            name = "verification" if refusal.fault.code is FaultCode.FORBIDDEN else "partition"
            refused.append(_rejected(index, name, refusal.fault.error))
        else:
            drafts[index] = Draft(record, partition, envelope.principal.name, None)
    return Batch(envelope, command.on_duplicate, drafts, refused)


async def _write(tx: Transaction, batch: Batch, *, degraded: bool) -> BatchImported:
    known = await imports.standing(tx, imports.external_ids(list(batch.drafts.values())))
    rows = _sorted(batch, known)
    made = dict(zip(rows.new, await imports.insert_all(tx, list(rows.new.values())), strict=True))
    receipts = {receipt.index: receipt for receipt in batch.refused}
    for index in batch.drafts:
        if index in made:
            receipts[index] = Receipt(index=index, status=ReceiptStatus.STORED, memory_id=str(made[index]))
            continue
        found = rows.standing.get(index)
        if found is None:
            first = batch.drafts[rows.again[index]]
            metadata = {} if first.memory.metadata is UNSET else first.memory.metadata
            memory = first.memory
            found = Standing(made[rows.again[index]], first.partition, memory.verification, memory.content, metadata)
        receipts[index] = await _repeated(tx, batch, index, found)
    counts = Counter(receipt.status for receipt in receipts.values())
    return BatchImported(
        receipts=[receipts[index] for index in sorted(receipts)],
        stored=counts[ReceiptStatus.STORED],
        updated=counts[ReceiptStatus.UPDATED],
        skipped=counts[ReceiptStatus.SKIPPED],
        rejected=counts[ReceiptStatus.REJECTED],
        degraded=True if degraded else UNSET,
    )


def _sorted(batch: Batch, known: dict[str, Standing]) -> Sorted:
    rows, first_with = Sorted(), dict[str, int]()
    for index, draft in batch.drafts.items():
        name = draft.memory.external_id
        if name is UNSET:
            rows.new[index] = draft
        elif name in known:
            rows.standing[index] = known[name]
        elif name in first_with:
            rows.again[index] = first_with[name]
        else:
            first_with[name] = index
            rows.new[index] = draft
    return rows


async def _repeated(tx: Transaction, batch: Batch, index: int, found: Standing) -> Receipt:
    memory_id, draft = str(found.id), batch.drafts[index]
    if draft.partition is Partition.TRUSTED and found.partition is Partition.UNTRUSTED:
        # Said aloud: whoever takes external ids first must not keep what is trusted out in silence.
        error = f"It belongs to the untrusted memory {memory_id}: promote or erase that one."
        return _rejected(index, "external_id", error)
    if batch.on_duplicate is OnDuplicate.SKIP:
        return Receipt(index=index, status=ReceiptStatus.SKIPPED, memory_id=memory_id)
    if draft.partition is Partition.UNTRUSTED and found.partition is Partition.TRUSTED:
        error = f"It belongs to the trusted memory {memory_id}, and what this row says is untrusted."
        return _rejected(index, "external_id", error)
    if _slips_in(found, draft):
        error = (
            f"Memory {memory_id} is {found.verification}, this text is not: set it to unverified with verify_memory."
        )
        return _rejected(index, "content", error)
    if not await imports.replace(tx, found, draft):
        return _rejected(index, "metadata", "Merged with what is there it would be too large.")
    changed = sorted(name for name in NewMemory.__struct_fields__ if getattr(draft.memory, name) is not UNSET)
    await audit.record(tx, batch.envelope, AuditAction.UPDATE, found.id, old={}, new={"changed": changed})
    return Receipt(index=index, status=ReceiptStatus.UPDATED, memory_id=memory_id)


def _lacking_sectors(envelope: Envelope, reply: Reply) -> list[str]:
    """Return the memories that were written without a sector; with a vector, since the others are pending."""
    command = envelope.command
    assert isinstance(command, ImportBatch)
    if not isinstance(reply, BatchImported) or reply.degraded is not UNSET:
        return []
    return [
        receipt.memory_id
        for receipt in reply.receipts
        if receipt.status in {ReceiptStatus.STORED, ReceiptStatus.UPDATED}
        and receipt.memory_id not in {UNSET, None}
        and command.records[receipt.index].sector is UNSET
    ]


def _slips_in(found: Standing, draft: Draft) -> bool:
    """Say whether an untrusted memory would be promoted with a text that nobody has vouched for."""
    vouched_for = found.partition is Partition.UNTRUSTED and found.verification in VOUCHED_FOR
    return vouched_for and found.content != draft.memory.content and draft.memory.verification not in VOUCHED_FOR


def _updated(reply: Reply) -> list[Newcomer]:
    """Return the memories that may have another content now, and so other neighbours."""
    if not isinstance(reply, BatchImported) or reply.degraded is not UNSET:
        return []
    ids = [one.memory_id for one in reply.receipts if one.status is ReceiptStatus.UPDATED]
    return [Newcomer(memory_id=one) for one in ids if isinstance(one, str)]


def _rejected(index: int, name: str, error: str) -> Receipt:
    return Receipt(index=index, status=ReceiptStatus.REJECTED, field=name, error=error)
