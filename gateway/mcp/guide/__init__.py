"""The guide: what an agent should know of each tool before it calls it, and of the whole.

Entries say what the listing has no room for; they repeat neither its summaries nor the parameters.
"""

from collections.abc import Mapping
from typing import Final

from engramq.gateway.mcp.guide import consent, graph, links, memories, trust, working
from engramq.gateway.mcp.guide.entry import Overview, Step, ToolGuide
from engramq.gateway.mcp.guide.overview import OVERVIEW, overview_of

_AREAS: Final[Mapping[str, Mapping[str, ToolGuide]]] = {
    "memories": memories.ENTRIES,
    "trust": trust.ENTRIES,
    "links": links.ENTRIES,
    "knowledge graph": graph.ENTRIES,
    "sectors of edges, consent": consent.ENTRIES,
    "working": working.ENTRIES,
}
ENTRIES: Final[Mapping[str, ToolGuide]] = {tool: entry for area in _AREAS.values() for tool, entry in area.items()}
TOPICS: Final = (OVERVIEW, *ENTRIES)
GUIDE: Final[Overview] = overview_of({area: tuple(entries) for area, entries in _AREAS.items()})

__all__ = ["ENTRIES", "GUIDE", "OVERVIEW", "TOPICS", "Overview", "Step", "ToolGuide"]
