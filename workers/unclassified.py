"""Finding memories whose sector nobody told: a crash took the command away that would have.

No index says which they are (see the schema), so each sweep looks at the newest memories of a namespace, and once in a
while, over as many sweeps as it takes, at all of them.
"""

import time
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from workers.contract import FollowUp
from workers.sectors import BATCH, classifying
from workers.store import sectors
from workers.store.sectors import Place, Seen
from workers.store.store import Store

OLDER_THAN_S: Final = 3.0  # a younger memory may be in somebody's hands
LOOKED_AT: Final = 1_000  # memories of a namespace in one look: about 1 ms
ROUND_EVERY_S: Final = 600.0
BACK_OFF_FIRST_S: Final = 5.0
BACK_OFF_MAX_S: Final = 120.0


@dataclass(slots=True)
class _Progress:
    """What the last looks at a namespace saw. Times in monotonic seconds."""

    place: Place | None = None  # of the round through all memories; None between rounds
    round_at: float = 0.0
    handed_on: frozenset[UUID] = frozenset()
    back_off_s: float = 0.0
    not_before: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclassified:
    """Looks at one namespace at a time and remembers how far it came."""

    store: Store
    older_than_s: float = OLDER_THAN_S
    _progress: dict[str, _Progress] = field(default_factory=dict)

    def forget(self, kept: set[str]) -> None:
        """Forget all namespaces but these."""
        for gone in self._progress.keys() - kept:
            del self._progress[gone]

    async def look_at(self, namespace: str) -> tuple[FollowUp, ...]:
        """Return the commands that tell the sectors of memories which lack one."""
        progress = self._progress.setdefault(namespace, _Progress())
        now = time.monotonic()
        if now < progress.not_before:
            return ()
        newest = await self._look(namespace, Place())
        ids = list(newest.ids)
        if progress.place is None and newest.looked_at == LOOKED_AT and now >= progress.round_at:
            progress.place, progress.round_at = newest.place, now + ROUND_EVERY_S
        elif progress.place is not None:
            older = await self._look(namespace, progress.place)
            ids += [one for one in older.ids if one not in set(ids)]
            progress.place = older.place if older.looked_at == LOOKED_AT else None
        if progress.handed_on and progress.handed_on <= set(ids):
            # None of the last ones was done: nobody serves the kind, or it is far behind. Less, and less often.
            progress.back_off_s = min(BACK_OFF_MAX_S, max(BACK_OFF_FIRST_S, progress.back_off_s * 2))
            ids = ids[:BATCH]
        else:
            progress.back_off_s = 0.0
        progress.handed_on, progress.not_before = frozenset(newest.ids[:BATCH]), now + progress.back_off_s
        return classifying(namespace, [str(one) for one in ids])

    async def _look(self, namespace: str, place: Place) -> Seen:
        return await self.store.read(
            namespace,
            lambda tx: sectors.unclassified_before(tx, place, older_than_s=self.older_than_s, limit=LOOKED_AT),
        )
