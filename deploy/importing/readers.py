"""Who reads which format."""

from collections.abc import Mapping
from typing import Final

from engramq.deploy.importing import basic_memory, chatgpt, claude, mcp_memory, mem0, obsidian, openmemory
from engramq.deploy.importing.found import Reader
from engramq.schemas.vocabulary import ForeignFormat

READERS: Final[Mapping[ForeignFormat, Reader]] = {
    ForeignFormat.MCP_MEMORY: mcp_memory.read,
    ForeignFormat.MEM0: mem0.read,
    ForeignFormat.OPENMEMORY: openmemory.read,
    ForeignFormat.CLAUDE: claude.read,
    ForeignFormat.CHATGPT: chatgpt.read,
    ForeignFormat.BASIC_MEMORY: basic_memory.read,
    ForeignFormat.OBSIDIAN: obsidian.read,
}
