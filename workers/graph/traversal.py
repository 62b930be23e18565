"""Walk over a graph that is read level by level: breadth first, bounded, and honest about what was cut."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

NEIGHBOR_EDGES: Final = 10_000  # edges looked at in one read
PATH_EDGES: Final = (200, 2_000, 20_000)  # edges looked at in one read: tried on both sides before a larger one is
PATH_NODES: Final = 100_000  # nodes seen before a search is given up


class WalkTimeout(Exception):
    """Raised by a read: the time for the walk is over."""


@dataclass(frozen=True, slots=True)
class Hop:
    """An edge as a walk crosses it, from the end that is known to the other. `row` has the edge as it is.

    `weight` is decayed by sector and age where relevance is asked for.
    """

    near: UUID
    far: UUID
    edge_id: UUID
    weight: float
    row: Mapping[str, Any]


# Of the edges of a frontier, heaviest first: at most so many of each node in each direction, at most so many in all.
EdgesFrom = Callable[[Sequence[UUID], int, int], Awaitable[Sequence[Hop]]]


@dataclass(frozen=True, slots=True)
class ReachedNode:
    """A node that a walk came to, the edge it came by, and the product of the weights on the way."""

    node: UUID
    hop: Hop
    distance: int
    relevance: float


async def walk(start: UUID, depth: int, limit: int, edges_from: EdgesFrom) -> tuple[list[ReachedNode], bool]:
    """Return up to `limit` nodes within `depth` edges, by distance, then relevance, and whether there may be more."""
    relevance = {start: 1.0}
    frontier, walked, cut = [start], list[ReachedNode](), False
    per_node = 4 * limit + 100  # more than the answer needs: some are parallel, some lead back
    for distance in range(1, depth + 1):
        try:
            hops = await edges_from(frontier, per_node, NEIGHBOR_EDGES)
        except WalkTimeout:
            return walked, True
        cut = cut or _was_cut(hops, per_node)
        level: dict[UUID, ReachedNode] = {}
        for hop in hops:
            reached = ReachedNode(hop.far, hop, distance, relevance[hop.near] * hop.weight)
            if hop.far not in relevance and (hop.far not in level or _rank(reached) < _rank(level[hop.far])):
                level[hop.far] = reached
        nearest = sorted(level.values(), key=_rank)
        walked += nearest
        if len(walked) > limit:
            return walked[:limit], True
        frontier = [reached.node for reached in nearest]
        relevance |= {reached.node: reached.relevance for reached in nearest}
        if not frontier:
            break
    return walked, cut


def _rank(reached: ReachedNode) -> tuple[float, UUID]:
    return -reached.relevance, reached.hop.edge_id


def _was_cut(hops: Sequence[Hop], per_node: int) -> bool:
    if len(hops) >= NEIGHBOR_EDGES:
        return True
    # A node's edges of both directions are counted together: too careful at worst.
    most = max(Counter(hop.near for hop in hops).values(), default=0)
    return most >= per_node


@dataclass(slots=True)
class _Side:
    """The nodes that one end has reached: each with its depth, the weight of the way, and the edge it came by."""

    root: UUID
    frontier: list[UUID] = field(default_factory=list)
    depth: dict[UUID, int] = field(default_factory=dict)
    weight: dict[UUID, float] = field(default_factory=dict)
    came_by: dict[UUID, Hop] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.frontier = [self.root]
        self.depth, self.weight = {self.root: 0}, {self.root: 0.0}

    def advance(self, hops: Sequence[Hop]) -> None:
        """Go one level further; of several edges to a node the way of the greatest weight counts."""
        level = self.depth[self.frontier[0]] + 1
        for hop in hops:
            weight = self.weight[hop.near] + hop.weight
            seen = self.depth.get(hop.far)
            if seen is None or (seen == level and weight > self.weight[hop.far]):
                self.depth[hop.far], self.weight[hop.far], self.came_by[hop.far] = level, weight, hop
        self.frontier = list(dict.fromkeys(hop.far for hop in hops if self.depth[hop.far] == level))

    def way_to(self, node: UUID) -> list[Hop]:
        """Return the edges from the root to a node."""
        way = []
        while node != self.root:
            hop = self.came_by[node]
            way.append(hop)
            node = hop.near
        return way[::-1]


async def shortest_path(start: UUID, end: UUID, depth: int, edges_from: EdgesFrom) -> tuple[list[Hop] | None, bool]:
    """Return the edges of a shortest path in order, None when there is none within `depth`, and whether it was cut.

    Searches from both ends. Edges behind the middle are seen from the end: their `near` is the end's side. Among paths
    of equal length the weight decides. A search that was cut may have found a longer path than there is, or none.
    """
    if start == end:
        return [], False
    sides: tuple[_Side, _Side] = (_Side(start), _Side(end))
    cut = False
    for _ in range(depth):
        if not sides[0].frontier or not sides[1].frontier:
            break
        try:
            side, hops, whole = await _cheaper_level(sides, edges_from)
        except WalkTimeout:
            return None, True
        cut = cut or not whole
        side.advance(hops)
        other = sides[1] if side is sides[0] else sides[0]
        meeting = [node for node in side.frontier if node in other.depth]
        if meeting:
            length = {node: sides[0].depth[node] + sides[1].depth[node] for node in meeting}
            best = min(meeting, key=lambda node: (length[node], -sides[0].weight[node] - sides[1].weight[node], node))
            return sides[0].way_to(best) + sides[1].way_to(best)[::-1], cut
        if len(sides[0].depth) + len(sides[1].depth) > PATH_NODES:
            return None, True
    return None, cut


async def _cheaper_level(sides: tuple[_Side, _Side], edges_from: EdgesFrom) -> tuple[_Side, Sequence[Hop], bool]:
    """Go one level from the side where it costs less: away from a hub before out of it."""
    smaller = sorted(sides, key=lambda side: len(side.frontier))
    for limit in PATH_EDGES:
        for side in smaller:
            hops = await edges_from(side.frontier, limit, limit)
            if len(hops) < limit:
                return side, hops, True
    return side, hops, False
