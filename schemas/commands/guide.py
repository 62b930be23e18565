"""The tool that explains the others, with its replies; the gateway answers it from its own memory."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas.commands.tool import Step, Tool, ToolGuide
from engramq.schemas.fields import Name
from engramq.schemas.missing import HINTS
from engramq.schemas.vocabulary import Thing

OVERVIEW: Final = "overview"


class GuideTopic(msgspec.Struct, frozen=True, kw_only=True):
    """The topic to explain."""

    topic: Annotated[Name, Meta(description="A tool's name; left out: the way of working")] | UnsetType = UNSET


class Overview(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to work with the whole; `topics` are the names that the guide knows, by area. What a reader has no tool for
    is left out.
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
    summary="Read how to work with this memory, or what one tool costs and returns, with an example that works. "
    "Call it on first use, or when a refusal surprises you. Not before every call.",
    example='guide(topic="search_memories")',
    read_only=True,
    guide=ToolGuide(
        what="Explains the way of working (no topic), or one tool: what, when, when not, cost, returns, next, example.",
        when="You use engramq for the first time, are about to use a tool that you have not used, or a refusal "
        "surprises you.",
        when_not="You know what to do: the descriptions in the listing are enough for a call.",
        cost="Nothing: the gateway answers from its own memory, about 2 ms.",
        returns="topic and entry; not_found with topics for a word that it does not know.",
        next="Call the tool; example holds arguments that work.",
        example=Step(tool="guide", arguments={"topic": "overview"}),
    ),
)
