"""In which namespaces something changed, for upkeep to look at those alone.

Every command that writes notes its change in its own transaction (see ledger.sql), so that whatever that leaves to be
done is found. What finishes such work notes nothing: the change stands until a look finds nothing left.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from engramq.workers.db.database import Store
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

NOTE: Final = sql("note_change")
CHANGED: Final = sql("changed_namespaces")
SETTLE: Final = sql("settle_changes")


class Looks(StrEnum):
    """Who looks at changes."""

    SWEEP = "sweep"  # for unfinished work
    COUNTS = "counts"  # for words to count
    ANY = "any"  # at all that are remembered: those of the last three minutes, and some older ones


async def note(tx: Transaction) -> None:
    """Note a change in a transaction without a ledger row of its own."""
    await tx.send(NOTE)


async def changed(store: Store, looks: Looks) -> dict[str, datetime]:
    """Return the namespaces to look at, with the moment at which this look began."""
    return {row["namespace"]: row["seen_at"] for row in await store.ask(CHANGED, kind=looks.value)}


async def settle(store: Store, looks: Looks, seen: Mapping[str, datetime]) -> None:
    """Settle the changes that looks which began at these moments found nothing left of, by namespace."""
    if seen:
        await store.ask(SETTLE, kind=looks.value, names=list(seen), looked_at=list(seen.values()))
