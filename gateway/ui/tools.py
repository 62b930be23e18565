"""What the page calls: every tool of MCP, whatever a profile lists to models, and calls that only people have."""

from collections.abc import Mapping
from typing import Final

from engramq.gateway.mcp.tools import TOOLS
from engramq.gateway.mcp.tools.tool import Tool
from engramq.schemas.commands import (
    BrowseMemories,
    CreateToken,
    GraphRestored,
    ImportList,
    ListImports,
    ListTokens,
    MemoryList,
    RestoreGraph,
    RevokeToken,
    TokenCreated,
    TokenList,
    TokenRevoked,
)

_OWN: Final = (
    Tool(
        name="browse_memories",
        title="Browse memories",
        summary="List memories of a span of time, newest first.",
        example='browse_memories(since="2026-01-31")',
        parameters=BrowseMemories,
        replies=(MemoryList,),
        detailed=True,
        read_only=True,
    ),
    Tool(
        name="list_imports",
        title="List imports",
        summary="See how the newest imports get on.",
        example="list_imports()",
        parameters=ListImports,
        replies=(ImportList,),
        read_only=True,
    ),
    Tool(
        name="list_tokens",
        title="List tokens",
        summary="See the bearer tokens of the namespace.",
        example="list_tokens()",
        parameters=ListTokens,
        replies=(TokenList,),
        read_only=True,
    ),
    Tool(
        name="create_token",
        title="Make a token",
        summary="Let somebody in by a bearer token.",
        example='create_token(principal="ada", scopes=["read"], token_sha256="<digest>", expires_at="2026-12-31")',
        parameters=CreateToken,
        replies=(TokenCreated,),
    ),
    Tool(
        name="revoke_token",
        title="Revoke a token",
        summary="Let a bearer token count no longer.",
        example='revoke_token(token_id="<id>")',
        parameters=RevokeToken,
        replies=(TokenRevoked,),
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="restore_graph",
        title="Restore an edge or node",
        summary="Undo a deletion in the graph.",
        example="restore_graph(audit_id=1)",
        parameters=RestoreGraph,
        replies=(GraphRestored,),
        idempotent=True,
    ),
)

PAGE_TOOLS: Final[Mapping[str, Tool]] = {**TOOLS, **{tool.name: tool for tool in _OWN}}
