"""Looking things up in the knowledge graph by name. Changes nothing."""

import difflib
from typing import Any, Final

from engramq.schemas import limits
from engramq.schemas.commands import EdgeFound, EdgeMissing, GetEdge, GetNodeByName, NodeFound, NodeMissing
from engramq.schemas.fields import or_none
from engramq.schemas.ids import format_time
from engramq.schemas.records import GraphEdge, NodeRef
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.graph.edges import sector_of_row

NODE_BY_NAME: Final = sql("node_by_name")
NAMES_ALIKE: Final = sql("names_alike")
EDGE: Final = sql("edge_between_names")

_BEGINNING_CHARS: Final = 3  # that a name must share to be suggested
_COMPARED: Final = 200  # names


async def get_node(tx: Transaction, command: GetNodeByName) -> NodeFound | NodeMissing:
    """Return the oldest node of a name, or names that resemble it."""
    row = await find_node(tx, command.name, command.label)
    if row is None:
        return NodeMissing(suggestions=await _suggestions(tx, command.name))
    return NodeFound(
        node_id=str(row["id"]),
        label=row["label"],
        name=row["name"],
        properties=row["properties"],
        created_at=format_time(row["created_at"]),
        updated_at=format_time(row["updated_at"]),
        match_count=row["match_count"],
    )


async def find_node(tx: Transaction, name: str, label: Any) -> Row | None:
    """Return the oldest node of this name (and label, unless UNSET), None when there is none."""
    return await tx.row(NODE_BY_NAME, name=name, label=or_none(label))


async def get_edge(tx: Transaction, command: GetEdge) -> EdgeFound | EdgeMissing:
    """Return the oldest edge of a triple of names."""
    row = await tx.row(
        EDGE,
        source_name=command.source_name,
        target_name=command.target_name,
        relation=command.relation,
        source_label=or_none(command.source_label),
        target_label=or_none(command.target_label),
    )
    if row is None:
        return EdgeMissing()
    return EdgeFound(
        edge_id=str(row["id"]),
        source_id=str(row["source_id"]),
        target_id=str(row["target_id"]),
        relation=row["relation"],
        weight=row["weight"],
        properties=row["properties"],
        memory_sector=sector_of_row(row),
        created_at=format_time(row["created_at"]),
        match_count=row["match_count"],
    )


def node_ref(row: Row) -> NodeRef:
    """Return a node as replies name it."""
    return NodeRef(node_id=str(row["id"]), label=row["label"], name=row["name"])


def graph_edge(row: Row) -> GraphEdge:
    """Return an edge with its ends by name."""
    return GraphEdge(
        edge_id=str(row["id"]),
        source=NodeRef(node_id=str(row["source_id"]), label=row["source_label"], name=row["source_name"]),
        target=NodeRef(node_id=str(row["target_id"]), label=row["target_label"], name=row["target_name"]),
        relation=row["relation"],
        weight=row["weight"],
        memory_sector=sector_of_row(row),
        properties=row["properties"],
    )


async def _suggestions(tx: Transaction, name: str) -> list[NodeRef]:
    folded = name.lower()
    beginning = folded[:_BEGINNING_CHARS]
    for special in "\\%_":
        beginning = beginning.replace(special, "\\" + special)
    rows = await tx.rows(NAMES_ALIKE, name=name, beginning=beginning + "%", limit=_COMPARED)
    matcher = difflib.SequenceMatcher(b=folded, autojunk=False)

    def likeness(row: Row) -> float:
        matcher.set_seq1(row["name"].lower())
        return matcher.quick_ratio()

    rows.sort(key=lambda row: (-likeness(row), row["name"], row["label"]))
    return [node_ref(row) for row in rows[: limits.SUGGESTIONS_SHOWN]]
