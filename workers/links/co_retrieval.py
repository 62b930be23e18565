"""Note which memories searches find together, in nobody's way, and link pairs that are often."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from engramq.schemas import limits
from engramq.schemas.ids import Pair
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import LINK_WEIGHTS, MemoryState, Origin, Relation
from engramq.workers.db.database import Store
from engramq.workers.db.lookups import array
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.rules import LinkRules
from engramq.workers.links.snapshot import columns_of_pairs
from engramq.workers.links.writer import AutomaticLink, write_automatic
from engramq.workers.queue.background import Activity, Debounce
from engramq.workers.queue.contract import SessionUse

PAIRS_MAX: Final = 20_000  # that wait; beyond, further ones are left out: it is best effort
PAIRS_AT_ONCE: Final = 500  # of one transaction


KEPT_DAYS: Final = 90

Ids = tuple[str, str]  # of two memories, the lower first: as text they have the same order


@dataclass(slots=True)
class PairCount:
    """How often a pair was found together, and in which instances of sessions."""

    times: int = 0
    instances: set[str] = field(default_factory=set)


async def note_pairs(tx: Transaction, pairs: Mapping[Ids, PairCount]) -> list[Pair]:
    """Note that pairs, at least one, were found together; return those that have been often enough to be linked."""
    await tx.send("commit_without_waiting")
    ordered = sorted(pairs)
    seen = [(*pair, instance) for pair in ordered for instance in sorted(pairs[pair].instances)]
    lows, highs, instances = (array(column) for column in zip(*seen, strict=True))
    noted = await tx.send("note_co_retrieved", lows=lows, highs=highs, instances=instances)
    # Last, since it locks links: who erases a memory holds the memory and goes on to its links.
    lows, highs = (array(column) for column in zip(*ordered, strict=True))
    times = array([str(pairs[pair].times) for pair in ordered])
    await tx.send("count_co_retrieved", lows=lows, highs=highs, times=times)
    return [(row["low_id"], row["high_id"]) for row in await noted.fetchall()]


async def link_pairs(tx: Transaction, pairs: Collection[Pair], *, rules: LinkRules) -> None:
    """Link pairs as far as they may be and there is room; what cannot be linked now begins anew."""
    weight = LINK_WEIGHTS[Relation.CO_OCCURS]
    links = [AutomaticLink(low, high, Relation.CO_OCCURS, weight, Origin.CO_RETRIEVAL) for low, high in pairs]
    await write_automatic(tx, links, rules=rules)
    await tx.send("forget_co_retrieved", **columns_of_pairs(pairs))


class CoRetrievals:
    """One per process."""

    def __init__(
        self, store: Store, rules: LinkRules, activity: Activity, *, stopping: asyncio.Event | None = None
    ) -> None:
        self._store = store
        self._rules = rules
        self._noted: dict[str, dict[Ids, PairCount]] = {}
        self._waiting = 0
        self._debounce = Debounce.of_notes(self._write_all, activity, stopping)

    async def note(self, memories: Sequence[Memory], use: SessionUse | None) -> None:
        """Note what a search has found, best first. Raises EngramqError or ResultUnknown when it cannot be written.

        Outside of sessions nothing is noted.
        """
        active = [memory for memory in memories[: limits.CO_RETRIEVED] if memory.state is MemoryState.ACTIVE]
        together = [
            (first.id, second.id) if first.id < second.id else (second.id, first.id)
            for first, second in combinations(active, 2)
            if first.partition is second.partition
        ]
        if use is None or not together:
            return
        pairs, instance = self._noted.setdefault(use.namespace, {}), f"{use.session}:{use.instance}"
        for pair in together:
            known = pairs.get(pair)
            if known is None:
                if self._waiting >= PAIRS_MAX:
                    continue
                known = pairs[pair] = PairCount()
                self._waiting += 1
            known.times += 1
            if len(known.instances) < limits.CO_RETRIEVALS:
                known.instances.add(instance)
        await self._debounce.soon()

    async def _write_all(self) -> None:
        noted, self._noted, self._waiting = self._noted, {}, 0
        for namespace, pairs in noted.items():
            ordered = sorted(pairs)
            for start in range(0, len(ordered), PAIRS_AT_ONCE):
                await self._write(namespace, {pair: pairs[pair] for pair in ordered[start : start + PAIRS_AT_ONCE]})

    async def _write(self, namespace: str, pairs: dict[Ids, PairCount]) -> None:
        ripe = await self._store.write(namespace, lambda tx: note_pairs(tx, pairs))
        if ripe:
            await self._store.write(namespace, lambda tx: link_pairs(tx, ripe, rules=self._rules))
