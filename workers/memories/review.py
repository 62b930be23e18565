"""Standing of memories: how far they are vouched for, and the way from untrusted to trusted."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.vocabulary import MemoryState, Partition, Verification
from engramq.workers.db.errors import Again
from engramq.workers.db.memory_rows import lock
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.rules import Displaced, LinkRules
from engramq.workers.links.standing import refusal_of
from engramq.workers.links.writer import lock_with_linked, make_room_again
from engramq.workers.memories.routing import VOUCHED_FOR

VERIFY: Final = sql("verify")
PROMOTE: Final = sql("promote")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verification changed. `displaced`: links that had to make room when a rejected memory came back."""

    before: Verification
    displaced: list[Displaced]


async def verify(tx: Transaction, memory_id: UUID, verification: Verification, rules: LinkRules) -> Verdict | None:
    """Write a verification; None when there is no such memory.

    Raises EngramqError with `degree_limit` when the links of a memory that is rejected no more leave somebody above the
    cap.
    """
    hides = verification is Verification.REJECTED
    row = (await lock(tx, memory_id)).get(memory_id) if hides else await lock_with_linked(tx, memory_id)
    if row is None:
        return None
    before = Verification(row["verification"])
    if before is not verification:
        await tx.send(VERIFY, id=memory_id, verification=verification)
    back = before is Verification.REJECTED and not hides
    return Verdict(before, await make_room_again(tx, memory_id, rules) if back else [])


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
    if row["state"] == MemoryState.ARCHIVED or row["is_superseded"]:
        raise await refusal_of(tx, row)
    if await tx.row(PROMOTE, id=memory_id, promoted_by=promoted_by) is None:
        raise Again
    return {"partition": row["partition"], "verification": row["verification"]}


def not_verified() -> EngramqError:
    """Return the one refusal for unverified, unknown, malformed and foreign ids: it tells nobody what exists."""
    return refuse(FaultCode.RECORD_NOT_VERIFIED, "There is no verified or approved memory of that id.")
