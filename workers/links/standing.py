"""Whether a memory can be linked or replace another, and what to do where it cannot."""

from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.vocabulary import MemoryState, Standing, Verification
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction

REPLACEMENTS: Final = sql("replacements")

_WHY: Final = {
    Standing.NOT_FOUND: "is not known",
    Standing.ARCHIVED: "is archived",
    Standing.SUPERSEDED: "is superseded",
    Standing.REJECTED: "is rejected",
}
# A sentence that names a tool stands alone: it is left out where the caller has no such tool.
_RECOVERY: Final = {
    Standing.NOT_FOUND: "There is no memory of this id: search again.",
    Standing.ARCHIVED: "restore_memory brings it back. Or use another memory.",
    Standing.SUPERSEDED: "Nothing active replaces it: use another memory. Or restore_memory brings it back.",
    Standing.REJECTED: "Use another memory. Or verify_memory decides anew. restore_memory does not undo a rejection.",
}


def standing_of(row: Row | None) -> Standing:
    """Return whether a memory with this row (as lock_memories returns it) can be linked."""
    if row is None:
        return Standing.NOT_FOUND
    if row["state"] == MemoryState.ARCHIVED:
        return Standing.ARCHIVED
    if row["is_superseded"]:
        return Standing.SUPERSEDED
    if row["verification"] == Verification.REJECTED:
        return Standing.REJECTED
    return Standing.PENDING if row["state"] == MemoryState.PENDING else Standing.ACTIVE


async def replacements(tx: Transaction, ids: Collection[UUID]) -> Mapping[UUID, UUID]:
    """Return what took the place of superseded memories in the end, of those where that can be used."""
    if not ids:
        return {}
    return {row["id"]: row["replacement"] for row in await tx.rows(REPLACEMENTS, ids=list(ids))}


def use_instead(replacement: UUID | None) -> str:
    """Return what to do where a memory is superseded, in the end by this one."""
    if replacement is None:
        return _RECOVERY[Standing.SUPERSEDED]
    return f"Use {replacement} instead. Or restore_memory undoes the supersession."


def not_active(
    memory_id: str, standing: Standing, *, successor: UUID | None = None, replacement: UUID | None = None
) -> EngramqError:
    """Return the refusal of a memory of this standing.

    Where it is superseded, `successor` replaced it and `replacement` is what took its place in the end.
    """
    superseded = standing is Standing.SUPERSEDED
    by = f" by {successor}" if superseded and successor is not None else ""
    recovery = use_instead(replacement) if superseded else _RECOVERY[standing]
    error = f"Memory {memory_id} {_WHY[standing]}{by}."
    return refuse(FaultCode.MEMORY_NOT_ACTIVE, error, recovery=recovery, memory_id=memory_id)


async def refusal_of(tx: Transaction, row: Row) -> EngramqError:
    """Return the refusal of a memory with this row (as lock_memories returns it) that is not active."""
    successor: UUID | None = row["superseded_by"]
    found = {} if successor is None else await replacements(tx, [row["id"]])
    return not_active(str(row["id"]), standing_of(row), successor=successor, replacement=found.get(row["id"]))
