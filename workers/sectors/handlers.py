"""Find the sectors of memories that nobody gave one, and which are standing wishes; of one namespace together.

Every index of memories is spared when a sector is written, provided that the new version of the row fits into the page
of the old one. A page has room for one new version at least, and the room is won back by the next transaction, not by
the same: so rows of one page are written in turns, a transaction each. (Of 3,000 rows, 30 % were spared without turns
and all of them with, at a quarter of the time.)
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from engramq.schemas.commands import ClassifySectors, SectorsClassified
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import Sector, SourceType
from engramq.workers.db.database import Store
from engramq.workers.db.memory_rows import BETWEEN_TURNS_S
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import unpack
from engramq.workers.embedders.minilm import interchangeable
from engramq.workers.queue.background import Activity
from engramq.workers.queue.contract import Lease, ResultUnknown
from engramq.workers.runner import Context, handles_without_transaction
from engramq.workers.sectors.model import SectorModel, UnusableWeights
from engramq.workers.sectors.wishes import WishModel

ASSISTANT: Final = "assistant"  # a speaker who repeats wishes, and has none
CONFIDENCE_DIGITS: Final = 2  # as shown: a filter by what was shown finds what showed it


@dataclass(frozen=True, slots=True)
class Unclassified:
    """A memory that lacks its sector, or whether it is a wish.

    `vector` float32 [dimensions], None when the sector model does not know its maker.
    """

    id: UUID
    content: str
    speaker: str | None
    source_type: str | None
    fingerprint: int  # of the content
    vector: NDArray[np.float32] | None
    turn: int


@dataclass(frozen=True, slots=True)
class Classified:
    """The classes of a memory of that content: sector, None when none fits (`confidence`: 0 to 1), and wish."""

    memory: Unclassified
    sector: Sector | None
    confidence: float
    is_wish: bool


async def read_unclassified(tx: Transaction, ids: Sequence[UUID], *, embedders: Collection[str]) -> list[Unclassified]:
    """Return those of these memories that lack a sector, or whether they are wishes, and are not pending."""
    rows = await tx.rows("unclassified_contents", ids=list(ids), embedders=list(embedders))
    return [
        Unclassified(
            row["id"],
            row["content"],
            row["speaker"],
            row["source_type"],
            row["fingerprint"],
            None if row["vector"] is None or not (vector := unpack(row["vector"])).any() else vector,
            row["turn"],
        )
        for row in rows
    ]


async def classify(tx: Transaction, found: Sequence[Classified]) -> int:
    """Write the sectors of memories of one turn (by id) that still lack one; return how many did."""
    await tx.send("commit_without_waiting")
    rows = await tx.rows(
        "classify_memories",
        ids=[guess.memory.id for guess in found],
        fingerprints=[guess.memory.fingerprint for guess in found],
        sectors=[guess.sector and guess.sector.value for guess in found],
        confidences=[round(guess.confidence, CONFIDENCE_DIGITS) for guess in found],
        standing=[guess.is_wish for guess in found],
    )
    return len(rows)


log = logging.getLogger(__name__)

LOOKED_AT: Final = 400  # memories of one look at the model: as many turns as for 10, each of which is a transaction
INLINE: Final = 4  # texts that take less time than handing them to a thread does: 0.1 ms each
DEBOUNCE_S: Final = 0.1  # how long commands of one namespace are gathered: together they cost less
DEBOUNCE_MAX_S: Final = 1.0  # how long, while somebody waits for this process: rows of one page take turns


@dataclass(slots=True)
class _SectorGroup:
    """Memories of one namespace that are classified together."""

    ids: list[UUID]
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    succeeded: bool = False

    async def over(self) -> None:
        """Wait for the end; raises ResultUnknown when the command that did the work has failed."""
        await self.ended.wait()
        if not self.succeeded:
            raise ResultUnknown("the memories were to be classified together with others, which failed")


@dataclass(slots=True, kw_only=True)
class Classifier:
    """One per process. The model is loaded when it is first needed."""

    store: Store
    load: Callable[[], SectorModel] = SectorModel.load
    load_wishes: Callable[[], WishModel] = WishModel.load
    debounce_s: float = DEBOUNCE_S
    activity: Activity = field(default_factory=Activity)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _model: tuple[SectorModel, WishModel] | None = None
    _gathered: dict[str, "_SectorGroup"] = field(default_factory=dict)
    _loading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def classify(self, namespace: str, ids: Sequence[UUID], lease: Lease) -> int:
        """Classify memories; one that has a sector, is pending or gone is left alone. Return how many got theirs.

        The first call of a namespace waits a moment and does the work of those that come meanwhile too; the others end
        when it has, with nothing of their own to count.
        """
        joined = self._gathered.get(namespace)
        if joined is not None:
            joined.ids += ids
            await joined.over()
            return 0
        gathering = self._gathered[namespace] = _SectorGroup(list(ids))
        try:
            await self.activity.pause(self.debounce_s, DEBOUNCE_MAX_S, self.stopping)
            del self._gathered[namespace]
            classified = await self._classify_all(namespace, gathering.ids, lease)
            gathering.succeeded = True
        finally:
            if self._gathered.get(namespace) is gathering:
                del self._gathered[namespace]
            gathering.ended.set()
        return classified

    async def _classify_all(self, namespace: str, ids: list[UUID], lease: Lease) -> int:
        try:
            models = await self._loaded()
        except UnusableWeights:
            log.exception("Memories stay without a sector")
            return 0
        classified = 0
        for start in range(0, len(ids), LOOKED_AT):
            classified += await self._classify(namespace, models, ids[start : start + LOOKED_AT], lease)
        return classified

    async def _loaded(self) -> tuple[SectorModel, WishModel]:
        async with self._loading:
            if self._model is None:
                self._model = await asyncio.to_thread(self.load), await asyncio.to_thread(self.load_wishes)
            return self._model

    async def _classify(
        self, namespace: str, models: tuple[SectorModel, WishModel], ids: list[UUID], lease: Lease
    ) -> int:
        model, _ = models
        found = await self.store.read(
            namespace,
            lambda tx: read_unclassified(tx, ids, embedders=interchangeable(model.embedder_sha256)),
            by_keys=True,
        )
        if len(found) <= INLINE:
            guesses = _guesses(*models, found)
        else:
            guesses = await asyncio.to_thread(_guesses, *models, found)
        written = 0
        for number, turn in groupby(sorted(guesses, key=_turn), key=_turn):
            if number > 1:
                await self.activity.pause(BETWEEN_TURNS_S, BETWEEN_TURNS_S, self.stopping)
            written += await self._write(namespace, list(turn), lease)
        return written

    async def _write(self, namespace: str, turn: list[Classified], lease: Lease) -> int:
        async def effect(tx: Transaction) -> int:
            tx.lease = lease
            return await classify(tx, turn)

        return await self.store.write(namespace, effect, by_keys=True)


def _turn(guess: Classified) -> int:
    return guess.memory.turn


def _guesses(model: SectorModel, wishes: WishModel, memories: Sequence[Unclassified]) -> list[Classified]:
    """Classify by the vector where the model knows its maker, by the wording elsewhere; by id."""
    wording = [memory for memory in memories if memory.vector is None]
    known = [(memory, memory.vector) for memory in memories if memory.vector is not None]
    contents = [memory.content for memory in wording]
    guesses = list(zip(wording, model.classify_wording(contents), wishes.are_wishes(contents, None), strict=True))
    if known:
        contents, vectors = [memory.content for memory, _ in known], np.stack([vector for _, vector in known])
        by_vector = model.classify_many(contents, vectors, embedder_sha256=model.embedder_sha256)
        by_wishes = wishes.are_wishes(contents, vectors)
        guesses += zip([memory for memory, _ in known], by_vector, by_wishes, strict=True)
    found = [
        Classified(memory, guess.sector, guess.confidence, is_wish and _may_wish(memory))
        for memory, guess, is_wish in guesses
    ]
    return sorted(found, key=lambda guess: guess.memory.id)


def _may_wish(memory: Unclassified) -> bool:
    """Say whether somebody may have said this of themselves: not the assistant, and no page that was looked up."""
    return (memory.speaker or "").casefold() != ASSISTANT and memory.source_type != SourceType.RESEARCH


@handles_without_transaction(ClassifySectors)
async def classify_sectors(command: ClassifySectors, context: Context) -> SectorsClassified:
    """Tell the sectors of memories that lack one."""
    ids = [known for text in command.memory_ids if (known := parse_uuid(text)) is not None]
    classifier = context.services[Classifier]
    return SectorsClassified(classified=await classifier.classify(context.envelope.namespace, ids, context.lease))
