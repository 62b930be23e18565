"""The tools that the gateway answers by itself: on a session, from Redis, and the guide, from its own memory."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas.commands.base import ExampleCall, Tool, ToolGuide
from engramq.schemas.faults import HINTS
from engramq.schemas.fields import Name
from engramq.schemas.vocabulary import Thing

# The subject of the guide's examples.
_STORE: Final = ExampleCall.of(
    "store_memory", content="The release is planned for the first of May", session="planning"
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
    summary="Begin afresh: @stored and @recalled[N] are cleared. Call it when a new task begins. Not to go on "
    "where you left: references last 24 hours. Pass the session that it returns in later calls.",
    example='begin_session(session="planning")',
    core=("session",),
    session=True,
    guide=ToolGuide(
        what="Starts a session afresh, under a name of your own or one that it makes, without references.",
        when="A new task begins, or a call refused a reference. Pass the session that it returns in every later call.",
        when_not="You want to go on where you left: call nothing, breadcrumbs last 24 hours. After 30 minutes of "
        "silence a new instance begins by itself, and the breadcrumbs stay.",
        cost="One Redis call, about 2 ms; no worker is asked.",
        returns="session and its instance, a number that is never used twice.",
        next="search_memories with the task, in this session.",
        example=ExampleCall.of("begin_session", session="planning"),
    ),
)


class BreadcrumbTrail(msgspec.Struct, kw_only=True):
    """The ids that the session stored last, recalled last, and touched, in order; `expires_at` moves with each use.

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
    summary="See what @stored and @recalled[N] stand for in this session. Call it when unsure, or your context was "
    "lost. Not when the last reply shows it.",
    example='get_breadcrumbs(session="s")',
    bounded=True,
    core=("session",),
    session=True,
    read_only=True,
    everyday=("session",),
    guide=ToolGuide(
        what="Shows what this session stored last, recalled last, and touched, in order.",
        when="You are not sure what @stored and @recalled[N] stand for, or pick up a task after your context was lost.",
        when_not="You have the reply that you need in front of you.",
        cost="One Redis call, about 2 ms; no worker is asked. Looking keeps the breadcrumbs alive.",
        returns="last_stored_id, last_recalled_ids (as numbered by @recalled[N]), session_memory_ids, expires_at.",
        next="get_memory for an id whose content you no longer have.",
        before=(_STORE,),
        example=ExampleCall.of("get_breadcrumbs", session="planning"),
    ),
)


OVERVIEW: Final = "overview"


class GuideTopic(msgspec.Struct, frozen=True, kw_only=True):
    """The topic to explain."""

    topic: Annotated[Name, Meta(description="A tool's name")] | UnsetType = UNSET


class Overview(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to work with the whole; `topics` are the names that the guide knows, by area.

    It leaves out parts for which the reader has no tool.
    """

    what: str = ""
    way_of_working: tuple[str, ...] = ()
    references: str = ""
    replies: str = ""
    partitions: str = ""
    links: str = ""
    facts: str = ""
    errors: str = ""
    examples: str = ""
    other_tools: str = ""
    topics: dict[str, tuple[str, ...]]


class GuideOverview(msgspec.Struct, kw_only=True):
    """How to work with the whole."""

    status: Literal["success"] = "success"
    topic: Literal["overview"] = OVERVIEW
    entry: Overview


class GuideEntry(msgspec.Struct, kw_only=True):
    """One tool."""

    status: Literal["success"] = "success"
    topic: str
    entry: ToolGuide


class GuideMissing(msgspec.Struct, kw_only=True):
    """The topic is unknown; `topics` are the known ones."""

    status: Literal["not_found"] = "not_found"
    topics: list[str]
    what: Thing = Thing.TOPIC
    hint: str = HINTS[Thing.TOPIC]


GUIDE: Final = Tool(
    name="guide",
    parameters=GuideTopic,
    replies=(GuideOverview, GuideEntry, GuideMissing),
    rest="GET /guide",
    client_name="guide",
    title="Guide",
    summary="Read how to work with this memory, or what one tool costs and returns, with an example. "
    "Call it on first use, or when a refusal surprises you. Not before every call.",
    example='guide(topic="search_memories")',
    read_only=True,
    everyday=("topic",),
    guide=ToolGuide(
        what="Explains the way of working (no topic), or one tool: what, when, when not, cost, returns, next, example.",
        when="You use engramq for the first time, are about to use a tool that you have not used, or a refusal "
        "surprises you.",
        when_not="You know what to do: the descriptions in the listing are enough for a call.",
        cost="Nothing: the gateway answers from its own memory, about 2 ms.",
        returns="topic and entry; not_found with topics for a word that it does not know.",
        next="Call the tool; example holds arguments that work.",
        example=ExampleCall.of("guide", topic="overview"),
    ),
)
