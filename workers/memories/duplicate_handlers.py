"""Carries out the commands on near-duplicates, for an operator alone; none of them takes long."""

import asyncio
from functools import partial
from typing import Final

from msgspec import UNSET

from engramq.schemas.commands import (
    DuplicateGroup,
    DuplicatesFound,
    DuplicatesGrouped,
    DuplicatesMerged,
    FindDuplicates,
    GroupDuplicates,
    MergeDuplicates,
)
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.memory_rows import previews
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.db.vectors import Sizes
from engramq.workers.embedders.confidence import Confidence
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.memories import duplicates
from engramq.workers.memories.duplicates import Sought
from engramq.workers.queue.background import Activity
from engramq.workers.runner import Context, handles, handles_without_transaction, require_admin

BETWEEN_LOOK_UPS_MAX_S: Final = 0.1  # how long each few look-ups wait while somebody waits for this process


@handles_without_transaction(FindDuplicates)
async def find_duplicates(command: FindDuplicates, context: Context) -> DuplicatesFound:
    """Find the next few memories that are alike. Raises EngramqError: `forbidden`, `unavailable` without a model."""
    sought = await _sought(command, context)
    store, namespace = context.store, context.envelope.namespace
    if command.by == "text":
        texts = await store.read(namespace, lambda tx: duplicates.next_texts(tx, sought, command.after))
        return await asyncio.to_thread(duplicates.by_text, texts, sought.similarity)
    memories = await store.read(namespace, lambda tx: duplicates.next_to_look_up(tx, sought, command.after))
    alike: set[tuple[str, ...]] = set()
    for start in range(0, len(memories), duplicates.LOOKED_UP_TOGETHER):
        await context.services[Activity].pause(0.0, BETWEEN_LOOK_UPS_MAX_S, asyncio.Event())
        look_up = partial(
            duplicates.near_pairs,
            sizes=context.services[Sizes],
            memories=memories[start : start + duplicates.LOOKED_UP_TOGETHER],
            sought=sought,
        )
        alike |= await store.read(namespace, look_up)
    return DuplicatesFound(
        alike=sorted(alike),
        looked_at=len(memories),
        next=str(memories[-1].id) if len(memories) == duplicates.LOOKED_UP_AT_ONCE else None,
        similarity=sought.similarity,
    )


@handles_without_transaction(GroupDuplicates)
async def group_duplicates(command: GroupDuplicates, context: Context) -> DuplicatesGrouped:
    """Say which of memories would stay; no transaction is open while they are compared."""
    model_id = await running_model(command, context)
    store, namespace = context.store, context.envelope.namespace
    ids = duplicates.known_ids(command.alike)
    rows = await store.read(namespace, lambda tx: duplicates.read_compared(tx, ids, model_id))
    reply = DuplicatesGrouped(groups=await asyncio.to_thread(_grouped, command, rows))
    if command.preview:
        named = duplicates.known_ids([(one.stays, *one.goes) for one in reply.groups])
        reply.previews = await store.read(namespace, lambda tx: previews(tx, named, tuple(Partition)))
    return reply


def _grouped(command: GroupDuplicates, rows: list[Row]) -> list[DuplicateGroup]:
    return duplicates.grouped(command.alike, duplicates.compared(rows), command.similarity)


async def running_model(command: GroupDuplicates | MergeDuplicates, context: Context) -> int:
    """Return the id of the model whose vectors are compared."""
    command.check()
    require_admin(context.envelope.principal, "Merging duplicates")
    return await _model_id(context)


@handles(MergeDuplicates, before=running_model)
async def merge_duplicates(
    tx: Transaction, command: MergeDuplicates, context: Context, model_id: int
) -> DuplicatesMerged:
    """Supersede duplicates by those that stand for them."""
    return await duplicates.merge(tx, context.envelope, command, model_id)


async def _sought(command: FindDuplicates, context: Context) -> Sought:
    require_admin(context.envelope.principal, "Finding duplicates")
    partitions = tuple(Partition) if command.partition is UNSET else (command.partition,)
    model_id = await _model_id(context)
    if command.similarity is not UNSET:
        return Sought(partitions, model_id, command.similarity)
    try:
        curve = await context.services[Confidence].calibration()
    except EmbedderUnavailable as problem:
        raise refuse(FaultCode.UNAVAILABLE, f"{problem}.") from problem
    return Sought(partitions, model_id, duplicates.usual_similarity(curve))


async def _model_id(context: Context) -> int:
    try:
        return await context.services[Vectorizer].running_model_id()
    except EmbedderUnavailable as problem:
        raise refuse(FaultCode.UNAVAILABLE, f"{problem}.") from problem
