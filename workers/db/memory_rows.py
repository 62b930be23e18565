"""Rows of memories, as every feature meets them: locked, read, and made records of."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict
from uuid import UUID

import msgspec

from engramq.schemas.ids import format_time
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import (
    DEFAULT_SECTOR,
    UNTRUSTED_WARNING,
    MemorySource,
    MemoryState,
    Partition,
    Sector,
    SectorSource,
    Verification,
)
from engramq.workers.db.json_values import loads
from engramq.workers.db.lookups import Answer
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Sent, Transaction

LOCK: Final = sql("lock_memories")
BY_ID: Final = sql("memories_by_id")

USEFULNESS_DIGITS: Final = 9

# Between writes to rows of one page that no index is to notice: the room of the former versions is won back once no
# transaction of that time is left.
BETWEEN_TURNS_S: Final = 0.1


async def lock(tx: Transaction, *ids: UUID) -> dict[UUID, Row]:
    """Lock those of these memories that exist, in canonical order, and return what decides about them."""
    return {row["id"]: row for row in await tx.rows(LOCK, ids=sorted(ids))}


async def send_lock(tx: Transaction, ids: Sequence[UUID]) -> Sent:
    """Send the lock of these memories, which have to be in canonical order."""
    return await tx.send(LOCK, ids=ids)


async def read_memories(tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, Memory]:
    """Return the memories of this namespace with these ids, whatever their state."""
    return {row["id"]: memory_record(row) for row in await tx.rows(BY_ID, ids=list(ids))}


async def send_read(tx: Transaction, ids: Sequence[UUID]) -> Sent:
    """Ask for the rows of memories of this namespace, whatever their state; `memory_record` makes records of them."""
    return await tx.send(BY_ID, ids=list(ids))


def memory_record(row: Mapping[str, Any]) -> Memory:
    """Return the memory that a row of the columns in the fragment `memory_columns` is."""
    return Memory(
        id=str(row["id"]),
        external_id=row["external_id"],
        content=row["content"],
        confidence=row["confidence"],
        source=MemorySource(row["source"]),
        source_type=row["source_type"],
        speaker=row["speaker"],
        occurred_at=row["occurred_at"] and format_time(row["occurred_at"]),
        thread=row["thread"],
        position=row["position"],
        sector=Sector(row["sector"]) if row["sector"] else DEFAULT_SECTOR,
        sector_source=SectorSource(row["sector_source"]) if row["sector_source"] else None,
        sector_confidence=None if row["sector_confidence"] is None else round(row["sector_confidence"], 2),
        partition=Partition(row["partition"]),
        verification=Verification(row["verification"]),
        state=MemoryState(row["state"]),
        valid_from=row["valid_from"] and format_time(row["valid_from"]),
        valid_until=row["valid_until"] and format_time(row["valid_until"]),
        expires_at=row["expires_at"] and format_time(row["expires_at"]),
        usefulness=usefulness(row["confidence"], row["helped"], row["hindered"]),
        supersedes=row["supersedes"] and str(row["supersedes"]),
        superseded_by=row["superseded_by"] and str(row["superseded_by"]),
        superseded_at=row["superseded_at"] and format_time(row["superseded_at"]),
        promoted_at=row["promoted_at"] and format_time(row["promoted_at"]),
        promoted_by=row["promoted_by"],
        tags=row["tags"] or [],
        project=row["project"],
        metadata=row["metadata"],
        created_by=row["created_by"],
        created_at=format_time(row["created_at"]),
        updated_at=format_time(row["updated_at"]),
        accessed_at=row["accessed_at"] and format_time(row["accessed_at"]),
        **warned(row["partition"] == Partition.UNTRUSTED),
    )


def visible_now(partitions: Iterable[Partition]) -> dict[str, Any]:
    """Return the parameters of the fragment `visible` for what these partitions show unless asked otherwise."""
    return {"partitions": list(partitions), "include_superseded": False, "as_of": None}


class JsonRow(msgspec.Struct):
    """The columns of the fragment `memory_columns`, as JSON has them."""

    id: str
    external_id: str | None
    content: str
    confidence: float
    source: str
    source_type: str | None
    speaker: str | None
    occurred_at: datetime | None
    thread: str | None
    position: int | None
    sector: str | None
    sector_source: str | None
    sector_confidence: float | None
    partition: str
    verification: str
    state: str
    valid_from: datetime | None
    valid_until: datetime | None
    expires_at: datetime | None
    supersedes: str | None
    superseded_by: str | None
    superseded_at: datetime | None
    promoted_at: datetime | None
    promoted_by: str | None
    tags: list[str] | None
    project: str | None
    metadata: msgspec.Raw
    created_by: str
    created_at: datetime
    updated_at: datetime
    accessed_at: datetime | None
    helped: float
    hindered: float


_rows: Final = msgspec.json.Decoder(list[JsonRow])


def rows_from_json(rows: Answer) -> dict[str, JsonRow]:
    """Return rows by id from a JSON array of rows with the columns in the fragment `memory_columns`."""
    return {} if rows is None else {row.id: row for row in _rows.decode(rows)}


def memory_from_json(row: JsonRow) -> Memory:
    """Return the memory that such a row is."""
    metadata = bytes(row.metadata)
    return memory_record({**msgspec.structs.asdict(row), "metadata": {} if metadata == b"{}" else loads(metadata)})


class Warned(TypedDict, total=False):
    """The fields by which an untrusted memory, or a link of one, is told from trusted ones; trusted ones have none."""

    untrusted: bool
    warning: str


def warned(untrusted: bool) -> Warned:
    """Return those fields."""
    return Warned(untrusted=True, warning=UNTRUSTED_WARNING) if untrusted else Warned()


def similarity(distance: float) -> float:
    """Return the cosine similarity, from -1 to 1, that belongs to a cosine distance."""
    return max(-1.0, min(1.0, 1.0 - distance)) if math.isfinite(distance) else 0.0


def usefulness(confidence: float, helped: float, hindered: float) -> float:
    """Return the mean of a Beta posterior with the prior (.5 + confidence, 1.5 - confidence), as replies show it."""
    return round((0.5 + confidence + helped) / (2.0 + helped + hindered), USEFULNESS_DIGITS)
