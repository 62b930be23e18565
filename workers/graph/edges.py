"""Knowledge edges: written, merged, deleted. Changing or deleting what is constitutive takes consent."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas.commands import (
    AddEdge,
    ChangeNeedsConsent,
    DeleteEdge,
    DeleteNode,
    DeletionNeedsConsent,
    EdgeAdded,
    GraphDeleted,
    NameAmbiguous,
)
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import missing_id
from engramq.schemas.fields import or_none
from engramq.schemas.ids import parse_uuid, uuid7
from engramq.schemas.vocabulary import DEFAULT_SECTOR, AuditAction, Sector, SectorSource, Thing
from engramq.workers.db import audit
from engramq.workers.db.errors import Again
from engramq.workers.db.json_values import Jsonb
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.graph.consent import Deletion, change_consent, deletion_consent
from engramq.workers.graph.deletions import delete_edges, delete_nodes, edge_as_it_was, entered
from engramq.workers.graph.edge_rules import MARKS, edge_sector, is_constitutive, merged
from engramq.workers.graph.intervals import ENDS, interval, merged_interval, notice_of_end
from engramq.workers.graph.nodes import changes, ends_of, find_or_make, refuse_oversize

INSERT: Final = sql("insert_edge")
LOCK_BETWEEN: Final = sql("lock_edge_between")
LOCK: Final = sql("lock_edge")
MERGE: Final = sql("merge_edge")
LOCK_NODE: Final = sql("lock_node_for_deletion")
COUNTED: Final = sql("edges_counted")
DELETE_OF_NODE: Final = sql("delete_edges_of_node")

DEFAULT_WEIGHT: Final = 1.0


async def add_edge(
    tx: Transaction, envelope: Envelope, command: AddEdge
) -> EdgeAdded | ChangeNeedsConsent | NameAmbiguous:
    """Write an edge and give it its sector, or merge into what is there: what is constitutive, with consent."""
    command.check()
    ends = await find_or_make(tx, ends_of(command))
    if isinstance(ends, NameAmbiguous):
        return ends
    given: dict[str, Any] = {} if command.properties is UNSET else command.properties
    weight = DEFAULT_WEIGHT if command.weight is UNSET else command.weight
    new = {
        "id": UUID(uuid7()),
        "source_id": ends[0],
        "target_id": ends[1],
        "relation": command.relation,
        "weight": weight,
        "memory_sector": edge_sector(command.relation, given),
        "properties": given,
        "valid_from": or_none(command.valid_from),
        "valid_until": or_none(command.valid_until),
    }
    made = await tx.row(INSERT, **{**new, "properties": Jsonb(given)})
    if made is not None:
        return _added({**new, **made}, command, created=True)
    standing = await tx.row(LOCK_BETWEEN, source_id=ends[0], target_id=ends[1], relation=command.relation)
    if standing is None:  # deleted in between
        raise Again
    now = await _merge(tx, envelope, standing, given)
    return now if isinstance(now, ChangeNeedsConsent) else _added(now, command, created=False)


async def delete_edge(tx: Transaction, envelope: Envelope, command: DeleteEdge) -> GraphDeleted | DeletionNeedsConsent:
    """Remove an edge; of a constitutive one only with consent, which this asks for when there is none."""
    edge_id = parse_uuid(command.edge_id)
    row = None if edge_id is None else await tx.row(LOCK, id=edge_id)
    if row is None:
        return GraphDeleted(status="not_found", edge_id=command.edge_id, **missing_id(Thing.EDGE))
    covers = (row["id"],) if is_constitutive(row["properties"]) else ()
    deletion = Deletion(AuditAction.DELETE_EDGE, row["id"], covers, audit.reason_of(command))
    consent = await deletion_consent(tx, envelope, deletion)
    if isinstance(consent, DeletionNeedsConsent):
        return consent
    entry = await entered(tx, envelope, deletion, old=edge_as_it_was(row), new=_with_proposal(consent))
    await delete_edges(tx, {row["id"]: entry})
    return GraphDeleted(status="deleted", edge_id=str(row["id"]), **entry.told(envelope))


async def delete_node(tx: Transaction, envelope: Envelope, command: DeleteNode) -> GraphDeleted | DeletionNeedsConsent:
    """Remove a named node with its edges; with constitutive ones only with consent, as for an edge."""
    node_id = parse_uuid(command.node_id)
    row = None if node_id is None else await tx.row(LOCK_NODE, id=node_id)
    if row is None or node_id is None:
        return GraphDeleted(status="not_found", node_id=command.node_id, **missing_id(Thing.NODE))
    counted = await tx.row(COUNTED, id=node_id, keys=list(MARKS))
    assert counted is not None
    covers = tuple(UUID(edge) for edge, properties in counted["marked"] if is_constitutive(properties))
    deletion = Deletion(AuditAction.DELETE_NODE, node_id, covers, audit.reason_of(command))
    consent = await deletion_consent(tx, envelope, deletion)
    if isinstance(consent, DeletionNeedsConsent):
        return consent
    old = {"label": row["label"], "edges": counted["edges"]}
    entry = await entered(tx, envelope, deletion, old=old, new=_with_proposal(consent))
    gone = await tx.row(DELETE_OF_NODE, id=node_id, keys=list(MARKS), deletion=entry.id, deleted_at=entry.at)
    assert gone is not None
    became = any(is_constitutive(properties) and UUID(edge) not in covers for edge, properties in gone["marked"])
    if became or gone["edges"] != counted["edges"]:
        raise Again  # an edge has become constitutive, or was deleted, since they were looked at
    await delete_nodes(tx, {node_id: entry})
    return GraphDeleted(status="deleted", node_id=str(node_id), edges_deleted=gone["edges"], **entry.told(envelope))


async def _merge(tx: Transaction, envelope: Envelope, standing: Row, given: dict[str, Any]) -> Row | ChangeNeedsConsent:
    """Put what a command gives over a locked edge. Consent is for what that changes of the row as it is now."""
    command = envelope.command
    assert isinstance(command, AddEdge)
    asked: dict[str, Any] = {"properties": merged(standing["properties"], given), **merged_interval(standing, command)}
    if command.weight is not UNSET:
        asked["weight"] = command.weight
    _, change = changes(standing, asked)
    if "properties" in change:
        refuse_oversize(asked["properties"])
    protected = is_constitutive(standing["properties"])
    consent = await change_consent(tx, envelope, standing["id"], change) if protected and change else None
    if isinstance(consent, ChangeNeedsConsent):
        return consent
    now: Row = {**standing, **{name: asked[name] for name in change}}
    # Properties decide an automatic sector; of a constitutive edge that would be a change that nobody consented to.
    if not protected and standing["sector_source"] != SectorSource.MANUAL:
        now["memory_sector"] = edge_sector(command.relation, now["properties"])
    written = {name: now[name] for name in ("weight", "memory_sector", "properties", *ENDS)}
    await tx.send(MERGE, **{**written, "properties": Jsonb(now["properties"])}, id=now["id"])
    old, new = changes(standing, written)
    if new:
        new |= _with_proposal(consent)
        await audit.record(tx, envelope, AuditAction.UPDATE_EDGE, standing["id"], old=old, new=new)
    return now


def _added(row: Row, command: AddEdge, *, created: bool) -> EdgeAdded:
    return EdgeAdded(
        edge_id=str(row["id"]),
        created=created,
        source_id=str(row["source_id"]),
        target_id=str(row["target_id"]),
        relation=row["relation"],
        weight=row["weight"],
        memory_sector=sector_of_row(row),
        properties=row["properties"],
        **interval(row),
        notice=notice_of_end(row, command),
    )


def sector_of_row(row: Row) -> Sector:
    """Return the sector of an edge as it reads."""
    return Sector(row["memory_sector"]) if row["memory_sector"] else DEFAULT_SECTOR


def _with_proposal(proposal_id: UUID | None) -> dict[str, Sequence[str] | str]:
    return {} if proposal_id is None else {"proposal_id": str(proposal_id)}
