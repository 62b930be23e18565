"""Reading that needs no ranking: lists, single memories, counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from schemas.commands import EdgeCount
from schemas.records import Link, Memory
from schemas.vocabulary import Direction, Origin, Partition, Sector
from workers.store.pool import Row
from workers.store.queries import sql
from workers.store.records import memory_record
from workers.store.transaction import Transaction

RECENT: Final = sql("recent_memories")
BY_ID: Final = sql("memory_by_id")
LINKS: Final = sql("links_of_memory")
COUNT_MEMORIES: Final = sql("count_memories")
COUNT_EDGES: Final = sql("count_edges")


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page of a list ended: the creation time and id of its last memory."""

    created_at: datetime
    memory_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a page of the list of recent memories may hold. No sectors: any."""

    partitions: Sequence[Partition]
    sectors: Sequence[Sector] | None
    include_superseded: bool
    limit: int
    after: Position | None


async def recent(tx: Transaction, page: Page) -> tuple[list[Memory], Position | None]:
    """Return a page, newest first, and where it ended if there is more."""
    rows = await tx.rows(
        RECENT,
        partitions=list(page.partitions),
        sectors=None if page.sectors is None else list(page.sectors),
        include_superseded=page.include_superseded,
        before=None if page.after is None else page.after.created_at,
        before_id=None if page.after is None else page.after.memory_id,
        limit=page.limit + 1,
    )
    shown = rows[: page.limit]
    more = len(rows) > page.limit
    return [memory_record(row) for row in shown], Position(shown[-1]["created_at"], shown[-1]["id"]) if more else None


async def memory_with_links(
    tx: Transaction, memory_id: UUID, partitions: Sequence[Partition]
) -> tuple[Memory, list[Link]] | None:
    """Return a memory whatever its state, and its links to memories that may be shown; None when there is none."""
    asked = list(partitions)
    found = await tx.send(BY_ID, id=memory_id, partitions=asked)
    links = await tx.send(LINKS, id=memory_id, partitions=asked, include_superseded=False)
    row = await found.row()
    return None if row is None else (memory_record(row), [_link(one) for one in await links.rows()])


async def count_memories(tx: Transaction) -> list[Row]:
    """Return (partition, sector, state, memories, superseded) of each sort that there is."""
    return await tx.rows(COUNT_MEMORIES)


async def count_edges(tx: Transaction) -> list[EdgeCount]:
    """Return how many edges there are of each layer, origin and relation."""
    return [
        EdgeCount(layer=row["layer"], origin=row["origin"], relation=row["relation"], count=row["edges"])
        for row in await tx.rows(COUNT_EDGES)
    ]


def _link(row: Row) -> Link:
    return Link(
        memory_id=str(row["memory_id"]),
        relation=row["relation"],
        weight=row["weight"],
        note=row["note"],
        origin=Origin(row["origin"]),
        direction=Direction.OUTGOING if row["declared_here"] else Direction.INCOMING,
        reinforcement_count=row["reinforcement_count"],
    )
