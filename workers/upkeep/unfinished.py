"""Find the work that a crash took away after a store: memories without a sector or without similarity links.

No index says which they are (see the schema), so each sweep looks at the newest memories of a namespace, and once in a
while, over as many sweeps as it takes, at all of them. That is also how imported memories get their links. A namespace
is looked at from a change (see namespaces.py) until such looks have found nothing left of it.
"""

import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from engramq.schemas.commands import Activated
from engramq.schemas.limits import MEMORIES_PER_FOLLOW_UP
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.deferred import find_due
from engramq.workers.memories.store import finishing
from engramq.workers.queue.background import Activity
from engramq.workers.queue.contract import FollowUp

FIRST_S: Final = 5.0
MAX_S: Final = 120.0


@dataclass(slots=True)
class BackOff:
    """The pause between two looks, twice as long each time. Times in monotonic seconds."""

    pause_s: float = 0.0
    not_before: float = 0.0

    def note(self, now: float, *, stuck: bool) -> None:
        """Note a look. `stuck`: none of what was handed on is done; nobody does such work, or it is far behind."""
        self.pause_s = min(MAX_S, max(FIRST_S, self.pause_s * 2)) if stuck else 0.0
        self.not_before = now + self.pause_s


OLDER_THAN_S: Final = 3.0  # a younger memory may be in somebody's hands
LOOKED_AT: Final = 1_000  # memories of a namespace in one look: about 1 ms
LINKED_AT_ONCE: Final = 300  # memories of a sweep: each takes a search, some milliseconds of the database
DEFERRED_AT_ONCE: Final = 100
ROUND_EVERY_S: Final = 600.0
LOAD_MAX_S: Final = 600.0  # how long links wait for the end of bulk loads


_NO_ID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class SweepPosition:
    """Where a look at a namespace's memories, newest first, goes on."""

    before: str = "infinity"
    before_id: UUID = _NO_ID


@dataclass(frozen=True, slots=True)
class SweepFindings:
    """The findings of a look, newest first, whether there is more to look at, and where the next look goes on."""

    without_sector: list[UUID] = field(default_factory=list)
    without_links: list[UUID] = field(default_factory=list)
    more: bool = False
    place: SweepPosition = field(default_factory=SweepPosition)

    @property
    def nothing(self) -> bool:
        """Whether nothing was unfinished."""
        return not (self.without_sector or self.without_links)


@dataclass(slots=True)
class _Pace:
    """How much of one kind of work is handed on."""

    handed_on: frozenset[UUID] = frozenset()
    back_off: BackOff = field(default_factory=BackOff)

    def portion(self, newest: list[UUID], older: list[UUID], now: float) -> list[UUID]:
        """Return which of these to hand on now."""
        if now < self.back_off.not_before:
            return []
        found = list(dict.fromkeys(newest + older))
        stuck = bool(self.handed_on) and self.handed_on <= set(found)
        self.back_off.note(now, stuck=stuck)
        self.handed_on = frozenset(newest[:MEMORIES_PER_FOLLOW_UP])
        return found[:MEMORIES_PER_FOLLOW_UP] if stuck else found


@dataclass(slots=True)
class _SweepState:
    """The progress of the last looks at a namespace."""

    place: SweepPosition | None = None  # of the round through all memories; None between rounds
    round_at: float = 0.0
    round_began: datetime | None = None  # when the round under way began; None once it found something
    seen_at: datetime | None = None  # when the last round began that found nothing
    settled: datetime | None = None  # see Unfinished.settled
    sectors: _Pace = field(default_factory=_Pace)
    links: _Pace = field(default_factory=_Pace)

    def note_round(self, seen: SweepFindings) -> None:
        """Note what the next step of a round saw."""
        self.place = seen.place if seen.more else None
        if not seen.nothing:
            self.round_began = None
        elif self.place is None:
            self.seen_at = self.round_began


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """Looks at one namespace at a time and remembers how far it came."""

    store: Store
    older_than_s: float = OLDER_THAN_S
    activity: Activity = field(default_factory=Activity)
    _progress: dict[str, _SweepState] = field(default_factory=dict)

    def forget(self, kept: set[str]) -> None:
        """Forget all namespaces but these."""
        for gone in self._progress.keys() - kept:
            del self._progress[gone]

    def settled(self, namespace: str) -> datetime | None:
        """Return the moment of which the last look says that nothing was left then; None when it cannot say."""
        return self._progress[namespace].settled if namespace in self._progress else None

    async def look_at(self, namespace: str, seen_at: datetime | None = None) -> tuple[FollowUp, ...]:
        """Return the commands that finish what is unfinished. `seen_at`: when this look begins, for `settled`."""
        progress = self._progress.setdefault(namespace, _SweepState())
        progress.settled, now = None, time.monotonic()
        if now < min(progress.sectors.back_off.not_before, progress.links.back_off.not_before):
            return ()
        newest, due = await self.store.read(namespace, self._newest)
        older = SweepFindings()
        # Imported memories are linked after their load, which needs all there is.
        loading = 0 < self.activity.loading_s < LOAD_MAX_S
        if progress.place is None and newest.more and now >= progress.round_at:
            progress.place, progress.round_at, progress.round_began = newest.place, now + ROUND_EVERY_S, seen_at
        elif progress.place is not None and not loading:
            place = progress.place
            older = await self.store.read(namespace, lambda tx: self._look(tx, place, LINKED_AT_ONCE))
            progress.note_round(older)
        if newest.nothing and not due and not loading:
            progress.settled = progress.seen_at if newest.more else seen_at
        sectors = progress.sectors.portion(newest.without_sector, older.without_sector, now)
        unlinked = [] if loading else newest.without_links[:LINKED_AT_ONCE]
        links = progress.links.portion([*due, *unlinked], older.without_links, now)
        activated = [Activated(memory_id=str(memory_id)) for memory_id in links]
        return finishing(namespace, [*map(str, sectors)], activated)

    async def _newest(self, tx: Transaction) -> tuple[SweepFindings, list[UUID]]:
        return await self._look(tx, SweepPosition(), LOOKED_AT), await find_due(tx, limit=DEFERRED_AT_ONCE)

    async def _look(self, tx: Transaction, place: SweepPosition, unlinked: int) -> SweepFindings:
        """Look at the next LOOKED_AT memories that are old enough, not beyond so many that lack their links."""
        known = {"before": place.before, "before_id": place.before_id, "older_than_s": self.older_than_s}
        row = await tx.only_row("unfinished_before", **known, limit=LOOKED_AT, unlinked=unlinked)
        place = place if row["before"] is None else SweepPosition(row["before"], row["before_id"])
        return SweepFindings(row["without_sector"], row["without_links"], row["more"], place)
