"""Find or make named nodes by (label, name), and say what a name without a label means."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import AddEdge, AddNode, NameAmbiguous, NodeAdded
from engramq.schemas.faults import invalid
from engramq.schemas.fields import or_none
from engramq.schemas.ids import format_time, uuid7
from engramq.schemas.records import Candidate
from engramq.schemas.vocabulary import ENTITY_LABEL, LAST_RECLASSIFICATION, AuditAction
from engramq.workers.db import audit
from engramq.workers.db.errors import Again
from engramq.workers.db.transaction import Jsonb, Row, Transaction, same
from engramq.workers.runner import Context, handles
from engramq.workers.trust import require_graph_writer


@handles(AddNode)
async def add_node(tx: Transaction, command: AddNode, context: Context) -> NodeAdded:
    """Make a node or merge properties into it; raises EngramqError naming properties when they would grow too large."""
    require_graph_writer(context.envelope.principal)
    given: dict[str, Any] = {} if command.properties is UNSET else command.properties
    label, name = command.label, command.name
    row = await tx.row("lock_node", label=label, name=name)
    if row is None:
        node_id = await _insert(tx, label, name, given)
        return NodeAdded(node_id=str(node_id), created=True, label=label, name=name, properties=given)
    properties = {**row["properties"], **given}
    old, new = changes({"properties": row["properties"]}, {"properties": properties})
    if new:
        refuse_oversize(properties)
        await tx.send("update_node", id=row["id"], properties=Jsonb(properties))
        await audit.record(tx, context.envelope, AuditAction.UPDATE_NODE, row["id"], old=old, new=new)
    return NodeAdded(node_id=str(row["id"]), created=False, label=label, name=name, properties=properties)


async def find_or_make(tx: Transaction, command: AddEdge) -> tuple[UUID, UUID] | NameAmbiguous:
    """Return the ids of both ends, making those that are missing, unless a name without a label is ambiguous.

    The nodes cannot be deleted until the transaction ends.
    """
    ends = {
        "source_name": (command.source_name, or_none(command.source_label)),
        "target_name": (command.target_name, or_none(command.target_label)),
    }
    rows = await tx.rows("nodes_named", names=sorted({name for name, _ in ends.values()}))
    meant = {
        field: [row for row in rows if row["name"] == name and label in (None, row["label"])]
        for field, (name, label) in ends.items()
    }
    ambiguous = {field: nodes for field, nodes in meant.items() if len(nodes) > 1}
    if ambiguous:
        names = " and ".join(f"{ends[field][0]!r}" for field in ambiguous)
        labels = " and ".join(field.replace("name", "label") for field in ambiguous)
        candidates = [
            Candidate(field=field, node_id=str(row["id"]), label=row["label"], name=row["name"])
            for field, nodes in ambiguous.items()
            for row in nodes[: limits.CANDIDATES_SHOWN]
        ]
        return NameAmbiguous(error=f"Several nodes are named {names}; give {labels}.", candidates=candidates)
    # A node that is missing gets the label of its end; of two ends that name the same one it is made once.
    made = {(label or ENTITY_LABEL, name): UUID(int=0) for field, (name, label) in ends.items() if not meant[field]}
    for label, name in sorted(made):
        made[label, name] = await _insert(tx, label, name, {})
    source, target = (
        meant[field][0]["id"] if meant[field] else made[label or ENTITY_LABEL, name]
        for field, (name, label) in ends.items()
    )
    return source, target


def changes(before: Row, after: Row) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what differs between two states of a node or edge, as they were and as they are; of properties by key."""
    old, new = dict[str, Any](), dict[str, Any]()
    for name in (name for name in after if not same(before[name], after[name])):
        was, now = before[name], after[name]
        if isinstance(now, Mapping):
            keys = [key for key in now if key not in was or not same(was[key], now[key])]
            was, now = {key: was[key] for key in keys if key in was}, {key: now[key] for key in keys}
        old[name], new[name] = (format_time(value) if isinstance(value, datetime) else value for value in (was, now))
    return old, new


def refuse_oversize(properties: Mapping[str, Any]) -> None:
    """Raise EngramqError naming properties that have grown too large by merging; what engramq itself adds is free."""
    counted = {key: value for key, value in properties.items() if key != LAST_RECLASSIFICATION}
    if len(msgspec.json.encode(counted)) > limits.METADATA_BYTES:
        raise invalid(
            "properties", f"properties: merged they would be more than {limits.METADATA_BYTES} bytes of JSON."
        )


async def _insert(tx: Transaction, label: str, name: str, properties: Mapping[str, Any]) -> UUID:
    node_id = UUID(uuid7())
    made = await tx.row("insert_node", id=node_id, label=label, name=name, properties=Jsonb(dict(properties)))
    if made is None:  # somebody else has made it since it was looked for
        raise Again
    return node_id
