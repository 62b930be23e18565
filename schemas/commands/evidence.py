"""The commands on what memories rest on: report what a comparison has found."""

from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from engramq.schemas.commands.base import WriteCommand, WriteReply
from engramq.schemas.evidence import CITATIONS, CheckedCitation
from engramq.schemas.fields import MemoryId
from engramq.schemas.vocabulary import WorkerKind

REPORTED_AT_ONCE: Final = 100  # memories of one report, whose locks others wait for


class CheckedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory's evidence as it was read, each citation with what was found."""

    memory_id: MemoryId
    evidence: Annotated[tuple[CheckedCitation, ...], Meta(min_length=1, max_length=CITATIONS)]


class ReportEvidence(WriteCommand, frozen=True, kw_only=True, omit_defaults=True, tag="report_evidence"):
    """Keep what a comparison of evidence with the files that it cites has found; no tool."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.PROMOTION

    found: Annotated[tuple[CheckedMemory, ...], Meta(min_length=1, max_length=REPORTED_AT_ONCE)]


class EvidenceReported(WriteReply, kw_only=True, tag="evidence_reported"):
    """How many memories have another state now; `missed_count`: are not there, or cite something else by now."""

    status: Literal["success"] = "success"
    changed_count: int
    missed_count: int
