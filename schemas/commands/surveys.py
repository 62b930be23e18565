"""The command that surveys a topic, with its reply and its tool."""

from typing import Annotated, ClassVar, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, ExampleCall, Page, Tool, ToolGuide
from engramq.schemas.contents import Contents
from engramq.schemas.fields import Cursor, Name, Since, StoredSince, StoredUntil, Tags, Until
from engramq.schemas.ids import mark_of
from engramq.schemas.records import Answered, Extract, SurveyTotals
from engramq.schemas.vocabulary import SurveyOrder


class SurveyMemories(Command, frozen=True, kw_only=True, tag="survey_memories"):
    """Survey what is kept about a topic. The gateway checks a cursor and hands on the marks of what was shown."""

    topic: Annotated[str, Meta(min_length=1, max_length=limits.QUERY_CHARS, pattern=r"\S", description="In words")]
    since: Since | UnsetType = UNSET
    until: Until | UnsetType = UNSET
    stored_since: StoredSince | UnsetType = UNSET
    stored_until: StoredUntil | UnsetType = UNSET
    thread: Annotated[Name, Meta(description="Only this")] | UnsetType = UNSET
    project: Annotated[Name, Meta(description="* is all")] | UnsetType = UNSET
    tags: Annotated[Tags, Meta(description="All of these")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=limits.SURVEY_LIMIT)] = 40
    order: SurveyOrder = SurveyOrder.TIME
    cursor: Cursor | UnsetType = UNSET


class Surveyed(Page, kw_only=True, tag="survey"):
    """Extracts of what is kept about a topic, in the order asked for, and how much there is of it.

    `answered` no: nothing is about it, and there are no extracts; unsure: all that there are may be about something
    else. `hint`: where more is, if nothing is here. `degraded`: by words alone, since the model was not running.
    `shown` has the marks of what earlier pages showed; no client sees it.
    """

    listed: ClassVar[str] = "extracts"
    later: ClassVar[frozenset[str]] = frozenset({"shown"})

    status: Literal["success"] = "success"
    topic: Contents[str]
    answered: Answered
    extracts: list[Extract]
    totals: SurveyTotals
    next_cursor: str | None
    shown: str | UnsetType = UNSET
    hint: str | UnsetType = UNSET
    degraded: bool | UnsetType = UNSET
    notice: str | UnsetType = UNSET

    def positions(self) -> list[str]:
        """Return the position after each extract: the marks of all that was shown until then."""
        marks, positions = self.shown or "", []
        for extract in self.extracts:
            marks += mark_of(extract.id)
            positions.append(marks)
        return positions


SURVEY_MEMORIES: Final = Tool(
    parameters=SurveyMemories,
    replies=(Surveyed,),
    rest="POST /memories/survey",
    client_name="survey",
    title="Survey",
    summary="See all about a topic: extracts in order of time, totals. Call it for orders of "
    "events, counts, summaries, what changed. For one fact call search_memories.",
    example='survey_memories(topic="billing")',
    bounded=True,
    read_only=True,
    everyday=("topic", "since", "until", "project", "limit", "cursor", "max_chars"),
    always_loaded=True,
    guide=ToolGuide(
        what="Gives the many memories about a topic as short extracts in order of time, near-duplicates shown once, "
        "with totals by month and thread.",
        when="The answer lies in many memories: in which order things happened, how many there were, a summary, what "
        "changed between two dates (since, until).",
        when_not="One fact or two: search_memories shows them whole.",
        cost="One search and a longer reply: at most 40 extracts in 3,000 tokens; no LLM.",
        returns="extracts: the sentence of each memory that says most about the topic; at: the day; thread and speaker "
        "where they differ from the extract before; same: near-duplicates that it stands for. totals: named counts all "
        "memories that name the topic, by month and thread; near: others, no count. answered no: "
        "nothing is.",
        next="get_memory shows one whole. next_cursor goes on with what is less about it, or had no room.",
        before=(ExampleCall.of("store_memory", content="Ada moved the billing service to Redis in May"),),
        example=ExampleCall.of("survey_memories", topic="What happened to the billing service?"),
    ),
)
