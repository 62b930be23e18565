"""Write and read the audit log: who did what to what, without the contents of memories."""

from collections.abc import Collection, Mapping
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from msgspec import UNSET
from psycopg.types.json import Jsonb

from engramq.schemas.commands import Command, ListAudit
from engramq.schemas.envelope import AUDITED_TOGETHER, Envelope
from engramq.schemas.fields import or_none
from engramq.schemas.ids import format_time
from engramq.schemas.records import AuditEntry
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.db.transaction import Sent, Transaction
from engramq.workers.db.viewers import EVERYTHING


async def record(
    tx: Transaction,
    envelope: Envelope,
    action: AuditAction,
    target: UUID | None,
    *,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    reason: str | None = None,
    owner: str | None = None,
) -> Sent:
    """Note that the principal of a command did this, for the reason that the command gives if none is; see `write`.

    Entries of one action on many name it, so that a reader can show them as one.
    """
    if envelope.together:
        new = {**new, AUDITED_TOGETHER: envelope.together}
    actor, command_id, reason = envelope.principal.name, UUID(envelope.id), reason or reason_of(envelope.command)
    return await write(tx, actor, action, target, old=old, new=new, reason=reason, command_id=command_id, owner=owner)


async def write(
    tx: Transaction,
    actor: str,
    action: AuditAction,
    target: UUID | None,
    *,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    reason: str | None = None,
    command_id: UUID | None = None,
    owner: str | None = None,
) -> Sent:
    """Note that somebody did this; `old` and `new` hold what changed, as JSON values. The entry's id and time follow.

    `target` is None for what is not about one memory, node, edge or token. `owner`: whose what it names was, if that is
    gone by now; of what is there the query looks for it, as far as the transaction sees.
    """
    if command_id is None:
        await tx.send("note_change")  # commands have noted their change already; upkeep looks there for entries
    return await tx.send(
        "audit",
        actor=actor,
        action=action,
        target_id=target,
        old=Jsonb(dict(old)),
        new=Jsonb(dict(new)),
        reason=reason,
        command_id=command_id,
        owner=owner,
    )


async def blank(tx: Transaction, envelope: Envelope, erased: Collection[UUID]) -> None:
    """Take what somebody wrote about erased memories, edges and nodes out of their entries: reasons, notes, properties.

    Entries about things that are still there stay as they are, and the command that erases keeps its own reason.
    """
    if not erased:
        return
    # Over a cluster it sees what the worker sees: what was somebody's for a while has entries that are theirs.
    async with tx.seeing(EVERYTHING) if tx.sharded else nullcontext():
        await tx.send("blank_audit", erased=sorted(erased), command_id=UUID(envelope.id))


def reason_of(command: Command) -> str | None:
    """Return the reason that a command gives, None where it gives none."""
    return or_none(getattr(command, "reason", UNSET))


async def entries(
    tx: Transaction, wanted: ListAudit, target: UUID | None, by: UUID | None, limit: int
) -> list[AuditEntry]:
    """Return the newest entries that are asked for, newest first: of a target, or by a command, if these are given.

    Entries about something else that name the target count too: those of a memory's links, of a node's edges. Entries
    that were private to others when they were written are counted, and not shown.
    """
    reader = tx.viewer.owner
    async with tx.seeing(EVERYTHING):
        rows = await tx.rows(
            "audit_entries",
            **{name: or_none(getattr(wanted, name)) for name in ("action", "actor", "since", "until")},
            target_id=target,
            command_id=by,
            before=None if wanted.cursor is UNSET else int(wanted.cursor),
            limit=limit,
            reader=reader,
        )
    return [
        AuditEntry(
            id=row["id"],
            at=format_time(row["at"]),
            actor=row["actor"],
            action=row["action"],
            target_id=_text(row["target_id"]),
            old=row["old"],
            new=row["new"],
            reason=row["reason"],
            command_id=_text(row["command_id"]),
        )
        for row in rows
    ]


def _text(value: UUID | None) -> str | None:
    return None if value is None else str(value)
