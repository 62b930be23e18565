"""The audit log: who did what to which memory, never what the memory contains."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from schemas.envelope import Envelope
from schemas.vocabulary import AuditAction
from workers.store.queries import sql
from workers.store.transaction import Transaction

AUDIT: Final = sql("audit")


async def record(
    tx: Transaction,
    envelope: Envelope,
    action: AuditAction,
    target: UUID,
    *,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    reason: str | None = None,
) -> None:
    """Note that the principal of a command did this; `old` and `new` hold what changed, as JSON values."""
    await tx.send(
        AUDIT,
        actor=envelope.principal.name,
        action=action,
        target_id=target,
        old=Jsonb(dict(old)),
        new=Jsonb(dict(new)),
        reason=reason,
        command_id=UUID(envelope.id),
    )
