"""Tells the clocks of namespaces when sessions are in use, without being in anybody's way."""

import asyncio
from collections.abc import Sequence
from typing import Final

from engramq.schemas.faults import EngramqError
from engramq.workers.db.database import Store
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.background import Debounce
from engramq.workers.queue.contract import OutcomeUnknown, SessionUse

DEBOUNCE_S: Final = 1.0  # the uses of this long become one statement for each namespace
WAITING_MAX: Final = 20_000  # sessions that wait to be told; beyond, further ones are left out: it is best effort

LOCK: Final = sql("lock_clock")
TICK: Final = sql("tick")
COMMIT_WITHOUT_WAITING: Final = sql("commit_without_waiting")

PIECES: Final = 1_000  # of the last day that are told apart

Interval = tuple[int, int]  # from, until: milliseconds of Redis's clock


async def tick(tx: Transaction, intervals: Sequence[Interval]) -> None:
    """Let the clock gain what it has not gained yet of the times in which sessions were in use."""
    await tx.send(COMMIT_WITHOUT_WAITING)
    await tx.send(LOCK)
    await tx.send(TICK, since=[one for one, _ in intervals], until=[one for _, one in intervals], pieces=PIECES)


class SessionClock:
    """One per process."""

    def __init__(self, store: Store, *, debounce_s: float = DEBOUNCE_S, stopping: asyncio.Event | None = None) -> None:
        self._store = store
        self._told: dict[tuple[str, str], list[Interval]] = {}
        self._debounce = Debounce(self._write, debounce_s, stopping)

    async def tell(self, uses: Sequence[SessionUse]) -> None:
        """Note that sessions were in use. Raises EngramqError or OutcomeUnknown when it cannot be written."""
        for use in uses:
            self._add(use)
        if self._told:
            await self._debounce.soon()

    def _add(self, use: SessionUse) -> None:
        key = (use.namespace, use.session)
        if not use.intervals or (key not in self._told and len(self._told) >= WAITING_MAX):
            return
        known = self._told.setdefault(key, [])
        for since, until in use.intervals:
            # The calls of a session follow one another: mostly this time goes on where the last one ended.
            if known and known[-1][1] == since:
                known[-1] = (known[-1][0], until)
            else:
                known.append((since, until))

    async def _write(self) -> None:
        told, self._told = self._told, {}
        by_namespace: dict[str, list[Interval]] = {}
        for (namespace, _), intervals in told.items():
            by_namespace.setdefault(namespace, []).extend(intervals)
        problem: Exception | None = None
        for namespace, intervals in by_namespace.items():
            try:
                await self._tick(namespace, intervals)
            except (EngramqError, OutcomeUnknown) as found:  # which may be of one namespace alone
                problem = found
        if problem is not None:
            raise problem

    async def _tick(self, namespace: str, intervals: Sequence[Interval]) -> None:
        await self._store.write(namespace, lambda tx: tick(tx, intervals))
