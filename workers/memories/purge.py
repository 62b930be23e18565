"""Purging: erasing for good, or archiving, memories of one principal, source type, thread, project, partition or time.

Of a principal its nodes, edges and links are erased too, and archiving deletes its nodes and edges so that they can be
restored: see purge_graph.py.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.vocabulary import AuditAction, MemoryState
from engramq.workers.db import audit, namespaces
from engramq.workers.db.database import Store
from engramq.workers.db.errors import Again
from engramq.workers.db.memory_rows import lock
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.graph import taking_back
from engramq.workers.graph.taking_back import ChangedBy
from engramq.workers.links.rules import LinkRules
from engramq.workers.memories import change, purge_graph, restoration, still_hidden
from engramq.workers.memories.purge_filters import Filters
from engramq.workers.memories.purge_graph import Kind
from engramq.workers.queue.contract import Lease
from engramq.workers.queue.inspection import Inspection

log = logging.getLogger(__name__)

COUNT: Final = sql("purge_count")
NEXT: Final = sql("purge_next")
SUCCESSORS: Final = sql("purge_successors")
STILL: Final = sql("purge_still")
HIDDEN: Final = sql("purge_hidden")
ARCHIVE: Final = sql("archive_many")

ERASED_AT_ONCE: Final = 100  # memories of one transaction, whose locks others wait for


@dataclass(frozen=True, slots=True)
class PurgePosition:
    """A position among the memories, oldest first: just after this one."""

    created_at: datetime
    id: UUID


BEGINNING: Final = PurgePosition(datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))


@dataclass(frozen=True, slots=True)
class Found:
    """Memories that a purge takes: contents by id, and where the next ones are looked for."""

    contents: dict[UUID, str]
    position: PurgePosition


async def count(tx: Transaction, filters: Filters) -> tuple[int, datetime]:
    """Return how many memories a purge would take, and the database's time."""
    row = await tx.row(COUNT, **asdict(filters))
    assert row is not None
    return row["memories"], row["now"]


async def find(tx: Transaction, filters: Filters, position: PurgePosition, limit: int) -> Found:
    """Return the oldest memories from a position on that a purge takes."""
    rows = await tx.rows(NEXT, **asdict(filters), after=position.created_at, after_id=position.id, limit=limit)
    contents = {row["id"]: row["content"] for row in rows}
    return Found(contents, PurgePosition(rows[-1]["created_at"], rows[-1]["id"]) if rows else position)


async def erase(tx: Transaction, envelope: Envelope, filters: Filters, ids: Sequence[UUID], reason: str | None) -> None:
    """Erase those of these memories that the filters still hold of, and note each in the audit log."""
    successors = {row["id"] for row in await tx.rows(SUCCESSORS, ids=list(ids))}
    standing = await lock(tx, *{*ids, *successors})
    rows = await tx.rows(STILL, **asdict(filters), ids=list(ids))
    if not {row["superseded_by"] for row in rows} <= {None, *successors}:
        raise Again
    replaced_by: dict[UUID, UUID | None] = {row["id"]: row["superseded_by"] for row in rows}

    def stays(memory_id: UUID | None) -> UUID | None:
        """Return what in the end replaces a memory: the first in its chain that is not erased, if it is there."""
        for _ in replaced_by:
            memory_id = replaced_by.get(memory_id, memory_id) if memory_id is not None else None
        return memory_id if memory_id in standing.keys() - replaced_by.keys() else None

    replaced = await still_hidden.behind(tx, replaced_by)
    await change.erase(tx, {memory_id: stays(successor) for memory_id, successor in replaced_by.items()})
    await audit.blank(tx, envelope, replaced_by)
    hidden = await still_hidden.hidden_behind(tx, replaced)
    for row in rows:
        behind = [str(one) for one in hidden.get(row["id"], ())]
        old, new = {"state": row["state"]}, {"still_hidden": behind} if behind else {}
        await audit.record(tx, envelope, AuditAction.ERASE, row["id"], old=old, new=new, reason=reason)


async def archive(
    tx: Transaction, envelope: Envelope, filters: Filters, ids: Sequence[UUID], reason: str | None
) -> None:
    """Archive those of these memories that the filters still hold of, and note each in the audit log."""
    await lock(tx, *ids)
    rows = await tx.rows(STILL, **asdict(filters), ids=list(ids))
    going = [row["id"] for row in rows]
    replaced = await still_hidden.behind(tx, going)
    await tx.send(ARCHIVE, ids=going)
    hidden = await still_hidden.hidden_behind(tx, replaced)
    for row in rows:
        behind = [str(one) for one in hidden.get(row["id"], ())]
        old, new = (
            {"state": row["state"]},
            {"state": MemoryState.ARCHIVED, **({"still_hidden": behind} if behind else {})},
        )
        await audit.record(tx, envelope, AuditAction.ARCHIVE, row["id"], old=old, new=new, reason=reason)


async def hidden_by(tx: Transaction, command_id: str) -> list[UUID]:
    """Return what a command's erasures, or what it archived, left hidden and nothing replaces now."""
    rows = await tx.rows(HIDDEN, command_id=UUID(command_id))
    return await still_hidden.still_hidden(tx, [row["id"] for row in rows])


@dataclass(frozen=True, slots=True)
class Purge:
    """One purge under way: each step is a transaction of its own, so another try goes on with what is left.

    `archive`: memories are archived instead of erased, and the graph is deleted so that it can be restored.
    """

    store: Store
    mailboxes: Inspection
    envelope: Envelope
    lease: Lease
    filters: Filters
    archive: bool = False

    async def erase_everything(self) -> AsyncIterator[PurgePosition]:
        """Erase, or archive, every memory that the filters hold of now, yielding at each step how far it is."""
        filters = await self._until_now()
        position = await self._erase_some(filters, BEGINNING)
        while position is not None:
            yield position
            position = await self._erase_some(filters, position)

    async def take_graph(self) -> AsyncIterator[UUID]:
        """Take what the principal has written of the graph by now, yielding as it goes on."""
        filters = await self._until_now()
        for kind in purge_graph.ARCHIVED if self.archive else purge_graph.ERASED:
            after = await self._take_some_of_graph(kind, filters, purge_graph.BEGINNING)
            while after is not None:
                yield after
                after = await self._take_some_of_graph(kind, filters, after)

    async def take_back(self) -> AsyncIterator[int]:
        """Set back what the principal changed of edges and nodes of others, yielding as it goes on."""
        filters = await self._until_now()
        assert filters.created_by is not None
        by, after = ChangedBy(filters.created_by, filters.since, filters.until), 0
        while entries := await self._next_changes(by, after):

            async def effect(tx: Transaction, entries: list[Row] = entries) -> None:
                tx.lease, tx.writer = self.lease, self.envelope.principal.name
                await taking_back.take_back(tx, self.envelope, by, entries)

            await self.store.write(self.envelope.namespace, effect)
            after = entries[-1]["id"]
            yield after

    async def restore_replaced(self, rules: LinkRules) -> None:
        """Bring back what the erased ones had replaced and nothing replaces now, each in a transaction of its own.

        One whose links find no room stays hidden, and the reply names it.
        """
        namespace = self.envelope.namespace
        for memory_id in await self.store.read(namespace, lambda tx: hidden_by(tx, self.envelope.id)):

            async def effect(tx: Transaction, memory_id: UUID = memory_id) -> None:
                tx.lease = self.lease
                await namespaces.note(tx)
                await restoration.restore_by_id(tx, self.envelope, memory_id, rules)

            try:
                await self.store.write(namespace, effect)
            except EngramqError as refusal:
                if refusal.fault.code is not FaultCode.DEGREE_LIMIT:
                    raise
                log.info("A memory was not restored", extra={"command_id": self.envelope.id, "memory_id": memory_id})

    async def _next_changes(self, by: ChangedBy, after: int) -> list[Row]:
        def find(tx: Transaction) -> Awaitable[list[Row]]:
            return taking_back.next_changes(tx, by, after, ERASED_AT_ONCE)

        return await self.store.read(self.envelope.namespace, find)

    async def _until_now(self) -> Filters:
        """Return the filters, with an end: else somebody who keeps writing would keep this going."""
        filters = self.filters
        _, now = await self.store.read(self.envelope.namespace, lambda tx: count(tx, filters))
        return replace(filters, until=now) if filters.until is None or filters.until > now else filters

    async def _take_some_of_graph(self, kind: Kind, filters: Filters, after: UUID) -> UUID | None:
        """Take the next few of a kind and return where to go on; None when there were none left."""
        namespace = self.envelope.namespace
        found = await self.store.read(namespace, lambda tx: kind.find(tx, filters, after, ERASED_AT_ONCE))
        if not found:
            return None

        async def effect(tx: Transaction) -> None:
            tx.lease, tx.writer = self.lease, self.envelope.principal.name
            await namespaces.note(tx)
            await kind.take(tx, self.envelope, filters, found)

        names = {} if self.archive or kind.stays else {str(row["id"]): "" for row in found}
        await self.mailboxes.scrub(namespace, names)
        await self.store.write(namespace, effect)
        await self.mailboxes.scrub(namespace, names)
        log.info("Graph purged", extra={"command_id": self.envelope.id, "count": len(found)})
        last: UUID = found[-1]["id"]
        return last

    async def _erase_some(self, filters: Filters, position: PurgePosition) -> PurgePosition | None:
        """Erase or archive the next few and return where to go on; None when there were none left.

        Queues are looked through before and after, as for a single erasure.
        """
        namespace = self.envelope.namespace
        found = await self.store.read(namespace, lambda tx: find(tx, filters, position, ERASED_AT_ONCE))
        if not found.contents:
            return None
        contents = {str(memory_id): content for memory_id, content in found.contents.items()}
        ids: list[UUID] = list(found.contents)

        async def effect(tx: Transaction) -> None:
            tx.lease = self.lease
            await namespaces.note(tx)
            take = archive if self.archive else erase
            await take(tx, self.envelope, filters, ids, audit.reason_of(self.envelope.command))

        gone = {} if self.archive else contents
        await self.mailboxes.scrub(namespace, gone)
        await self.store.write(namespace, effect)
        await self.mailboxes.scrub(namespace, gone)
        log.info("Memories purged", extra={"command_id": self.envelope.id, "count": len(ids)})
        return found.position
