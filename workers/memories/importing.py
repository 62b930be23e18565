"""Import many memories at once, in one transaction, and tell how imports get on.

`import_batch` embeds its rows first. `import_memories` writes them without vectors, so that its call lasts as long as
the rows take to write, whatever the model; they get vectors, sectors and links in the background. Until a row has its
vector it is pending, found by its words; what a crash leaves so is found by the sweep.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import (
    Activated,
    BatchImported,
    ImportBatch,
    ImportList,
    ImportMemories,
    ListImports,
    MemoriesImported,
    Reply,
)
from engramq.schemas.envelope import PrincipalId
from engramq.schemas.faults import EngramqError
from engramq.schemas.ids import format_time
from engramq.schemas.records import ImportRun
from engramq.schemas.vocabulary import OnDuplicate, Partition, ReceiptStatus
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.memories.grounds import find_cited, grounds_of, known_grounds
from engramq.workers.memories.import_rows import (
    BulkLoads,
    RoutedBatch,
    earlier_rows,
    find_usual,
    out_of,
    rejected,
    route_records,
)
from engramq.workers.memories.import_writing import write
from engramq.workers.memories.originals import find_originals, follow_originals
from engramq.workers.memories.pending import request_vectors
from engramq.workers.memories.store import finishing, on_grounds
from engramq.workers.memories.supersession import lock_with_replaced
from engramq.workers.runner import Context, handles
from engramq.workers.trust import is_admin, route

log = logging.getLogger(__name__)


LOOKED_BACK_H: Final = 24
PAUSE: Final = timedelta(minutes=2)  # after which the next batch begins another run; a batch takes seconds
_COUNTS: Final = tuple(str(status) for status in ReceiptStatus)  # of each batch, by their columns
_WRITTEN: Final = frozenset({ReceiptStatus.STORED, ReceiptStatus.UPDATED})


async def embed_batch(command: ImportBatch, context: Context) -> RoutedBatch:
    """Route and embed the records of an import; what is known already and skipped needs no vector."""
    batch = await _route(command, context)
    known = await context.store.read(context.envelope.namespace, lambda tx: need_no_vector(tx, batch))
    return await _embed(batch, batch.rows.keys() - known, context)


async def _embed(batch: RoutedBatch, wanted: Collection[int], context: Context) -> RoutedBatch:
    """Return a batch with the vectors of the rows that are wanted, by index; `degraded` where the model is away."""
    rows = {index: row for index, row in batch.rows.items() if index in wanted}
    try:
        embeddings = await context.services[Vectorizer].embed([row.record.content for row in rows.values()], bulk=True)
    except EmbedderUnavailable as problem:
        log.warning("Imported without vectors", extra={"count": len(rows), "reason": problem.reason})
        return replace(batch, degraded=bool(rows))
    embedded = {
        index: replace(row, draft=replace(row.draft, embedding=vector))
        for (index, row), vector in zip(rows.items(), embeddings, strict=True)
    }
    return replace(batch, rows=batch.rows | embedded)


async def keep_batch_apart(tx: Transaction, batch: RoutedBatch) -> RoutedBatch:
    """Return a batch that keeps apart what rests on untrusted memories, and refuses rows that cite unknown ones.

    The memories that the rows change are locked at once with those that they cite.
    """
    newest = await find_originals(tx, batch)
    evidence = [row.record.evidence for row in batch.rows.values()]
    changed = {*newest.keys(), *newest.values()}
    if batch.external_ids:
        changed |= {row["id"] for row in await tx.rows("known_external_ids", external_ids=batch.external_ids)}
    if changed:
        await lock_with_replaced(tx, *changed, beside=grounds_of(evidence))
    known = await known_grounds(tx, evidence)
    rows, refused = dict(batch.rows), list(batch.refused)
    for index, row in batch.rows.items():
        if find_cited(row.record.evidence):
            try:
                rows[index] = replace(row, draft=on_grounds(row.draft, known))
            except EngramqError as refusal:
                refused.append(rejected(index, refusal.fault.field or "partition", refusal.fault.error))
                del rows[index]
    # What a row rests on decides what it may replace.
    return await follow_originals(tx, replace(batch, rows=rows, refused=refused), newest)


async def need_no_vector(tx: Transaction, batch: RoutedBatch) -> set[int]:
    """Return the rows, by index, of which nothing will be written, since they are known already."""
    given = batch.rows.keys()
    batch = await follow_originals(tx, batch, await find_originals(tx, batch))
    settled = given - batch.rows.keys()
    taken = set[str]()
    if batch.external_ids:
        taken = {row["external_id"] for row in await tx.rows("known_external_ids", external_ids=batch.external_ids)}
    out = out_of(batch, taken, await earlier_rows(tx, batch.identities))
    skipped = taken if batch.on_duplicate is OnDuplicate.SKIP else set()
    return settled | out.keys() | {index for index, row in batch.rows.items() if row.record.external_id in skipped}


async def follow_import(reply: Reply, command: ImportBatch, context: Context) -> None:
    """Send the imported memories to sectors, and link the updated ones; the sweep links the rest."""
    if not isinstance(reply, BatchImported):
        return
    namespace, principal = context.envelope.namespace, context.envelope.principal
    new = [command.records[receipt.index] for receipt in reply.receipts if receipt.status is ReceiptStatus.STORED]
    for partition, rows in Counter(route(record.memory, principal) for record in new).items():
        context.services[BulkLoads].came(namespace, partition, rows)
    if reply.degraded is UNSET:  # else they are pending, and get both with their vectors
        written = [
            (receipt.memory_id, receipt)
            for receipt in reply.receipts
            if receipt.status in _WRITTEN and receipt.memory_id is not UNSET
        ]
        lacking = [
            memory_id
            for memory_id, receipt in written
            if UNSET in (command.records[receipt.index].sector, command.records[receipt.index].standing)
        ]
        updated = [memory_id for memory_id, receipt in written if receipt.status is ReceiptStatus.UPDATED]
        links = [Activated(memory_id=memory_id) for memory_id in updated]
        context.follow_ups = finishing(namespace, lacking, links)


@handles(ImportBatch, before=embed_batch, after=follow_import)
async def import_batch(tx: Transaction, _command: ImportBatch, context: Context, batch: RoutedBatch) -> BatchImported:
    """Write many memories at once."""
    return await write(tx, context, await keep_batch_apart(tx, batch))


async def route_rows(command: ImportMemories, context: Context) -> RoutedBatch:
    """Route the rows; nothing waits for the model but rows of whose vectors who sees them depends."""
    batch = await _route(command, context)
    if not any(row.draft.may_correct for row in batch.rows.values()):
        return batch
    compared = [index for index, row in batch.rows.items() if row.draft.may_correct or row.draft.owner is not None]
    return replace(await _embed(batch, compared, context), vectors_later=True)


async def _route(command: ImportBatch | ImportMemories, context: Context) -> RoutedBatch:
    usual = await find_usual(command, context)
    return route_records(context.envelope, command, context.settings.retention, usual)


async def embed_later(reply: Reply, _command: ImportMemories, context: Context) -> None:
    """Have the written rows given their vectors; those that are not pending are left alone."""
    if isinstance(reply, MemoriesImported):
        receipts = () if reply.receipts is UNSET else reply.receipts
        ids = [row.memory_id for row in receipts if row.status in _WRITTEN and row.memory_id is not UNSET]
        context.follow_ups = request_vectors(context.envelope.namespace, dict.fromkeys(ids))


_REASONS: Final = 5  # of rejected rows in a reply


@handles(ImportMemories, before=route_rows, after=embed_later)
async def import_memories(
    tx: Transaction, _command: ImportMemories, context: Context, batch: RoutedBatch
) -> MemoriesImported:
    """Write many memories at once, without vectors."""
    batch = await keep_batch_apart(tx, batch)
    done = await write(tx, context, batch)
    new = [batch.rows[receipt.index] for receipt in done.receipts if receipt.status is ReceiptStatus.STORED]
    # They are untrusted though their rows did not say so.
    kept_apart = sum(row.draft.partition is Partition.UNTRUSTED and row.record.partition is UNSET for row in new)
    return MemoriesImported(
        accepted=done.stored + done.updated + done.skipped,
        rejected=done.rejected,
        rejected_rows=[row for row in done.receipts if row.status is ReceiptStatus.REJECTED][:_REASONS] or UNSET,
        stored=done.stored,
        updated=done.updated,
        skipped=done.skipped,
        receipts=done.receipts,
        kept_apart=kept_apart or UNSET,
        kept_to_author=done.kept_to_author,
    )


@dataclass(slots=True)
class _Run:
    """Batches that came soon after each other, newest first: nobody announces an import."""

    owner: PrincipalId
    last_at: datetime
    began_at: datetime
    rows: list[Row]


@handles(ListImports)
async def list_imports(tx: Transaction, _command: ListImports, context: Context) -> ImportList:
    """Tell by the ledger how the newest imports get on: an admin everybody's, others their own."""
    principal = context.envelope.principal
    batches = await tx.rows(
        "import_batches",
        commands=[str(command.__struct_config__.tag) for command in (ImportBatch, ImportMemories)],
        hours=LOOKED_BACK_H,
        limit=limits.IMPORT_BATCHES_LOOKED_AT,
        principal=None if is_admin(principal) else principal.name,
        principal_untrusted=principal.untrusted,
    )
    counted = await tx.only_row("waiting_for_vectors")
    cut = len(batches) == limits.IMPORT_BATCHES_LOOKED_AT
    return ImportList(
        runs=[
            ImportRun(
                principal=run.owner.name,
                untrusted=run.owner.untrusted,
                began_at=format_time(run.began_at),
                last_at=format_time(run.last_at),
                batches=len(run.rows),
                is_whole=not (cut and run.rows[-1] is batches[-1]),
                **{name: sum(row[name] for row in run.rows) for name in _COUNTS},
            )
            for run in _runs_of(batches)
        ],
        waiting_for_vectors=counted["waiting"],
        at=format_time(counted["at"]),
    )


def _runs_of(batches: Iterable[Row]) -> list[_Run]:
    """Return the runs that batches make, both newest first."""
    runs: list[_Run] = []
    open_of: dict[PrincipalId, _Run] = {}
    for row in batches:
        owner = PrincipalId(row["principal"], row["principal_untrusted"])
        run = open_of.get(owner)
        if run is None or run.began_at - row["created_at"] > PAUSE:
            run = open_of[owner] = _Run(owner, row["created_at"], row["created_at"], [])
            runs.append(run)
        run.began_at = row["created_at"]
        run.rows.append(row)
    return runs
