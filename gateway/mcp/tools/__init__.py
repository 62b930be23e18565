"""Every tool, in the order in which clients see them, and the profiles that choose among them."""

from collections.abc import Mapping
from typing import Final

from engramq.gateway.mcp.tools import graph, guidance, links, memories, sessions, system, trust
from engramq.gateway.mcp.tools.tool import Tool
from engramq.schemas.settings import SettingsError

TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool for area in (memories, trust, links, graph, sessions, guidance, system) for tool in area.TOOLS
}

FULL: Final = "full"
CORE: Final = "core"


def choose_tools(profile: str) -> tuple[Tool, ...]:
    """Return the tools of a profile: full, core, or names with commas.

    Raises SettingsError, naming ENGRAMQ_TOOLS, for a name that no tool has and when nothing is chosen.
    """
    if profile.strip() == FULL:
        return tuple(TOOLS.values())
    if profile.strip() == CORE:
        return tuple(tool for tool in TOOLS.values() if tool.core)
    names = [name.strip() for name in profile.split(",") if name.strip()]
    unknown = [name for name in names if name not in TOOLS]
    if unknown or not names:
        wrong = f"there is no tool {unknown[0]!r}" if unknown else "no tool is named"
        raise SettingsError(f"ENGRAMQ_TOOLS: {wrong}. Give full, core, or some of {', '.join(TOOLS)}.")
    return tuple(tool for tool in TOOLS.values() if tool.name in names)
