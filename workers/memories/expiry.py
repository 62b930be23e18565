"""Memories that expire: archived by upkeep once their time has passed, and given a time by rules of retention.

Reads hide what has expired at once, whether upkeep has been there or not: see the fragment `archived`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from engramq.schemas.commands import NewMemory
from engramq.schemas.fields import or_none
from engramq.schemas.ids import format_time
from engramq.schemas.setting_values import Retention, kept_for
from engramq.schemas.vocabulary import SYSTEM_PRINCIPAL, AuditAction, MemoryState
from engramq.workers.db import audit, namespaces
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.memories.still_hidden import behind, hidden_behind

ARCHIVE_EXPIRED: Final = sql("archive_expired")
GIVE_EXPIRY: Final = sql("give_expiry")
ARCHIVE: Final = sql("archive")

AT_ONCE: Final = 100  # memories of one transaction, whose locks others wait for
REASON: Final = "expired"
FIRST: Final = UUID(int=0)


def expiry_of(rules: Sequence[Retention], memory: NewMemory) -> datetime | None:
    """Return when a memory that is stored now expires; None: never. Its own time goes before the rules."""
    if (own := or_none(memory.expires_at)) is not None:
        return own
    period = kept_for(rules, or_none(memory.source_type), or_none(memory.tags) or ())
    return None if period is None else datetime.now(UTC) + period


async def archive_expired(tx: Transaction) -> int:
    """Archive some memories that have expired, and audit each; return how many.

    The audit names what each had replaced and nothing replaces now: an expiry brings no stale fact back.
    """
    await namespaces.note(tx)  # links may have waited for one of them
    rows = await tx.rows(ARCHIVE_EXPIRED, limit=AT_ONCE)
    gone = await hidden_behind(tx, await behind(tx, [row["id"] for row in rows])) if rows else {}
    for row in rows:
        await _record(tx, row["id"], row["state"], row["expires_at"], gone.get(row["id"], ()))
    return len(rows)


async def settle(tx: Transaction, row: Row) -> None:
    """Archive a locked memory that has expired, as upkeep would: a later expires_at brings nothing back."""
    if row["has_expired"]:
        await tx.send(ARCHIVE, id=row["id"])
        gone = await hidden_behind(tx, await behind(tx, [row["id"]]))
        await _record(tx, row["id"], row["kept_state"], row["expires_at"], gone.get(row["id"], ()))


async def give_expiry(tx: Transaction, rule: Retention, after: UUID = FIRST) -> UUID | None:
    """Give memories that a rule is about, and that have none, a time to expire; a few, from an id on.

    Return where to go on, None at the end.
    """
    tags = None if rule.tag is None else [rule.tag]
    row = await tx.row(
        GIVE_EXPIRY, source_type=rule.source_type, tags=tags, kept_for=rule.kept_for, after=after, limit=AT_ONCE
    )
    assert row is not None
    last: UUID | None = row["last"]
    return last


async def _record(tx: Transaction, memory_id: UUID, state: str, expires_at: datetime, hidden: Sequence[UUID]) -> None:
    old = {"state": state, "expires_at": format_time(expires_at)}
    new: dict[str, Any] = {"state": MemoryState.ARCHIVED}
    new |= {"still_hidden": [str(one) for one in hidden]} if hidden else {}
    await audit.write(tx, SYSTEM_PRINCIPAL, AuditAction.ARCHIVE, memory_id, old=old, new=new, reason=REASON)
