"""The tools about the pipeline itself."""

from typing import Final

from engramq.gateway.mcp.tools.tool import Tool
from engramq.schemas.commands import CommandReport, GetCommand, MemoryStats, Stats

TOOLS: Final = (
    Tool(
        name="get_command",
        title="Get a command's outcome",
        summary="Ask what became of a write that answered pending; reply holds its answer once it is done or failed.",
        example='get_command(command_id="0190b6a1-8c1e-7d2a-9f00-3c5b7e9d1a42")',
        parameters=GetCommand,
        replies=(CommandReport,),
        detailed=True,
        core=True,
        read_only=True,
    ),
    Tool(
        name="memory_stats",
        title="Memory statistics",
        summary="Count memories by partition, sector and state, links, and what waits in the queues.",
        example="memory_stats()",
        parameters=MemoryStats,
        replies=(Stats,),
        read_only=True,
    ),
)
