"""The tools on a session's breadcrumbs; the gateway answers them from Redis."""

from typing import Final, Literal

import msgspec

from engramq.gateway.mcp.tools.tool import Tool


class SessionOnly(msgspec.Struct, frozen=True, kw_only=True):
    """No parameter but the session."""


class SessionBegun(msgspec.Struct, kw_only=True):
    """The session's new instance, with its breadcrumbs cleared."""

    status: Literal["success"] = "success"
    session: str
    instance: int


class BreadcrumbTrail(msgspec.Struct, kw_only=True):
    """What the session stored last, recalled last, and touched, in order; `expires_at` moves with each use.

    An id that was erased since is null among the recalled ones, so that the others keep their numbers.
    """

    status: Literal["success"] = "success"
    last_stored_id: str | None
    last_recalled_ids: list[str | None]
    session_memory_ids: list[str]
    expires_at: str | None


TOOLS: Final = (
    Tool(
        name="begin_session",
        title="Begin a session",
        summary="Start afresh under a session name of your own: its breadcrumbs (@stored, @recalled[N]) are cleared.",
        example='begin_session(session="planning")',
        parameters=SessionOnly,
        replies=(SessionBegun,),
        core=True,
        session=True,
    ),
    Tool(
        name="get_breadcrumbs",
        title="Get breadcrumbs",
        summary="See which memories this session stored and recalled; @stored and @recalled[N] refer to them.",
        example='get_breadcrumbs(session="planning")',
        parameters=SessionOnly,
        replies=(BreadcrumbTrail,),
        bounded=True,
        core=True,
        session=True,
        read_only=True,
    ),
)
