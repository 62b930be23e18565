"""Bringing a memory back that was archived or superseded, with its links and an entry in the audit log."""

from typing import Any
from uuid import UUID

from engramq.schemas.envelope import Envelope
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.db import audit
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.links.replies import displaced_records
from engramq.workers.links.rules import LinkRules
from engramq.workers.links.writer import lock_with_linked, make_room_again
from engramq.workers.memories import change


async def restore(tx: Transaction, envelope: Envelope, row: Row, rules: LinkRules) -> None:
    """Restore a memory that was locked with what it is linked with; one that is not hidden stays as it is.

    Raises EngramqError with `degree_limit` when its links, which count again, leave somebody above the cap.
    """
    changed = await change.restore(tx, row)
    if changed:
        displaced = await make_room_again(tx, row["id"], rules)
        changed |= {"displaced": displaced_records(displaced)} if displaced else {}
        await audit_state(tx, envelope, AuditAction.RESTORE, row, changed)


async def restore_by_id(tx: Transaction, envelope: Envelope, memory_id: UUID, rules: LinkRules) -> None:
    """Do the same for a memory that may be gone."""
    row = await lock_with_linked(tx, memory_id)
    if row is not None:
        await restore(tx, envelope, row, rules)


async def audit_state(
    tx: Transaction, envelope: Envelope, action: AuditAction, row: Row, changed: dict[str, Any]
) -> None:
    """Audit a change of a locked row; `changed` has the new values, none when it was erased."""
    old = {
        name: row[name] if name == "state" else row[name] and str(row[name])
        for name in changed or ("state",)
        if name in row
    }
    await audit.record(tx, envelope, action, row["id"], old=old, new=changed, reason=audit.reason_of(envelope.command))
