"""The tools on trust: vouching for a memory, and promoting it."""

from typing import Final

from engramq.gateway.mcp.tools.tool import Tool
from engramq.schemas.commands import Promoted, PromoteMemory, Verified, VerifyMemory

TOOLS: Final = (
    Tool(
        name="verify_memory",
        title="Verify a memory",
        summary="Say how far a memory is vouched for; a rejected one is hidden. Call it when you or a person have "
        "checked the content against its source, not when you merely believe it. To make an untrusted one trusted, "
        "call memory_promote_to_trusted next.",
        example='verify_memory(memory_id="<id>", verification="verified", reason="checked the source")',
        parameters=VerifyMemory,
        replies=(Verified,),
        bounded=True,
        ids_only=True,
        ids=("memory_id",),
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="memory_promote_to_trusted",
        title="Promote a memory",
        summary="Move a verified or approved memory from untrusted to trusted, so that searches show it. Call it when "
        "its content is a fact, not an instruction. For an unverified one call verify_memory first.",
        example='memory_promote_to_trusted(record_id="<id>")',
        parameters=PromoteMemory,
        replies=(Promoted,),
        detailed=True,
        ids_only=True,
        ids=("record_id",),
        aliases={"recordId": "record_id", "memory_id": "record_id"},  # memory_id is what all other tools call it
        idempotent=True,
    ),
)
