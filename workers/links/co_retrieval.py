"""Notes which memories searches find together, without being in anybody's way: pairs that are often, are linked."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import MemoryState
from engramq.workers.db.database import Store
from engramq.workers.links.co_retrieved_pairs import Together, link_pairs, note_pairs
from engramq.workers.links.rules import LinkRules, Pair, pair_of
from engramq.workers.queue.contract import SessionUse
from engramq.workers.queue.debounce import Debounce

DEBOUNCE_S: Final = 0.5  # searches of this long become one statement for each namespace
PAIRS_MAX: Final = 20_000  # that wait; beyond, further ones are left out: it is best ef_search
PAIRS_AT_ONCE: Final = 500  # of one transaction


class CoRetrievals:
    """One per process."""

    def __init__(self, store: Store, rules: LinkRules, *, stopping: asyncio.Event | None = None) -> None:
        self._store = store
        self._rules = rules
        self._found: dict[str, dict[Pair, Together]] = {}
        self._waiting = 0
        self._debounce = Debounce(self._write_all, DEBOUNCE_S, stopping)

    async def note(self, memories: Sequence[Memory], use: SessionUse | None) -> None:
        """Note what a search has found, best first. Raises EngramqError or OutcomeUnknown when it cannot be written.

        Outside of sessions nothing is noted.
        """
        together = list(_pairs(memories))
        if use is None or not together:
            return
        pairs = self._found.setdefault(use.namespace, {})
        for pair in together:
            known = pairs.get(pair)
            if known is None:
                if self._waiting >= PAIRS_MAX:
                    continue
                known = pairs[pair] = Together()
                self._waiting += 1
            known.times += 1
            if len(known.instances) < limits.CO_RETRIEVALS:
                known.instances.add(f"{use.session}:{use.instance}")
        await self._debounce.soon()

    async def _write_all(self) -> None:
        found, self._found, self._waiting = self._found, {}, 0
        for namespace, pairs in found.items():
            ordered = sorted(pairs)
            for start in range(0, len(ordered), PAIRS_AT_ONCE):
                await self._write(namespace, {one: pairs[one] for one in ordered[start : start + PAIRS_AT_ONCE]})

    async def _write(self, namespace: str, pairs: dict[Pair, Together]) -> None:
        ripe = await self._store.write(namespace, lambda tx: note_pairs(tx, pairs))
        if ripe:
            await self._store.write(namespace, lambda tx: link_pairs(tx, ripe, rules=self._rules))


def _pairs(memories: Sequence[Memory]) -> Iterator[Pair]:
    best = [one for one in memories[: limits.CO_RETRIEVED] if one.state is MemoryState.ACTIVE]
    for one, other in combinations(best, 2):
        if one.partition is other.partition:
            yield pair_of(UUID(one.id), UUID(other.id))
