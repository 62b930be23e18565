"""What the page calls: every tool of MCP, whatever a profile lists to models, and calls that only people have."""

from collections.abc import Mapping
from typing import Any, Final

from engramq.schemas.commands import (
    TOOLS,
    BrowseMemories,
    Command,
    CreateToken,
    GraphRestored,
    ImportList,
    ListImports,
    ListTokens,
    MemoryList,
    Reply,
    RestoreGraph,
    RevokeToken,
    Step,
    TokenCreated,
    TokenList,
    TokenRevoked,
    Tool,
    ToolGuide,
)

_NO_GUIDE: Final = ToolGuide(
    what="", when="", when_not="", cost="", returns="", next="", example=Step(tool="", arguments={})
)


def _of_the_page(command: type[Command], reply: type[Reply], example: str, **options: Any) -> Tool:
    """Return a tool that no model is listed, so that nothing describes it."""
    return Tool(
        parameters=command,
        replies=(reply,),
        rest="",
        client_name="",
        title="",
        summary="",
        example=example,
        guide=_NO_GUIDE,
        **options,
    )


_OWN: Final = (
    _of_the_page(BrowseMemories, MemoryList, 'browse_memories(since="2026-01-31")', detailed=True),
    _of_the_page(ListImports, ImportList, "list_imports()"),
    _of_the_page(ListTokens, TokenList, "list_tokens()"),
    _of_the_page(CreateToken, TokenCreated, 'create_token(principal="ada", scopes=["read"])'),
    _of_the_page(RevokeToken, TokenRevoked, 'revoke_token(token_id="<id>")'),
    _of_the_page(RestoreGraph, GraphRestored, "restore_graph(audit_id=1)"),
)

PAGE_TOOLS: Final[Mapping[str, Tool]] = {**TOOLS, **{tool.name: tool for tool in _OWN}}
