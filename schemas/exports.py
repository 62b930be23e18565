"""The lines of an export, as docs/export.md describes them: a head, records in the order of RECORDS, and an end.

Field names are the columns of the tables. Fields that are not here are passed over: a later release may add some.
"""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Final, Protocol, TypeAlias, get_args
from uuid import UUID

import msgspec
from msgspec import Meta

from engramq.schemas import limits
from engramq.schemas.envelope import Principal
from engramq.schemas.evidence import KeptCitation
from engramq.schemas.fields import Content, Moment, Name, Note, Offset, Tags, UnitInterval
from engramq.schemas.vocabulary import (
    MemorySource,
    MemoryState,
    Origin,
    Partition,
    ProposalAction,
    Sector,
    SectorSource,
    StandingSource,
    Verification,
    Visibility,
)


class ExportFormat(StrEnum):
    """The form in which an export is written: our own, which keeps all, or that of another program."""

    ENGRAMQ = "engramq"
    MARKDOWN = "markdown"
    MEM0 = "mem0"
    MCP_MEMORY = "mcp-memory"


class ExportForm(Protocol):
    """Writes an export in a form; `left_out` counts what the form cannot hold, by name.

    `held`: bytes of lines of which it may hold something until the end.
    """

    left_out: Counter[str]
    held: int

    def write(self, line: bytes) -> object:
        """Take one line of an export."""
        ...

    def finish(self) -> Iterator[None]:
        """Write what is left, a record at a time."""
        ...

    def close(self) -> int:
        """Write all that is left; return how many records went out."""
        ...

    def abort(self) -> None:
        """Let go of an export that is not finished; nothing more is written, not even an end."""
        ...


FORMAT: Final = "engramq.export"  # the type of the first line
VERSION: Final = 1
LINE_BYTES: Final = 16 * 1024 * 1024  # jsonb writes 1e300 with all its digits: 64 KiB of properties become 3.5 MB
DIMENSIONS_MAX: Final = 4_000

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
BigCount: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Hours: TypeAlias = Annotated[float, Meta(ge=0, le=1e7)]  # a thousand years; far beyond, decay is no number
Text: TypeAlias = Annotated[str, Meta(min_length=1)]


class Head(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=FORMAT):
    """The first line of an export: `schema` is the number of the database's last migration, `active_hours` the clock.

    `language`: of full text; "": of an export from before there were any. `visibility` to `admins_read`: how the
    namespace keeps what is private.
    """

    version: Annotated[int, Meta(ge=1)]
    engramq: str
    schema: Annotated[int, Meta(ge=1)]
    namespace: Name
    exported_at: Moment
    active_hours: Hours
    language: str = ""
    visibility: Visibility | None = None
    sharing_consent: bool = False
    admins_read: bool = False
    audit: bool
    embeddings: bool


# The fields of a head that the row of the namespace has by the same name.
OF_NAMESPACE: Final = ("active_hours", "language", "visibility", "sharing_consent", "admins_read")


class UsageCounters(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of a memory that was found or judged."""

    access_count: BigCount
    accessed_at: Moment | None
    helped: float
    hindered: float
    last_active_hours: Hours


class EmbeddingModel(msgspec.Struct, frozen=True, kw_only=True):
    """Which model made a vector."""

    name: Text
    sha256: str
    dimensions: Annotated[int, Meta(ge=1, le=DIMENSIONS_MAX)]


class MemoryRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="memory"):
    """A memory; `embedding` is base64 of its half floats, the high byte first."""

    id: UUID
    external_id: Name | None
    partition: Partition
    content: Content
    confidence: UnitInterval
    source: MemorySource
    source_type: Name | None
    speaker: Name | None
    occurred_at: Moment | None
    occurred_offset: Offset | None = None
    thread: Name | None
    position: Count | None
    sector: Sector | None
    sector_source: SectorSource | None
    sector_confidence: UnitInterval | None
    verification: Verification
    state: MemoryState
    supersedes: UUID | None
    superseded_by: UUID | None
    superseded_at: Moment | None
    promoted_at: Moment | None
    promoted_by: Text | None
    tags: Tags | None
    project: Name | None
    valid_from: Moment | None
    valid_until: Moment | None
    expires_at: Moment | None
    superseded_from: Moment | None
    standing: bool | None = None
    standing_source: StandingSource | None = None
    owner: Text | None = None
    evidence: tuple[KeptCitation, ...] | None = None
    metadata: dict[str, Any]
    links_made_at: Moment | None
    active_hours: Hours
    created_by: Text
    created_at: Moment
    updated_at: Moment
    usage: UsageCounters | None
    embedding: bytes | None = None
    embedding_model: EmbeddingModel | None = None


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="node"):
    """A named node."""

    id: UUID
    label: Name
    name: Name
    external_id: Name | None
    properties: dict[str, Any]
    created_at: Moment
    updated_at: Moment
    created_by: Text | None
    updated_by: Text | None


class _Edge(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    source_id: UUID
    target_id: UUID
    relation: Name
    weight: UnitInterval
    origin: Origin
    reinforcement_count: Count
    note: Note | None
    declared_from: UUID | None
    last_active_hours: Hours
    decayed_active_hours: Hours
    memory_sector: Sector | None
    sector_source: SectorSource | None
    properties: dict[str, Any]
    valid_from: Moment | None
    valid_until: Moment | None
    created_at: Moment
    updated_at: Moment
    created_by: Text | None
    updated_by: Text | None
    owner: Text | None = None


class EdgeRecord(_Edge, frozen=True, kw_only=True, tag_field="type", tag="edge"):
    """An edge of the knowledge graph."""


class LinkRecord(_Edge, frozen=True, kw_only=True, tag_field="type", tag="link"):
    """A link between two memories, the lower id first."""


class DeferredLinkRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="deferred_link"):
    """A link that waits for its ends; `request` is a LinkRequest without them."""

    id: UUID
    source_id: UUID
    target_id: UUID
    request: dict[str, Any]
    principal: Principal
    command_id: UUID
    item: Count | None
    created_at: Moment


class TombstoneRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="tombstone"):
    """A link that nobody but an agent makes again."""

    low_id: UUID
    high_id: UUID
    created_at: Moment


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """The principal that approved a proposal, and when."""

    principal: Text
    approved_at: Moment


class ProposalRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="proposal"):
    """A change that waited, or waits, for consent. Its edge or node may be gone."""

    id: UUID
    action: ProposalAction
    target_id: UUID
    covers: tuple[UUID, ...]
    new_sector: Sector | None
    change: dict[str, Any] | None
    proposed_by: Text
    reason: str | None
    created_at: Moment
    expires_at: Moment
    rejected_at: Moment | None
    used_at: Moment | None
    approvals: tuple[Approval, ...]


class ImportedRowRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="imported_row"):
    """By what a row of an import is known again; its memory may be gone."""

    digest: Annotated[str, Meta(pattern=f"^[0-9a-f]{{{2 * limits.IDENTITY_BYTES}}}$")]
    memory_id: UUID
    trusted: bool


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="audit"):
    """An entry of the audit log; actions are not checked, since releases differ in them."""

    id: Annotated[int, Meta(ge=1, le=limits.AUDIT_ID_MAX)]
    at: Moment
    actor: Text
    action: Text
    target_id: UUID | None
    old: dict[str, Any] | None
    new: dict[str, Any] | None
    reason: str | None
    command_id: UUID | None
    owner: Text | None = None


class End(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="end"):
    """How many records of each type stand before it."""

    counts: dict[str, BigCount]


Record: TypeAlias = (
    MemoryRecord
    | NodeRecord
    | EdgeRecord
    | LinkRecord
    | DeferredLinkRecord
    | TombstoneRecord
    | ProposalRecord
    | ImportedRowRecord
    | AuditRecord
)
RECORDS: Final[tuple[type[Record], ...]] = get_args(Record)  # in the order of their lines


class _RecordType(msgspec.Struct, frozen=True):
    type: str


def is_head(line: bytes) -> bool:
    """Say whether a line begins an export, of whatever version."""
    try:
        return msgspec.json.decode(line, type=_RecordType).type == FORMAT
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def type_of(record: Record | type[Record]) -> str:
    """Return the type of the line of a record, or of such records."""
    return str(record.__struct_config__.tag)
