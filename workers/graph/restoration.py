"""Undoing a deletion in the graph: rows come back as they were, as far as nothing stands in their way."""

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.command_line import count_of
from engramq.schemas.commands import DeletedList, GraphRestored, RestoreGraph
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import missing
from engramq.schemas.ids import format_time
from engramq.schemas.records import GraphDeletion, NotRestored
from engramq.schemas.vocabulary import AuditAction, NotRestoredReason, Thing
from engramq.workers.db import audit
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.graph.deletions import restore_until

LOCK: Final = sql("lock_deleted")
ENTRY: Final = sql("deletion_entry")
RESTORE_NODE: Final = sql("restore_node")
LOCK_ENDS: Final = sql("lock_ends_of_deleted")
RESTORE_EDGES: Final = sql("restore_edges")
EDGES_LEFT: Final = sql("deleted_edges")
NODES: Final = sql("nodes_and_deleted")
DELETIONS: Final = sql("deletions")

DAYS: Final = limits.GRAPH_RESTORE_DAYS

_HINT_THERE: Final = "To have this back, delete the one that is there first: the two cannot both be."
_HINT_FIRST: Final = "What `restore_first` names brings the missing ends back. Then restore this again."
_HINT_GONE: Final = "An end that nothing brings back is gone for good: graph_add_edge writes such a fact anew."


async def restore(tx: Transaction, envelope: Envelope, command: RestoreGraph) -> GraphRestored:
    """Bring back what a deletion took and nothing stands in the way of; see the reply."""
    deletion = {"deletion": command.audit_id, "days": DAYS}
    locked = await tx.send(LOCK, **deletion)
    entry = await tx.row(ENTRY, deletion=command.audit_id)  # read when the lock is held: another may have restored it
    kept = await locked.fetchone()
    assert kept is not None
    if entry is None or (kept["node_id"] is None and not kept["edges"]):
        return _nothing_left(command.audit_id, entry)
    named = _target(entry)
    purged = _edges_purged(entry, kept["edges"])
    if kept["node_id"] is not None and await tx.row(RESTORE_NODE, **deletion) is None:
        error = f"There is a node {kept['name']} ({kept['label']}) again, so nothing was restored."
        hint = _HINT_THERE
        return GraphRestored(status="not_restored", audit_id=command.audit_id, error=error, hint=hint, **named)
    await tx.send(LOCK_ENDS, **deletion)
    row = await tx.row(RESTORE_EDGES, **deletion)
    assert row is not None
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
        reply.error = _why(reply.not_restored)
    else:
        await _record(tx, envelope, entry, restored, left)
    return reply


async def list_deleted(tx: Transaction, limit: int) -> DeletedList:
    """Return the newest deletions that can be undone."""
    rows = await tx.rows(DELETIONS, days=DAYS, limit=limit + 1)
    shown = rows[:limit]
    nodes = await _nodes(tx, (row[one] for row in shown for one in ("source_id", "target_id", "deleted_id")))
    return DeletedList(deletions=[_record_of(row, nodes) for row in shown], truncated=len(rows) > limit)


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


def _edges_purged(entry: Row, kept: int) -> int:
    """Return how many edges of a deleted node neither came back nor are kept: all are forgotten at one time."""
    if entry["action"] == AuditAction.DELETE_EDGE:
        return 0
    purged: int = entry["old"]["edges"] - entry["edges_restored"] - kept
    return max(0, purged)


async def _record(tx: Transaction, envelope: Envelope, entry: Row, restored: int, left: int) -> None:
    command = envelope.command
    assert isinstance(command, RestoreGraph)
    new: dict[str, Any] = {"deletion": command.audit_id}
    if entry["action"] == AuditAction.DELETE_EDGE:
        action = AuditAction.RESTORE_EDGE
        new |= {name: entry["old"][name] for name in ("source_id", "target_id", "relation")}
    else:
        action = AuditAction.RESTORE_NODE
        new |= {"edges": restored, "not_restored": left}
    await audit.record(tx, envelope, action, entry["target_id"], old={}, new=new, reason=audit.reason_of(command))


async def _not_restored(tx: Transaction, deletion: dict[str, int]) -> list[NotRestored]:
    rows = await tx.rows(EDGES_LEFT, **deletion, limit=limits.NOT_RESTORED_SHOWN)
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


def _why(left: Sequence[NotRestored]) -> str:
    first = left[0]
    if first.why is NotRestoredReason.THERE_AGAIN:
        return f"There is an edge {first.preview} again, so nothing was restored."
    return f"An end of {first.preview} is missing, so nothing was restored."


def _hint(left: Sequence[NotRestored]) -> str:
    said = {_HINT_THERE: False, _HINT_FIRST: False, _HINT_GONE: False}
    for one in left:
        said[_HINT_THERE] |= one.why is NotRestoredReason.THERE_AGAIN
        said[_HINT_FIRST] |= bool(one.restore_first)
        said[_HINT_GONE] |= one.why is NotRestoredReason.END_MISSING and not one.restore_first
    return " ".join(hint for hint, holds in said.items() if holds)


async def _nodes(tx: Transaction, ids: Iterable[UUID | None]) -> dict[UUID, Row]:
    wanted = sorted({one for one in ids if one is not None})
    return {row["id"]: row for row in await tx.rows(NODES, ids=wanted, days=DAYS)} if wanted else {}


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
        restore_until=restore_until(row["deleted_at"]),
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
