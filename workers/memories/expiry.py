"""Memories that expire: archived by upkeep once their time has passed, and given a time by rules of retention.

Reads hide what has expired at once, whether upkeep has been there or not: see the fragment `archived`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from engramq.schemas.commands import NewMemory
from engramq.schemas.fields import or_none
from engramq.schemas.ids import format_time
from engramq.schemas.retention import Retention, kept_for
from engramq.schemas.vocabulary import SYSTEM_PRINCIPAL, AuditAction, MemoryState
from engramq.workers.db import audit
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

ARCHIVE_EXPIRED: Final = sql("archive_expired")
GIVE_EXPIRY: Final = sql("give_expiry")

AT_ONCE: Final = 100  # memories of one transaction, whose locks others wait for
REASON: Final = "expired"


def expiry_of(rules: Sequence[Retention], memory: NewMemory) -> datetime | None:
    """Return when a memory that is stored now expires; None: never. Its own time goes before the rules."""
    if (own := or_none(memory.expires_at)) is not None:
        return own
    period = kept_for(rules, or_none(memory.source_type), or_none(memory.tags) or ())
    return None if period is None else datetime.now(UTC) + period


async def archive_expired(tx: Transaction) -> int:
    """Archive some memories that have expired, and audit each; return how many."""
    rows = await tx.rows(ARCHIVE_EXPIRED, limit=AT_ONCE)
    for row in rows:
        old = {"state": row["state"], "expires_at": format_time(row["expires_at"])}
        new = {"state": MemoryState.ARCHIVED}
        await audit.write(tx, SYSTEM_PRINCIPAL, AuditAction.ARCHIVE, row["id"], old=old, new=new, reason=REASON)
    return len(rows)


async def give_expiry(tx: Transaction, rule: Retention) -> int:
    """Give some memories that a rule is about, and that have none, a time to expire; return how many."""
    tags = None if rule.tag is None else [rule.tag]
    rows = await tx.rows(GIVE_EXPIRY, source_type=rule.source_type, tags=tags, kept_for=rule.kept_for, limit=AT_ONCE)
    return len(rows)
