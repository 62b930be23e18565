"""Commands that walk over the knowledge graph, each with its reply beside it."""

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, Reply
from engramq.schemas.commands.graph import LabelOfHomonym
from engramq.schemas.commands.memories import Sectors
from engramq.schemas.fields import AsOf, Name, refuse_future
from engramq.schemas.records import Candidate, Neighbor, NodeRef, PathEdge
from engramq.schemas.vocabulary import Following, Thing, WorkerKind


class QueryNeighbors(Command, frozen=True, kw_only=True, omit_defaults=True, tag="graph_query_neighbors"):
    """Walk from a node over edges that pass the filters, nearest first."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL

    node_name: Name
    label: LabelOfHomonym | UnsetType = UNSET
    depth: Annotated[int, Meta(ge=1, le=limits.NEIGHBOR_DEPTH, description="Edges to cross at most")] = 1
    direction: Annotated[Following, Meta(description="As seen from the node")] = Following.BOTH
    relation: Annotated[Name, Meta(description="Cross only these edges")] | UnsetType = UNSET
    sectors: Annotated[Sectors, Meta(description="Cross only edges of these")] | UnsetType = UNSET
    as_of: AsOf | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=limits.NEIGHBOR_LIMIT)] = 50

    def check(self) -> None:
        """Refuse a time to come."""
        refuse_future(self.as_of)


class Neighbors(Reply, kw_only=True, tag="neighbors"):
    """Each node once, at its shortest distance, by distance and then relevance. `truncated`: there are more.

    `start_node` is the oldest of `match_count` with that name; with several, `candidates` are they, oldest first.
    """

    status: Literal["success"] = "success"
    start_node: NodeRef
    neighbors: list[Neighbor]
    count: int
    truncated: bool
    match_count: int = 1
    candidates: list[Candidate] = []
    hint: str | UnsetType = UNSET


class WalkStartMissing(Reply, kw_only=True, tag="walk_start_missing"):
    """A node that a walk should start or end at does not exist."""

    status: Literal["not_found"] = "not_found"
    error: str
    node_name: str
    what: Thing = Thing.NODE
    hint: str = ""


class FindPath(Command, frozen=True, kw_only=True, omit_defaults=True, tag="graph_find_path"):
    """Find a shortest path between two nodes; edges count in both directions."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL

    start_node: Name
    end_node: Name
    start_label: LabelOfHomonym | UnsetType = UNSET
    end_label: LabelOfHomonym | UnsetType = UNSET
    max_depth: Annotated[int, Meta(ge=1, le=limits.PATH_DEPTH, description="Edges of the path at most")] = 5
    as_of: AsOf | UnsetType = UNSET

    def check(self) -> None:
        """Refuse a time to come."""
        refuse_future(self.as_of)


class PathReport(Reply, kw_only=True, tag="path"):
    """A shortest path, its length in edges. Without one: nulls, and `truncated` if the search was cut short.

    It was searched between the oldest nodes of these names, of `match_count` pairs; `candidates` are the homonyms.
    """

    status: Literal["success"] = "success"
    path_found: bool
    path_length: int | None
    nodes: list[NodeRef]
    edges: list[PathEdge]
    total_weight: float | None
    truncated: bool
    match_count: int = 1
    candidates: list[Candidate] = []
    hint: str | UnsetType = UNSET
