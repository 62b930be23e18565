"""Link memories that have become active to similar ones, and settle links that waited for them.

A command that names such a memory is a hint: the rows say what is still to be done, and the sweep finds what a crash, a
stop or a flood of stores left over. So the command ends at once, and does not stand in the way of those that somebody
waits for. Noting that links are made writes a column that no index holds, so it is done in turns, as sectors are.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import Activated, LinkActivated, LinksScheduled, Near
from engramq.schemas.ids import parse_uuid
from engramq.schemas.limits import MEMORIES_PER_FOLLOW_UP
from engramq.schemas.vocabulary import Origin, Partition, Relation
from engramq.workers.db.database import Store
from engramq.workers.db.memory_rows import BETWEEN_TURNS_S, similarity, visible_now
from engramq.workers.db.queries import sized_sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import TEN_EF_SEARCH, Sizes, cheaper
from engramq.workers.db.viewers import Viewer
from engramq.workers.links.deferred import settle_deferred
from engramq.workers.links.rules import LinkRules, clamp, round_weight
from engramq.workers.links.writer import AutomaticLink, write_automatic
from engramq.workers.queue.background import Activity, Debounce
from engramq.workers.queue.contract import SessionUse
from engramq.workers.runner import Context, handles_without_transaction

BATCH: Final = MEMORIES_PER_FOLLOW_UP  # that are linked in one go
SEARCHES_AT_ONCE: Final = 20  # of one transaction: some milliseconds each
BETWEEN_SEARCHES_MAX_S: Final = 0.25  # how long each of these waits while somebody waits for this process
LINKED_AT_ONCE: Final = 25  # memories whose neighbours are locked by one transaction
DEBOUNCE_S: Final = 0.5  # how long memories are gathered: each transaction costs as much as many links
DEBOUNCE_MAX_S: Final = 2.0  # how long, while somebody waits for this process
SCHEDULED_MAX: Final = 5_000  # memories that wait in a process; beyond, they are left to the sweep


TOGETHER_S: Final = 0.5  # longer than the transaction of a store takes
COMPARED_MAX: Final = 1_000  # memories of that time


@dataclass(frozen=True, slots=True)
class Unlinked:
    """A memory whose similarity links are still to be made, whose it is if it is private, and its vector's model."""

    id: UUID
    partition: Partition
    owner: str | None
    model_id: int
    dimensions: int
    turn: int


@dataclass(frozen=True, slots=True)
class Nearby:
    """Two memories and the cosine similarity of their contents."""

    id: UUID
    other_id: UUID
    similarity: float


async def compare_stored_together(tx: Transaction, memories: Sequence[Unlinked], *, least: float) -> list[Nearby]:
    """Compare memories with those that were stored in the same moment; return who is at least that similar.

    All of them must have vectors of one model.
    """
    first = memories[0]
    rows = await tx.rows(
        sized_sql("stored_together", first.dimensions),
        ids=[memory.id for memory in memories],
        within_s=TOGETHER_S,
        compared=COMPARED_MAX,
        **_visible(first.model_id, tuple({memory.partition for memory in memories}), least),
    )
    return [Nearby(row["id"], row["other_id"], similarity(row["distance"])) for row in rows]


async def neighbors(tx: Transaction, sizes: Sizes, memory: Unlinked, *, least: float) -> list[Nearby]:
    """Search for the nearest memories to one of them that are at least that similar."""
    partitions = (memory.partition,)
    name = await cheaper(
        tx, sizes, partitions, exact="neighbors_exact", by_index="neighbors_by_index", ef_search=TEN_EF_SEARCH
    )
    values = _visible(memory.model_id, partitions, least)
    rows = await tx.rows(sized_sql(name, memory.dimensions), id=memory.id, **values)
    return [Nearby(memory.id, row["other_id"], similarity(row["distance"])) for row in rows]


async def note_made(tx: Transaction, ids: Sequence[UUID]) -> None:
    """Note that the similarity links of memories of one turn are made. COMMIT does not wait for the disk then."""
    await tx.send("commit_without_waiting")
    await tx.send("note_links_made", ids=list(ids))


def _visible(model_id: int, partitions: Sequence[Partition], least: float) -> dict[str, Any]:
    return {"model_id": model_id, **visible_now(partitions), "k": limits.SIMILARITY_LINKS, "farthest": 1.0 - least}


@dataclass(slots=True, kw_only=True)
class SimilarityLinker:
    """Links memories that have become active; one per process.

    `threshold`: the least similarity of memories that are linked.
    """

    store: Store
    sizes: Sizes
    rules: LinkRules
    threshold: float
    debounce_s: float = DEBOUNCE_S
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    activity: Activity = field(default_factory=Activity)
    _scheduled: dict[str, dict[UUID, tuple[Near, ...] | None]] = field(default_factory=dict)
    _debounce: Debounce = field(init=False)

    def __post_init__(self) -> None:
        self._debounce = Debounce(
            self._link_all, self.debounce_s, self.stopping, activity=self.activity, at_most_s=DEBOUNCE_MAX_S
        )

    def schedule(self, namespace: str, memories: Sequence[Activated]) -> int:
        """Take memories to be linked by the next `link_scheduled`; return how many there was room for."""
        waiting = sum(len(several) for several in self._scheduled.values())
        taken = memories[: max(0, SCHEDULED_MAX - waiting)]
        several = self._scheduled.setdefault(namespace, {})
        for memory in taken:
            memory_id = parse_uuid(memory.memory_id)
            if memory_id is not None and memory.near is not UNSET:
                several[memory_id] = memory.near
            elif memory_id is not None:
                several.setdefault(memory_id, None)
        return len(taken)

    async def link_scheduled(self) -> None:
        """Link what is scheduled, in a moment, with what comes meanwhile. Raises what a transaction raises."""
        await self._debounce.soon()

    async def _link_all(self) -> None:
        while self._scheduled:
            namespace = next(iter(self._scheduled))
            scheduled = self._scheduled.pop(namespace)
            ids = sorted(scheduled)
            for start in range(0, len(ids), BATCH):
                some = {memory_id: scheduled[memory_id] for memory_id in ids[start : start + BATCH]}
                await self._link(namespace, some)

    async def _link(self, namespace: str, scheduled: Mapping[UUID, tuple[Near, ...] | None]) -> None:
        waiting, unlinked = await self.store.read(namespace, lambda tx: self._look(tx, scheduled), by_keys=True)
        if waiting:
            # First, so that what an agent asked for gets its place.
            await self.store.write(namespace, lambda tx: settle_deferred(tx, list(scheduled), rules=self.rules))
        owner_of = attrgetter("owner")
        for owner, several in groupby(sorted(unlinked, key=lambda memory: memory.owner or ""), key=owner_of):
            # As who sees them: what everybody sees is linked to nothing private, and nobody's to another's.
            await self._link_seen(namespace, self.store.seen_by(Viewer.owning(owner)), list(several), scheduled)
        turn_of = attrgetter("turn")
        for number, turn in groupby(sorted(unlinked, key=turn_of), key=turn_of):
            if number > 1:
                await self.activity.pause(BETWEEN_TURNS_S, BETWEEN_TURNS_S, self.stopping)
            made = partial(note_made, ids=[memory.id for memory in turn])
            await self.store.write(namespace, made, by_keys=True)

    async def _link_seen(
        self,
        namespace: str,
        store: Store,
        unlinked: Sequence[Unlinked],
        scheduled: Mapping[UUID, tuple[Near, ...] | None],
    ) -> None:
        """Link these memories to what is seen in this store."""
        near = await store.read(namespace, lambda tx: self._together(tx, unlinked, scheduled), by_keys=True)
        near += await self._search(namespace, store, [memory for memory in unlinked if scheduled[memory.id] is None])
        wanted: dict[UUID, dict[UUID, float]] = {
            memory.id: {UUID(known.memory_id): known.similarity for known in scheduled[memory.id] or ()}
            for memory in unlinked
        }
        for pair in near:
            wanted[pair.id][pair.other_id] = pair.similarity
        links = [_links(memory_id, others) for memory_id, others in wanted.items()]
        for start in range(0, len(links), LINKED_AT_ONCE):
            some = list(chain.from_iterable(links[start : start + LINKED_AT_ONCE]))
            if some:
                await store.write(namespace, partial(write_automatic, wanted=some, rules=self.rules), by_keys=True)

    async def _look(
        self, tx: Transaction, scheduled: Mapping[UUID, tuple[Near, ...] | None]
    ) -> tuple[bool, list[Unlinked]]:
        """Return whether links wait, and who lacks its links."""
        row = await tx.row("links_wait_at", ids=list(scheduled))
        unlinked = [
            Unlinked(**row | {"partition": Partition(row["partition"])})
            for row in await tx.rows("unlinked_memories", ids=list(scheduled))
        ]
        return row is not None and bool(row["waiting"]), unlinked

    async def _together(
        self, tx: Transaction, unlinked: Sequence[Unlinked], scheduled: Mapping[UUID, tuple[Near, ...] | None]
    ) -> list[Nearby]:
        """Return who was stored together with these, of which each store searched; others see all in their search."""
        model_of = attrgetter("model_id")
        searched = sorted((memory for memory in unlinked if scheduled[memory.id] is not None), key=model_of)
        near: list[Nearby] = []
        for _, group in groupby(searched, key=model_of):
            near += await compare_stored_together(tx, list(group), least=self.threshold)
        return near

    async def _search(self, namespace: str, store: Store, memories: Sequence[Unlinked]) -> list[Nearby]:
        near: list[Nearby] = []
        for start in range(0, len(memories), SEARCHES_AT_ONCE):
            await self.activity.pause(0.0, BETWEEN_SEARCHES_MAX_S, self.stopping)
            part = memories[start : start + SEARCHES_AT_ONCE]

            async def search(tx: Transaction, part: Sequence[Unlinked] = part) -> list[Nearby]:
                return [
                    pair for memory in part for pair in await neighbors(tx, self.sizes, memory, least=self.threshold)
                ]

            near += await store.read(namespace, search)
        return near


def _links(memory_id: UUID, others: Mapping[UUID, float]) -> list[AutomaticLink]:
    nearest = sorted(others.items(), key=lambda other: (-other[1], other[0]))[: limits.SIMILARITY_LINKS]
    return [
        # The newer of the two declares it, whichever of them is looked at.
        AutomaticLink(
            max(memory_id, other),
            min(memory_id, other),
            Relation.SIMILAR,
            round_weight(clamp(weight)),
            Origin.SIMILARITY,
        )
        for other, weight in nearest
    ]


@handles_without_transaction(LinkActivated)
async def link_activated(command: LinkActivated, context: Context) -> LinksScheduled:
    """Take memories to be linked after the reply, with those that come meanwhile."""
    linker = context.services[SimilarityLinker]

    async def link(_use: SessionUse | None) -> None:
        await linker.link_scheduled()

    context.after_reply = link
    return LinksScheduled(scheduled=linker.schedule(context.envelope.namespace, command.memories))
