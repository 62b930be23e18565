"""Look things up in the knowledge graph by name, and show rows as replies have them. Changes nothing."""

import difflib
from collections.abc import Sequence
from typing import Any, Final, TypedDict

from msgspec import UNSET, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands import (
    DrawGraph,
    DrawnEdge,
    EdgeFound,
    EdgeList,
    EdgeMissing,
    EdgesMissing,
    GetEdge,
    GetNodeByName,
    GraphDrawing,
    ListEdges,
    ListNodes,
    NodeFound,
    NodeList,
    NodeMissing,
)
from engramq.schemas.faults import invalid, missing
from engramq.schemas.fields import or_none
from engramq.schemas.ids import format_time, parse_uuid, parse_weight_position, weight_position
from engramq.schemas.records import Candidate, CountedNode, GraphEdge, NodeRef
from engramq.schemas.vocabulary import DEFAULT_SECTOR, Following, Sector, Thing
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.runner import Context, handles

ENDS: Final = ("valid_from", "valid_until")


_BEGINNING_CHARS: Final = 3  # that a name must share to be suggested
_COMPARED: Final = 200  # names
_RESEMBLING: Final = "Give one of suggestions, exactly as written, if that is meant."
_UNLIKE_ANY: Final = "No name resembles it. graph_add_node makes a node."
_LABEL_OF: Final = {"node_name": "label", "start_node": "start_label", "end_node": "end_label"}


@handles(ListNodes)
async def list_nodes(tx: Transaction, command: ListNodes, _context: Context) -> NodeList:
    """List named nodes, from below a place on; one more than is shown tells of another."""
    rows = await tx.rows(
        "list_nodes",
        beginning=_pattern(or_none(command.beginning) or ""),
        label=or_none(command.label),
        after=or_none(command.after),
        after_id=parse_uuid(or_none(command.after_id) or ""),
        limit=command.limit + 1,
    )
    return NodeList(nodes=[read_counted_node(row) for row in rows[: command.limit]], more=len(rows) > command.limit)


@handles(DrawGraph)
async def draw_graph(tx: Transaction, command: DrawGraph, _context: Context) -> GraphDrawing:
    """Read the nodes with most edges, and the edges between them."""
    rows = await tx.rows("nodes_drawn", label=or_none(command.label), as_of=None, limit=limits.DRAWN_NODES)
    ids = [row["id"] for row in rows]
    edges = await tx.rows("edges_drawn", ids=ids, as_of=None, limit=limits.DRAWN_EDGES)
    return GraphDrawing(
        nodes=[read_counted_node(row) for row in rows],
        edges=[
            DrawnEdge(
                edge_id=str(row["id"]),
                source_id=str(row["source_id"]),
                target_id=str(row["target_id"]),
                relation=row["relation"],
                weight=row["weight"],
            )
            for row in edges
        ],
        node_count=rows[0]["node_count"] if rows else 0,
    )


def read_counted_node(row: Row) -> CountedNode:
    """Return the named node that a row is, with its number of edges."""
    return CountedNode(node_id=str(row["id"]), label=row["label"], name=row["name"], edge_count=row["edge_count"])


@handles(GetNodeByName)
async def get_node(tx: Transaction, command: GetNodeByName, _context: Context) -> NodeFound | NodeMissing:
    """Return the oldest node of a name, or names that resemble it."""
    row = await find_node(tx, command.name, command.label)
    if row is None:
        suggestions = await _suggestions(tx, command.name)
        return NodeMissing(suggestions=suggestions, **missing(Thing.NODE, _RESEMBLING if suggestions else _UNLIKE_ANY))
    return NodeFound(
        node_id=str(row["id"]),
        label=row["label"],
        name=row["name"],
        properties=row["properties"],
        created_at=format_time(row["created_at"]),
        updated_at=format_time(row["updated_at"]),
        match_count=row["match_count"],
        created_by=row["created_by"],
        updated_by=row["updated_by"],
    )


async def find_node(tx: Transaction, name: str, label: Any) -> Row | None:
    """Return the oldest node of this name (and label, unless UNSET), None when there is none."""
    return await tx.row("node_by_name", name=name, label=or_none(label))


@handles(GetEdge, by_keys=True)
async def get_edge(tx: Transaction, command: GetEdge, _context: Context) -> EdgeFound | EdgeMissing:
    """Return the oldest edge of a triple of names."""
    row = await tx.row(
        "edge_between_names",
        source_name=command.source_name,
        target_name=command.target_name,
        relation=command.relation,
        source_label=or_none(command.source_label),
        target_label=or_none(command.target_label),
    )
    if row is None:
        return EdgeMissing()
    return EdgeFound(
        **edge_said(row),
        **ids_of_ends(row),
        properties=row["properties"],
        created_at=format_time(row["created_at"]),
        match_count=row["match_count"],
        created_by=row["created_by"],
        updated_by=row["updated_by"],
    )


@handles(ListEdges)
async def list_edges(tx: Transaction, command: ListEdges, _context: Context) -> EdgeList | EdgesMissing:
    """Return the edges of a node, a page of them, or the one edge that was asked for."""
    if command.edge_id is not UNSET:
        edge_id = parse_uuid(command.edge_id)
        row = None if edge_id is None else await tx.row("named_edges", ids=[edge_id])
        if row is None:
            absent = missing(Thing.EDGE, "Give node_name to see a node's edges.")
            return EdgesMissing(error=f"Edge not found: {command.edge_id}", **absent)
        return EdgeList(node=None, edges=[graph_edge(row)], count=1, match_count=1, next_cursor=None)
    cursor = or_none(command.cursor)
    after = None if cursor is None else parse_weight_position(cursor)
    if cursor is not None and after is None:
        raise invalid("cursor", "cursor is none that this list gave out.")
    name = or_none(command.node_name) or ""
    node = await find_node(tx, name, command.label)
    if node is None:
        return EdgesMissing(error=f"Node not found: {name}", **missing(Thing.NODE))
    after_weight, after_id = after or (None, None)
    rows = await tx.rows(
        "edges_of_node",
        id=node["id"],
        outgoing=command.direction is not Following.INCOMING,
        incoming=command.direction is not Following.OUTGOING,
        relation=or_none(command.relation),
        as_of=or_none(command.as_of),
        after_weight=after_weight,
        after_id=after_id,
        limit=command.limit + 1,
    )
    shown = [graph_edge(row) for row in rows[: command.limit]]
    others = await homonyms(tx, "node_name", node)
    return EdgeList(
        node=node_ref(node),
        edges=shown,
        count=len(shown),
        match_count=node["match_count"],
        candidates=others,
        hint=hint_on(others),
        next_cursor=weight_position(shown[-1].weight, shown[-1].edge_id) if len(rows) > len(shown) else None,
    )


async def homonyms(tx: Transaction, field: str, node: Row) -> list[Candidate]:
    """Return the nodes that a name without a label can mean as well, oldest first; none when it means one."""
    if node["match_count"] == 1:
        return []
    rows = await tx.rows("homonyms", name=node["name"], limit=limits.HOMONYMS_SHOWN)
    return [Candidate(field=field, node_id=str(row["id"]), label=row["label"], name=row["name"]) for row in rows]


def hint_on(candidates: Sequence[Candidate]) -> str | UnsetType:
    """Say how another one of several homonyms is chosen, if there are any."""
    chosen_by = {candidate.field: candidate.name for candidate in candidates}
    if not chosen_by:
        return UNSET
    names = " and ".join(repr(name) for name in dict.fromkeys(chosen_by.values()))
    labels = " and ".join(_LABEL_OF[field] for field in chosen_by)
    return f"Several nodes are named {names}; the oldest was taken. To take another one, give {labels}."


class EdgeInterval(TypedDict):
    """From when until when an edge holds, RFC 3339; the end is excluded, null is open."""

    valid_from: str | None
    valid_until: str | None


def interval(row: Row) -> EdgeInterval:
    """Return the interval of an edge's row; the fragment edge_holds reads it."""
    start, end = (None if row[name] is None else format_time(row[name]) for name in ENDS)
    return EdgeInterval(valid_from=start, valid_until=end)


class _EdgeSaid(EdgeInterval):
    edge_id: str
    relation: str
    weight: float
    memory_sector: Sector


class _EdgeEnds(TypedDict):
    source_id: str
    target_id: str


def edge_said(row: Row) -> _EdgeSaid:
    """Return what every reply says of an edge."""
    sector = sector_of_row(row)
    relation, weight = row["relation"], row["weight"]
    return _EdgeSaid(edge_id=str(row["id"]), relation=relation, weight=weight, memory_sector=sector, **interval(row))


def ids_of_ends(row: Row) -> _EdgeEnds:
    """Return the ids of an edge's ends."""
    return _EdgeEnds(source_id=str(row["source_id"]), target_id=str(row["target_id"]))


def sector_of_row(row: Row) -> Sector:
    """Return the sector of an edge as it reads."""
    return Sector(row["memory_sector"]) if row["memory_sector"] else DEFAULT_SECTOR


def node_ref(row: Row) -> NodeRef:
    """Return a node as replies name it."""
    return NodeRef(node_id=str(row["id"]), label=row["label"], name=row["name"])


def graph_edge(row: Row) -> GraphEdge:
    """Return an edge with its ends by name."""
    return GraphEdge(
        **edge_said(row),
        source=NodeRef(node_id=str(row["source_id"]), label=row["source_label"], name=row["source_name"]),
        target=NodeRef(node_id=str(row["target_id"]), label=row["target_label"], name=row["target_name"]),
        properties=row["properties"],
        created_by=row["created_by"],
        updated_by=row["updated_by"],
    )


def _pattern(beginning: str) -> str:
    """Return the pattern of LIKE for texts that begin so."""
    for special in "\\%_":
        beginning = beginning.replace(special, "\\" + special)
    return f"{beginning}%"


async def _suggestions(tx: Transaction, name: str) -> list[NodeRef]:
    folded = name.lower()
    pattern = _pattern(folded[:_BEGINNING_CHARS])
    rows = await tx.rows("names_alike", name=name, beginning=pattern, limit=_COMPARED)
    matcher = difflib.SequenceMatcher(b=folded, autojunk=False)

    def likeness(row: Row) -> float:
        matcher.set_seq1(row["name"].lower())
        return matcher.quick_ratio()

    rows.sort(key=lambda row: (-likeness(row), row["name"], row["label"]))
    return [node_ref(row) for row in rows[: limits.SUGGESTIONS_SHOWN]]
