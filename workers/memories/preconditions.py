"""Require of whoever changes a memory that they are trusted, and that it still is what they saw."""

from typing import Final
from uuid import UUID

from msgspec import UNSET, UnsetType

from engramq.schemas.digests import require_seen
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode, refuse
from engramq.workers.db.memory_rows import read_memories
from engramq.workers.db.transaction import Transaction
from engramq.workers.runner import Context

LOOK: Final = 'get_memory with include_untrusted and detail="full" shows all of it.'


async def require_as_seen(tx: Transaction, memory_id: UUID, seen: str | UnsetType, context: Context) -> None:
    """Raise EngramqError with `conflict` when a locked memory is not what the caller saw; see digests.py."""
    if seen is not UNSET:
        memory = (await read_memories(tx, (memory_id,)))[memory_id]
        require_seen(seen, memory, context.envelope.principal, LOOK)


def require_trusted_principal(principal: Principal) -> None:
    """Raise EngramqError with `forbidden` for an untrusted principal."""
    if principal.untrusted:
        raise refuse(FaultCode.FORBIDDEN, "An untrusted principal may only read, store, link and supersede.")
