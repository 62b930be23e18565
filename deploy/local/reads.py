"""Which requests of MCP change nothing: when their gateway dies, they may simply be made again.

Imported by the stdio relay: standard library only. `make generate` writes the names of the tools.
"""

from __future__ import annotations

READ_TOOLS = frozenset(
    {
        "audit",
        "get_breadcrumbs",
        "get_command",
        "get_edge",
        "get_memory",
        "get_node_by_name",
        "graph_find_path",
        "graph_list_edges",
        "graph_query_neighbors",
        "guide",
        "list_proposals",
        "list_recent_memories",
        "memory_stats",
        "search_memories",
    }
)
_READ_METHODS = frozenset({"ping", "server/discover"})
_READ_ENDINGS = ("/list", "/read", "/get")


def is_read(message: dict[str, object]) -> bool:
    """Whether a request certainly changes nothing."""
    method, parameters = message.get("method"), message.get("params")
    if method == "tools/call":
        name = parameters.get("name") if isinstance(parameters, dict) else None
        return isinstance(name, str) and name in READ_TOOLS
    return isinstance(method, str) and (method in _READ_METHODS or method.endswith(_READ_ENDINGS))
