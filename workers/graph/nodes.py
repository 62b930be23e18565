"""Named nodes: found or made by (label, name), and what a name without a label means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import AddEdge, AddNode, NameAmbiguous, NodeAdded
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.ids import format_time, uuid7
from engramq.schemas.records import Candidate
from engramq.schemas.vocabulary import ENTITY_LABEL, LAST_RECLASSIFICATION, AuditAction
from engramq.workers.db import audit
from engramq.workers.db.errors import Again
from engramq.workers.db.json_values import Jsonb, same
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction

NAMED: Final = sql("nodes_named")
INSERT: Final = sql("insert_node")
LOCK: Final = sql("lock_node")
UPDATE: Final = sql("update_node")


@dataclass(frozen=True, slots=True)
class End:
    """One end of an edge as a caller names it; `field` is the parameter that has the name."""

    field: str
    name: str
    label: str | None

    def among(self, rows: Sequence[Row]) -> list[Row]:
        """Return the nodes that this can mean."""
        return [row for row in rows if row["name"] == self.name and self.label in (None, row["label"])]

    @property
    def identity(self) -> tuple[str, str]:
        """The node that is made when there is none: (label, name)."""
        return self.label or ENTITY_LABEL, self.name


def ends_of(command: AddEdge) -> tuple[End, End]:
    """Return the two ends that a command names."""
    return (
        End("source_name", command.source_name, None if command.source_label is UNSET else command.source_label),
        End("target_name", command.target_name, None if command.target_label is UNSET else command.target_label),
    )


async def add_node(tx: Transaction, envelope: Envelope, command: AddNode) -> NodeAdded:
    """Make a node or merge properties into it; raises EngramqError naming properties when they would grow too large."""
    given: dict[str, Any] = {} if command.properties is UNSET else command.properties
    label, name = command.label, command.name
    row = await tx.row(LOCK, label=label, name=name)
    if row is None:
        node_id = await _insert(tx, label, name, given)
        return NodeAdded(node_id=str(node_id), created=True, label=label, name=name, properties=given)
    properties = {**row["properties"], **given}
    old, new = changes({"properties": row["properties"]}, {"properties": properties})
    if new:
        refuse_oversize(properties)
        await tx.send(UPDATE, id=row["id"], properties=Jsonb(properties))
        await audit.record(tx, envelope, AuditAction.UPDATE_NODE, row["id"], old=old, new=new)
    return NodeAdded(node_id=str(row["id"]), created=False, label=label, name=name, properties=properties)


async def find_or_make(tx: Transaction, ends: tuple[End, End]) -> tuple[UUID, UUID] | NameAmbiguous:
    """Return the ids of both ends, making those that are missing, unless a name without a label is ambiguous.

    The nodes cannot be deleted until the transaction ends.
    """
    names = sorted({end.name for end in ends})
    rows = await tx.rows(NAMED, names=names)
    ambiguous = [end for end in ends if len(end.among(rows)) > 1]
    if ambiguous:
        return _ambiguous(ambiguous, rows)
    found = {end: row["id"] for end in ends for row in end.among(rows)}
    made = {end.identity: UUID(int=0) for end in ends if end not in found}
    for label, name in sorted(made):
        made[label, name] = await _insert(tx, label, name, {})
    source, target = (found[end] if end in found else made[end.identity] for end in ends)
    return source, target


def changes(before: Row, after: Row) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what differs between two states of a node or edge, as they were and as they are; of properties by key."""
    old, new = dict[str, Any](), dict[str, Any]()
    for name in (name for name in after if not same(before[name], after[name])):
        was, now = before[name], after[name]
        if isinstance(now, Mapping):
            keys = [key for key in now if key not in was or not same(was[key], now[key])]
            was, now = {key: was[key] for key in keys if key in was}, {key: now[key] for key in keys}
        old[name], new[name] = (format_time(one) if isinstance(one, datetime) else one for one in (was, now))
    return old, new


def refuse_oversize(properties: Mapping[str, Any]) -> None:
    """Raise EngramqError naming properties that have grown too large by merging; what engramq itself adds is free."""
    counted = {key: value for key, value in properties.items() if key != LAST_RECLASSIFICATION}
    if len(msgspec.json.encode(counted)) > limits.METADATA_BYTES:
        raise _oversize()


def _oversize() -> EngramqError:
    return invalid("properties", f"properties: merged they would be more than {limits.METADATA_BYTES} bytes of JSON.")


async def _insert(tx: Transaction, label: str, name: str, properties: Mapping[str, Any]) -> UUID:
    node_id = UUID(uuid7())
    made = await tx.row(INSERT, id=node_id, label=label, name=name, properties=Jsonb(dict(properties)))
    if made is None:  # somebody else has made it since it was looked for
        raise Again
    return node_id


def _ambiguous(ends: Sequence[End], rows: Sequence[Row]) -> NameAmbiguous:
    names = " and ".join(f"{end.name!r}" for end in ends)
    labels = " and ".join(end.field.replace("name", "label") for end in ends)
    candidates = [
        Candidate(field=end.field, node_id=str(row["id"]), label=row["label"], name=row["name"])
        for end in ends
        for row in end.among(rows)[: limits.CANDIDATES_SHOWN]
    ]
    return NameAmbiguous(error=f"Several nodes are named {names}; give {labels}.", candidates=candidates)
