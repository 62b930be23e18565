"""Which memories lack what is made after their store."""

from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

UNFINISHED: Final = sql("unfinished_before")

_NO_ID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a look at a namespace's memories, newest first, goes on."""

    before: str = "infinity"
    before_id: UUID = _NO_ID


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look found, newest first, whether there was more to look at, and where the next look goes on."""

    without_sector: list[UUID] = field(default_factory=list)
    without_links: list[UUID] = field(default_factory=list)
    more: bool = False
    place: Place = field(default_factory=Place)


async def look(tx: Transaction, place: Place, *, older_than_s: float, limit: int, unlinked: int) -> Seen:
    """Look at the next `limit` memories that are older than that, not beyond so many that lack their links."""
    row = await tx.row(
        UNFINISHED,
        before=place.before,
        before_id=place.before_id,
        older_than_s=older_than_s,
        limit=limit,
        unlinked=unlinked,
    )
    assert row is not None
    place = place if row["before"] is None else Place(row["before"], row["before_id"])
    return Seen(row["without_sector"], row["without_links"], row["more"], place)
