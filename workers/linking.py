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

from schemas import limits
from schemas.commands import Command, LinkNewcomers, Near, Newcomer, NewcomersNoted
from schemas.ids import parse_uuid
from schemas.vocabulary import Origin, Relation
from workers.contract import FollowUp, Handler, Job, Outcome, SessionUse
from workers.domain.links import LinkRules, clamped, rounded
from workers.gathering import Gathering
from workers.store.deferred_links import settle_deferred
from workers.store.links import AutomaticLink, write_automatic
from workers.store.newcomers import (
    Nearby,
    Unlinked,
    links_wait_at,
    neighbors,
    note_made,
    stored_together,
    unlinked,
)
from workers.store.store import Store
from workers.store.transaction import Transaction
from workers.store.vectors import Sizes

log = logging.getLogger(__name__)

BATCH: Final = 100  # newcomers of one command, and that are linked in one go
SEARCHES_AT_ONCE: Final = 20  # of one transaction: some milliseconds each
GATHER_S: Final = 0.2  # how long newcomers are gathered: together they cost less
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
    gather_s: float = GATHER_S
    stopping: asyncio.Event | None = None
    _noted: dict[str, dict[UUID, tuple[Near, ...] | None]] = field(default_factory=dict)
    _gathering: Gathering = field(init=False)

    def __post_init__(self) -> None:
        self._gathering = Gathering(self._link_all, self.gather_s, self.stopping)

    async def note(self, job: Job) -> Outcome:
        """Carry out LinkNewcomers: note them, to be linked after the reply with those that come meanwhile."""
        command = job.envelope.command
        assert isinstance(command, LinkNewcomers)
        waiting = sum(len(several) for several in self._noted.values())
        taken = command.newcomers[: max(0, NOTED_MAX - waiting)]
        several = self._noted.setdefault(job.envelope.namespace, {})
        for one in taken:
            memory_id = parse_uuid(one.memory_id)
            if memory_id is not None:
                several[memory_id] = several.get(memory_id) or (None if one.near is UNSET else one.near)

        async def link(_use: SessionUse | None) -> None:
            await self._gathering.soon()

        return Outcome(NewcomersNoted(noted=len(taken)), after_reply=link)

    async def _link_all(self) -> None:
        while self._noted:
            namespace = next(iter(self._noted))
            noted = self._noted.pop(namespace)
            ids = sorted(noted)
            for start in range(0, len(ids), BATCH):
                await self._link(namespace, {one: noted[one] for one in ids[start : start + BATCH]})

    async def _link(self, namespace: str, noted: Mapping[UUID, tuple[Near, ...] | None]) -> None:
        ids = list(noted)

        async def look(tx: Transaction) -> tuple[bool, list[Unlinked]]:
            return await links_wait_at(tx, ids), await unlinked(tx, ids)

        waiting, found = await self.store.read(namespace, look)
        if waiting:
            # First, so that what an agent asked for gets its place.
            await self.store.write(namespace, lambda tx: settle_deferred(tx, ids, rules=self.rules))
        wanted = await self._wanted(namespace, found, noted)
        for _, turn in groupby(sorted(found, key=_turn), key=_turn):
            newcomers = [one.id for one in turn]
            await self._write(namespace, newcomers, [link for one in newcomers for link in wanted[one]])

    async def _wanted(
        self, namespace: str, found: Sequence[Unlinked], noted: Mapping[UUID, tuple[Near, ...] | None]
    ) -> dict[UUID, list[AutomaticLink]]:
        """Return for each newcomer the links to its nearest neighbours, at most SIMILARITY_LINKS."""
        near: dict[UUID, dict[UUID, float]] = {one.id: {} for one in found}
        seen = [one for one in found if noted[one.id] is not None]
        for one in seen:
            for known in noted[one.id] or ():
                near[one.id][UUID(known.memory_id)] = known.similarity
        for pair in [*await self._together(namespace, seen), *await self._search(namespace, found, noted)]:
            near[pair.id][pair.other_id] = pair.similarity
        return {one: _links(one, others) for one, others in near.items()}

    async def _together(self, namespace: str, seen: Sequence[Unlinked]) -> list[Nearby]:
        """Compare those whose stores have searched with what was stored in the same moment."""
        found: list[Nearby] = []
        for _, group in groupby(sorted(seen, key=_model), key=_model):

            async def compare(tx: Transaction, newcomers: Sequence[Unlinked] = tuple(group)) -> list[Nearby]:
                return await stored_together(tx, newcomers, least=self.threshold)

            found += await self.store.read(namespace, compare)
        return found

    async def _search(
        self, namespace: str, found: Sequence[Unlinked], noted: Mapping[UUID, tuple[Near, ...] | None]
    ) -> list[Nearby]:
        """Search for the neighbours of those whose stores have not."""
        unseen = [one for one in found if noted[one.id] is None]
        near: list[Nearby] = []
        for start in range(0, len(unseen), SEARCHES_AT_ONCE):
            part = unseen[start : start + SEARCHES_AT_ONCE]

            async def search(tx: Transaction, part: Sequence[Unlinked] = part) -> list[Nearby]:
                return [pair for one in part for pair in await neighbors(tx, self.sizes, one, least=self.threshold)]

            near += await self.store.read(namespace, search)
        return near

    async def _write(self, namespace: str, newcomers: Sequence[UUID], links: Sequence[AutomaticLink]) -> None:
        async def effect(tx: Transaction) -> None:
            await write_automatic(tx, links, rules=self.rules)
            await note_made(tx, newcomers)

        await self.store.write(namespace, effect)


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
