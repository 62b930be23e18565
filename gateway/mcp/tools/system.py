"""The tools about the pipeline itself."""

from typing import Final

from engramq.gateway.mcp.tools.tool import Tool
from engramq.schemas.commands import AuditList, CommandReport, GetCommand, ListAudit, MemoryStats, Stats

TOOLS: Final = (
    Tool(
        name="get_command",
        title="Get a command's outcome",
        summary="Learn what became of a write; reply holds its answer once it is done or failed. Call it when a write "
        "answered pending, or the connection broke in the middle. A write that answered is final. While it is "
        "pending or running, ask again in a second; do not write again.",
        example='get_command(command_id="<id>")',
        parameters=GetCommand,
        replies=(CommandReport,),
        detailed=True,
        everyday=("command_id",),
        read_only=True,
    ),
    Tool(
        name="audit",
        title="Audit",
        summary="See who changed what, newest first; of a memory its links and outcomes too. Call it when something "
        "is hidden or gone and you must know why. For its content call get_memory.",
        example='audit(target="<id>")',
        parameters=ListAudit,
        replies=(AuditList,),
        bounded=True,
        read_only=True,
    ),
    Tool(
        name="memory_stats",
        title="Memory statistics",
        summary="Count memories by partition, sector, state and project, links, and what waits in the queues. Call it "
        "to judge how much is known, to see your project and others, or why things are slow. Not for contents.",
        example="memory_stats()",
        parameters=MemoryStats,
        replies=(Stats,),
        read_only=True,
    ),
)
