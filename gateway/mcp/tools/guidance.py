"""The tool that explains the others; the gateway answers it from its own memory."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.gateway.mcp.guide import OVERVIEW, Overview, ToolGuide, entry_for, overview_for, topics_for
from engramq.gateway.mcp.tools.tool import Tool
from engramq.gateway.mcp.wording import Reader
from engramq.schemas.fields import Name
from engramq.schemas.missing import HINTS
from engramq.schemas.vocabulary import Thing


class GuideTopic(msgspec.Struct, frozen=True, kw_only=True):
    """The topic to explain."""

    topic: Annotated[Name, Meta(description="A tool's name; left out: the way of working")] | UnsetType = UNSET


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


def explain(asked: GuideTopic, reader: Reader) -> GuideOverview | GuideEntry | GuideMissing:
    """Return what the guide says of a topic to this reader."""
    if asked.topic is UNSET or asked.topic == OVERVIEW:
        return GuideOverview(entry=overview_for(reader))
    entry = entry_for(asked.topic, reader)
    return (
        GuideMissing(topics=list(topics_for(reader))) if entry is None else GuideEntry(topic=asked.topic, entry=entry)
    )


TOOLS: Final = (
    Tool(
        name="guide",
        title="Guide",
        summary="Read how to work with this memory, or what one tool costs and returns, with an example that works. "
        "Call it on first use, or when a refusal surprises you. Not before every call.",
        example='guide(topic="search_memories")',
        parameters=GuideTopic,
        replies=(GuideOverview, GuideEntry, GuideMissing),
        read_only=True,
    ),
)
