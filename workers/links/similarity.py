"""Similarity links of new memories, and links that waited for them; part of the `edges` kind.

Being told of newcomers is a hint: the rows say what is still to be done, and the sweep finds what a crash, a stop or a
flood of stores left over. So the command ends at once, and does not stand in the way of those that somebody waits for.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import Command, LinkNewcomers, Near, Newcomer, NewcomersNoted
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import Origin, Relation
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Sizes
from engramq.workers.links.deferred import settle_deferred
from engramq.workers.links.rules import LinkRules, clamped, rounded
from engramq.workers.links.unlinked import (
    Nearby,
    Unlinked,
    links_wait_at,
    neighbors,
    note_made,
    stored_together,
    unlinked,
)
from engramq.workers.links.writer import AutomaticLink, write_automatic
from engramq.workers.queue.contract import FollowUp, Handler, Job, Outcome, SessionUse
from engramq.workers.queue.debounce import Debounce

log = logging.getLogger(__name__)

BATCH: Final = 100  # newcomers of one command, and that are linked in one go
SEARCHES_AT_ONCE: Final = 20  # of one transaction: some milliseconds each
LINKED_AT_ONCE: Final = 25  # newcomers whose neighbours are locked by one transaction
DEBOUNCE_S: Final = 1.0  # how long newcomers are gathered: each transaction costs as much as many links
NOTED_MAX: Final = 5_000  # newcomers that wait in a process; beyond, they are left to the sweep


def linking(namespace: str, newcomers: Iterable[Newcomer]) -> tuple[FollowUp, ...]:
    """Return the commands that link these newcomers."""
    several = list(newcomers)
    return tuple(
        FollowUp(namespace, LinkNewcomers(newcomers=tuple(several[start : start + BATCH])))
        for start in range(0, len(several), BATCH)
    )


@dataclass(slots=True, kw_only=True)
class NewcomerLinker:
    """The handler of LinkNewcomers. `threshold`: the least similarity of memories that are linked."""

    store: Store
    sizes: Sizes
    rules: LinkRules
    threshold: float
    debounce_s: float = DEBOUNCE_S
    stopping: asyncio.Event | None = None
    _noted: dict[str, dict[UUID, tuple[Near, ...] | None]] = field(default_factory=dict)
    _debounce: Debounce = field(init=False)

    def __post_init__(self) -> None:
        self._debounce = Debounce(self._link_all, self.debounce_s, self.stopping)

    async def note(self, job: Job) -> Outcome:
        """Carry out LinkNewcomers: note them, to be linked after the reply with those that come meanwhile."""
        command = job.envelope.command
        assert isinstance(command, LinkNewcomers)
        waiting = sum(len(several) for several in self._noted.values())
        taken = command.newcomers[: max(0, NOTED_MAX - waiting)]
        several = self._noted.setdefault(job.envelope.namespace, {})
        for one in taken:
            memory_id = parse_uuid(one.memory_id)
            if memory_id is not None and one.near is not UNSET:
                several[memory_id] = one.near
            elif memory_id is not None:
                several.setdefault(memory_id, None)

        async def link(_use: SessionUse | None) -> None:
            await self._debounce.soon()

        return Outcome(NewcomersNoted(noted=len(taken)), after_reply=link)

    async def _link_all(self) -> None:
        while self._noted:
            namespace = next(iter(self._noted))
            noted = self._noted.pop(namespace)
            ids = sorted(noted)
            for start in range(0, len(ids), BATCH):
                await self._link(namespace, {one: noted[one] for one in ids[start : start + BATCH]})

    async def _link(self, namespace: str, noted: Mapping[UUID, tuple[Near, ...] | None]) -> None:
        waiting, found, near = await self.store.read(namespace, lambda tx: self._look(tx, noted))
        if waiting:
            # First, so that what an agent asked for gets its place.
            await self.store.write(namespace, lambda tx: settle_deferred(tx, list(noted), rules=self.rules))
        near += await self._search(namespace, [one for one in found if noted[one.id] is None])
        wanted: dict[UUID, dict[UUID, float]] = {
            one.id: {UUID(known.memory_id): known.similarity for known in noted[one.id] or ()} for one in found
        }
        for pair in near:
            wanted[pair.id][pair.other_id] = pair.similarity
        links = [_links(one, others) for one, others in wanted.items()]
        for start in range(0, len(links), LINKED_AT_ONCE):
            await self._write(
                namespace, [link for several in links[start : start + LINKED_AT_ONCE] for link in several]
            )
        for _, turn in groupby(sorted(found, key=_turn), key=_turn):
            await self._note_made(namespace, [one.id for one in turn])

    async def _look(
        self, tx: Transaction, noted: Mapping[UUID, tuple[Near, ...] | None]
    ) -> tuple[bool, list[Unlinked], list[Nearby]]:
        """Return whether links wait, who lacks its links, and who was stored together with them.

        Those whose stores have not searched will see everybody in their search.
        """
        waiting, found = await links_wait_at(tx, list(noted)), await unlinked(tx, list(noted))
        seen = sorted((one for one in found if noted[one.id] is not None), key=_model)
        near: list[Nearby] = []
        for _, group in groupby(seen, key=_model):
            near += await stored_together(tx, list(group), least=self.threshold)
        return waiting, found, near

    async def _search(self, namespace: str, newcomers: Sequence[Unlinked]) -> list[Nearby]:
        near: list[Nearby] = []
        for start in range(0, len(newcomers), SEARCHES_AT_ONCE):
            part = newcomers[start : start + SEARCHES_AT_ONCE]

            async def search(tx: Transaction, part: Sequence[Unlinked] = part) -> list[Nearby]:
                return [pair for one in part for pair in await neighbors(tx, self.sizes, one, least=self.threshold)]

            near += await self.store.read(namespace, search)
        return near

    async def _write(self, namespace: str, links: Sequence[AutomaticLink]) -> None:
        if links:
            await self.store.write(namespace, lambda tx: write_automatic(tx, links, rules=self.rules))

    async def _note_made(self, namespace: str, ids: Sequence[UUID]) -> None:
        await self.store.write(namespace, lambda tx: note_made(tx, ids))


def _links(newcomer: UUID, others: Mapping[UUID, float]) -> list[AutomaticLink]:
    nearest = sorted(others.items(), key=lambda one: (-one[1], one[0]))[: limits.SIMILARITY_LINKS]
    return [
        # The newer of the two declares it, whichever of them is looked at.
        AutomaticLink(
            max(newcomer, other), min(newcomer, other), Relation.SIMILAR, rounded(clamped(weight)), Origin.SIMILARITY
        )
        for other, weight in nearest
    ]


def _turn(newcomer: Unlinked) -> int:
    return newcomer.turn


def _model(newcomer: Unlinked) -> int:
    return newcomer.model_id


def handlers(linker: NewcomerLinker) -> Mapping[type[Command], Handler]:
    """Return the handlers by command."""
    return {LinkNewcomers: linker.note}
