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
from engramq.workers.db.database import Store
from engramq.workers.db.memory_rows import lock, visible_now
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Sizes, unpacked
from engramq.workers.embedders.bundle import MODEL_SHA256
from engramq.workers.embedders.calibrated.shipped import SHIPPED
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.links.similarity import Nearby, Unlinked, neighbors
from engramq.workers.memories.duplicate_rules import Compared, groups, said, similarity_to, unit
from engramq.workers.memories.supersession import pointers, supersede_locked

BY_TEXT: Final = sql("duplicates_by_text")
NEXT: Final = sql("duplicates_next")
KINDS: Final = sql("duplicates_kinds")
COMPARED: Final = sql("duplicates_compared")

# The least cosine with the default model, by which sentences are near that say the same in other words.
SIMILARITY: Final = 0.95
IDS_AT_ONCE: Final = 10_000  # of equal texts in one reply: 400 kB
LOOKED_UP_AT_ONCE: Final = 100  # memories of one command: about half a second
LOOKED_UP_TOGETHER: Final = 20  # of one transaction: some milliseconds each
NEIGHBORS: Final = 20  # of each that are looked at: those of other kinds are among them
DIGITS: Final = 4  # of similarities
REASON: Final = "near-duplicate"  # in the audit log
BEGINNING: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Sought:
    """Which duplicates are looked for: in these partitions, by vectors of this model, with this cosine at least."""

    partitions: tuple[Partition, ...]
    model_id: int
    similarity: float


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


async def next_to_look_up(tx: Transaction, sought: Sought, after: str) -> list[Unlinked]:
    """Return the next memories whose neighbours are to be looked for."""
    shown = visible_now(sought.partitions)
    after_id = parse_uuid(after) or BEGINNING
    rows = await tx.rows(NEXT, **shown, model_id=sought.model_id, after_id=after_id, limit=LOOKED_UP_AT_ONCE)
    return [Unlinked(row["id"], Partition(row["partition"]), row["model_id"], row["dimensions"], 1) for row in rows]


async def near_pairs(
    store: Store, namespace: str, sizes: Sizes, memories: Sequence[Unlinked], least: float
) -> list[Nearby]:
    """Return the nearest neighbours of a few memories that are at least that similar, and of the same kind."""

    async def look_up(tx: Transaction) -> list[Nearby]:
        found = [pair for one in memories for pair in await neighbors(tx, sizes, one, least=least, k=NEIGHBORS)]
        if not found:
            return []
        ids = sorted({one for pair in found for one in (pair.id, pair.other_id)})
        kinds = {row["id"]: row["kind"] for row in await tx.rows(KINDS, ids=ids)}
        return [pair for pair in found if pair.id in kinds and kinds[pair.id] == kinds.get(pair.other_id)]

    return await store.read(namespace, look_up)


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
