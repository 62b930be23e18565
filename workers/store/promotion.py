"""Standing of memories: how far they are vouched for, and the way from untrusted to trusted."""

from typing import Any, Final
from uuid import UUID

from schemas.faults import EngramqError, FaultCode, refuse
from schemas.vocabulary import MemoryState, Partition, Verification
from workers.domain.router import VOUCHED_FOR
from workers.store.errors import Again
from workers.store.pool import Row
from workers.store.queries import sql
from workers.store.supersession import lock
from workers.store.transaction import Transaction

VERIFY: Final = sql("verify")
PROMOTE: Final = sql("promote")


async def verify(tx: Transaction, memory_id: UUID, verification: Verification) -> Verification | None:
    """Write a verification and return the one before; None when there is no such memory."""
    row = (await lock(tx, memory_id)).get(memory_id)
    if row is None:
        return None
    before = Verification(row["verification"])
    if before is not verification:
        await tx.send(VERIFY, id=memory_id, verification=verification)
    return before


async def promote(tx: Transaction, memory_id: UUID | None, promoted_by: str) -> dict[str, Any] | None:
    """Move a memory that is vouched for to trusted; return what it was before, None when it is trusted already.

    Raises EngramqError: `record_not_verified` for all that is not vouched for, known or not; `memory_not_active` for
    what is archived or superseded.
    """
    row = None if memory_id is None else (await lock(tx, memory_id)).get(memory_id)
    if row is None:
        raise not_verified()
    if row["partition"] == Partition.TRUSTED:
        return None
    if row["verification"] not in VOUCHED_FOR:
        raise not_verified()
    _require_current(row)
    if await tx.row(PROMOTE, id=memory_id, promoted_by=promoted_by) is None:
        raise Again
    return {"partition": row["partition"], "verification": row["verification"]}


def not_verified() -> EngramqError:
    """Return the one refusal for unverified, unknown, malformed and foreign ids: it tells nobody what exists."""
    return refuse(FaultCode.RECORD_NOT_VERIFIED, "There is no verified or approved memory of that id.")


def _require_current(row: Row) -> None:
    if row["state"] == MemoryState.ARCHIVED or row["superseded_by"] is not None:
        why = "archived" if row["state"] == MemoryState.ARCHIVED else f"superseded by {row['superseded_by']}"
        raise refuse(FaultCode.MEMORY_NOT_ACTIVE, f"Memory {row['id']} is {why}.", memory_id=str(row["id"]))
