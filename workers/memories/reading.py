"""Lists of memories."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final, Self
from uuid import UUID

from msgspec import UNSET

from engramq.schemas.commands import BrowseMemories, ListRecentMemories
from engramq.schemas.faults import invalid
from engramq.schemas.fields import or_none
from engramq.schemas.ids import parse_list_position
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import MemoryState, Partition, Sector, Verification
from engramq.workers.db.memory_rows import memory_record
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

RECENT: Final = sql("recent_memories")


@dataclass(frozen=True, slots=True)
class ListPosition:
    """A position in the list of the newest: just after this memory."""

    created_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Which memories a list is of: the parameters of the fragment `listed`; None: whichever."""

    partitions: list[Partition]
    sectors: list[Sector] | None = None
    states: list[MemoryState] | None = None
    verifications: list[Verification] | None = None
    tags: list[str] | None = None
    project: str | None = None
    thread: str | None = None
    source_type: str | None = None
    created_by: str | None = None
    external_id: str | None = None
    include_superseded: bool = False
    as_of: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def by(cls, command: ListRecentMemories, project: str | None) -> Self:
        """Return which memories a command asks for, of this project and of none."""
        return cls(
            partitions=list(dict.fromkeys(command.partitions)),
            sectors=None if command.sectors is UNSET else list(command.sectors),
            states=list(command.states or ()) or None,
            verifications=list(command.verifications or ()) or None,
            tags=list(command.tags or ()) or None,
            project=project,
            thread=or_none(command.thread),
            source_type=or_none(command.source_type),
            created_by=or_none(command.created_by),
            external_id=or_none(command.external_id),
            include_superseded=command.include_superseded,
            as_of=or_none(command.as_of),
            since=or_none(command.since) if isinstance(command, BrowseMemories) else None,
            until=or_none(command.until) if isinstance(command, BrowseMemories) else None,
        )


async def recent(
    tx: Transaction, wanted: Listed, *, after: ListPosition | None, limit: int
) -> tuple[list[Memory], ListPosition | None]:
    """Return the newest memories after a position, newest first, and the position of the last when there are more."""
    rows = await tx.rows(
        RECENT,
        **{field.name: getattr(wanted, field.name) for field in fields(wanted)},
        before=after and after.created_at,
        before_id=after and after.id,
        limit=limit + 1,
    )
    more = len(rows) > limit
    rows = rows[:limit]
    return [memory_record(row) for row in rows], ListPosition(rows[-1]["created_at"], rows[-1]["id"]) if more else None


def position_of(cursor: str) -> ListPosition:
    """Return the position that a cursor stands for; the gateway has checked that we gave it out."""
    found = parse_list_position(cursor)
    if found is None:
        raise invalid("cursor", "cursor is none that this list gave out.")
    return ListPosition(*found)
