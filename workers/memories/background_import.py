"""Carries out import_memories: rows are safe at once, and get their vectors, sectors and links in the background.

So the call lasts as long as the rows take to write, whatever the model. Until a row has its vector it is pending, found
by its words; what a crash leaves so is found by the sweep.
"""

from typing import Final

from msgspec import UNSET

from engramq.schemas.commands import BatchImported, ImportMemories, MemoriesImported, Reply
from engramq.schemas.vocabulary import Partition, ReceiptStatus
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories import importing
from engramq.workers.memories.bulk_loads import BulkLoads
from engramq.workers.memories.import_rows import Batch
from engramq.workers.memories.pending import embedding
from engramq.workers.memories.quotas import Quotas
from engramq.workers.runner import Context, handles

_WRITTEN: Final = frozenset({ReceiptStatus.STORED, ReceiptStatus.UPDATED})


async def route_rows(command: ImportMemories, context: Context) -> Batch:
    """Route the rows; nothing waits for the model."""
    return importing.routed(context.envelope, command, context.settings.retention)


async def embed_later(reply: Reply, _command: ImportMemories, context: Context) -> None:
    """Have the written rows given their vectors; those that are not pending are left alone."""
    if isinstance(reply, MemoriesImported):
        context.follow_ups = embedding(context.envelope.namespace, written(reply))


@handles(ImportMemories, before=route_rows, after=embed_later)
async def import_memories(
    tx: Transaction, _command: ImportMemories, context: Context, batch: Batch
) -> MemoriesImported:
    """Write many memories at once, without vectors."""
    allowance = context.services[Quotas].allowance(tx, context.envelope.principal.name, context.since)
    done = await importing.write(tx, context.envelope, batch, context.services[BulkLoads], allowance)
    return MemoriesImported(
        accepted=done.stored + done.updated + done.skipped,
        rejected=done.rejected,
        stored=done.stored,
        updated=done.updated,
        skipped=done.skipped,
        receipts=done.receipts,
        kept_apart=_kept_apart(batch, done) or UNSET,
    )


def written(reply: MemoriesImported) -> list[str]:
    """Return the memories that the rows made or changed, each once."""
    receipts = () if reply.receipts is UNSET else reply.receipts
    ids = [one.memory_id for one in receipts if one.status in _WRITTEN and one.memory_id is not UNSET]
    return list(dict.fromkeys(ids))


def _kept_apart(batch: Batch, done: BatchImported) -> int:
    """Return how many new memories are untrusted though their rows did not say so."""
    made = [batch.rows[one.index] for one in done.receipts if one.status is ReceiptStatus.STORED]
    return sum(row.draft.partition is Partition.UNTRUSTED and row.record.partition is UNSET for row in made)
