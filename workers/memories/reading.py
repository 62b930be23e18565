"""Reading memories: lists, links, counts, and the note that they were read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.commands import EdgeCount
from engramq.schemas.records import Link, Memory
from engramq.schemas.vocabulary import CUSTOM_RELATION, Direction, MemoryState, Origin, Partition, Relation, Sector
from engramq.workers.db.memory_rows import memory_record, warned
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

RECENT: Final = sql("recent_memories")
LINKS_OF: Final = sql("links_of")
NOTE_ACCESS: Final = sql("note_access")
MEMORY_COUNTS: Final = sql("memory_counts")
EDGE_COUNTS: Final = sql("edge_counts")

LINKS_MAX: Final = 1_000  # a memory may have replaced any number of others


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the list of the newest: just after this memory."""

    created_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a namespace holds; every word is there, with 0 when nothing is."""

    memories: int
    by_partition: dict[str, int]
    by_sector: dict[str, int]
    by_state: dict[str, int]
    superseded: int
    edges: list[EdgeCount]


async def recent(
    tx: Transaction,
    *,
    partitions: Sequence[Partition],
    sectors: Sequence[Sector] | None,
    include_superseded: bool,
    after: Place | None,
    limit: int,
) -> tuple[list[Memory], Place | None]:
    """Return the newest memories after a place, newest first, and the place of the last when there are more."""
    rows = await tx.rows(
        RECENT,
        partitions=list(partitions),
        sectors=None if sectors is None else list(sectors),
        include_superseded=include_superseded,
        before=after and after.created_at,
        before_id=after and after.id,
        limit=limit + 1,
    )
    more = len(rows) > limit
    rows = rows[:limit]
    return [memory_record(row) for row in rows], Place(rows[-1]["created_at"], rows[-1]["id"]) if more else None


async def links_of(tx: Transaction, memory_id: UUID, partitions: Sequence[Partition]) -> list[Link]:
    """Return the links of a memory to active ones of these partitions, heaviest first."""
    rows = await tx.rows(LINKS_OF, id=memory_id, partitions=list(partitions), include_superseded=False, limit=LINKS_MAX)
    return [
        Link(
            memory_id=str(row["memory_id"]),
            relation=row["relation"],
            weight=row["weight"],
            note=row["note"],
            origin=Origin(row["origin"]),
            direction=Direction.INCOMING if row["incoming"] else Direction.OUTGOING,
            reinforcement_count=row["reinforcement_count"],
            **warned(row["partition"] == Partition.UNTRUSTED),
        )
        for row in rows
    ]


async def note_access(tx: Transaction, times: Mapping[UUID, int]) -> None:
    """Count that memories were found so many times."""
    await tx.send(NOTE_ACCESS, ids=list(times), times=list(times.values()))


async def counts(tx: Transaction) -> Counts:
    """Count what the namespace holds, both partitions, whatever its state."""
    memories = await tx.send(MEMORY_COUNTS)
    edges = await tx.send(EDGE_COUNTS, relations=list(Relation), custom=CUSTOM_RELATION, kinds=limits.EDGE_KINDS_SHOWN)
    by_partition = {word.value: 0 for word in Partition}
    by_sector = {word.value: 0 for word in Sector}
    by_state = {word.value: 0 for word in MemoryState}
    superseded = 0
    for row in await memories.rows():
        by_partition[row["partition"]] += row["memories"]
        by_sector[row["sector"]] += row["memories"]
        by_state[row["state"]] += row["memories"]
        superseded += row["memories"] if row["superseded"] else 0
    return Counts(
        memories=sum(by_partition.values()),
        by_partition=by_partition,
        by_sector=by_sector,
        by_state=by_state,
        superseded=superseded,
        edges=[
            EdgeCount(layer=row["layer"], origin=row["origin"], relation=row["relation"], count=row["edges"])
            for row in await edges.rows()
        ],
    )
