"""Notes which memories were found, without being in anybody's way."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from engramq.workers.db.database import Store
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.debounce import Debounce

NOTE_ACCESS: Final = sql("note_access")

DEBOUNCE_S: Final = 0.5  # notes of this long become one statement for each namespace
NOTES_MAX: Final = 20_000  # beyond, notes are dropped: they are best effort


class Usage:
    """One per process."""

    def __init__(self, store: Store, *, stopping: asyncio.Event | None = None) -> None:
        self._store = store
        self._notes: dict[str, Counter[UUID]] = {}
        self._noted = 0
        self._debounce = Debounce(self._write_all, DEBOUNCE_S, stopping)

    async def note(self, namespace: str, ids: Sequence[UUID]) -> None:
        """Count that these memories were found. Raises EngramqError or OutcomeUnknown when they cannot be counted."""
        if self._noted + len(ids) > NOTES_MAX:
            return
        self._noted += len(ids)
        self._notes.setdefault(namespace, Counter()).update(ids)
        await self._debounce.soon()

    async def _write_all(self) -> None:
        notes, self._notes, self._noted = self._notes, {}, 0
        for namespace, times in notes.items():
            await self._write(namespace, times)

    async def _write(self, namespace: str, times: Counter[UUID]) -> None:
        await self._store.write(namespace, lambda tx: note_access(tx, times))


async def note_access(tx: Transaction, times: Mapping[UUID, int]) -> None:
    """Count that memories were found so many times."""
    await tx.send(NOTE_ACCESS, ids=list(times), times=list(times.values()))
