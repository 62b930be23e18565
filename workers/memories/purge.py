"""Erase for good, or archive, the memories of a principal, source type, thread, project, partition or time.

A principal's parts of the graph go with its memories: see purge_graph.py. Each few are taken in a transaction of their
own, so that another try goes on with what is left; the command's own transaction sums up what all tries did.
"""

import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.commands import Purged, PurgeMemories
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.ids import format_time
from engramq.schemas.records import MemoryPreview
from engramq.schemas.vocabulary import AuditAction, MemoryState, SourceType
from engramq.workers.db import audit, namespaces
from engramq.workers.db.memory_rows import forget_erased, lock
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.graph import taking_back
from engramq.workers.links.rules import LinkRules
from engramq.workers.links.writer import lock_with_linked
from engramq.workers.memories import change, purge_graph
from engramq.workers.memories.grounds import StillResting, name_resting
from engramq.workers.memories.purge_graph import PurgeFilters
from engramq.workers.memories.supersession import lock_with_replaced
from engramq.workers.runner import Context, handles_gradually
from engramq.workers.trust import require_admin

log = logging.getLogger(__name__)


ERASED_AT_ONCE: Final = 100  # memories of one transaction, whose locks others wait for
GRAPH_STAYS: Final = (
    "Knowledge nodes, edges and links stay: only their author and their time are known. "
    "A purge by author (created_by), alone or with since and until, takes them too."
)
_BY_AUTHORS: Final = ("thread", "project")
# The purge's effect on the graph, as the entry that sums it up counts it, and the entry of each thing.
_TAKEN: Final = {
    "edges": AuditAction.DELETE_EDGE,
    "links": AuditAction.DISCONNECT,
    "nodes": AuditAction.DELETE_NODE,
    "deleted": AuditAction.ERASE_DELETED,
    "proposals": AuditAction.ERASE_PROPOSAL,
    "emptied": AuditAction.ERASE_PROPERTIES,
    "taken_back": AuditAction.TAKE_BACK,
}

_PROJECTS_NAMED: Final = 10
BEGINNING: Final = (datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))  # created_at and id; the oldest memory comes first


def purge_gradually(command: PurgeMemories, context: Context) -> AsyncIterator[None] | None:
    """Return what a purge does, a few memories at a time; None where it only lists them."""
    return _take_all(command, context) if command.erase or command.archive else None


async def _take_all(command: PurgeMemories, context: Context) -> AsyncIterator[None]:
    filters = _check_filters(command, context)
    taking = [_take_memories(command, context, filters)]
    if command.with_resting:
        taking.append(_take_resting(command, context, filters))
    if filters.take_graph:
        taking.append(_take_graph(command, context, filters))
    if command.restore_replaced:
        taking.append(_restore_replaced(context))
    if command.restore_replaced and filters.take_graph:
        taking.append(_take_back(context, filters))
    for step in taking:
        async for _ in step:
            yield


def _check_filters(command: PurgeMemories, context: Context) -> PurgeFilters:
    command.check()
    require_admin(context.envelope.principal, "Purging")
    return PurgeFilters.of(command, context.store.viewer.owner)


@handles_gradually(PurgeMemories, purge_gradually)
async def purge_memories(tx: Transaction, command: PurgeMemories, context: Context) -> Purged:
    """List what a purge would take, or sum up what all tries at it have erased or archived, in one audit entry."""
    filters = _check_filters(command, context)
    if not (command.erase or command.archive):
        return await _list(tx, filters)
    envelope = context.envelope
    action, word = (AuditAction.ARCHIVE, "archived") if command.archive else (AuditAction.ERASE, "erased")
    count, ids = await _done(tx, envelope, action)
    restored, restored_ids = await _done(tx, envelope, AuditAction.RESTORE)
    hidden = await _hidden_by(tx, envelope)
    reply = Purged(
        matched=count,
        erased=0 if command.archive else count,
        archived=count if command.archive else 0,
        memory_ids=ids,
        still_hidden_count=len(hidden),
        restored=restored_ids,
        restored_count=restored,
        **change.name_hidden(hidden, limits.PURGED_SHOWN),
        **await _left_resting(tx, envelope),
    )
    await _tell_partitions(tx, envelope, action, reply)
    new: dict[str, Any] = {word: count, "filters": _audit_filters(filters)}
    if filters.take_graph:
        new |= await _tell_taken(tx, envelope, reply)
        await purge_graph.tell_left(tx, reply, filters)
    else:
        reply.notice = GRAPH_STAYS
    await audit.record(tx, envelope, AuditAction.PURGE, None, old={}, new=new)
    return reply


async def _take_resting(command: PurgeMemories, context: Context, filters: PurgeFilters) -> AsyncIterator[None]:
    """Take what rests on what was taken, and on that again, until nothing does: nobody can cite what is not there."""
    resting, found = replace(await _until_now(context, filters), taken_by=UUID(context.envelope.id)), True
    while found:
        found = False
        async for _ in _take_memories(command, context, resting):
            found = True
            yield


async def _take_memories(command: PurgeMemories, context: Context, filters: PurgeFilters) -> AsyncIterator[None]:
    """Erase, or archive, every memory that the filters hold of now, the oldest first."""
    filters = await _until_now(context, filters)
    take, (after, after_id) = archive if command.archive else erase_matching, BEGINNING
    values = asdict(filters) | {"limit": ERASED_AT_ONCE}
    while rows := await _rows(context, filters, "purge_next", **values, after=after, after_id=after_id):
        ids = [row["id"] for row in rows]
        contents = {} if command.archive else {str(row["id"]): row["content"] for row in rows}
        async for _ in _take(context, contents, take, context.envelope, filters, ids):
            yield
        log.info("Memories purged", extra={"command_id": context.envelope.id, "count": len(ids)})
        after, after_id = rows[-1]["created_at"], rows[-1]["id"]


async def erase_matching(tx: Transaction, envelope: Envelope, filters: PurgeFilters, ids: Sequence[UUID]) -> None:
    """Erase those of these memories that the filters still hold of, and note each in the audit log."""
    locked = await lock_with_replaced(tx, *ids)
    rows = await tx.rows("purge_still", **asdict(filters), ids=list(ids))
    replaced_by: dict[UUID, UUID | None] = {row["id"]: row["superseded_by"] for row in rows}

    def stays(memory_id: UUID | None) -> UUID | None:
        """Return what in the end replaces a memory: the first in its chain that is not erased, if it is there."""
        for _ in replaced_by:
            memory_id = replaced_by.get(memory_id, memory_id) if memory_id is not None else None
        return memory_id if memory_id in locked.keys() - replaced_by.keys() else None

    replaced = await change.behind(tx, replaced_by)
    await change.erase_locked(tx, {memory_id: stays(successor) for memory_id, successor in replaced_by.items()})
    await audit.blank(tx, envelope, replaced_by)
    await _audit(tx, envelope, AuditAction.ERASE, rows, replaced)


async def archive(tx: Transaction, envelope: Envelope, filters: PurgeFilters, ids: Sequence[UUID]) -> None:
    """Archive those of these memories that the filters still hold of, and note each in the audit log."""
    await lock(tx, *ids)
    rows = await tx.rows("purge_still", **asdict(filters), ids=list(ids))
    going = [row["id"] for row in rows]
    replaced = await change.behind(tx, going)
    await tx.send("archive_many", ids=going)
    await _audit(tx, envelope, AuditAction.ARCHIVE, rows, replaced)


async def _audit(
    tx: Transaction, envelope: Envelope, action: AuditAction, rows: Sequence[Row], replaced: change.Behind
) -> None:
    """Note each memory that went, with what it had replaced and stays hidden."""
    hidden = await change.hidden_behind(tx, replaced)
    new: dict[str, Any] = {"state": MemoryState.ARCHIVED} if action is AuditAction.ARCHIVE else {}
    for row in rows:
        behind = [str(memory_id) for memory_id in hidden.get(row["id"], ())]
        more = {"still_hidden": behind} if behind else {}
        old = {"state": row["state"], "partition": row["partition"]}
        await audit.record(tx, envelope, action, row["id"], old=old, new=new | more, owner=row["owner"])


async def _take_graph(command: PurgeMemories, context: Context, filters: PurgeFilters) -> AsyncIterator[None]:
    """Take what the principal has written of the graph by now."""
    filters = await _until_now(context, filters)
    values = asdict(filters) | {"limit": ERASED_AT_ONCE, "hung_on": False}
    for kind in purge_graph.ARCHIVED if command.archive else purge_graph.ERASED:
        after = purge_graph.BEGINNING
        while rows := await _rows(context, filters, kind.listed_by, **values, after_id=after):
            names = {} if command.archive or kind.stays else {str(row["id"]): "" for row in rows}
            async for _ in _take(context, names, kind.take, context.envelope, filters, rows):
                yield
            log.info("Graph purged", extra={"command_id": context.envelope.id, "count": len(rows)})
            after = rows[-1]["id"]


async def _restore_replaced(context: Context) -> AsyncIterator[None]:
    """Bring back what the erased ones had replaced and nothing replaces now, each in a transaction of its own.

    One whose links find no room stays hidden, and the reply names it.
    """
    envelope, rules = context.envelope, context.services[LinkRules]
    store = context.store.seen_by(EVERYTHING)
    for memory_id in await store.read(envelope.namespace, partial(_hidden_by, envelope=envelope)):
        try:
            async for _ in _take(context, {}, _restore, envelope, memory_id, rules):
                yield
        except EngramqError as refusal:
            if refusal.fault.code is not FaultCode.DEGREE_LIMIT:
                raise
            log.info("A memory was not restored", extra={"command_id": envelope.id, "memory_id": memory_id})


async def _restore(tx: Transaction, envelope: Envelope, memory_id: UUID, rules: LinkRules) -> None:
    row = await lock_with_linked(tx, memory_id)
    if row is not None:
        await change.restore_locked(tx, envelope, row, rules)


async def _take_back(context: Context, filters: PurgeFilters) -> AsyncIterator[None]:
    """Set back what the principal changed of edges and nodes of others."""
    by, after = (await _until_now(context, filters)).changes, 0
    while entries := await context.store.read(
        context.envelope.namespace, partial(taking_back.next_changes, by=by, after=after, limit=ERASED_AT_ONCE)
    ):
        async for _ in _take(context, {}, taking_back.take_back, context.envelope, by, entries):
            yield
        after = entries[-1]["id"]


async def _take(
    context: Context, erased: Mapping[str, str], effect: Callable[..., Awaitable[None]], *arguments: Any
) -> AsyncIterator[None]:
    """Carry out a part of a purge in a transaction of its own, and yield once it is committed.

    Queues are looked through for what is `erased` (contents by id) before and after, as for a single erasure.
    """
    namespace = context.envelope.namespace

    async def leased(tx: Transaction) -> None:
        tx.lease, tx.writer = context.lease, context.envelope.principal.name
        await namespaces.note(tx)
        await effect(tx, *arguments)

    await context.inspection.scrub(namespace, erased)
    await context.store.seen_by(EVERYTHING).write(namespace, leased)
    yield
    forget_erased(erased)
    await context.inspection.scrub(namespace, erased)


async def _rows(context: Context, filters: PurgeFilters, query: str, **values: Any) -> list[Row]:
    store = context.store.seen_by(EVERYTHING) if filters.take_private else context.store
    return await store.read(context.envelope.namespace, lambda tx: tx.rows(query, **values))


async def _until_now(context: Context, filters: PurgeFilters) -> PurgeFilters:
    """Return the filters with an end: else somebody who keeps writing would keep this going."""
    now = (await _rows(context, filters, "purge_count", **asdict(filters)))[0]["now"]
    return replace(filters, until=now) if filters.until is None or filters.until > now else filters


async def _list(tx: Transaction, filters: PurgeFilters) -> Purged:
    """Return what a purge would take, without taking anything."""
    async with tx.seeing(EVERYTHING if filters.take_private else tx.viewer):
        counted = await tx.rows("purge_count", **asdict(filters))
    of_projects = await tx.rows("purge_projects", **asdict(filters), limit=_PROJECTS_NAMED)  # a name may be private
    after, after_id = BEGINNING
    rows = await tx.rows("purge_next", **asdict(filters), after=after, after_id=after_id, limit=limits.PURGED_SHOWN)
    ids = [str(row["id"]) for row in rows]
    previews = [MemoryPreview(id=memory_id, preview=None) for memory_id in ids]  # read later: see workers/replies.py
    matched, trusted = counted[0]["memories"], counted[0]["of_trusted"]
    reply = Purged(
        matched=matched,
        erased=0,
        by_project={row["project"]: row["memories"] for row in of_projects},
        memory_ids=ids,
        memory_previews=previews,
        trusted_count=trusted,
        untrusted_count=matched - trusted,
        **await _resting(tx, "purge_resting", **asdict(filters)),
    )
    if filters.take_graph:
        await purge_graph.tell_listed(tx, reply, filters)
    else:
        reply.notice = GRAPH_STAYS
    return reply


async def _tell_taken(tx: Transaction, envelope: Envelope, reply: Purged) -> dict[str, int]:
    """Add to a reply what a command has taken of the graph; return it as the audit log sums it up."""
    taken = {name: await _done(tx, envelope, action) for name, action in _TAKEN.items()}
    counts = {name: number for name, (number, _) in taken.items()}
    reply.edge_count, reply.link_count, reply.node_count = counts["edges"], counts["links"], counts["nodes"]
    reply.edge_previews, reply.link_previews, reply.node_previews = (
        purge_graph.preview_named(taken[name][1]) for name in ("edges", "links", "nodes")
    )
    reply.deleted_count, reply.proposal_count = counts["deleted"], counts["proposals"]
    reply.emptied_count, reply.taken_back_count = counts["emptied"], counts["taken_back"]
    (row,) = await _read_noted(tx, "purge_constitutive", envelope)
    reply.constitutive_count = row["edges"]
    return counts


async def _done(tx: Transaction, envelope: Envelope, action: AuditAction) -> tuple[int, list[str]]:
    """Return with how many things a command has done this by now, in all its tries, and the first ids."""
    (row,) = await _read_noted(tx, "purge_done", envelope, action=action, shown=limits.PURGED_SHOWN)
    return row["memories"], [str(thing_id) for thing_id in row["ids"] or ()]


async def _read_noted(tx: Transaction, query: str, envelope: Envelope, **values: Any) -> list[Row]:
    """Return what the audit log says of a command, of what was private too."""
    async with tx.seeing(EVERYTHING):
        return await tx.rows(query, command_id=UUID(envelope.id), **values)


async def _left_resting(tx: Transaction, envelope: Envelope) -> StillResting:
    """Return what rests on what a command took, as far as its principal sees that."""
    reader = tx.viewer.owner
    async with tx.seeing(EVERYTHING):
        return await _resting(tx, "purge_left_resting", command_id=UUID(envelope.id), reader=reader)


async def _resting(tx: Transaction, query: str, **values: Any) -> StillResting:
    rows = await tx.rows(query, **values, limit=limits.RESTING_SHOWN)
    return name_resting([row["id"] for row in rows], rows[0]["resting"] if rows else 0)


async def _tell_partitions(tx: Transaction, envelope: Envelope, action: AuditAction, reply: Purged) -> None:
    """Add to a reply how many of the memories that a command has taken were trusted, and how many were not."""
    (row,) = await _read_noted(tx, "purge_done", envelope, action=action, shown=0)
    reply.trusted_count, reply.untrusted_count = row["of_trusted"], row["memories"] - row["of_trusted"]


async def _hidden_by(tx: Transaction, envelope: Envelope) -> list[UUID]:
    """Return what a command's erasures, or what it archived, left hidden and nothing replaces now."""
    rows = await _read_noted(tx, "purge_hidden", envelope)
    return await change.still_hidden(tx, [row["id"] for row in rows])


def _audit_filters(filters: PurgeFilters) -> dict[str, Any]:
    """Return filters as the audit log has them: of what memories say of themselves only a digest, to compare with."""
    values: dict[str, Any] = {}
    for name, value in asdict(filters).items():
        if isinstance(value, datetime):
            values[name] = format_time(value)
        elif value is not None and (name in _BY_AUTHORS or (name == "source_type" and value not in set(SourceType))):
            values[f"{name}_sha256"] = hashlib.sha256(value.encode()).hexdigest()
        elif (
            value is not None and not isinstance(value, bool | list) and name != "reader"
        ):  # of who calls the entry tells
            values[name] = value
    return values
