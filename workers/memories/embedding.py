"""The `embedding` kind: keeps new memories, and gives those that wait their vectors."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import EmbedPending, Near, Newcomer, PendingEmbedded, Stored, StoreMemory
from engramq.schemas.ids import parse_uuid
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import MemoryState, Partition, WorkerKind
from engramq.workers.db.database import Store
from engramq.workers.db.ledger import Effect, Ledger
from engramq.workers.db.memory_rows import memory_record, similarity
from engramq.workers.db.pool import Row
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import TEN_EF_SEARCH, Sizes, send_nearest
from engramq.workers.embedders.interface import EmbedderUnavailable, InputRejected
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.links.similarity import linking
from engramq.workers.memories import store as memories
from engramq.workers.memories.routing import route
from engramq.workers.memories.store import Draft, Vectorized
from engramq.workers.queue.contract import Actor, Job, Outcome, SessionState
from engramq.workers.sectors.handlers import classifying

log = logging.getLogger(__name__)

ACTIVATED_AT_ONCE: Final = 50  # rows of one transaction: each costs an insert into the vector index, about 3 ms


@dataclass(slots=True)
class Neighborhood:
    """What a store saw near the memory that it wrote last: it may be tried several times, each under a new id."""

    memory_id: str = ""
    rows: Sequence[Row] = field(default_factory=list)  # with their distances, nearest first

    def within(self, least: float) -> list[tuple[Row, float]]:
        """Return what is at least that similar, and how similar."""
        scored = ((row, similarity(row["distance"])) for row in self.rows)
        return [(row, value) for row, value in scored if value >= least]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedder:
    """The handlers of the kind. Thresholds: the least similarity of what is shown, and of what is linked."""

    store: Store
    ledger: Ledger
    vectorizer: Vectorizer
    sizes: Sizes
    similar_threshold: float
    link_threshold: float

    async def keep(self, job: Job) -> Outcome:
        """Carry out StoreMemory: route, embed, write, and show what is similar."""
        command = job.envelope.command
        assert isinstance(command, StoreMemory)
        principal = job.envelope.principal
        seen = Neighborhood()

        async def prepare() -> Effect:
            partition = route(command, principal)
            embedding = await self.vectorizer.try_embed(command.content)
            if embedding is None:
                log.warning("Stored without a vector", extra={"command_id": job.envelope.id})
            draft = Draft(command, partition, principal.name, embedding)
            return lambda tx: self._write(tx, draft, seen)

        recorded = await self.ledger.run_prepared(job, prepare)
        if not isinstance(recorded.reply, Stored):
            return Outcome(recorded.reply, replayed=recorded.replayed)
        stored = recorded.reply.stored
        # A replay too: the first time may have died before it could send them.
        active = stored.state == MemoryState.ACTIVE
        lacking = [stored.id] if active and stored.sector_source is None else []
        newcomers = [self._newcomer(stored, seen)] if active else []
        return Outcome(
            recorded.reply,
            session_state=SessionState(stored=stored.id),
            follow_ups=classifying(job.envelope.namespace, lacking) + linking(job.envelope.namespace, newcomers),
            replayed=recorded.replayed,
        )

    def _newcomer(self, stored: Memory, seen: Neighborhood) -> Newcomer:
        if seen.memory_id != stored.id or stored.partition is not Partition.TRUSTED:
            return Newcomer(memory_id=stored.id)  # stored before, or its neighbours were not looked for
        near = [Near(str(row["id"]), value) for row, value in seen.within(self.link_threshold)]
        return Newcomer(memory_id=stored.id, near=tuple(near))

    async def _write(self, tx: Transaction, draft: Draft, seen: Neighborhood) -> Stored:
        embedding = draft.embedding
        looking = None
        if embedding is not None:
            # Before the insert, which the search would find. Trusted memories only: nobody has asked for others.
            farthest = 1.0 - min(self.similar_threshold, self.link_threshold)
            looking = await send_nearest(
                tx,
                self.sizes,
                embedding,
                (Partition.TRUSTED,),
                k=max(limits.SIMILAR_SHOWN, limits.SIMILARITY_LINKS),
                farthest=farthest,
                ef_search=TEN_EF_SEARCH,
            )
        inserting = await memories.send_insert(tx, draft)
        seen.rows = [] if looking is None else await looking.rows()
        stored = await inserting.stored()
        if stored is None:
            assert draft.memory.external_id is not UNSET
            raise await memories.external_id_taken(tx, draft.memory.external_id)
        seen.memory_id = stored.id
        similar = [_similar(*one) for one in seen.within(self.similar_threshold)[: limits.SIMILAR_SHOWN]]
        return Stored(stored=stored, similar_memories=similar, degraded=True if embedding is None else UNSET)

    async def embed_pending(self, job: Job) -> Outcome:
        """Carry out EmbedPending: what is pending no more is left alone."""
        command, namespace = job.envelope.command, job.envelope.namespace
        assert isinstance(command, EmbedPending)
        wanted = [known for one in command.memory_ids if (known := parse_uuid(one)) is not None]
        waiting = await self.store.read(namespace, lambda tx: memories.pending_contents(tx, wanted))
        activated: list[UUID] = []
        for start in range(0, len(waiting), ACTIVATED_AT_ONCE):
            vectors = await self._vectors(waiting[start : start + ACTIVATED_AT_ONCE])
            if vectors:
                activated += await self._activate(job, vectors)
        ids = [str(one) for one in activated]
        follow_ups = classifying(namespace, ids) + linking(namespace, [Newcomer(memory_id=one) for one in ids])
        return Outcome(PendingEmbedded(activated=len(activated)), follow_ups=follow_ups)

    async def _activate(self, job: Job, vectors: list[Vectorized]) -> list[UUID]:
        async def effect(tx: Transaction) -> list[UUID]:
            tx.lease = job.lease
            return await memories.activate(tx, vectors)

        return await self.store.write(job.envelope.namespace, effect)

    async def _vectors(self, rows: list[Row]) -> list[Vectorized]:
        """Return the vectors that can be had; the sweep will ask again for the rest."""
        try:
            embeddings = await self.vectorizer.embed([row["content"] for row in rows], bulk=True)
        except InputRejected:
            if len(rows) == 1:
                log.warning("The model takes no text of this memory", extra={"memory_id": str(rows[0]["id"])})
                return []
            middle = len(rows) // 2
            return await self._vectors(rows[:middle]) + await self._vectors(rows[middle:])
        except EmbedderUnavailable as problem:
            log.warning("Memories stay pending", extra={"count": len(rows), "reason": problem.failure.reason})
            return []
        return [
            Vectorized(row["id"], row["content"], embedding) for row, embedding in zip(rows, embeddings, strict=True)
        ]


def _similar(row: Row, value: float) -> Memory:
    memory = memory_record(row)
    memory.score = memory.similarity = value
    return memory


def actor(embedder: Embedder) -> Actor:
    """Return the worker kind."""
    return Actor(WorkerKind.EMBEDDING, {StoreMemory: embedder.keep, EmbedPending: embedder.embed_pending})
