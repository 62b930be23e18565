"""Find neighbours and paths in the knowledge graph: each level is one bounded read, all within one time."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import FindPath, Neighbors, PathReport, QueryNeighbors, WalkStartMissing
from engramq.schemas.faults import missing
from engramq.schemas.fields import or_none
from engramq.schemas.records import Candidate, Crossing, Neighbor, NodeRef, PathEdge
from engramq.schemas.vocabulary import Direction, Following, Thing
from engramq.workers.db.errors import StatementTimeout
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.graph.reads import (
    edge_said,
    find_node,
    hint_on,
    homonyms,
    ids_of_ends,
    interval,
    node_ref,
    sector_of_row,
)
from engramq.workers.graph.traversal import EdgesFrom, Hop, ReachedNode, WalkTimeout, shortest_path, walk
from engramq.workers.runner import Context, handles_without_transaction
from engramq.workers.sectors.decay import decay

WALK_S: Final = 2.0  # for all reads of a walk; then the answer says that it was cut
PROPERTIES_BYTES: Final = 2 * 1024 * 1024  # of all neighbours in one answer


@handles_without_transaction(QueryNeighbors)
async def query_neighbors(command: QueryNeighbors, context: Context) -> Neighbors | WalkStartMissing:
    """Walk from a node; each read is a transaction of its own. See the command and its reply."""

    async def begin(tx: Transaction) -> tuple[Row | None, list[Candidate], Row | None]:
        node = await find_node(tx, command.node_name, command.label)
        others = [] if node is None else await homonyms(tx, "node_name", node)
        return node, others, await tx.row("active_hours")

    store, namespace = context.store, context.envelope.namespace
    start, others, clock = await store.read(namespace, begin)
    if start is None:
        return _start_missing(command.node_name)
    hours: float = 0.0 if clock is None else clock["active_hours"]
    filters = {
        "outgoing": command.direction is not Following.INCOMING,
        "incoming": command.direction is not Following.OUTGOING,
        "relation": or_none(command.relation),
        "sectors": None if command.sectors is UNSET else list(command.sectors),
        "as_of": or_none(command.as_of),
    }

    def decayed(row: Row) -> float:
        return float(row["weight"] * decay(sector_of_row(row), hours - row["last_active_hours"]))

    edges_from = _reading(context, "neighbor_step", filters, decayed)
    reached, cut = await walk(start["id"], command.depth, command.limit, edges_from)
    shown = await store.read(namespace, lambda tx: _neighbors(tx, reached, filters)) if reached else []
    return Neighbors(
        start_node=node_ref(start),
        neighbors=shown,
        count=len(shown),
        truncated=cut or len(shown) < len(reached),
        match_count=start["match_count"],
        candidates=others,
        hint=hint_on(others),
    )


@handles_without_transaction(FindPath)
async def find_path(command: FindPath, context: Context) -> PathReport | WalkStartMissing:
    """Search a path between two nodes; each read is a transaction of its own. See the command and its reply."""

    async def ends(tx: Transaction) -> tuple[Row | None, Row | None, list[Candidate]]:
        start = await find_node(tx, command.start_node, command.start_label)
        end = await find_node(tx, command.end_node, command.end_label)
        named = (("start_node", start), ("end_node", end))
        return start, end, [other for field, node in named if node for other in await homonyms(tx, field, node)]

    store, namespace = context.store, context.envelope.namespace
    start, end, others = await store.read(namespace, ends)
    if start is None or end is None:
        return _start_missing(command.start_node if start is None else command.end_node)
    any_edge = {"outgoing": True, "incoming": True, "relation": None, "sectors": None}
    filters = {**any_edge, "as_of": or_none(command.as_of)}
    edges_from = _reading(context, "path_step", filters, lambda row: float(row["weight"]))
    way, cut = await shortest_path(start["id"], end["id"], command.max_depth, edges_from)
    report = _no_path(truncated=cut)
    if way is not None:
        report = await store.read(namespace, lambda tx: _report(tx, start, way, cut))
    report.match_count = start["match_count"] * end["match_count"]
    report.candidates, report.hint = others, hint_on(others)
    return report


def _start_missing(name: str) -> WalkStartMissing:
    return WalkStartMissing(error=f"Node not found: {name}", node_name=name, **missing(Thing.NODE))


def _reading(context: Context, query: str, filters: Mapping[str, Any], weight_of: Callable[[Row], float]) -> EdgesFrom:
    """Return what reads the edges that lead on from a frontier until WALK_S are over; it raises WalkTimeout then."""
    until = time.monotonic() + WALK_S

    async def edges_from(frontier: Sequence[UUID], per_node: int, limit: int) -> list[Hop]:
        left_ms = int((until - time.monotonic()) * 1000)
        if left_ms <= 0:
            raise WalkTimeout

        async def read(tx: Transaction) -> list[Row]:
            await tx.limit_statements(left_ms / 1000)
            try:
                return await tx.rows(query, frontier=list(frontier), per_node=per_node, limit=limit, **filters)
            except StatementTimeout:
                raise WalkTimeout from None

        rows = await context.store.read(context.envelope.namespace, read)
        return [Hop(row["near"], row["far"], row["id"], weight_of(row), row) for row in rows]

    return edges_from


async def _neighbors(tx: Transaction, walked: Sequence[ReachedNode], filters: Mapping[str, Any]) -> list[Neighbor]:
    """Return the nodes that a walk has reached, with the edges between each and the node before it."""
    nodes = await tx.send("nodes_by_id", ids=[reached.node for reached in walked], bytes=PROPERTIES_BYTES)
    edges = await tx.send(
        "edges_between",
        nears=[reached.hop.near for reached in walked],
        fars=[reached.node for reached in walked],
        limit=limits.NEIGHBOR_EDGES_SHOWN,
        **filters,
    )
    by_id = {row["id"]: row for row in await nodes.fetchall()}
    crossings: dict[UUID, list[Row]] = {}
    for row in await edges.fetchall():
        crossings.setdefault(row["far"], []).append(row)
    return [
        _neighbor(reached, by_id[reached.node], crossings.get(reached.node, [{**reached.hop.row, "total": 1}]))
        for reached in walked
        if reached.node in by_id
    ]


def _neighbor(reached: ReachedNode, node: Row, crossings: Sequence[Row]) -> Neighbor:
    """Return one of them; `crossings` are heaviest first."""
    edge, not_shown = crossings[0], crossings[0]["total"] - len(crossings)
    return Neighbor(
        node_id=str(node["id"]),
        label=node["label"],
        name=node["name"],
        distance=reached.distance,
        edge_id=str(edge["id"]),
        relation=edge["relation"],
        weight=edge["weight"],
        memory_sector=sector_of_row(edge),
        direction=_direction(outgoing=edge["outgoing"]),
        relevance=reached.relevance,
        properties=node["properties"],
        edges=[_crossing(row) for row in crossings],
        more_edges=not_shown or UNSET,
    )


def _crossing(row: Row) -> Crossing:
    return Crossing(
        edge_id=str(row["id"]),
        relation=row["relation"],
        weight=row["weight"],
        direction=_direction(outgoing=row["outgoing"]),
        **interval(row),
    )


async def _report(tx: Transaction, start: Row, way: Sequence[Hop], cut: bool) -> PathReport:
    """Return a path with its names; an edge that was deleted since it was found makes it no path."""
    edges = {row["id"]: row for row in await tx.rows("path_edges", ids=[hop.edge_id for hop in way])}
    ids: list[UUID] = [start["id"]]
    for hop in way:
        ids.append(hop.far if hop.near == ids[-1] else hop.near)
    names = {row["id"]: row for row in await tx.rows("node_names", ids=ids)}
    if len(edges) < len(way) or len(names) < len(ids):
        return _no_path(truncated=True)
    nodes: list[NodeRef] = [node_ref(names[node]) for node in ids]
    shown = [_path_edge(edges[hop.edge_id], before) for hop, before in zip(way, ids, strict=False)]
    return PathReport(
        path_found=True,
        path_length=len(way),
        nodes=nodes,
        edges=shown,
        total_weight=sum(edge.weight for edge in shown),
        truncated=cut,
    )


def _no_path(*, truncated: bool) -> PathReport:
    return PathReport(path_found=False, path_length=None, nodes=[], edges=[], total_weight=None, truncated=truncated)


def _path_edge(row: Row, before: UUID) -> PathEdge:
    direction = _direction(outgoing=row["source_id"] == before)
    return PathEdge(**edge_said(row), **ids_of_ends(row), direction=direction)


def _direction(*, outgoing: bool) -> Direction:
    return Direction.OUTGOING if outgoing else Direction.INCOMING
