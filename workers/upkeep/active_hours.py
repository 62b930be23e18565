"""Let the clock of a namespace run while its sessions are in use: the uses of a second become one statement."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from engramq.schemas.faults import EngramqError
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.background import Debounce
from engramq.workers.queue.contract import ResultUnknown, SessionUse

DEBOUNCE_S: Final = 1.0  # the uses of this long become one statement for each namespace
WAITING_MAX: Final = 20_000  # sessions that wait to be told; beyond, further ones are left out: it is best effort


SPANS: Final = 1_000  # of the last day that are told apart

UseInterval = tuple[int, int]  # from, until: milliseconds of Redis's clock


async def tick(tx: Transaction, intervals: Sequence[UseInterval]) -> None:
    """Let the clock gain what it has not gained yet of the times in which sessions were in use."""
    await tx.send("commit_without_waiting")
    await tx.send("lock_clock")
    await tx.send("tick", since=[begin for begin, _ in intervals], until=[end for _, end in intervals], spans=SPANS)


class SessionClock:
    """One per process."""

    def __init__(self, store: Store, *, debounce_s: float = DEBOUNCE_S, stopping: asyncio.Event | None = None) -> None:
        self._store = store
        self._waiting: dict[tuple[str, str], list[UseInterval]] = {}
        self._debounce = Debounce(self._write, debounce_s, stopping)

    async def tell(self, uses: Sequence[SessionUse]) -> None:
        """Note that sessions were in use. Raises EngramqError or ResultUnknown when it cannot be written."""
        for use in uses:
            key = (use.namespace, use.session)
            if not use.intervals or (key not in self._waiting and len(self._waiting) >= WAITING_MAX):
                continue
            known = self._waiting.setdefault(key, [])
            for since, until in use.intervals:
                # The calls of a session follow one another: mostly this time goes on where the last one ended.
                if known and known[-1][1] == since:
                    known[-1] = (known[-1][0], until)
                else:
                    known.append((since, until))
        if self._waiting:
            await self._debounce.soon()

    async def _write(self) -> None:
        waiting, self._waiting = self._waiting, {}
        by_namespace: dict[str, list[UseInterval]] = {}
        for (namespace, _), intervals in waiting.items():
            by_namespace.setdefault(namespace, []).extend(intervals)
        problem: Exception | None = None
        for namespace, intervals in by_namespace.items():
            try:
                await self._store.write(namespace, partial(tick, intervals=intervals))
            except (EngramqError, ResultUnknown) as failure:  # which may be of one namespace alone
                problem = failure
        if problem is not None:
            raise problem
