"""Write, merge, reclassify and delete knowledge edges; changing what is constitutive takes consent."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET, UnsetType

from engramq.schemas.command_line import join_words
from engramq.schemas.commands import (
    AddEdge,
    ChangeNeedsConsent,
    DeleteEdge,
    DeleteNode,
    DeletionNeedsConsent,
    EdgeAdded,
    GraphDeleted,
    NameAmbiguous,
    Reclassified,
    ReclassifySector,
    Reply,
)
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import missing, missing_id
from engramq.schemas.fields import or_none, refuse_backwards
from engramq.schemas.ids import format_time, parse_uuid, uuid7
from engramq.schemas.records import EdgeCandidate
from engramq.schemas.vocabulary import AuditAction, ProposalAction, ReclassifyStatus, Sector, SectorSource, Thing
from engramq.workers.db import audit
from engramq.workers.db.errors import Again
from engramq.workers.db.transaction import Jsonb, Row, Transaction
from engramq.workers.graph.consent import PRINCIPALS, ConsentDraft, ConsentWanted, consent
from engramq.workers.graph.deletions import delete_edges, delete_nodes, edge_as_it_was, note_deletions, way_back
from engramq.workers.graph.edge_rules import MARKS, edge_sector, is_constitutive, merge, sector_named, wrong_sector
from engramq.workers.graph.nodes import changes, find_or_make, refuse_oversize
from engramq.workers.graph.reads import ENDS, edge_said, ids_of_ends, sector_of_row
from engramq.workers.runner import Context, handles
from engramq.workers.trust import require_admin, require_graph_writer

log = logging.getLogger(__name__)


DEFAULT_WEIGHT: Final = 1.0
_OTHER_EDGE: Final = "Leave edge_id out: then these names say which edge is meant, or the reply says which can be."


@handles(AddEdge)
async def add_edge(
    tx: Transaction, command: AddEdge, context: Context
) -> EdgeAdded | ChangeNeedsConsent | NameAmbiguous:
    """Write an edge and give it its sector, or merge into what is there: what is constitutive, with consent."""
    require_graph_writer(context.envelope.principal)
    command.check()
    ends = await find_or_make(tx, command)
    if isinstance(ends, NameAmbiguous):
        return ends
    given: dict[str, Any] = {} if command.properties is UNSET else command.properties
    new = {
        "id": UUID(uuid7()),
        "source_id": ends[0],
        "target_id": ends[1],
        "relation": command.relation,
        "weight": DEFAULT_WEIGHT if command.weight is UNSET else command.weight,
        "memory_sector": edge_sector(command.relation, given),
        "properties": given,
        "valid_from": or_none(command.valid_from),
        "valid_until": or_none(command.valid_until),
    }
    made = await tx.row("insert_edge", **{**new, "properties": Jsonb(given)})
    if made is not None:
        row: Row = {**new, **made}
    else:
        existing = await tx.row("lock_edge_between", source_id=ends[0], target_id=ends[1], relation=command.relation)
        if existing is None:  # deleted in between
            raise Again
        merged_row = await _merge(tx, context.envelope, existing, given)
        if isinstance(merged_row, ChangeNeedsConsent):
            return merged_row
        row = merged_row
    return EdgeAdded(
        **edge_said(row),
        **ids_of_ends(row),
        created=made is not None,
        properties=row["properties"],
        notice=_notice_of_end(row, command),
    )


async def _merge(tx: Transaction, envelope: Envelope, existing: Row, given: dict[str, Any]) -> Row | ChangeNeedsConsent:
    """Put what a command gives over a locked edge. Consent is for what that changes of the row as it is now."""
    command = envelope.command
    assert isinstance(command, AddEdge)
    wanted: dict[str, Any] = {"properties": merge(existing["properties"], given), **_merge_ends(existing, command)}
    if command.weight is not UNSET:
        wanted["weight"] = command.weight
    _, change = changes(existing, wanted)
    if "properties" in change:
        refuse_oversize(wanted["properties"])
    protected = is_constitutive(existing["properties"])
    proposal: UUID | None = None
    if protected and change:
        draft = ConsentDraft(ProposalAction.CHANGE, existing["id"], (existing["id"],), change=change)
        agreed = await consent(tx, envelope, draft)
        if isinstance(agreed, ConsentWanted):
            return ChangeNeedsConsent(
                error=f"Edge {existing['id']} is constitutive: {PRINCIPALS} different principals must approve "
                f"this change of {join_words(sorted(change))}.",
                edge_id=str(existing["id"]),
                **agreed.fields,
            )
        proposal = agreed
    now: Row = {**existing, **{name: wanted[name] for name in change}}
    # Properties decide an automatic sector; of a constitutive edge that would be a change that nobody consented to.
    if not protected and existing["sector_source"] != SectorSource.MANUAL:
        now["memory_sector"] = edge_sector(command.relation, now["properties"])
    written = {name: now[name] for name in ("weight", "memory_sector", "properties", *ENDS)}
    await tx.send("merge_edge", **{**written, "properties": Jsonb(now["properties"])}, id=now["id"])
    old, new = changes(existing, written)
    if new:
        new |= _with_proposal(proposal)
        await audit.record(tx, envelope, AuditAction.UPDATE_EDGE, existing["id"], old=old, new=new)
    return now


def _merge_ends(existing: Row, command: AddEdge) -> dict[str, datetime | None]:
    """Return when an existing edge holds once it is written again: an end that is given replaces that end.

    A beginning alone, at or after the existing end, opens the edge anew. Raises EngramqError naming valid_until when
    the edge would end before it begins.
    """
    start = existing["valid_from"] if command.valid_from is UNSET else command.valid_from
    end = existing["valid_until"] if command.valid_until is UNSET else command.valid_until
    begun = or_none(command.valid_from)
    if begun is not None and end is not None and command.valid_until is UNSET and begun >= end:
        end = None
    refuse_backwards(start, end)
    return {"valid_from": start, "valid_until": end}


def _notice_of_end(row: Row, command: AddEdge) -> str | UnsetType:
    """Say that an edge which was written has ended, unless its end was given just now, and that as_of may miss it."""
    begin, end = row["valid_from"], row["valid_until"]
    if end is None or end > datetime.now(UTC):
        return UNSET
    hidden = f"This edge has ended at {format_time(end)}: lists, neighbours and paths leave it out"
    if begin is None and end <= row["created_at"]:
        return (
            f"{hidden}. Without a valid_from it holds from when it was written, so no as_of finds it. "
            "graph_add_edge again with valid_from mends that."
        )
    if command.valid_until is not UNSET:
        return UNSET
    return (
        f"{hidden}, except for an as_of before that. "
        "If it holds again, call graph_add_edge with the valid_from since when it does."
    )


async def log_reclassified(reply: Reply, command: ReclassifySector, context: Context) -> None:
    """Say in the log that an edge has another sector, once that is committed."""
    if not isinstance(reply, Reclassified) or reply.status is not ReclassifyStatus.SUCCESS or context.replayed:
        return
    fields = {"edge_id": reply.edge_id, "from_sector": reply.old_sector, "to_sector": reply.new_sector}
    actor = _actor_of(context.envelope, command)
    log.info("Edge reclassified", extra={**fields, "actor": actor, "command_id": context.envelope.id})


@handles(ReclassifySector, after=log_reclassified)
async def reclassify_sector(tx: Transaction, command: ReclassifySector, context: Context) -> Reclassified:
    """Give an edge its sector by hand: under its row's lock, with consent where it is constitutive, and audited."""
    principal, actor = context.envelope.principal, _actor_of(context.envelope, command)
    require_graph_writer(principal)
    if actor != principal.name:
        require_admin(principal, f"To act as {actor!r}")
    sector = sector_named(command.new_sector)
    if sector is None:
        return Reclassified(status=ReclassifyStatus.INVALID_SECTOR, error=wrong_sector(command.new_sector))
    rows = await tx.rows(
        "lock_edges_between_names",
        source_name=command.source_name,
        target_name=command.target_name,
        relation=command.relation,
        source_label=None,
        target_label=None,
    )
    if command.edge_id is not UNSET:
        rows = [row for row in rows if str(row["id"]) == command.edge_id.lower()]
    if not rows:
        triple = f"{command.source_name} --{command.relation}--> {command.target_name}"
        absent = missing(Thing.EDGE, "" if command.edge_id is UNSET else _OTHER_EDGE)
        return Reclassified(status=ReclassifyStatus.NOT_FOUND, error=f"Edge not found: {triple}", **absent)
    if len(rows) > 1:
        candidates = [
            EdgeCandidate(
                edge_id=str(row["id"]),
                source_label=row["source_label"],
                target_label=row["target_label"],
                memory_sector=sector_of_row(row),
            )
            for row in rows
        ]
        return Reclassified(
            status=ReclassifyStatus.AMBIGUOUS,
            error="Multiple edges found",
            edge_ids=[candidate.edge_id for candidate in candidates],
            candidates=candidates,
        )
    return await _reclassify(tx, context.envelope, rows[0], sector, actor)


async def _reclassify(tx: Transaction, envelope: Envelope, row: Row, sector: Sector, actor: str) -> Reclassified:
    edge_id, old, new = row["id"], sector_of_row(row), {"memory_sector": str(sector)}
    if is_constitutive(row["properties"]):
        draft = ConsentDraft(ProposalAction.RECLASSIFY, edge_id, (edge_id,), new_sector=sector)
        agreed = await consent(tx, envelope, draft)
        if isinstance(agreed, ConsentWanted):
            error = f"Edge {edge_id} is constitutive: two different principals must approve its reclassification."
            fields = {"error": error, "edge_id": str(edge_id), **agreed.fields}
            return Reclassified(status=ReclassifyStatus.CONSENT_REQUIRED, **fields)
        new["proposal_id"] = str(agreed)
    if actor != envelope.principal.name:
        new["actor"] = actor
    await tx.send("reclassify_edge", id=edge_id, from_sector=old, to_sector=sector, actor=actor)
    await audit.record(tx, envelope, AuditAction.RECLASSIFY, edge_id, old={"memory_sector": old}, new=new)
    return Reclassified(status=ReclassifyStatus.SUCCESS, edge_id=str(edge_id), old_sector=old, new_sector=sector)


def _actor_of(envelope: Envelope, command: ReclassifySector) -> str:
    """Return in whose name an edge is reclassified; the audit holds the principal in any case."""
    principal = envelope.principal
    return principal.actor or principal.name if command.actor is UNSET else command.actor


@handles(DeleteEdge)
async def delete_edge(tx: Transaction, command: DeleteEdge, context: Context) -> GraphDeleted | DeletionNeedsConsent:
    """Remove an edge; of a constitutive one only with consent, which this asks for when there is none."""
    require_graph_writer(context.envelope.principal)
    edge_id = parse_uuid(command.edge_id)
    row = None if edge_id is None else await tx.row("lock_edge", id=edge_id)
    if row is None or edge_id is None:
        return GraphDeleted(status="not_found", edge_id=command.edge_id, **missing_id(Thing.EDGE))
    covers = (edge_id,) if is_constitutive(row["properties"]) else ()
    agreed = await _consent_to_delete(tx, context.envelope, edge_id, covers)
    if isinstance(agreed, DeletionNeedsConsent):
        return agreed
    old, new = {edge_id: edge_as_it_was(row)}, _with_proposal(agreed)
    entries = await note_deletions(tx, context.envelope, AuditAction.DELETE_EDGE, old, new)
    await delete_edges(tx, entries)
    return GraphDeleted(status="deleted", edge_id=str(edge_id), **way_back(context.envelope, entries[edge_id]))


@handles(DeleteNode)
async def delete_node(tx: Transaction, command: DeleteNode, context: Context) -> GraphDeleted | DeletionNeedsConsent:
    """Remove a named node with its edges; with constitutive ones only with consent, as for an edge."""
    require_graph_writer(context.envelope.principal)
    node_id = parse_uuid(command.node_id)
    row = None if node_id is None else await tx.row("lock_node_for_deletion", id=node_id)
    if row is None or node_id is None:
        return GraphDeleted(status="not_found", node_id=command.node_id, **missing_id(Thing.NODE))
    counted = await tx.only_row("edges_counted", id=node_id, keys=list(MARKS))
    covers = tuple(UUID(edge) for edge, properties in counted["marked"] if is_constitutive(properties))
    agreed = await _consent_to_delete(tx, context.envelope, node_id, covers)
    if isinstance(agreed, DeletionNeedsConsent):
        return agreed
    old, new = {node_id: {"label": row["label"], "edges": counted["edges"]}}, _with_proposal(agreed)
    entries = await note_deletions(tx, context.envelope, AuditAction.DELETE_NODE, old, new)
    entry = entries[node_id]
    deleted = await tx.only_row(
        "delete_edges_of_node", id=node_id, keys=list(MARKS), deletion=entry.id, deleted_at=entry.at
    )
    became = any(is_constitutive(properties) and UUID(edge) not in covers for edge, properties in deleted["marked"])
    if became or deleted["edges"] != counted["edges"]:
        raise Again  # an edge has become constitutive, or was deleted, since they were looked at
    await delete_nodes(tx, entries)
    back = way_back(context.envelope, entry)
    return GraphDeleted(status="deleted", node_id=str(node_id), edges_deleted=deleted["edges"], **back)


async def _consent_to_delete(
    tx: Transaction, envelope: Envelope, target: UUID, covers: Sequence[UUID]
) -> UUID | DeletionNeedsConsent | None:
    """Take consent where constitutive edges would go; None where it takes none."""
    if not covers:
        return None
    agreed = await consent(tx, envelope, ConsentDraft(ProposalAction.DELETE, target, covers))
    if isinstance(agreed, UUID):
        return agreed
    return DeletionNeedsConsent(
        error=f"A constitutive edge or node is deleted only when {PRINCIPALS} different principals approve.",
        edge_ids=[str(edge) for edge in covers],
        **agreed.fields,
    )


def _with_proposal(proposal_id: UUID | None) -> dict[str, str]:
    return {} if proposal_id is None else {"proposal_id": str(proposal_id)}
