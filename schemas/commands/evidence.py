"""The commands on what memories rest on: why one is known, and report what a comparison of evidence has found."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas.commands.base import Command, ExampleCall, Reply, Tool, ToolGuide, WriteCommand, WriteReply
from engramq.schemas.evidence import CITATIONS, CheckedCitation
from engramq.schemas.fields import MemoryId, MemoryReference
from engramq.schemas.records import CardLine, MemoryPreview
from engramq.schemas.vocabulary import Thing

LINES: Final = 3  # of a kind that a card shows, the newest
REPORTED_AT_ONCE: Final = 100  # memories of one report, whose locks others wait for


class CheckedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory's evidence as it was read, each citation with what was found."""

    memory_id: MemoryId
    evidence: Annotated[tuple[CheckedCitation, ...], Meta(min_length=1, max_length=CITATIONS)]


class ReportEvidence(WriteCommand, frozen=True, kw_only=True, tag="report_evidence"):
    """Keep what a comparison of evidence with the files that it cites has found; no tool."""

    found: Annotated[tuple[CheckedMemory, ...], Meta(min_length=1, max_length=REPORTED_AT_ONCE)]


class EvidenceReported(WriteReply, kw_only=True, tag="evidence_reported"):
    """How many memories have another state now; `missed_count`: are not there, are kept apart, or cite
    something else by now.
    """

    status: Literal["success"] = "success"
    changed_count: int
    missed_count: int


class WhyMemory(Command, frozen=True, kw_only=True, tag="why"):
    """Tell why a memory is known; changes no bookkeeping."""

    memory_id: MemoryReference
    include_untrusted: Annotated[bool, Meta(description="Untrusted too")] = False


class Card(Reply, kw_only=True, tag="card"):
    """Where a memory came from, and what has become of it; of each kind the newest lines, `omitted` counts the others.

    `audit_id` is the line's entry in the audit log; storing, use and links made by themselves have none. Or not_found,
    with `what` and `hint`.
    """

    status: Literal["success", "not_found"]
    about: MemoryPreview | None = None
    recorded: list[CardLine] | UnsetType = UNSET
    trusted: list[CardLine] | UnsetType = UNSET
    replaced_by: list[CardLine] | UnsetType = UNSET
    replacing: list[CardLine] | UnsetType = UNSET
    used: list[CardLine] | UnsetType = UNSET
    outcomes: list[CardLine] | UnsetType = UNSET
    linked: list[CardLine] | UnsetType = UNSET
    cited: list[CardLine] | UnsetType = UNSET
    resting_on: list[CardLine] | UnsetType = UNSET
    omitted: int | UnsetType = UNSET
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


WHY: Final = Tool(
    parameters=WhyMemory,
    replies=(Card,),
    rest="GET /memories/{memory_id}/why",
    client_name="why",
    title="Why",
    summary="See why a memory is known. Call it when asked. For its text call get_memory.",
    example='why(memory_id="@recalled[0]")',
    ids=("memory_id",),
    read_only=True,
    guide=ToolGuide(
        what="Shows one card: who stored it, who trusted it, what replaced it, its use, links and evidence.",
        when="Somebody asks why you know that, or a memory surprises you.",
        when_not="You want its text and links: get_memory.",
        cost="Two indexed reads, a few milliseconds; at most 600 tokens.",
        returns="Lines by kind, the newest three of each, with audit_id; omitted counts the others.",
        next="Its ground is stale: look at it, then update_memory or supersede_memory.",
        before=(ExampleCall.of("store_memory", content="Ada likes tea"),),
        example=ExampleCall.of("why", memory_id="@stored"),
    ),
)
