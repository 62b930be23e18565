"""The operations of REST: each tool's name in our clients, its method and its path, and which of them a request means.

To add one: a line in the table, and `make clients`; all else is the tool's own.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes

from engramq.gateway.mcp.tools import TOOLS
from engramq.gateway.mcp.tools.tool import Tool

PREFIX: Final = "/v1"
MISSING: Final = frozenset({"not_found", "unknown"})  # statuses that HTTP says as 404
_HOLE: Final = re.compile(r"\{(\w+)\}", re.ASCII)
_WITH_QUERY: Final = frozenset({"GET", "DELETE"})  # the others have a JSON body


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A tool as an operation. `path` has parameters of the tool in braces, each a whole segment; `method_name` is what
    our clients call it, in snake case.

    `in_path` are these parameters; the others come as JSON where it `has_body`, else in the query.
    """

    tool: Tool
    method_name: str
    method: str
    path: str
    in_path: tuple[str, ...] = field(init=False)
    has_body: bool = field(init=False)

    def __post_init__(self) -> None:
        """Set the fields that follow from the others."""
        object.__setattr__(self, "in_path", tuple(_HOLE.findall(self.path)))
        object.__setattr__(self, "has_body", self.method not in _WITH_QUERY)


# GET where no parameter is long or private, since queries end up in logs of proxies: a search is a POST.
_TABLE: Final[Mapping[str, str]] = {
    "store_memory": "store POST /memories",
    "search_memories": "search POST /memories/search",
    "list_recent_memories": "recent GET /memories",
    "get_memory": "get GET /memories/{memory_id}",
    "supersede_memory": "supersede POST /memories/{old_memory_id}/supersede",
    "update_memory": "update PATCH /memories/{memory_id}",
    "forget_memory": "forget DELETE /memories/{memory_id}",
    "restore_memory": "restore POST /memories/{memory_id}/restore",
    "import_memories": "import_many POST /memories/import",
    "verify_memory": "verify POST /memories/{memory_id}/verify",
    "memory_promote_to_trusted": "promote POST /memories/{record_id}/promote",
    "connect": "connect POST /links",
    "disconnect": "disconnect DELETE /links",
    "connect_by_query": "connect_by_query POST /links/by-query",
    "connects": "connect_many POST /links/batch",
    "record_outcome": "record_outcome POST /outcomes",
    "graph_add_node": "add_node POST /graph/nodes",
    "graph_add_edge": "add_edge POST /graph/edges",
    "graph_delete_edge": "delete_edge DELETE /graph/edges/{edge_id}",
    "graph_delete_node": "delete_node DELETE /graph/nodes/{node_id}",
    "get_node_by_name": "get_node GET /graph/nodes",
    "get_edge": "get_edge GET /graph/edge",
    "graph_list_edges": "list_edges GET /graph/edges",
    "graph_query_neighbors": "neighbors GET /graph/neighbors",
    "graph_find_path": "find_path GET /graph/path",
    "reclassify_memory_sector": "reclassify_edge POST /graph/edges/reclassify",
    "propose_reclassification": "propose_reclassification POST /graph/edges/{edge_id}/reclassification",
    "decide_proposal": "decide_proposal POST /proposals/{proposal_id}/decision",
    "list_proposals": "list_proposals GET /proposals",
    "begin_session": "begin_session POST /sessions",
    "get_breadcrumbs": "breadcrumbs GET /sessions/{session}",
    "guide": "guide GET /guide",
    "get_command": "get_command GET /commands/{command_id}",
    "audit": "audit GET /audit",
    "memory_stats": "stats GET /stats",
}


def _operation(name: str, line: str) -> Operation:
    method_name, method, path = line.split()
    return Operation(TOOLS[name], method_name, method, PREFIX + path)


OPERATIONS: Final[Mapping[str, Operation]] = {name: _operation(name, line) for name, line in _TABLE.items()}

_Shape = tuple[str | None, ...]  # a path's segments, None for a parameter


@dataclass(frozen=True, slots=True)
class Match:
    """The operations of a path by method, and what stands in the places of its parameters, in their order."""

    operations: Mapping[str, Operation]
    values: tuple[str, ...]

    @property
    def methods(self) -> str:
        """What an Allow header lists."""
        methods = [*self.operations, *(["HEAD"] if "GET" in self.operations else []), "OPTIONS"]
        return ", ".join(methods)


def _shape(path: str) -> _Shape:
    return tuple(None if part.startswith("{") else part for part in path.strip("/").split("/"))


def _by_shape(operations: Iterable[Operation]) -> Mapping[_Shape, Mapping[str, Operation]]:
    found: dict[_Shape, dict[str, Operation]] = {}
    for operation in operations:
        found.setdefault(_shape(operation.path), {})[operation.method] = operation
    # Words before parameters: /memories/search is no memory.
    return dict(sorted(found.items(), key=lambda one: one[0].count(None)))


_SHAPES: Final = _by_shape(OPERATIONS.values())


def match(raw_path: bytes) -> Match | None:
    """Return what a path as it was sent means, None when nothing is there.

    It is cut at its slashes before escapes are read, so that an escaped slash belongs to its segment.
    """
    given = raw_path.removeprefix(b"/").split(b"/")
    # A byte that is no UTF-8 becomes half a surrogate pair, which the check of the parameter refuses by its name.
    parts = [unquote_to_bytes(part).decode(errors="surrogateescape") for part in given]
    for shape, operations in _SHAPES.items():
        pairs = list(zip(shape, parts, strict=False))
        if len(shape) == len(parts) and all(word in (None, part) for word, part in pairs):
            values = tuple(part for word, part in pairs if word is None)
            return Match(operations, values) if all(values) else None
    return None
