"""Commands that read the knowledge graph and walk over it, each with its reply and its tool."""

from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, ExampleCall, Page, Reply, Tool, ToolGuide
from engramq.schemas.commands.graph import EXAMPLE_EDGE, EXAMPLE_FACT, EXAMPLE_NODE, AsWritten, LabelOfHomonym
from engramq.schemas.commands.memories import Sectors
from engramq.schemas.contents import Contents
from engramq.schemas.faults import invalid
from engramq.schemas.fields import AsOf, Cursor, Identifier, Name
from engramq.schemas.ids import weight_position
from engramq.schemas.records import Candidate, CountedNode, GraphEdge, Neighbor, NodeRef, PathEdge
from engramq.schemas.vocabulary import Following, Sector, Thing

_WALK: Final = "One walk, a few milliseconds for small neighbourhoods; bounded at 2 s, and truncated says that it was."


class GetNodeByName(Command, frozen=True, kw_only=True, tag="get_node_by_name"):
    """Read one node by its exact name."""

    name: Name
    label: LabelOfHomonym | UnsetType = UNSET


class NodeFound(Reply, kw_only=True, tag="node_found"):
    """The node, the oldest of `match_count` with that name."""

    status: Literal["success"] = "success"
    node_id: str
    label: str
    name: str
    properties: Contents[dict[str, Any]]
    created_at: str
    updated_at: str
    match_count: int
    created_by: str | None = None
    updated_by: str | None = None


class NodeMissing(Reply, kw_only=True, tag="node_missing"):
    """No node has the name; the suggestions resemble it, best first."""

    node: None = None
    status: Literal["not_found"] = "not_found"
    suggestions: list[NodeRef]
    what: Thing = Thing.NODE
    hint: str = ""


GET_NODE_BY_NAME: Final = Tool(
    parameters=GetNodeByName,
    replies=(NodeFound, NodeMissing),
    rest="GET /graph/nodes",
    client_name="get_node",
    title="Get a node",
    summary="Read a node by its exact name, or see similar names. Call it for properties, node_id or "
    "spelling. For what surrounds it call graph_query_neighbors.",
    example='get_node_by_name(name="Ada")',
    bounded=True,
    read_only=True,
    everyday=("name", "label"),
    guide=ToolGuide(
        what="Reads a node by its exact name.",
        when="You want its properties or node_id, or to see whether a name is known and how it is spelt.",
        when_not="You want what surrounds it: graph_query_neighbors.",
        cost="One indexed read, a few milliseconds; a miss looks for names that resemble it.",
        returns="The node, the oldest of match_count; or node null, not_found, and suggestions.",
        next="match_count above 1: give label. not_found: try a suggestion.",
        before=(EXAMPLE_NODE,),
        example=ExampleCall.of("get_node_by_name", name="Ada"),
    ),
)


class GetEdge(Command, frozen=True, kw_only=True, tag="get_edge"):
    """Read one directed edge by its exact names and relation; changes nothing."""

    source_name: Name
    target_name: Name
    relation: AsWritten
    source_label: LabelOfHomonym | UnsetType = UNSET
    target_label: LabelOfHomonym | UnsetType = UNSET


class EdgeFound(Reply, kw_only=True, tag="edge_found"):
    """The edge, the oldest of `match_count` between nodes of these names."""

    edge_id: str
    source_id: str
    target_id: str
    relation: str
    weight: float
    properties: Contents[dict[str, Any]]
    memory_sector: Sector
    created_at: str
    match_count: int
    status: Literal["success"] = "success"
    created_by: str | None = None
    updated_by: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None


class EdgeMissing(Reply, kw_only=True, tag="edge_missing"):
    """There is no such edge, whether or not there are such nodes. The one not_found that says no more."""

    edge: None = None
    status: Literal["not_found"] = "not_found"


GET_EDGE: Final = Tool(
    parameters=GetEdge,
    replies=(EdgeFound, EdgeMissing),
    rest="GET /graph/edge",
    client_name="get_edge",
    title="Get an edge",
    summary="Verify a fact: read the edge from exactly this source to this target. Call it before you rely on a fact. "
    "not_found means not known, not false. Without the exact words call graph_list_edges.",
    example='get_edge(source_name="Ada", target_name="Engine", relation="DESIGNED")',
    bounded=True,
    shown_as_not_empty=("source_name", "target_name", "relation"),
    read_only=True,
    everyday=("source_name", "target_name", "relation"),
    guide=ToolGuide(
        what="Reads the edge of exactly this source, target and relation.",
        when="You want to verify a fact before you rely on it, or after you wrote it.",
        when_not="You do not know the exact words: graph_query_neighbors shows what there is. Direction counts.",
        cost="One indexed read, about 5 ms. Changes nothing.",
        returns="The edge, the oldest of match_count; or exactly edge null and not_found.",
        next="not_found: the fact is not known, which does not mean that it is false.",
        before=(EXAMPLE_EDGE,),
        example=ExampleCall.of("get_edge", **EXAMPLE_FACT),
    ),
)


class ListNodes(Command, frozen=True, kw_only=True, tag="list_nodes"):
    """List named nodes in the order of their names, whatever their case. The page sends it.

    `beginning` is that of their names; `after` and `after_id` are those of the last node of the page before.
    """

    beginning: Name | UnsetType = UNSET
    label: Name | UnsetType = UNSET
    after: Name | UnsetType = UNSET
    after_id: Identifier | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=limits.NEIGHBOR_LIMIT)] = 50


class NodeList(Reply, kw_only=True, tag="nodes"):
    """Named nodes with how many edges each has, and whether there are more."""

    status: Literal["success"] = "success"
    nodes: list[CountedNode]
    more: bool


class DrawGraph(Command, frozen=True, kw_only=True, tag="draw_graph"):
    """Read the graph as a whole: the nodes with most edges, of one label or of all. The page sends it."""

    label: Name | UnsetType = UNSET


class DrawnEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge between two nodes that are drawn."""

    edge_id: str
    source_id: str
    target_id: str
    relation: str
    weight: float


class GraphDrawing(Reply, kw_only=True, tag="graph_drawing"):
    """The nodes with most edges, and the heaviest edges between them; how many nodes there are, drawn or not."""

    status: Literal["success"] = "success"
    nodes: list[CountedNode]
    edges: list[DrawnEdge]
    node_count: int


class ListEdges(Command, frozen=True, kw_only=True, tag="graph_list_edges"):
    """List the edges of a node that hold, or one edge by its id, whenever it holds.

    The gateway checks a cursor and hands its position on.
    """

    node_name: Name | UnsetType = UNSET
    edge_id: Annotated[Identifier, Meta(description="Instead: this edge")] | UnsetType = UNSET
    label: LabelOfHomonym | UnsetType = UNSET
    direction: Annotated[Following, Meta(description="From the node")] = Following.BOTH
    relation: Annotated[Name, Meta(description="Only these")] | UnsetType = UNSET
    as_of: AsOf | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=limits.NEIGHBOR_LIMIT)] = 50
    cursor: Cursor | UnsetType = UNSET

    def check(self) -> None:
        """Ask for a node or an edge, not both."""
        super().check()
        if (self.node_name is UNSET) == (self.edge_id is UNSET):
            raise invalid("node_name", "node_name or edge_id is required, one of them.", "Give one of them.")


class EdgeList(Page, kw_only=True, tag="edges"):
    """Edges, heaviest first. `node` is the oldest of `match_count` of that name, null when an edge was asked for."""

    status: Literal["success"] = "success"
    node: NodeRef | None
    edges: list[GraphEdge]
    count: int
    match_count: int
    candidates: list[Candidate] = []
    hint: str | UnsetType = UNSET
    next_cursor: str | UnsetType | None = UNSET

    listed: ClassVar[str] = "edges"

    def positions(self) -> list[str]:
        """Return the position after each edge."""
        return [weight_position(edge.weight, edge.edge_id) for edge in self.edges]


class EdgesMissing(Reply, kw_only=True, tag="edges_missing"):
    """There is no such node, or no such edge."""

    status: Literal["not_found"] = "not_found"
    what: Thing
    error: str
    hint: str


LIST_EDGES: Final = Tool(
    parameters=ListEdges,
    replies=(EdgeList, EdgesMissing),
    rest="GET /graph/edges",
    client_name="list_edges",
    title="List edges",
    summary="See every edge of a node, heaviest first, or one by edge_id. Call it for all facts about a "
    "thing. For what lies further away call graph_query_neighbors.",
    example='graph_list_edges(node_name="Ada")',
    bounded=True,
    read_only=True,
    guide=ToolGuide(
        what="Lists every edge of a node, heaviest first, parallel ones and loops too; or one edge by its id.",
        when="You want all facts about a thing, or to know what an edge_id stands for.",
        when_not="You ask for one exact fact: get_edge. Facts further away: graph_query_neighbors.",
        cost="One indexed read of a page, a few milliseconds.",
        returns="edges with source, target, relation, weight, sector, properties and when they hold; next_cursor, null "
        "at the end. Ended facts are left out.",
        next="as_of shows what held then. Give next_cursor as cursor, with the same filters, for the next page. "
        "match_count above 1: give label.",
        before=(EXAMPLE_EDGE,),
        example=ExampleCall.of("graph_list_edges", node_name="Ada"),
    ),
)


class QueryNeighbors(Command, frozen=True, kw_only=True, tag="graph_query_neighbors"):
    """Walk from a node over edges that pass the filters, nearest first."""

    node_name: Name
    label: LabelOfHomonym | UnsetType = UNSET
    depth: Annotated[int, Meta(ge=1, le=limits.NEIGHBOR_DEPTH, description="Edges at most")] = 1
    direction: Annotated[Following, Meta(description="As seen from the node")] = Following.BOTH
    relation: Annotated[Name, Meta(description="Cross only these edges")] | UnsetType = UNSET
    sectors: Annotated[Sectors, Meta(description="Cross only edges of these")] | UnsetType = UNSET
    as_of: AsOf | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=limits.NEIGHBOR_LIMIT)] = 50


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


QUERY_NEIGHBORS: Final = Tool(
    parameters=QueryNeighbors,
    replies=(Neighbors, WalkStartMissing),
    rest="GET /graph/neighbors",
    client_name="neighbors",
    title="Query neighbours",
    summary="See what surrounds a node, nearest first. Call it for all around a person, project or "
    "thing. For one exact fact call get_edge.",
    example='graph_query_neighbors(node_name="Ada", depth=2)',
    bounded=True,
    read_only=True,
    guide=ToolGuide(
        what="Walks from a node over its edges, nearest and most relevant first.",
        when="You want everything that is known around a person, project or thing.",
        when_not="You ask for one exact fact: get_edge. You look for text: search_memories.",
        cost=_WALK,
        returns="neighbors with distance, relevance and the edges that reach them; count, truncated, match_count.",
        next="Go deeper with depth 2, or narrow with relation and sectors; as_of walks over what held then. "
        "truncated: raise limit or narrow. "
        "match_count above 1: candidates are the other nodes of that name; give label.",
        before=(EXAMPLE_EDGE,),
        example=ExampleCall.of("graph_query_neighbors", node_name="Ada", depth=2),
    ),
)


class FindPath(Command, frozen=True, kw_only=True, tag="graph_find_path"):
    """Find a shortest path between two nodes; edges count in both directions."""

    start_node: Name
    end_node: Name
    start_label: LabelOfHomonym | UnsetType = UNSET
    end_label: LabelOfHomonym | UnsetType = UNSET
    max_depth: Annotated[int, Meta(ge=1, le=limits.PATH_DEPTH, description="Edges at most")] = 5
    as_of: AsOf | UnsetType = UNSET


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


FIND_PATH: Final = Tool(
    parameters=FindPath,
    replies=(PathReport, WalkStartMissing),
    rest="GET /graph/path",
    client_name="find_path",
    title="Find a path",
    summary="Find a shortest path between two nodes. Call it to "
    "learn how two things are connected. For one exact fact call get_edge.",
    example='graph_find_path(start_node="Ada", end_node="London")',
    bounded=True,
    read_only=True,
    guide=ToolGuide(
        what="Finds a shortest path between two nodes, over edges in either direction.",
        when="You ask how two things are connected.",
        when_not="You ask whether one exact fact holds: get_edge.",
        cost=_WALK,
        returns="path_found, nodes and edges along the way (direction incoming: crossed against its arrow).",
        next="path_found false and truncated false: no path of max_depth edges that hold; raise max_depth, give as_of, "
        "or choose among candidates with start_label and end_label.",
        before=(
            EXAMPLE_EDGE,
            ExampleCall.of(
                "graph_add_edge", source_name="Babbage", target_name="Analytical Engine", relation="DESIGNED"
            ),
        ),
        example=ExampleCall.of("graph_find_path", start_node="Ada", end_node="Babbage"),
    ),
)
