"""The tools on a session, which the gateway answers from Redis, with their replies."""

from typing import Final, Literal

import msgspec

from engramq.schemas.commands.tool import Step, Tool, ToolGuide

# What the examples of the guide are about.
_STORE: Final = Step(
    tool="store_memory", arguments={"content": "The release is planned for the first of May", "session": "planning"}
)


class SessionOnly(msgspec.Struct, frozen=True, kw_only=True):
    """No parameter but the session."""


class SessionBegun(msgspec.Struct, kw_only=True):
    """The session's new instance, with its breadcrumbs cleared."""

    status: Literal["success"] = "success"
    session: str
    instance: int


BEGIN_SESSION: Final = Tool(
    name="begin_session",
    parameters=SessionOnly,
    replies=(SessionBegun,),
    rest="POST /sessions",
    client_name="begin_session",
    title="Begin a session",
    summary="Begin afresh: @stored and @recalled[N] are cleared. Call it when a new task begins; without a name "
    "you get one. Not to go on where you left: references last 24 hours. Pass the session that it returns in later "
    "calls.",
    example='begin_session(session="planning")',
    everyday=("session",),
    session=True,
    guide=ToolGuide(
        what="Starts a session afresh, under a name of your own or one that it makes, without references.",
        when="A new task begins, or a call refused a reference. Pass the session that it returns in every later call.",
        when_not="You want to go on where you left: call nothing, breadcrumbs last 24 hours. After 30 minutes of "
        "silence a new instance begins by itself, and the breadcrumbs stay.",
        cost="One Redis call, about 2 ms; no worker is asked.",
        returns="session and its instance, a number that is never used twice.",
        next="search_memories with the task, in this session.",
        example=Step(tool="begin_session", arguments={"session": "planning"}),
    ),
)


class BreadcrumbTrail(msgspec.Struct, kw_only=True):
    """What the session stored last, recalled last, and touched, in order; `expires_at` moves with each use.

    An id that was erased since is null among the recalled ones, so that the others keep their numbers.
    """

    status: Literal["success"] = "success"
    last_stored_id: str | None
    last_recalled_ids: list[str | None]
    session_memory_ids: list[str]
    expires_at: str | None


GET_BREADCRUMBS: Final = Tool(
    name="get_breadcrumbs",
    parameters=SessionOnly,
    replies=(BreadcrumbTrail,),
    rest="GET /sessions/{session}",
    client_name="breadcrumbs",
    title="Get breadcrumbs",
    summary="See which memories this session stored and recalled, as @stored and @recalled[N] number them. Call "
    "it when you are not sure what they stand for, or your context was lost. Not when the last reply shows it. "
    "For contents call get_memory.",
    example='get_breadcrumbs(session="planning")',
    bounded=True,
    everyday=("session",),
    session=True,
    read_only=True,
    guide=ToolGuide(
        what="Shows what this session stored last, recalled last, and touched, in order.",
        when="You are not sure what @stored and @recalled[N] stand for, or pick up a task after your context was lost.",
        when_not="You have the reply that you need in front of you.",
        cost="One Redis call, about 2 ms; no worker is asked. Looking keeps the breadcrumbs alive.",
        returns="last_stored_id, last_recalled_ids (as numbered by @recalled[N]), session_memory_ids, expires_at.",
        next="get_memory for an id whose content you no longer have.",
        before=(_STORE,),
        example=Step(tool="get_breadcrumbs", arguments={"session": "planning"}),
    ),
)
