"""Near-duplicates of a namespace: looked up step by step, compared, and superseded.

A step is a few short transactions. Who asks for the steps, and puts what they find together, is the command line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from engramq.schemas.commands import DuplicateGroup, DuplicatesFound, DuplicatesMerged, MergeDuplicates
from engramq.schemas.envelope import Envelope
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import AuditAction, Partition, Verification
from engramq.workers.db import audit
from engramq.workers.db.memory_rows import lock, visible_now
from engramq.workers.db.queries import sized_sql, sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Sizes, cheaper, unpacked
from engramq.workers.embedders.bundle import MODEL_SHA256
from engramq.workers.embedders.calibrated.shipped import SHIPPED
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.memories.duplicate_rules import Compared, groups, said, similarity_to, unit
from engramq.workers.memories.supersession import pointers, supersede_locked

BY_TEXT: Final = sql("duplicates_by_text")
NEXT: Final = sql("duplicates_next")
COMPARED: Final = sql("duplicates_compared")

# The least cosine with the default model, by which sentences are near that say the same in other words.
SIMILARITY: Final = 0.95
IDS_AT_ONCE: Final = 10_000  # of equal texts in one reply: 400 kB
LOOKED_UP_AT_ONCE: Final = 200  # memories of one command: 1 s on two busy cores
LOOKED_UP_TOGETHER: Final = 50  # of one transaction: 5 ms each on two busy cores
NEIGHBORS: Final = 20  # of each that are looked at: those of other kinds are among them
EF_SEARCH: Final = 40  # hnsw.ef_search: duplicates are the nearest of all, and each of two is looked up
DIGITS: Final = 4  # of similarities
REASON: Final = "near-duplicate"  # in the audit log
BEGINNING: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Sought:
    """Which duplicates are looked for: in these partitions, by vectors of this model, with this cosine at least."""

    partitions: tuple[Partition, ...]
    model_id: int
    similarity: float


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A memory whose neighbours are to be looked for, and the length of its vector."""

    id: UUID
    partition: Partition
    dimensions: int


def usual_similarity(curve: Calibration) -> float:
    """Return the cosine that is as good a sign with this model as SIMILARITY is with the default one."""
    return curve.cosine_of(SIMILARITY, SHIPPED[MODEL_SHA256])


async def find_by_text(tx: Transaction, sought: Sought, after: str) -> DuplicatesFound:
    """Return memories of one kind and of equal text, a page of them."""
    shown = visible_now(sought.partitions)
    rows = await tx.rows(BY_TEXT, **shown, after_digest=after, ids_max=IDS_AT_ONCE)
    return DuplicatesFound(
        alike=[tuple(map(str, row["ids"])) for row in rows],
        looked_at=rows[0]["looked_at"] if rows else 0,
        next=rows[-1]["digest"] if rows else None,
        similarity=sought.similarity,
    )


async def next_to_look_up(tx: Transaction, sought: Sought, after: str) -> list[LookedUp]:
    """Return the next memories whose neighbours are to be looked for."""
    shown = visible_now(sought.partitions)
    after_id = parse_uuid(after) or BEGINNING
    rows = await tx.rows(NEXT, **shown, model_id=sought.model_id, after_id=after_id, limit=LOOKED_UP_AT_ONCE)
    return [LookedUp(row["id"], Partition(row["partition"]), row["dimensions"]) for row in rows]


async def near_pairs(
    tx: Transaction, sizes: Sizes, memories: Sequence[LookedUp], sought: Sought
) -> set[tuple[str, ...]]:
    """Return pairs of the same kind that are similar enough, of each memory's nearest neighbours; ids in order."""
    pairs: set[tuple[str, ...]] = set()
    for partition in {one.partition for one in memories}:
        several = [one for one in memories if one.partition == partition]
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
            ids=[one.id for one in several],
            k=NEIGHBORS,
            farthest=1.0 - sought.similarity,
        )
        pairs |= {(str(min(row["id"], row["other_id"])), str(max(row["id"], row["other_id"]))) for row in rows}
    return pairs


async def compared(tx: Transaction, ids: Sequence[UUID], model_id: int) -> dict[UUID, Compared]:
    """Return those of these memories that can be duplicates now."""
    rows = await tx.rows(COMPARED, **visible_now(Partition), ids=list(ids), model_id=model_id)
    return {
        row["id"]: Compared(
            id=row["id"],
            kind=row["kind"],
            said=said(row["content"]),
            vector=None if row["embedding"] is None else unit(unpacked(row["embedding"])),
            verification=Verification(row["verification"]),
            created_at=row["created_at"],
            kept=row["kept"],
            is_told=row["is_told"],
            is_telling=row["is_telling"],
        )
        for row in rows
    }


async def grouped(
    tx: Transaction, alike: Sequence[Sequence[str]], model_id: int, similarity: float
) -> list[DuplicateGroup]:
    """Return who would stay among memories that are alike, item by item."""
    ids = {text: known for several in alike for text in several if (known := parse_uuid(text)) is not None}
    memories = await compared(tx, sorted(set(ids.values())), model_id)
    found = []
    for several in alike:
        here = {ids[text] for text in several if text in ids}
        found += groups([memories[one] for one in sorted(here) if one in memories], similarity)
    return [
        DuplicateGroup(
            stays=str(one.stays.id),
            goes=tuple(str(goes.id) for goes, _ in one.goes),
            similarities=tuple(round(value, DIGITS) for _, value in one.goes),
        )
        for one in found
    ]


async def merge(tx: Transaction, envelope: Envelope, command: MergeDuplicates, model_id: int) -> DuplicatesMerged:
    """Supersede what still is a duplicate of the one that stays; what is none is left."""
    pairs = [(parse_uuid(goes), parse_uuid(group.stays), goes) for group in command.groups for goes in group.goes]
    locked = await lock(tx, *{one for goes, stays, _ in pairs for one in (goes, stays) if one is not None})
    memories = await compared(tx, sorted(locked), model_id)
    left = []
    for goes_id, stays_id, text in pairs:
        goes, stays = memories.get(goes_id or BEGINNING), memories.get(stays_id or BEGINNING)
        near = None if goes is None or stays is None else similarity_to(stays, goes, command.similarity)
        if goes is None or stays is None or near is None:
            left.append(text)
            continue
        await supersede_locked(tx, locked[goes.id], locked[stays.id], envelope.principal)
        old, new = pointers(superseded_by=None), pointers(superseded_by=stays.id)
        how = {"similarity": round(near, DIGITS)}
        await audit.record(tx, envelope, AuditAction.SUPERSEDE, goes.id, old=old, new={**new, **how}, reason=REASON)
    return DuplicatesMerged(merged=len(pairs) - len(left), left=left)
