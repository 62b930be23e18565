"""Find the near-duplicates of a namespace, a few at a time, and supersede them; for an operator alone."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID

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
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import Partition, Verification
from engramq.workers.db.memory_rows import lock, previews, visible_now
from engramq.workers.db.queries import sized_sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.db.vectors import Sizes, cheaper, unit, unpack
from engramq.workers.embedders.confidence import SHIPPED, ConfidenceCurve
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.minilm import MODEL_SHA256
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.memories.duplicate_rules import Compared, digest, extract_details, groups, similarity_to
from engramq.workers.memories.supersession import supersede_locked
from engramq.workers.queue.background import Activity
from engramq.workers.runner import Context, handles, handles_without_transaction
from engramq.workers.trust import require_admin

# The least cosine with the default model, by which sentences are near that say the same in other words.
SIMILARITY: Final = 0.95
TEXTS_AT_ONCE: Final = 500  # memories of one command: 30 kB of digests; 16 MB are read where all texts are the longest
LOOKED_UP_AT_ONCE: Final = 200  # memories of one command: 1 s on two busy cores
LOOKED_UP_TOGETHER: Final = 50  # of one transaction: 5 ms each on two busy cores
NEIGHBORS: Final = 20  # of each that are looked at: those of other kinds are among them
EF_SEARCH: Final = 40  # hnsw.ef_search: duplicates are the nearest of all, and each of two is looked up
DIGITS: Final = 4  # of similarities
REASON: Final = "near-duplicate"  # in the audit log
BEGINNING: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Sought:
    """The pairs to find: in these partitions, by vectors of this model, at least this cosine, of one kind or any."""

    partitions: tuple[Partition, ...]
    model_id: int
    similarity: float
    of_any_kind: bool = False


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A memory whose neighbours are to be looked for, and the length of its vector."""

    id: UUID
    partition: Partition
    dimensions: int


def _digests(rows: Sequence[Row]) -> dict[str, bytes]:
    """Return digests of texts by the memories' ids; 500 of 2 KB take 10 ms."""
    return {str(row["id"]): digest(row["kind"], row["content"]) for row in rows}


async def next_to_look_up(tx: Transaction, sought: Sought, after: str) -> list[LookedUp]:
    """Return the next memories whose neighbours are to be looked for."""
    shown = visible_now(sought.partitions)
    after_id = parse_uuid(after) or BEGINNING
    rows = await tx.rows(
        "duplicates_next", **shown, model_id=sought.model_id, after_id=after_id, limit=LOOKED_UP_AT_ONCE
    )
    return [LookedUp(row["id"], Partition(row["partition"]), row["dimensions"]) for row in rows]


async def near_pairs(
    tx: Transaction, sizes: Sizes, memories: Sequence[LookedUp], sought: Sought
) -> set[tuple[str, ...]]:
    """Return pairs that are similar enough, of each memory's nearest neighbours; ids in order."""
    pairs: set[tuple[str, ...]] = set()
    for partition in {memory.partition for memory in memories}:
        several = [memory for memory in memories if memory.partition == partition]
        name = await cheaper(
            tx,
            sizes,
            (partition,),
            exact="duplicates_near_exact",
            by_index="duplicates_near_by_index",
            ef_search=EF_SEARCH,
        )
        rows = await tx.rows(
            sized_sql(name, several[0].dimensions),
            **visible_now((partition,)),
            model_id=sought.model_id,
            ids=[memory.id for memory in several],
            k=NEIGHBORS,
            farthest=1.0 - sought.similarity,
            of_any_kind=sought.of_any_kind,
        )
        pairs |= {(str(min(row["id"], row["other_id"])), str(max(row["id"], row["other_id"]))) for row in rows}
    return pairs


async def read_compared(tx: Transaction, ids: Sequence[UUID], model_id: int) -> list[Row]:
    """Return the rows of those of these memories that can be duplicates now."""
    return await tx.rows("duplicates_compared", **visible_now(Partition), ids=list(ids), model_id=model_id)


def prepare_comparison(rows: Sequence[Row]) -> dict[UUID, Compared]:
    """Return rows as they are compared, by id."""
    return {
        row["id"]: Compared(
            id=row["id"],
            kind=row["kind"],
            said=extract_details(row["content"]),
            vector=None if row["embedding"] is None else unit(unpack(row["embedding"])),
            verification=Verification(row["verification"]),
            created_at=row["created_at"],
            kept=row["kept"],
            is_told=row["is_told"],
            is_telling=row["is_telling"],
        )
        for row in rows
    }


def known_ids(alike: Sequence[Sequence[str]]) -> list[UUID]:
    """Return the memories that may be meant, each once."""
    return sorted({known for several in alike for text in several if (known := parse_uuid(text)) is not None})


def grouped(alike: Sequence[Sequence[str]], rows: Sequence[Row], similarity: float) -> list[DuplicateGroup]:
    """Return who would stay among memories that are alike, item by item. 1,000 of 2 KB take .1 s: use a thread."""
    memories = prepare_comparison(rows)
    return [
        DuplicateGroup(
            stays=str(group.stays.id),
            goes=tuple(str(goes.id) for goes, _ in group.goes),
            similarities=tuple(round(value, DIGITS) for _, value in group.goes),
        )
        for several in alike
        for group in groups([memories[known] for known in known_ids([several]) if known in memories], similarity)
    ]


def _still_near(
    rows: Sequence[Row], pairs: Sequence[tuple[UUID | None, UUID | None]], least: float
) -> list[float | None]:
    """Return for each pair how similar what goes is to what stays; None where it may not go for that one."""
    memories = prepare_comparison(rows)
    found: list[float | None] = []
    for goes_id, stays_id in pairs:
        goes, stays = memories.get(goes_id or BEGINNING), memories.get(stays_id or BEGINNING)
        found.append(None if goes is None or stays is None else similarity_to(stays, goes, least))
    return found


BETWEEN_LOOK_UPS_MAX_S: Final = 0.1  # how long each few look-ups wait while somebody waits for this process


@handles_without_transaction(FindDuplicates)
async def find_duplicates(command: FindDuplicates, context: Context) -> DuplicatesFound:
    """Find the next few memories that are alike. Raises EngramqError: `forbidden`, `unavailable` without a model."""
    sought = await _sought(command, context)
    store, namespace = context.store, context.envelope.namespace
    if command.by == "text":  # the command line finds equal ones by their digests
        after, shown = parse_uuid(command.after) or BEGINNING, visible_now(sought.partitions)
        texts = await store.read(
            namespace, lambda tx: tx.rows("duplicates_texts", **shown, after_id=after, limit=TEXTS_AT_ONCE)
        )
        return DuplicatesFound(
            alike=[],
            digests=await asyncio.to_thread(_digests, texts),
            looked_at=len(texts),
            next=str(texts[-1]["id"]) if len(texts) == TEXTS_AT_ONCE else None,
            similarity=sought.similarity,
        )
    memories = await store.read(namespace, lambda tx: next_to_look_up(tx, sought, command.after))
    pairs: set[tuple[str, ...]] = set()
    for start in range(0, len(memories), LOOKED_UP_TOGETHER):
        await context.services[Activity].pause(0.0, BETWEEN_LOOK_UPS_MAX_S, asyncio.Event())
        look_up = partial(
            near_pairs,
            sizes=context.services[Sizes],
            memories=memories[start : start + LOOKED_UP_TOGETHER],
            sought=sought,
        )
        pairs |= await store.read(namespace, look_up)
    return DuplicatesFound(
        alike=sorted(pairs),
        looked_at=len(memories),
        next=str(memories[-1].id) if len(memories) == LOOKED_UP_AT_ONCE else None,
        similarity=sought.similarity,
    )


@handles_without_transaction(GroupDuplicates)
async def group_duplicates(command: GroupDuplicates, context: Context) -> DuplicatesGrouped:
    """Say which of memories would stay; no transaction is open while they are compared."""
    model_id = await running_model(command, context)
    store, namespace = context.store, context.envelope.namespace
    ids = known_ids(command.alike)
    rows = await store.read(namespace, lambda tx: read_compared(tx, ids, model_id))
    reply = DuplicatesGrouped(groups=await asyncio.to_thread(grouped, command.alike, rows, command.similarity))
    if command.preview:
        named = known_ids([(group.stays, *group.goes) for group in reply.groups])
        reply.previews = await store.read(namespace, lambda tx: previews(tx, named, tuple(Partition)))
    return reply


async def running_model(command: GroupDuplicates | MergeDuplicates, context: Context) -> int:
    """Return the id of the model whose vectors are compared."""
    command.check()
    require_admin(context.envelope.principal, "Merging duplicates")
    return await model_id_of(context)


@handles(MergeDuplicates, before=running_model)
async def merge_duplicates(
    tx: Transaction, command: MergeDuplicates, context: Context, model_id: int
) -> DuplicatesMerged:
    """Supersede what still is a duplicate by the one that stays; what is none is left."""
    pairs = [(parse_uuid(goes), parse_uuid(group.stays), goes) for group in command.groups for goes in group.goes]
    locked = await lock(tx, *{known for goes, stays, _ in pairs for known in (goes, stays) if known is not None})
    rows = await read_compared(tx, sorted(locked), model_id)
    # In a thread, since others wait for this one; in the transaction, since nothing may change meanwhile.
    near = await asyncio.to_thread(_still_near, rows, [(goes, stays) for goes, stays, _ in pairs], command.similarity)
    left = []
    for (goes_id, stays_id, text), similarity in zip(pairs, near, strict=True):
        if goes_id is None or stays_id is None or similarity is None:
            left.append(text)
            continue
        how = {"similarity": round(similarity, DIGITS)}
        await supersede_locked(tx, context.envelope, locked[goes_id], locked[stays_id], how=how, reason=REASON)
    return DuplicatesMerged(merged=len(pairs) - len(left), left=left)


async def _sought(command: FindDuplicates, context: Context) -> Sought:
    require_admin(context.envelope.principal, "Finding duplicates")
    partitions = tuple(Partition) if command.partition is UNSET else (command.partition,)
    model_id = await model_id_of(context)
    if command.similarity is not UNSET:
        return Sought(partitions, model_id, command.similarity)
    try:
        curve = await context.services[ConfidenceCurve].calibration()
    except EmbedderUnavailable as problem:
        raise refuse(FaultCode.UNAVAILABLE, f"{problem}.") from problem
    # The cosine that is as good a sign with this model as SIMILARITY is with the default one.
    return Sought(partitions, model_id, curve.cosine_of(SIMILARITY, SHIPPED[MODEL_SHA256]))


async def model_id_of(context: Context) -> int:
    try:
        return await context.services[Vectorizer].running_model_id()
    except EmbedderUnavailable as problem:
        raise refuse(FaultCode.UNAVAILABLE, f"{problem}.") from problem
