"""Which memories a purge takes, and erasing them a few at a time."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.commands import PurgeMemories
from engramq.schemas.envelope import Envelope
from engramq.schemas.fields import or_none
from engramq.schemas.ids import format_time
from engramq.schemas.vocabulary import AuditAction, Partition, SourceType
from engramq.workers.db import audit
from engramq.workers.db.errors import Again
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories import change as changes
from engramq.workers.memories.supersession import lock

COUNT: Final = sql("purge_count")
NEXT: Final = sql("purge_next")
SUCCESSORS: Final = sql("purge_successors")
STILL: Final = sql("purge_still")
DONE: Final = sql("purge_done")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What has to hold of a memory; None: anything may."""

    created_by: str | None
    source_type: str | None
    thread: str | None
    partition: Partition | None
    since: datetime | None
    until: datetime | None

    @classmethod
    def of(cls, command: PurgeMemories) -> Self:
        """Return the filters of a command."""
        return cls(**{name: or_none(getattr(command, name)) for name in cls.__dataclass_fields__})


@dataclass(frozen=True, slots=True)
class Place:
    """A place among the memories, oldest first: just after this one."""

    created_at: datetime
    id: UUID


BEGINNING: Final = Place(datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))


@dataclass(frozen=True, slots=True)
class Found:
    """Memories that a purge takes: contents by id, and where the next ones are looked for."""

    contents: dict[UUID, str]
    place: Place


async def count(tx: Transaction, filters: Filters) -> tuple[int, datetime]:
    """Return how many memories a purge would take, and the database's time."""
    row = await tx.row(COUNT, **asdict(filters))
    assert row is not None
    return row["memories"], row["now"]


async def find(tx: Transaction, filters: Filters, place: Place, limit: int) -> Found:
    """Return the oldest memories from a place on that a purge takes."""
    rows = await tx.rows(NEXT, **asdict(filters), after=place.created_at, after_id=place.id, limit=limit)
    contents = {row["id"]: row["content"] for row in rows}
    return Found(contents, Place(rows[-1]["created_at"], rows[-1]["id"]) if rows else place)


async def erase(tx: Transaction, envelope: Envelope, filters: Filters, ids: Sequence[UUID], reason: str | None) -> None:
    """Erase those of these memories that the filters still hold of, and note each in the audit log."""
    successors = {row["id"] for row in await tx.rows(SUCCESSORS, ids=list(ids))}
    standing = await lock(tx, *{*ids, *successors})
    rows = await tx.rows(STILL, **asdict(filters), ids=list(ids))
    if not {row["superseded_by"] for row in rows} <= {None, *successors}:
        raise Again
    replaced_by: dict[UUID, UUID | None] = {row["id"]: row["superseded_by"] for row in rows}

    def stays(memory_id: UUID | None) -> UUID | None:
        """Return what in the end replaces a memory: the first in its chain that is not erased, if it is there."""
        for _ in replaced_by:
            memory_id = replaced_by.get(memory_id, memory_id) if memory_id is not None else None
        return memory_id if memory_id in standing.keys() - replaced_by.keys() else None

    await changes.erase(tx, {memory_id: stays(successor) for memory_id, successor in replaced_by.items()})
    for row in rows:
        await audit.record(
            tx, envelope, AuditAction.ERASE, row["id"], old={"state": row["state"]}, new={}, reason=reason
        )


async def done(tx: Transaction, command_id: str) -> tuple[int, list[str]]:
    """Return how many memories a command has erased by now, whoever carried it out, and the first of their ids."""
    row = await tx.row(DONE, command_id=UUID(command_id), action=AuditAction.ERASE, shown=limits.PURGED_SHOWN)
    assert row is not None
    return row["memories"], [str(one) for one in row["ids"] or ()]


def told(filters: Filters) -> dict[str, Any]:
    """Return filters as the audit log tells them: of what memories say of themselves only a digest, to compare with."""
    told: dict[str, Any] = {}
    for name, value in asdict(filters).items():
        if isinstance(value, datetime):
            told[name] = format_time(value)
        elif value is not None and (name == "thread" or (name == "source_type" and value not in set(SourceType))):
            told[f"{name}_sha256"] = hashlib.sha256(value.encode()).hexdigest()
        elif value is not None:
            told[name] = value
    return told
