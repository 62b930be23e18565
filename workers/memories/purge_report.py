"""What a purge tells: what it would take, and when it is done, what all tries at it have taken."""

from typing import Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.commands import Purged
from engramq.schemas.envelope import Envelope
from engramq.schemas.records import MemoryPreview
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.db import audit
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories import purge_graph, still_hidden
from engramq.workers.memories.purge import BEGINNING, count, find, hidden_by
from engramq.workers.memories.purge_filters import GRAPH_STAYS, Filters, told

DONE: Final = sql("purge_done")
CONSTITUTIVE: Final = sql("purge_constitutive")

# What becomes of the graph, as the entry that sums a purge up counts it, and the entry of each thing.
_TAKEN: Final = {
    "edges": AuditAction.DELETE_EDGE,
    "links": AuditAction.DISCONNECT,
    "nodes": AuditAction.DELETE_NODE,
    "deleted": AuditAction.ERASE_DELETED,
    "proposals": AuditAction.ERASE_PROPOSAL,
    "emptied": AuditAction.ERASE_PROPERTIES,
    "taken_back": AuditAction.TAKE_BACK,
}


async def listed(tx: Transaction, filters: Filters) -> Purged:
    """Return what a purge would take, without taking anything."""
    matched, _ = await count(tx, filters)
    found = await find(tx, filters, BEGINNING, limits.PURGED_SHOWN)
    ids = [str(one) for one in found.contents]
    previews = [MemoryPreview(id=one, preview=None) for one in ids]  # read later: see workers/replies.py
    reply = Purged(matched=matched, erased=0, memory_ids=ids, memory_previews=previews)
    if filters.take_graph:
        await purge_graph.tell_listed(tx, reply, filters)
        await purge_graph.tell_changed(tx, reply, filters)
    else:
        reply.notice = GRAPH_STAYS
    return reply


async def recorded(tx: Transaction, envelope: Envelope, filters: Filters, *, archived: bool) -> Purged:
    """Sum a purge up in one audit row: what all tries at the command have erased, or archived."""
    taken, ids = await done(tx, envelope.id, AuditAction.ARCHIVE if archived else AuditAction.ERASE)
    restored, restored_ids = await done(tx, envelope.id, AuditAction.RESTORE)
    hidden = await hidden_by(tx, envelope.id)
    reply = Purged(
        matched=taken,
        erased=0 if archived else taken,
        archived=taken if archived else 0,
        memory_ids=ids,
        still_hidden_count=len(hidden),
        restored=restored_ids,
        restored_count=restored,
        **still_hidden.named(hidden, limits.PURGED_SHOWN),
    )
    new = {"archived" if archived else "erased": taken, "filters": told(filters)}
    if filters.take_graph:
        new |= await _tell_erased(tx, envelope, reply)
        await purge_graph.tell_stays(tx, reply, filters)
        await purge_graph.tell_changed(tx, reply, filters)
    else:
        reply.notice = GRAPH_STAYS
    await audit.record(tx, envelope, AuditAction.PURGE, None, old={}, new=new, reason=audit.reason_of(envelope.command))
    return reply


async def _tell_erased(tx: Transaction, envelope: Envelope, reply: Purged) -> dict[str, int]:
    """Add to a reply what a command has taken of the graph; return it as the audit log sums it up."""
    taken = {name: await done(tx, envelope.id, action) for name, action in _TAKEN.items()}
    counts = {name: number for name, (number, _) in taken.items()}
    reply.edge_count, reply.link_count, reply.node_count = counts["edges"], counts["links"], counts["nodes"]
    reply.edge_previews, reply.link_previews, reply.node_previews = (
        purge_graph.named(taken[name][1]) for name in ("edges", "links", "nodes")
    )
    reply.deleted_count, reply.proposal_count = counts["deleted"], counts["proposals"]
    reply.emptied_count, reply.taken_back_count = counts["emptied"], counts["taken_back"]
    row = await tx.row(CONSTITUTIVE, command_id=UUID(envelope.id))
    assert row is not None
    reply.constitutive_count = row["edges"]
    return counts


async def done(tx: Transaction, command_id: str, action: AuditAction) -> tuple[int, list[str]]:
    """Return with how many memories a command has done this by now, whoever carried it out, and the first ids."""
    row = await tx.row(DONE, command_id=UUID(command_id), action=action, shown=limits.PURGED_SHOWN)
    assert row is not None
    return row["memories"], [str(one) for one in row["ids"] or ()]
