"""Find memories that wait for their vectors, and give them these."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from engramq.schemas.commands import Activated, EmbedPending, PendingEmbedded
from engramq.schemas.ids import parse_uuid
from engramq.schemas.limits import MEMORIES_PER_FOLLOW_UP
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.db.vectors import Embedding
from engramq.workers.embedders.interface import EmbedderUnavailable, InputRejected
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.memories.store import finishing
from engramq.workers.queue.contract import FollowUp
from engramq.workers.runner import Context, handles_without_transaction

log = logging.getLogger(__name__)


ACTIVATED_AT_ONCE: Final = 50  # rows of one transaction: each costs an insert into the vector index, about 3 ms


@dataclass(frozen=True, slots=True)
class Vectorized:
    """A memory, the content that it had, and the embedding of that."""

    id: UUID
    content: str
    embedding: Embedding


def request_vectors(namespace: str, memory_ids: Iterable[str]) -> tuple[FollowUp, ...]:
    """Return the commands that give these memories their vectors, those that are not pending excepted."""
    ids = list(memory_ids)
    return tuple(
        FollowUp(namespace, EmbedPending(memory_ids=tuple(ids[start : start + MEMORIES_PER_FOLLOW_UP])))
        for start in range(0, len(ids), MEMORIES_PER_FOLLOW_UP)
    )


async def pending_contents(tx: Transaction, ids: Sequence[UUID]) -> list[Row]:
    """Return (id, content) of those that still wait for a vector, by id."""
    return await tx.rows("pending_contents", ids=list(ids))


async def activate(tx: Transaction, vectors: Sequence[Vectorized]) -> list[UUID]:
    """Give pending memories their vectors; return those that were still pending, and with that content."""
    sent = [
        await tx.send(
            "activate_pending",
            id=memory.id,
            content=memory.content,
            embedding=memory.embedding.half,
            model_id=memory.embedding.model_id,
        )
        for memory in vectors
    ]
    return [row["node_id"] for answer in sent if (row := await answer.fetchone()) is not None]


async def pending_after(tx: Transaction, after: UUID, *, older_than_s: float, limit: int) -> list[UUID]:
    """Return the first ids above `after` of memories that have been pending for that long."""
    rows = await tx.rows("pending_after", after=after, older_than_s=older_than_s, limit=limit)
    return [row["id"] for row in rows]


async def embed_rows(rows: Sequence[Row], vectorizer: Vectorizer) -> list[Vectorized]:
    """Return the vectors of rows (id, content) but of those texts that the model takes none of.

    Raises EmbedderUnavailable, EngramqError (`unavailable`).
    """
    try:
        embeddings = await vectorizer.embed([row["content"] for row in rows], bulk=True)
    except InputRejected:
        if len(rows) == 1:
            log.warning("The model takes no text of this memory", extra={"memory_id": str(rows[0]["id"])})
            return []
        middle = len(rows) // 2
        return await embed_rows(rows[:middle], vectorizer) + await embed_rows(rows[middle:], vectorizer)
    return [Vectorized(row["id"], row["content"], embedding) for row, embedding in zip(rows, embeddings, strict=True)]


@handles_without_transaction(EmbedPending)
async def embed_pending(command: EmbedPending, context: Context) -> PendingEmbedded:
    """Give pending memories their vectors; what is pending no more is left alone."""
    namespace, vectorizer = context.envelope.namespace, context.services[Vectorizer]
    wanted = [memory_id for text in command.memory_ids if (memory_id := parse_uuid(text)) is not None]
    waiting = await context.store.read(namespace, lambda tx: pending_contents(tx, wanted))
    ids: list[str] = []
    for start in range(0, len(waiting), ACTIVATED_AT_ONCE):
        rows = waiting[start : start + ACTIVATED_AT_ONCE]
        try:
            vectors = await embed_rows(rows, vectorizer)
        except EmbedderUnavailable as problem:  # the sweep will ask again
            log.warning("Memories stay pending", extra={"count": len(rows), "reason": problem.reason})
            continue

        async def write(tx: Transaction, vectors: Sequence[Vectorized] = vectors) -> list[UUID]:
            tx.lease = context.lease
            return await activate(tx, vectors)

        if vectors:
            ids += map(str, await context.store.write(namespace, write))
    context.follow_ups = finishing(namespace, ids, [Activated(memory_id=memory_id) for memory_id in ids])
    return PendingEmbedded(activated=len(ids))
