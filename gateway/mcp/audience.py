"""Which tools a caller has: those of the profile that the caller's scopes and trust allow."""

from functools import lru_cache
from typing import Final

from engramq.gateway.identity.authorization import may_send
from engramq.gateway.mcp.tools import TOOLS
from engramq.gateway.mcp.tools.tool import Tool
from engramq.gateway.mcp.wording import Reader, reader
from engramq.schemas.envelope import Principal
from engramq.schemas.vocabulary import Scope

ALL_TOOLS: Final = tuple(TOOLS.values())
_IN_FULL: Final = "`engramq stdio --tools full`, or ENGRAMQ_TOOLS=full, lists a tool for this."
_TRUSTED: Final = "`engramq token create` without --untrusted makes a token that may do this."


def allowed(tool: Tool, principal: Principal) -> bool:
    """Say whether the principal may call the tool at all; what its arguments need is decided when it is called."""
    return may_send(tool.parameters, tool.scope, principal)


def tools_for(tools: tuple[Tool, ...], principal: Principal) -> tuple[Tool, ...]:
    """Return those of a profile's tools that the principal may call."""
    return tuple(tool for tool in tools if allowed(tool, principal))


def reader_of(tools: tuple[Tool, ...], principal: Principal) -> Reader:
    """Return the principal as a reader of texts, where these tools are the profile's."""
    return _reader_of(tools, principal.scopes, principal.untrusted)


@lru_cache(maxsize=256)
def _reader_of(tools: tuple[Tool, ...], scopes: tuple[Scope, ...], untrusted: bool) -> Reader:
    anybody = Principal(name="", scopes=scopes, untrusted=untrusted)
    names = {tool.name for tool in tools_for(tools, anybody)}
    elsewhere = {name: _where(tool, tool in tools, scopes) for name, tool in TOOLS.items() if name not in names}
    return reader(names, elsewhere)


def _where(tool: Tool, in_profile: bool, scopes: tuple[Scope, ...]) -> str:
    """Say where a tool can be had that the profile lacks, or that a token lacks the scope for, or the trust."""
    if not in_profile:
        return _IN_FULL
    if tool.scope in scopes:
        return _TRUSTED
    wanted = ",".join(scope for scope in Scope if scope in scopes or scope is tool.scope)
    return f"`engramq token create --scopes {wanted}` makes a token that may do this."
