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
        summary="Begin afresh: @stored and @recalled[N] are cleared. Call it when a new task begins; without a name "
        "you get one. Not to go on where you left: references last 24 hours. Pass the session that it returns in later "
        "calls.",
        example='begin_session(session="planning")',
        parameters=SessionOnly,
        replies=(SessionBegun,),
        everyday=("session",),
        session=True,
    ),
    Tool(
        name="get_breadcrumbs",
        title="Get breadcrumbs",
        summary="See which memories this session stored and recalled, as @stored and @recalled[N] number them. Call "
        "it when you are not sure what they stand for, or your context was lost. Not when the last reply shows it. "
        "For contents call get_memory.",
        example='get_breadcrumbs(session="planning")',
        parameters=SessionOnly,
        replies=(BreadcrumbTrail,),
        bounded=True,
        everyday=("session",),
        session=True,
        read_only=True,
    ),
)
