"""Writing a new memory, and what is similar to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import NewMemory
from engramq.schemas.commands.changes import DETAILS
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.fields import or_none
from engramq.schemas.ids import uuid7
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import EVERY_PROJECT, MemoryState, Partition, SectorSource
from engramq.workers.db.errors import Again
from engramq.workers.db.json_values import Jsonb
from engramq.workers.db.memory_rows import memory_record
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Sent, Transaction
from engramq.workers.db.vectors import TEN_EF_SEARCH, Embedding, Sizes, send_nearest

INSERT_NODE: Final = sql("insert_memory_node")
INSERT: Final = sql("insert_memory")
WITH_EXTERNAL_ID: Final = sql("node_with_external_id")

NEAREST: Final = max(limits.SIMILAR_SHOWN, limits.SIMILARITY_LINKS)

_ABSENT: Final = dict.fromkeys(
    ("sector_confidence", "supersedes", "superseded_by", "superseded_at", "promoted_at", "promoted_by", "accessed_at")
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory that is about to be written. Without an embedding it will be pending.

    `project`: what its caller sees, and where it goes: EVERY_PROJECT goes into none. `expires_at`: None, never.
    """

    memory: NewMemory
    partition: Partition
    created_by: str
    embedding: Embedding | None
    project: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A memory as kept, and rows of trusted ones, nearest first: of all, and of those that its caller sees."""

    memory: Memory
    nearest: Sequence[Row]
    similar: Sequence[Row]


async def write(tx: Transaction, draft: Draft, sizes: Sizes, *, least: float) -> Written:
    """Write a memory; return it with what is at least that similar.

    Raises EngramqError with `external_id_taken`.
    """
    columns, embedding = columns_of(draft), draft.embedding
    nearest = None
    if embedding is not None:
        # Before the insert, which the search would find.
        nearest = await _send_nearest(tx, sizes, embedding, k=NEAREST, farthest=1.0 - least)
    vector = {"embedding": embedding and embedding.half, "model_id": embedding and embedding.model_id}
    node = await tx.send(INSERT_NODE, **columns)
    if draft.memory.external_id is not UNSET and await node.fetchone() is None:
        raise await external_id_taken(tx, draft.memory.external_id)
    inserted = await tx.send(INSERT, **columns, **vector)
    rows = [] if nearest is None else await nearest.fetchall()
    made = await inserted.fetchone()
    assert made is not None  # whatever keeps a row out is an error
    memory = memory_record(
        {**_ABSENT, "helped": 0.0, "hindered": 0.0, **columns, "metadata": columns["metadata"].obj, **made}
    )
    similar = [row for row in rows if _sees(draft.project, row)]
    if embedding is not None and len(similar) < min(limits.SIMILAR_SHOWN, len(rows)) and len(rows) == NEAREST:
        # Other projects, which links do not mind, are nearer than what is to be shown. It finds the new one too.
        k = limits.SIMILAR_SHOWN + 1
        found = await _send_nearest(tx, sizes, embedding, k=k, farthest=1.0 - least, project=draft.project)
        similar = [row for row in await found.fetchall() if row["id"] != columns["id"]]
    return Written(memory, rows, similar)


async def _send_nearest(tx: Transaction, sizes: Sizes, embedding: Embedding, **wanted: Any) -> Sent:
    """Ask for the nearest trusted memories: nobody has asked for others."""
    return await send_nearest(tx, sizes, embedding, (Partition.TRUSTED,), ef_search=TEN_EF_SEARCH, **wanted)


def _sees(project: str | None, row: Row) -> bool:
    return project == EVERY_PROJECT or row["project"] in (None, project)


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
        **{name: or_none(getattr(new, name)) for name in DETAILS},
        "sector": or_none(new.sector),
        "sector_source": None if new.sector is UNSET else SectorSource.MANUAL,
        "verification": new.verification,
        "state": MemoryState.PENDING if draft.embedding is None else MemoryState.ACTIVE,
        "tags": list(new.tags or ()) or None,
        "expires_at": draft.expires_at,
        "project": None if draft.project == EVERY_PROJECT else draft.project,
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
