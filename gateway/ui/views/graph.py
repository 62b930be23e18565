"""The graph around a memory or a named node: drawn in the browser, and as tables for whoever does not see drawings."""

from typing import Any

from starlette.responses import JSONResponse, Response

from engramq.gateway.ui.drawing import around_memory, around_node
from engramq.gateway.ui.visit import Visit


async def show(visit: Visit) -> Response:
    """Show the page with the tables of what is around the start."""
    found = await _around(visit)
    return visit.page(
        "graph.html",
        status=404 if found is not None and "missing" in found else 200,
        found=found,
        memory=visit.query("memory"),
        node=visit.query("node"),
        label=visit.query("label"),
    )


async def data(visit: Visit) -> Response:
    """Answer the drawing with what is around one more memory or node."""
    found = await _around(visit) or {"nodes": [], "edges": []}
    return JSONResponse(found, 404 if "missing" in found else 200)


async def _around(visit: Visit) -> dict[str, Any] | None:
    """Return what is around the memory or node in the address, None when there is none in it."""
    if visit.query("memory"):
        return await around_memory(visit, visit.query("memory"))
    if visit.query("node"):
        return await around_node(visit, visit.query("node"), visit.query("label"))
    return None
