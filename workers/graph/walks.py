"""Walks over the knowledge graph: neighbours and paths, each step one bounded statement, all within one time."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import FindPath, Neighbors, PathReport, QueryNeighbors, WalkStartMissing
from engramq.schemas.faults import missing
from engramq.schemas.fields import or_none
from engramq.schemas.records import Candidate, Crossing, Neighbor, NodeRef, PathEdge
from engramq.schemas.vocabulary import Direction, Following, Sector, Thing
from engramq.workers.db.database import Store
from engramq.workers.db.errors import StatementTimeout
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.graph.edges import sector_of_row
from engramq.workers.graph.intervals import interval
from engramq.workers.graph.reads import find_node, hint_on, homonyms, node_ref
from engramq.workers.graph.traversal import OutOfTime, Reached, shortest_path, walk
from engramq.workers.sectors.decay import decay

NEIGHBOR_STEP: Final = sql("neighbor_step")
PATH_STEP: Final = sql("path_step")
PATH_EDGES: Final = sql("path_edges")
WALK_TIME: Final = sql("walk_time")
ACTIVE_HOURS: Final = sql("active_hours")
EDGES_BETWEEN: Final = sql("edges_between")
NODE_NAMES: Final = sql("node_names")
NODES_BY_ID: Final = sql("nodes_by_id")

WALK_S: Final = 2.0  # for all steps of a walk; then the answer says that it was cut
PROPERTIES_BYTES: Final = 2 * 1024 * 1024  # of all neighbours in one answer


@dataclass(frozen=True, slots=True)
class _NeighborHop:
    """An edge of a walk; `weight` is decayed by sector and age, `row` has the edge as it is."""

    near: UUID
    far: UUID
    edge_id: UUID
    weight: float
    row: Row


@dataclass(frozen=True, slots=True)
class _PathHop:
    near: UUID
    far: UUID
    edge_id: UUID
    weight: float


@dataclass(frozen=True, slots=True)
class _Steps:
    """How the steps of one walk are asked for."""

    store: Store
    namespace: str
    query: bytes
    values: dict[str, Any]
    until: float

    async def rows(self, frontier: Sequence[UUID], per_node: int, limit: int) -> list[Row]:
        """Return the edges that lead on; raises OutOfTime."""
        left_ms = int((self.until - time.monotonic()) * 1000)
        if left_ms <= 0:
            raise OutOfTime

        async def step(tx: Transaction) -> list[Row]:
            await tx.send(WALK_TIME, timeout=f"{left_ms}ms")
            try:
                return await tx.rows(self.query, frontier=list(frontier), per_node=per_node, limit=limit, **self.values)
            except StatementTimeout:
                raise OutOfTime from None

        return await self.store.read(self.namespace, step)


async def neighbors(store: Store, namespace: str, command: QueryNeighbors) -> Neighbors | WalkStartMissing:
    """Walk from a node; see the command and its reply."""

    async def begin(tx: Transaction) -> tuple[Row | None, list[Candidate], Row | None]:
        node = await find_node(tx, command.node_name, command.label)
        alike = [] if node is None else await homonyms(tx, "node_name", node)
        return node, alike, await tx.row(ACTIVE_HOURS)

    start, alike, clock = await store.read(namespace, begin)
    if start is None:
        return start_missing(command.node_name)
    hours: float = 0.0 if clock is None else clock["active_hours"]
    steps = _steps(store, namespace, NEIGHBOR_STEP, command)

    async def step(frontier: Sequence[UUID], per_node: int, limit: int) -> list[_NeighborHop]:
        return [_hop(row, hours) for row in await steps.rows(frontier, per_node, limit)]

    found, cut = await walk(start["id"], command.depth, command.limit, step)
    shown = await store.read(namespace, lambda tx: _neighbors(tx, found, steps.values)) if found else []
    return Neighbors(
        start_node=node_ref(start),
        neighbors=shown,
        count=len(shown),
        truncated=cut or len(shown) < len(found),
        match_count=start["match_count"],
        candidates=alike,
        hint=hint_on(alike),
    )


async def path(store: Store, namespace: str, command: FindPath) -> PathReport | WalkStartMissing:
    """Search a path; see the command and its reply."""

    async def ends(tx: Transaction) -> tuple[Row | None, Row | None, list[Candidate]]:
        start = await find_node(tx, command.start_node, command.start_label)
        end = await find_node(tx, command.end_node, command.end_label)
        named = (("start_node", start), ("end_node", end))
        return start, end, [one for field, node in named if node for one in await homonyms(tx, field, node)]

    start, end, alike = await store.read(namespace, ends)
    if start is None or end is None:
        return start_missing(command.start_node if start is None else command.end_node)
    steps = _steps(store, namespace, PATH_STEP, command)

    async def step(frontier: Sequence[UUID], per_node: int, limit: int) -> list[_PathHop]:
        rows = await steps.rows(frontier, per_node, limit)
        return [_PathHop(row["near"], row["far"], row["id"], row["weight"]) for row in rows]

    way, cut = await shortest_path(start["id"], end["id"], command.max_depth, step)
    report = _no_path(truncated=cut)
    if way is not None:
        report = await store.read(namespace, lambda tx: _report(tx, start, way, cut))
    report.match_count = start["match_count"] * end["match_count"]
    report.candidates, report.hint = alike, hint_on(alike)
    return report


def start_missing(name: str) -> WalkStartMissing:
    """Return the answer for a node that is not there."""
    return WalkStartMissing(error=f"Node not found: {name}", node_name=name, **missing(Thing.NODE))


def _steps(store: Store, namespace: str, query: bytes, command: QueryNeighbors | FindPath) -> _Steps:
    following, relation, sectors = Following.BOTH, None, None
    if isinstance(command, QueryNeighbors):
        following, relation = command.direction, or_none(command.relation)
        sectors = None if command.sectors is UNSET else list(command.sectors)
    values = {
        "outgoing": following is not Following.INCOMING,
        "incoming": following is not Following.OUTGOING,
        "relation": relation,
        "sectors": sectors,
        "as_of": or_none(command.as_of),
    }
    return _Steps(store, namespace, query, values, time.monotonic() + WALK_S)


def _hop(row: Row, hours: float) -> _NeighborHop:
    sector: Sector = sector_of_row(row)
    weight = row["weight"] * decay(sector, hours - row["last_active_hours"])
    return _NeighborHop(row["near"], row["far"], row["id"], weight, row)


async def _neighbors(
    tx: Transaction, found: Sequence[Reached[_NeighborHop]], filters: Mapping[str, Any]
) -> list[Neighbor]:
    """Return the nodes that a walk has reached, with the edges between each and the node before it."""
    nodes = await tx.send(NODES_BY_ID, ids=[reached.node for reached in found], bytes=PROPERTIES_BYTES)
    edges = await tx.send(
        EDGES_BETWEEN,
        nears=[reached.hop.near for reached in found],
        fars=[reached.node for reached in found],
        limit=limits.NEIGHBOR_EDGES_SHOWN,
        **filters,
    )
    by_id = {row["id"]: row for row in await nodes.fetchall()}
    crossings: dict[UUID, list[Row]] = {}
    for row in await edges.fetchall():
        crossings.setdefault(row["far"], []).append(row)
    return [
        _neighbor(reached, by_id[reached.node], crossings.get(reached.node, [{**reached.hop.row, "total": 1}]))
        for reached in found
        if reached.node in by_id
    ]


def _neighbor(reached: Reached[_NeighborHop], node: Row, crossings: Sequence[Row]) -> Neighbor:
    """Return one of them; `crossings` are heaviest first."""
    edge, more = crossings[0], crossings[0]["total"] - len(crossings)
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
        more_edges=more or UNSET,
    )


def _crossing(row: Row) -> Crossing:
    return Crossing(
        edge_id=str(row["id"]),
        relation=row["relation"],
        weight=row["weight"],
        direction=_direction(outgoing=row["outgoing"]),
        **interval(row),
    )


async def _report(tx: Transaction, start: Row, way: Sequence[_PathHop], cut: bool) -> PathReport:
    """Return a path with its names; an edge that was deleted since it was found makes it no path."""
    edges = {row["id"]: row for row in await tx.rows(PATH_EDGES, ids=[hop.edge_id for hop in way])}
    ids = _nodes_along(start["id"], way)
    names = {row["id"]: row for row in await tx.rows(NODE_NAMES, ids=ids)}
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


def _nodes_along(start: UUID, way: Sequence[_PathHop]) -> list[UUID]:
    ids = [start]
    for hop in way:
        ids.append(hop.far if hop.near == ids[-1] else hop.near)
    return ids


def _path_edge(row: Row, before: UUID) -> PathEdge:
    return PathEdge(
        edge_id=str(row["id"]),
        source_id=str(row["source_id"]),
        target_id=str(row["target_id"]),
        relation=row["relation"],
        weight=row["weight"],
        memory_sector=sector_of_row(row),
        direction=_direction(outgoing=row["source_id"] == before),
        **interval(row),
    )


def _direction(*, outgoing: bool) -> Direction:
    return Direction.OUTGOING if outgoing else Direction.INCOMING
