"""Carry out searches, and count afterwards which memories were found."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from msgspec import UNSET, UnsetType

from engramq.schemas.commands import MemoryList, SearchMemories
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import Partition, Ranking
from engramq.workers.db.database import Store
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding, Sizes
from engramq.workers.embedders.confidence import Confidence
from engramq.workers.embedders.other_models import ForeignVectors
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.links.co_retrieval import CoRetrievals
from engramq.workers.queue.background import Debounce
from engramq.workers.queue.contract import SessionState, SessionUse
from engramq.workers.runner import Context, handles_without_transaction
from engramq.workers.search.candidates import QuestionVectors
from engramq.workers.search.copies import Copies
from engramq.workers.search.question import Question
from engramq.workers.search.search import find_in_copy, find_memories

NOTE_ACCESS: Final = sql("note_access")

DEBOUNCE_S: Final = 0.5  # notes of this long become one statement for each namespace
NOTES_MAX: Final = 20_000  # beyond, notes are dropped: they are best effort


class Usage:
    """One per process."""

    def __init__(self, store: Store, *, stopping: asyncio.Event | None = None) -> None:
        self._store = store
        self._notes: dict[str, Counter[UUID]] = {}
        self._noted = 0
        self._debounce = Debounce(self._write_all, DEBOUNCE_S, stopping)

    async def note(self, namespace: str, ids: Sequence[UUID]) -> None:
        """Count that these memories were found. Raises EngramqError or OutcomeUnknown when they cannot be counted."""
        if self._noted + len(ids) > NOTES_MAX:
            return
        self._noted += len(ids)
        self._notes.setdefault(namespace, Counter()).update(ids)
        await self._debounce.soon()

    async def _write_all(self) -> None:
        notes, self._notes, self._noted = self._notes, {}, 0
        for namespace, times in notes.items():
            await self._write(namespace, times)

    async def _write(self, namespace: str, times: Counter[UUID]) -> None:
        await self._store.write(namespace, lambda tx: note_access(tx, times))


async def note_access(tx: Transaction, times: Mapping[UUID, int]) -> None:
    """Count that memories were found so many times."""
    await tx.send(NOTE_ACCESS, ids=list(times), times=list(times.values()))


ALL_WEAK: Final = (
    "Every hit is weak: probably nothing that is kept answers this. Ask in other words, or take it as not known."
)


@handles_without_transaction(SearchMemories)
async def search_memories(command: SearchMemories, context: Context) -> MemoryList:
    """Find memories. While the model is away words alone decide, whatever ranking was asked for.

    While the model runs, the copy of a small namespace is proven current.
    """
    if command.sectors == ():
        context.session_state = SessionState(recalled=())
        return MemoryList(memories=[], count=0)
    namespace, copies = context.envelope.namespace, context.services[Copies]
    project = context.envelope.project_named(command.project)
    embedding, proven = await asyncio.gather(
        context.services[Vectorizer].try_read(command.query, _names(command)),
        copies.current(namespace, command.partitions, command.query),
    )
    vectors, notice = await _read_by_all(command, context, embedding)

    async def find(tx: Transaction) -> list[Memory]:
        return await find_memories(tx, context.services[Sizes], command, vectors, project)

    if proven is None:
        memories = await context.store.read(namespace, find)
    else:
        memories = await find_in_copy(partial(context.store.look_up, namespace), command, vectors, proven, project)
    foreign, confidence = context.services[ForeignVectors], context.services[Confidence]
    uncalibrated = embedding is not None and vectors.curve is None
    context.session_state = SessionState(recalled=tuple(one.id for one in memories))
    # An untrusted principal keeps no trusted memory from fading.
    untrusted = context.envelope.principal.untrusted
    counting = [one for one in memories if not (untrusted and one.partition is Partition.TRUSTED)]

    async def follow(use: SessionUse | None) -> None:
        await foreign.refresh(namespace)
        if proven is None:
            await copies.prepare(namespace, command.partitions)
        if counting:
            await asyncio.gather(
                context.services[Usage].note(namespace, [UUID(one.id) for one in counting]),
                # What held at another time is no pair that is of use now.
                *([context.services[CoRetrievals].note(counting, use)] if command.as_of is UNSET else ()),
            )
        if uncalibrated:
            await confidence.calibration()

    due = proven is None or foreign.is_due(namespace) or uncalibrated
    context.after_reply = follow if counting or due else None
    degraded = True if embedding is None else UNSET
    return MemoryList(memories=memories, count=len(memories), degraded=degraded, notice=_told(memories, notice))


def _told(memories: Sequence[Memory], notice: str | UnsetType) -> str | UnsetType:
    """Return what is said of the hits, with the notice that there may be besides."""
    if not memories or any(one.weak is not True for one in memories):
        return notice
    return ALL_WEAK if notice is UNSET else f"{notice} {ALL_WEAK}"


def _names(command: SearchMemories) -> Sequence[str]:
    """Return the names that relevance is to tell from what is asked; plain similarity is to take all as it is."""
    return () if command.ranking is Ranking.SIMILARITY else Question(command.query).names


async def _read_by_all(
    command: SearchMemories, context: Context, embedding: Embedding | None
) -> tuple[QuestionVectors, str | UnsetType]:
    """Return the question as all models read it whose vectors it is compared with, and what has to be said of them."""
    if embedding is None:
        return QuestionVectors(None), UNSET
    foreign = await context.services[ForeignVectors].read(
        context.envelope.namespace, command.partitions, embedding.model_id, [command.query]
    )
    return QuestionVectors(embedding, foreign.readings, context.services[Confidence].known), foreign.notice
