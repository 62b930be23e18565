"""The guide: what an agent should know of each tool before it calls it, and of the whole.

Entries say what the listing has no room for; they repeat neither its summaries nor the parameters.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from engramq.gateway.mcp.guide import consent, graph, links, memories, trust, working
from engramq.gateway.mcp.guide.entry import Overview, Step, ToolGuide
from engramq.gateway.mcp.guide.overview import OVERVIEW, overview_of
from engramq.gateway.mcp.wording import Reader, kept, worded

_AREAS: Final[Mapping[str, Mapping[str, ToolGuide]]] = {
    "memories": memories.ENTRIES,
    "trust": trust.ENTRIES,
    "links": links.ENTRIES,
    "knowledge graph": graph.ENTRIES,
    "sectors of edges, consent": consent.ENTRIES,
    "working": working.ENTRIES,
}
ENTRIES: Final[Mapping[str, ToolGuide]] = {tool: entry for area in _AREAS.values() for tool, entry in area.items()}
TEXTS: Final = ("what", "when", "when_not", "cost", "returns", "next")

__all__ = ["ENTRIES", "OVERVIEW", "TEXTS", "Overview", "Step", "ToolGuide", "entry_for", "overview_for", "topics_for"]


def topics_for(reader: Reader) -> tuple[str, ...]:
    """Return the topics that there are for this reader."""
    return (OVERVIEW, *(tool for tool in ENTRIES if tool in reader.tools))


def overview_for(reader: Reader) -> Overview:
    """Return the overview in words for this reader."""
    areas = {area: tuple(tool for tool in entries if tool in reader.tools) for area, entries in _AREAS.items()}
    whole = overview_of({area: tools for area, tools in areas.items() if tools})
    texts = {
        name: kept(value, reader)
        for name in Overview.__struct_fields__
        if isinstance(value := getattr(whole, name), str)
    }
    lines = (kept(line, reader) for line in whole.way_of_working)
    return msgspec.structs.replace(whole, **texts, way_of_working=tuple(line for line in lines if line))


def entry_for(tool: str, reader: Reader) -> ToolGuide | None:
    """Return the guide to a tool in words for this reader, None if the reader has no such tool.

    Steps before the example are left out where the reader cannot make all of them.
    """
    if tool not in ENTRIES or tool not in reader.tools:
        return None
    entry = ENTRIES[tool]
    texts = {name: kept(getattr(entry, name), reader) or worded(getattr(entry, name), reader) for name in TEXTS}
    before = entry.before if all(step.tool in reader.tools for step in entry.before) else ()
    return msgspec.structs.replace(entry, **texts, before=before)
