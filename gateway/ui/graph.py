"""Show the graph around a memory or a named node: as a drawing, and as tables for readers who see no drawings.

A node is `{id, kind, text, label, apart, more}`: `apart` is an untrusted one, `more` the address of what is around it.
An edge is `{id, source, target, relation, weight, directed}`; ids are unique within a drawing.
"""

from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import JSONResponse, Response

from engramq.gateway.ui.editing import read_memory
from engramq.gateway.ui.request import PageRequest
from engramq.schemas import limits
from engramq.schemas.vocabulary import Direction, Partition

_TEXT_CHARS: Final = 80
NODE_ROWS: Final = 50


async def show_graph(page: PageRequest) -> Response:
    """Show the page with the tables of what is around the start, or without a start with the nodes that there are."""
    found = await _load_around(page)
    listed = None if found is not None else await _nodes(page)
    return page.render(
        "graph.html",
        listed=listed,
        begins=page.query("begins"),
        status=404 if found is not None and "missing" in found else 200,
        found=found,
        memory=page.query("memory"),
        node=page.query("node"),
        label=page.query("label"),
    )


async def graph_data(page: PageRequest) -> Response:
    """Answer the drawing with what is around one more memory or node."""
    found = await _load_around(page) or await _whole(page)
    if "told" in found:
        found["told"] = page.say(found["told"])
    return JSONResponse(found, 404 if "missing" in found else 200)


async def _whole(page: PageRequest) -> dict[str, Any]:
    """Return the nodes with most edges, and the edges between them."""
    drawn = await page.ask("draw_graph", label=page.query("label"))
    left = drawn["node_count"] - len(drawn["nodes"])
    told = f"These are the {len(drawn['nodes'])} nodes with most edges, of {drawn['node_count']}." if left else ""
    edges = [
        _edge(edge["edge_id"], edge["source_id"], edge["target_id"], edge["relation"], edge["weight"])
        for edge in drawn["edges"]
    ]
    return {"start": "", "nodes": [_node(node) for node in drawn["nodes"]], "edges": edges, "told": told}


async def _nodes(page: PageRequest) -> dict[str, Any]:
    """Return the named nodes that the filters pass, and the address of the next ones, "" at the end."""
    filters = {"beginning": page.query("begins"), "label": page.query("label")}
    place = {"after": page.query("after"), "after_id": page.query("after_id")}
    found = await page.ask("list_nodes", limit=NODE_ROWS, **filters, **place)
    nodes = found["nodes"]
    further = {"begins": filters["beginning"], "label": filters["label"]}
    if found["more"]:
        further |= {"after": nodes[-1]["name"], "after_id": nodes[-1]["node_id"]}
    return {"nodes": nodes, "next": urlencode(further) if found["more"] else ""}


async def _load_around(page: PageRequest) -> dict[str, Any] | None:
    """Return what is around the memory or node in the address, None when there is none in it."""
    if page.query("memory"):
        return await around_memory(page, page.query("memory"))
    if page.query("node"):
        return await around_node(page, page.query("node"), page.query("label"))
    return None


async def around_memory(page: PageRequest, memory_id: str) -> dict[str, Any]:
    """Return a memory with the memories that are linked to it."""
    found = await read_memory(page, memory_id)
    memory = found["memory"]
    if memory is None:
        return {"missing": "There is no memory of this id.", "suggestions": []}
    nodes = {memory["id"]: _memory(memory["id"], memory["content"], memory["partition"] == Partition.UNTRUSTED)}
    edges = []
    for link in found["links"]:
        other = link["memory_id"]
        nodes[other] = _memory(other, link["preview"] or "", bool(link.get(Partition.UNTRUSTED)))
        ends = [memory["id"], other]
        source, target = ends if link["direction"] == Direction.OUTGOING else reversed(ends)
        link_id = f"link:{min(ends)}:{max(ends)}:{link['relation']}"
        edges.append(_edge(link_id, source, target, link["relation"], link["weight"], directed=False))
    return {"start": memory["id"], "nodes": list(nodes.values()), "edges": edges, "told": ""}


async def around_node(page: PageRequest, name: str, label: str) -> dict[str, Any]:
    """Return a named node with the nodes at the other ends of its edges."""
    found = await page.ask("graph_list_edges", node_name=name, label=label, limit=limits.NEIGHBOR_LIMIT)
    if found["status"] == "not_found":
        looked = await page.ask("get_node_by_name", name=name, label=label)
        return {"missing": found["error"], "suggestions": looked.get("suggestions", [])}
    start = found["node"]
    nodes = {start["node_id"]: _node(start)}
    for edge in found["edges"]:
        for end in (edge["source"], edge["target"]):
            nodes.setdefault(end["node_id"], _node(end))
    edges = [
        _edge(edge["edge_id"], edge["source"]["node_id"], edge["target"]["node_id"], edge["relation"], edge["weight"])
        for edge in found["edges"]
    ]
    told = []
    if found.get("next_cursor"):
        told.append(f"These are the {len(edges)} heaviest of its edges; there are more.")
    if found.get("candidates"):
        told.append(f"{found['match_count']} nodes have this name; this is the oldest, a {start['label']}.")
    return {"start": start["node_id"], "nodes": list(nodes.values()), "edges": edges, "told": " ".join(told)}


def _memory(memory_id: str, content: str, apart: bool) -> dict[str, Any]:
    text = content if len(content) <= _TEXT_CHARS else f"{content[: _TEXT_CHARS - 1]}…"
    more = urlencode({"memory": memory_id})
    return {"id": memory_id, "kind": "memory", "text": text, "label": "memory", "apart": apart, "more": more}


def _edge(
    edge_id: str, source: str, target: str, relation: str, weight: float, *, directed: bool = True
) -> dict[str, Any]:
    ends = {"source": source, "target": target}
    return {"id": edge_id, **ends, "relation": relation, "weight": weight, "directed": directed}


def _node(node: dict[str, Any]) -> dict[str, Any]:
    name, label = node["name"], node["label"]
    more = urlencode({"node": name, "label": label})
    return {"id": node["node_id"], "kind": "node", "text": name, "label": label, "apart": False, "more": more}
