"""A namespace's clock of active hours: how long any of its sessions has been in use, times of several counted once."""

from collections.abc import Sequence
from typing import Final

from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

MAKE: Final = sql("make_clock")
LOCK: Final = sql("lock_clock")
TICK: Final = sql("tick")
COMMIT_WITHOUT_WAITING: Final = sql("commit_without_waiting")

PIECES: Final = 1_000  # of the last day that are told apart

Interval = tuple[int, int]  # from, until: milliseconds of Redis's clock


async def tick(tx: Transaction, intervals: Sequence[Interval]) -> None:
    """Let the clock gain what it has not gained yet of the times in which sessions were in use."""
    await tx.send(COMMIT_WITHOUT_WAITING)
    await tx.send(MAKE)
    await tx.send(LOCK)
    await tx.send(TICK, since=[one for one, _ in intervals], until=[one for _, one in intervals], pieces=PIECES)
