"""Lists of memories."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from engramq.schemas.faults import invalid
from engramq.schemas.ids import parse_uuid
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import Partition, Sector
from engramq.workers.db.memory_rows import memory_record
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

RECENT: Final = sql("recent_memories")


@dataclass(frozen=True, slots=True)
class ListPosition:
    """A position in the list of the newest: just after this memory."""

    created_at: datetime
    id: UUID


async def recent(
    tx: Transaction,
    *,
    partitions: Sequence[Partition],
    sectors: Sequence[Sector] | None,
    include_superseded: bool,
    after: ListPosition | None,
    limit: int,
) -> tuple[list[Memory], ListPosition | None]:
    """Return the newest memories after a position, newest first, and the position of the last when there are more."""
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
    return [memory_record(row) for row in rows], ListPosition(rows[-1]["created_at"], rows[-1]["id"]) if more else None


def position_of(cursor: str) -> ListPosition:
    """Return the position that a cursor stands for; the gateway has checked that we gave it out."""
    at, _, text = cursor.partition("|")
    memory_id = parse_uuid(text)
    try:
        created_at = datetime.fromisoformat(at)
    except ValueError:
        created_at = None
    if memory_id is None or created_at is None or created_at.tzinfo is None:
        raise invalid("cursor", "cursor is none that this list gave out.")
    return ListPosition(created_at, memory_id)
