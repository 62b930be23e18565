"""Writing memories: new ones, and vectors for those that wait."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas.commands import NewMemory
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.fields import or_none
from engramq.schemas.ids import uuid7
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import MemoryState, Partition, SectorSource
from engramq.workers.db.errors import Again
from engramq.workers.db.json_values import Jsonb
from engramq.workers.db.memory_rows import memory_record
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Sent, Transaction
from engramq.workers.db.vectors import Embedding

INSERT: Final = sql("insert_memory")
BY_ID: Final = sql("memories_by_id")
WITH_EXTERNAL_ID: Final = sql("node_with_external_id")
PENDING_CONTENTS: Final = sql("pending_contents")
ACTIVATE: Final = sql("activate_pending")
PENDING_AFTER: Final = sql("pending_after")

_ABSENT: Final[dict[str, Any]] = {
    "supersedes": None,
    "superseded_by": None,
    "promoted_at": None,
    "promoted_by": None,
    "accessed_at": None,
    "helped": 0.0,
    "hindered": 0.0,
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory that is about to be written. Without an embedding it will be pending."""

    memory: NewMemory
    partition: Partition
    created_by: str
    embedding: Embedding | None


@dataclass(frozen=True, slots=True)
class Inserting:
    """A memory on its way into the database."""

    draft: Draft
    columns: dict[str, Any]
    sent: Sent

    async def stored(self) -> Memory | None:
        """Return the memory as it is now, None when its external_id is taken."""
        made = await self.sent.row()
        if made is None:
            return None
        return memory_record({**_ABSENT, **self.columns, "metadata": self.columns["metadata"].obj, **made})


async def send_insert(tx: Transaction, draft: Draft) -> Inserting:
    """Send a new memory to the database, under a new id."""
    columns = columns_of(draft)
    embedding = draft.embedding
    vector = {"embedding": embedding and embedding.half, "model_id": embedding and embedding.model_id}
    return Inserting(draft, columns, await tx.send(INSERT, **columns, **vector))


def columns_of(draft: Draft) -> dict[str, Any]:
    """Return the columns of a new memory but for its vector, under a new id."""
    new = draft.memory
    return {
        "id": UUID(uuid7()),
        "external_id": or_none(new.external_id),
        "partition": draft.partition,
        "content": new.content,
        "confidence": new.confidence,
        "source": new.source,
        "source_type": or_none(new.source_type),
        "speaker": or_none(new.speaker),
        "occurred_at": or_none(new.occurred_at),
        "thread": or_none(new.thread),
        "position": or_none(new.position),
        "sector": or_none(new.sector),
        "sector_source": None if new.sector is UNSET else SectorSource.MANUAL,
        "verification": new.verification,
        "state": MemoryState.PENDING if draft.embedding is None else MemoryState.ACTIVE,
        "metadata": Jsonb({} if new.metadata is UNSET else new.metadata),
        "created_by": draft.created_by,
    }


async def external_id_taken(tx: Transaction, external_id: str) -> EngramqError:
    """Return the refusal that names the memory which has the external_id; raises Again when it has gone since."""
    row = await tx.row(WITH_EXTERNAL_ID, external_id=external_id)
    if row is None:
        raise Again
    if row["partition"] == Partition.UNTRUSTED:  # which is not to be used in the place of what was to be stored
        error = f"The external_id belongs to the untrusted memory {row['id']}."
        recovery = "Give another external_id, or have that memory verified and promoted, or erased."
    else:
        error, recovery = f"The external_id belongs to memory {row['id']}.", None
    return refuse(FaultCode.EXTERNAL_ID_TAKEN, error, recovery=recovery, memory_id=str(row["id"]))


async def read_memories(tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, Memory]:
    """Return the memories of this namespace with these ids, whatever their state."""
    return {row["id"]: memory_record(row) for row in await (await send_read(tx, ids)).rows()}


async def send_read(tx: Transaction, ids: Sequence[UUID]) -> Sent:
    """Ask for the rows of memories of this namespace, whatever their state; `memory_record` makes records of them."""
    return await tx.send(BY_ID, ids=list(ids))


@dataclass(frozen=True, slots=True)
class Vectorized:
    """A memory, the content that it had, and the embedding of that."""

    id: UUID
    content: str
    embedding: Embedding


async def pending_contents(tx: Transaction, ids: Sequence[UUID]) -> list[Row]:
    """Return (id, content) of those that still wait for a vector, by id."""
    return await tx.rows(PENDING_CONTENTS, ids=list(ids))


async def activate(tx: Transaction, vectors: Sequence[Vectorized]) -> list[UUID]:
    """Give pending memories their vectors; return those that were still pending, and with that content."""
    sent = [
        await tx.send(
            ACTIVATE, id=one.id, content=one.content, embedding=one.embedding.half, model_id=one.embedding.model_id
        )
        for one in vectors
    ]
    return [row["node_id"] for one in sent if (row := await one.row()) is not None]


async def pending_after(tx: Transaction, after: UUID, *, older_than_s: float, limit: int) -> list[UUID]:
    """Return the first ids above `after` of memories that have been pending for that long."""
    rows = await tx.rows(PENDING_AFTER, after=after, older_than_s=older_than_s, limit=limit)
    return [row["id"] for row in rows]
