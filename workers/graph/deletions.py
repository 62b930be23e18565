"""Delete nodes and edges so that it can be undone for a while, and undo it as far as nothing stands in the way.

A deletion leaves an entry in the audit log, and its rows under the entry's id.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypedDict
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.command_line import count_of
from engramq.schemas.commands import DeletedList, GraphRestored, ListDeleted, RestoreGraph
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import missing
from engramq.schemas.ids import format_time
from engramq.schemas.records import GraphDeletion, NotRestored
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE, AuditAction, NotRestoredReason, Thing
from engramq.workers.db import audit
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.graph.reads import interval
from engramq.workers.runner import Context, handles
from engramq.workers.trust import require_admin

DAYS: Final = limits.DELETED_KEPT_DAYS
NOT_RESTORED_SHOWN: Final = 100  # edges that could not be brought back

_HINT_THERE: Final = "To have this back, delete the one that is there first: the two cannot both be."
_HINT_FIRST: Final = (
    "Restore the deletion in `restore_first`, which brings the missing ends back. Then restore this again."
)
_HINT_GONE: Final = "An end that nothing brings back is gone for good: graph_add_edge writes such a fact anew."


class DeletionEntry(NamedTuple):
    """A deletion's entry in the audit log."""

    id: int
    at: datetime


class _WayBack(TypedDict):
    audit_id: int
    restore_until: str
    hint: str


def way_back(envelope: Envelope, entry: DeletionEntry) -> _WayBack:
    """Return what the reply to a deletion says of how to undo it: the command for the operator's shell."""
    where = "" if envelope.namespace == DEFAULT_NAMESPACE else f" --namespace {shlex.quote(envelope.namespace)}"
    hint = f"`engramq graph restore {entry.id}{where}` undoes this."
    return _WayBack(audit_id=entry.id, restore_until=_restore_until(entry.at), hint=hint)


async def note_deletions(
    tx: Transaction,
    envelope: Envelope,
    action: AuditAction,
    olds: Mapping[UUID, Mapping[str, Any]],
    new: Mapping[str, Any] | None = None,
) -> dict[UUID, DeletionEntry]:
    """Note deletions in the audit log, given what each target was, before they are deleted under their entries."""
    entries = {}
    sent = [await audit.record(tx, envelope, action, target, old=old, new=new or {}) for target, old in olds.items()]
    for target, entry in zip(olds, sent, strict=True):
        row = await entry.fetchone()
        assert row is not None
        entries[target] = DeletionEntry(row["id"], row["at"])
    return entries


def edge_as_it_was(row: Row) -> dict[str, Any]:
    """Return what the audit log keeps of a deleted edge."""
    old = {name: row[name] for name in ("relation", "weight", "memory_sector", "sector_source")}
    old |= {name: str(row[name]) for name in ("source_id", "target_id")}
    return old | {name: text for name, text in interval(row).items() if text is not None}


async def delete_edges(tx: Transaction, entries: Mapping[UUID, DeletionEntry]) -> None:
    """Remove locked edges, and keep what they were under their entries."""
    await tx.send("delete_knowledge_edges", **_columns(entries))


async def delete_nodes(tx: Transaction, entries: Mapping[UUID, DeletionEntry]) -> None:
    """Remove locked nodes that have no edges any more, and keep what they were under their entries."""
    await tx.send("delete_named_nodes", **_columns(entries))


def _columns(entries: Mapping[UUID, DeletionEntry]) -> dict[str, Sequence[Any]]:
    deletions = entries.values()
    return {
        "ids": list(entries),
        "deletions": [entry.id for entry in deletions],
        "times": [entry.at for entry in deletions],
    }


@handles(RestoreGraph)
async def restore_graph(tx: Transaction, command: RestoreGraph, context: Context) -> GraphRestored:
    """Bring back what a deletion took and nothing stands in the way of; see the reply."""
    require_admin(context.envelope.principal, "Restoring what was deleted")
    deletion = {"deletion": command.audit_id, "days": DAYS}
    locked = await tx.send("lock_deleted", **deletion)
    entry = await tx.row(
        "deletion_entry", deletion=command.audit_id
    )  # read when the lock is held: another may have restored it
    kept = await locked.fetchone()
    assert kept is not None
    if entry is None or (kept["node_id"] is None and not kept["edges"]):
        return _nothing_left(command.audit_id, entry)
    named = _target(entry)
    purged = 0
    if entry["action"] == AuditAction.DELETE_NODE:
        # Edges that neither came back nor are kept: all of a deletion are forgotten at one time.
        purged = max(0, entry["old"]["edges"] - entry["edges_restored"] - kept["edges"])
    if kept["node_id"] is not None and await tx.row("restore_node", **deletion) is None:
        error = f"There is a node {kept['name']} ({kept['label']}) again, so nothing was restored."
        return GraphRestored(status="not_restored", audit_id=command.audit_id, error=error, hint=_HINT_THERE, **named)
    await tx.send("lock_ends_of_deleted", **deletion)
    row = await tx.only_row("restore_edges", **deletion)
    restored: int = row["restored"]
    left = kept["edges"] - restored
    reply = GraphRestored(
        status="restored",
        audit_id=command.audit_id,
        edges_restored=restored,
        not_restored=await _not_restored(tx, deletion) if left else [],
        not_restored_count=left,
        edges_purged=purged,
        **named,
    )
    if reply.not_restored:
        reply.hint = _hint(reply.not_restored)
    if kept["node_id"] is None and not restored:
        reply.status = "not_restored"
        first = reply.not_restored[0]
        there_again = first.why is NotRestoredReason.THERE_AGAIN
        stands = f"There is an edge {first.preview} again" if there_again else f"An end of {first.preview} is missing"
        reply.error = f"{stands}, so nothing was restored."
        return reply
    new: dict[str, Any] = {"deletion": command.audit_id}
    if entry["action"] == AuditAction.DELETE_EDGE:
        action = AuditAction.RESTORE_EDGE
        new |= {name: entry["old"][name] for name in ("source_id", "target_id", "relation")}
    else:
        action = AuditAction.RESTORE_NODE
        new |= {"edges": restored, "not_restored": left}
    await audit.record(tx, context.envelope, action, entry["target_id"], old={}, new=new)
    return reply


@handles(ListDeleted)
async def list_deleted(tx: Transaction, command: ListDeleted, context: Context) -> DeletedList:
    """List the newest deletions that can be undone."""
    require_admin(context.envelope.principal, "Listing what was deleted")
    rows = await tx.rows("deletions", days=DAYS, limit=command.limit + 1)
    shown = rows[: command.limit]
    nodes = await _nodes(tx, (row[name] for row in shown for name in ("source_id", "target_id", "deleted_id")))
    return DeletedList(deletions=[_record_of(row, nodes) for row in shown], truncated=len(rows) > command.limit)


def _restore_until(deleted_at: datetime) -> str:
    """Return the time from which a deletion cannot be undone any more."""
    return format_time(deleted_at + timedelta(days=DAYS))


def _target(entry: Row) -> dict[str, Any]:
    name = "edge_id" if entry["action"] == AuditAction.DELETE_EDGE else "node_id"
    return {name: str(entry["target_id"])}


def _nothing_left(audit_id: int, entry: Row | None) -> GraphRestored:
    gone = missing(Thing.DELETION)
    if entry is None:
        error = f"Entry {audit_id} of the audit log is no deletion of an edge or node."
        return GraphRestored(status="not_found", audit_id=audit_id, error=error, **gone)
    if entry["restored"]:
        error = f"Deletion {audit_id} is restored already."
        return GraphRestored(status="already_restored", audit_id=audit_id, error=error, **_target(entry))
    if entry["purged"]:
        error = f"Deletion {audit_id} cannot be undone: a purge has erased for good what it took."
        return GraphRestored(status="not_restored", audit_id=audit_id, error=error, **_target(entry))
    error = f"Nothing is left of deletion {audit_id}: it is kept for {DAYS} days."
    return GraphRestored(status="not_found", audit_id=audit_id, error=error, **gone, **_target(entry))


async def _not_restored(tx: Transaction, deletion: dict[str, int]) -> list[NotRestored]:
    rows = await tx.rows("deleted_edges", **deletion, limit=NOT_RESTORED_SHOWN)
    nodes = await _nodes(tx, (row[end] for row in rows for end in ("source_id", "target_id")))
    return [_left(row, nodes) for row in rows]


def _left(row: Row, nodes: dict[UUID, Row]) -> NotRestored:
    ends = dict.fromkeys((row["source_id"], row["target_id"]))
    lacking = [end for end in ends if end not in nodes or nodes[end]["deletion"] is not None]
    return NotRestored(
        edge_id=str(row["id"]),
        preview=_edge_words(row, nodes),
        why=NotRestoredReason.END_MISSING if lacking else NotRestoredReason.THERE_AGAIN,
        restore_first=sorted({nodes[end]["deletion"] for end in lacking if end in nodes}),
    )


def _hint(left: Sequence[NotRestored]) -> str:
    hints = {
        _HINT_THERE: any(edge.why is NotRestoredReason.THERE_AGAIN for edge in left),
        _HINT_FIRST: any(edge.restore_first for edge in left),
        _HINT_GONE: any(edge.why is NotRestoredReason.END_MISSING and not edge.restore_first for edge in left),
    }
    return " ".join(hint for hint, holds in hints.items() if holds)


async def _nodes(tx: Transaction, ids: Iterable[UUID | None]) -> dict[UUID, Row]:
    wanted = sorted({node_id for node_id in ids if node_id is not None})
    return {row["id"]: row for row in await tx.rows("nodes_and_deleted", ids=wanted, days=DAYS)} if wanted else {}


def _record_of(row: Row, nodes: dict[UUID, Row]) -> GraphDeletion:
    on_edge = row["action"] == AuditAction.DELETE_EDGE
    return GraphDeletion(
        audit_id=row["id"],
        deleted_at=format_time(row["deleted_at"]),
        deleted_by=row["actor"],
        reason=row["reason"],
        what=_what(row, nodes),
        edge_count=row["edges"],
        edge_id=str(row["deleted_id"]) if on_edge else None,
        node_id=None if on_edge else str(row["deleted_id"]),
        restore_until=_restore_until(row["deleted_at"]),
    )


def _what(row: Row, nodes: dict[UUID, Row]) -> str:
    if row["relation"] is not None:
        return f"the edge {_edge_words(row, nodes)}"
    count = count_of(row["edges"], "edge")
    if row["name"] is not None:
        return f"the node {row['name']} ({row['label']}) and {count}"
    node = nodes.get(row["deleted_id"])
    stands = node is not None and node["deletion"] is None
    return f"{count} of the node {_node_words(row['deleted_id'], nodes)}, which is {'restored' if stands else 'gone'}"


def _edge_words(row: Row, nodes: dict[UUID, Row]) -> str:
    source, target = (_node_words(row[end], nodes) for end in ("source_id", "target_id"))
    return f"{source} --{row['relation']}--> {target}"


def _node_words(node_id: UUID, nodes: dict[UUID, Row]) -> str:
    node = nodes.get(node_id)
    return f"a node that is gone ({node_id})" if node is None else f"{node['name']} ({node['label']})"
