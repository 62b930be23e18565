"""Require that a memory still is what its caller saw, before it is changed."""

from typing import Final
from uuid import UUID

from msgspec import UNSET, UnsetType

from engramq.schemas.digests import require_seen
from engramq.schemas.faults import invalid
from engramq.workers.db.memory_rows import read_memories
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.runner import Context

LOOK: Final = 'get_memory with include_untrusted and detail="full" shows all of it, and its digest.'


async def require_as_seen(tx: Transaction, memory_id: UUID, seen: str | UnsetType, context: Context) -> None:
    """Raise EngramqError with `conflict` when a locked memory is not what the caller saw; see digests.py."""
    if seen is not UNSET:
        memory = (await read_memories(tx, (memory_id,)))[memory_id]
        require_seen(seen, memory, context.envelope.principal, LOOK)


def require_look(row: Row, seen: str | UnsetType) -> None:
    """Raise EngramqError where everybody is to see a memory with this row, and its owner does not say what they saw."""
    if row["owner"] is not None and seen is UNSET:
        raise invalid("seen", "To share a memory takes seen, the digest of what you have read.", LOOK)
