"""Delete everything that a tenant holds, a few rows at a time, each few in a transaction of their own.

Another try goes on with what is left; the audit log, which stays, counts what all tries have removed.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from engramq.schemas.commands import TenantDeleted
from engramq.schemas.envelope import Envelope
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.db import audit
from engramq.workers.db.database import Store
from engramq.workers.db.memory_rows import forget_erased
from engramq.workers.db.transaction import Sent, Transaction
from engramq.workers.queue.contract import Lease
from engramq.workers.queue.inspection import Inspection

log = logging.getLogger(__name__)


ROWS_AT_ONCE: Final = 1_000
MEMORIES_AT_ONCE: Final = 100  # each costs its links and an entry in every index


@dataclass(frozen=True, slots=True)
class Removal:
    """Rows of one kind that go; `counted`: what the audit log calls them, if it counts them."""

    query: str
    counted: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


BEFORE: Final = (  # tokens first: nobody shall write what is deleted next
    Removal("revoke_tokens"),
    Removal("delete_tokens", "tokens"),
    Removal("delete_webhooks"),  # nobody is told any more
    Removal("delete_some_deferred"),
    Removal("delete_some_edges", "links", {"layer": "association"}),
    Removal("delete_some_edges", "edges", {"layer": "knowledge"}),
)
AFTER: Final = (
    Removal("delete_some_nodes", "nodes"),
    Removal("delete_some_deleted"),  # after what somebody may have deleted meanwhile
    Removal("delete_some_proposals"),
    Removal("delete_some_imported_rows"),
    Removal("fold_totals", values={"waits": True}),  # those of what has gone are none
    Removal("delete_lexeme_counts"),
    Removal("delete_lexeme_rebuild"),
    Removal("delete_some_answers"),
    Removal("blank_some_entries"),
)


@dataclass(frozen=True, slots=True)
class TenantDeletion:
    """One deletion under way."""

    store: Store
    inspection: Inspection
    envelope: Envelope
    lease: Lease

    async def run(self) -> AsyncIterator[int]:
        """Delete all that is there now, yielding after each transaction how many rows it took."""
        namespace = self.envelope.namespace
        until = await self.store.write(namespace, self._begin)
        await self.inspection.scrub_namespace(namespace)
        for removal in BEFORE:
            async for rows in self._remove(removal, until):
                yield rows
        while rows := await self._some_memories(until):
            yield rows
        for removal in AFTER:
            async for rows in self._remove(removal, until):
                yield rows
        await self.inspection.scrub_namespace(namespace)

    async def _begin(self, tx: Transaction) -> datetime:
        """Return when the first try began: what was written later is no affair of another one either."""
        tx.lease = self.lease
        row = await tx.row("tenant_deletion_begun", command_id=UUID(self.envelope.id), action=AuditAction.DELETE_TENANT)
        if row is None:
            entry = await _record(tx, self.envelope, {"begun": True})
            row = await entry.fetchone()
        assert row is not None
        at: datetime = row["at"]
        return at

    async def _remove(self, removal: Removal, until: datetime) -> AsyncIterator[int]:
        async def effect(tx: Transaction) -> int:
            tx.lease = self.lease
            values = {"until": until, "limit": ROWS_AT_ONCE, "command_id": UUID(self.envelope.id), **removal.values}
            row = await tx.only_row(removal.query, **values)
            return await self._note(tx, removal.counted, row["rows"])

        while rows := await self.store.write(self.envelope.namespace, effect):
            yield rows

    async def _some_memories(self, until: datetime) -> int:
        """Delete the next memories; queues are looked through before and after, as for a single erasure."""
        namespace = self.envelope.namespace
        found = await self.store.read(
            namespace, lambda tx: tx.rows("some_memories", until=until, limit=MEMORIES_AT_ONCE)
        )
        if not found:
            return 0
        ids, contents = [row["id"] for row in found], {str(row["id"]): row["content"] for row in found}

        async def effect(tx: Transaction) -> int:
            tx.lease = self.lease
            row = await tx.only_row("delete_nodes", ids=ids)
            return await self._note(tx, "memories", row["rows"])

        await self.inspection.scrub(namespace, contents)
        await self.store.write(namespace, effect)
        forget_erased(contents)
        await self.inspection.scrub(namespace, contents)
        return len(found)

    async def _note(self, tx: Transaction, counted: str | None, rows: int) -> int:
        if counted and rows:
            await _record(tx, self.envelope, {counted: rows})
        return rows


async def record_deleted(tx: Transaction, envelope: Envelope) -> TenantDeleted:
    """Set the clock back and tell what all tries at the command have deleted."""
    await tx.send("stop_clock")
    row = await tx.only_row("tenant_deleted", command_id=UUID(envelope.id), action=AuditAction.DELETE_TENANT)
    await _record(tx, envelope, {"finished": True})
    log.info("Tenant deleted", extra={"command_id": envelope.id, "count": row["memories"]})
    return TenantDeleted(
        memory_count=row["memories"],
        node_count=row["nodes"],
        edge_count=row["edges"],
        link_count=row["links"],
        token_count=row["tokens"],
    )


async def _record(tx: Transaction, envelope: Envelope, new: Mapping[str, Any]) -> Sent:
    return await audit.record(tx, envelope, AuditAction.DELETE_TENANT, None, old={}, new=new)
