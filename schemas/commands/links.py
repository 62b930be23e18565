"""Commands on links (the association layer): what agents assert about two memories, and what helped them."""

import math
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, Reply, WriteReply
from engramq.schemas.contents import Contents
from engramq.schemas.faults import Fault, FaultCode, invalid, refuse
from engramq.schemas.fields import Identifier, MemoryReference, Name, Note, UnitInterval
from engramq.schemas.jobs import MEMORIES_PER_FOLLOW_UP
from engramq.schemas.records import DisplacedLink, SkippedMemory, UsefulMemory
from engramq.schemas.vocabulary import (
    IfExists,
    LinkAction,
    QueryLinkAction,
    Relation,
    Resolution,
    Scope,
    Thing,
    WorkerKind,
)

Query = Annotated[str, Meta(min_length=1, max_length=limits.QUERY_CHARS, pattern=r"\S")]
IfLinked = Annotated[IfExists, Meta(description="If they are linked already")]


class LinkRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a caller says of one link. `weight` is clamped to [0, 1]; relation and weight have defaults."""

    source: MemoryReference
    target: MemoryReference
    relation: (
        Annotated[Name, Meta(description="similar (default), elaborates, supports, contradicts, or your own word")]
        | UnsetType
    ) = UNSET
    weight: Annotated[float, Meta(description="0 to 1; default by relation")] | UnsetType = UNSET
    note: Annotated[Note, Meta(description="Why they belong together")] | UnsetType = UNSET
    if_exists: IfLinked = IfExists.REINFORCE

    def check(self) -> None:
        """Raise EngramqError for what the JSON Schema cannot say, and for a link from a memory to itself."""
        if self.weight is not UNSET and not math.isfinite(self.weight):
            raise invalid("weight", "weight must be a finite number.")
        refuse_reserved(self.relation)
        if self.source == self.target:
            raise refuse(FaultCode.SELF_LOOP, "A memory cannot be linked to itself.")


def refuse_reserved(relation: str | UnsetType) -> None:
    """Raise EngramqError for the relation that only supersede_memory may write."""
    if relation == Relation.SUPERSEDES:
        error = "relation 'supersedes' is written by supersede_memory alone."
        raise invalid("relation", error, "Leave it out, or use another word. supersede_memory writes that one.")


class Connect(LinkRequest, Command, frozen=True, kw_only=True, omit_defaults=True, tag="connect", tag_field="type"):
    """Assert that two memories are related."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a deferred link: made (with its action) or dropped (with the code, the error and the recovery)."""

    state: Resolution
    action: LinkAction | None = None
    code: FaultCode | None = None
    error: str | None = None
    recovery: str | None = None
    at: str


class Connected(WriteReply, kw_only=True, tag="connected"):
    """A link as it is stored, ends in the caller's order. `resolved` comes later, when the link had been deferred.

    `untrusted` and `warning` where an end is untrusted: whoever stored it may have chosen relation and note.
    """

    status: Literal["success"] = "success"
    action: LinkAction
    source_id: str
    target_id: str
    relation: str
    weight: float
    note: Contents[str | None]
    reinforcement_count: int
    displaced_edge: DisplacedLink | None
    displaced_edges: list[DisplacedLink]
    summary: str
    resolved: Resolved | UnsetType = UNSET
    untrusted: bool | UnsetType = UNSET
    warning: str | UnsetType = UNSET


class Disconnect(Command, frozen=True, kw_only=True, omit_defaults=True, tag="disconnect"):
    """Remove the link between two memories, in either order."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    source: MemoryReference
    target: MemoryReference
    guard_relation: Annotated[Name, Meta(description="Remove only a link of this relation")] | UnsetType = UNSET
    reason: Note | UnsetType = UNSET


class Disconnected(WriteReply, kw_only=True, tag="disconnected"):
    """What was removed; null where nothing was: `what` and `hint` then. A guarded link stays and is described."""

    status: Literal["success"] = "success"
    action: Literal["removed", "not_found", "guarded"]
    source_id: str
    target_id: str
    removed_relation: str | None
    removed_weight: float | None
    summary: str
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET
    untrusted: bool | UnsetType = UNSET
    warning: str | UnsetType = UNSET


class ConnectByQuery(Command, frozen=True, kw_only=True, omit_defaults=True, tag="connect_by_query"):
    """Link the memory that best answers one query to the one that best answers another."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    source_query: Annotated[Query, Meta(description="What one memory says")]
    target_query: Annotated[Query, Meta(description="What the other says")]
    relation: Annotated[Name, Meta(description="Left out: similar")] | UnsetType = UNSET
    note: Annotated[Note, Meta(description="Why they belong together")] | UnsetType = UNSET
    min_confidence: Annotated[UnitInterval, Meta(description="Least chance of a right match")] = 0.70
    if_exists: IfLinked = IfExists.REINFORCE
    dry_run: Annotated[bool, Meta(description="Only show what would be linked")] = False

    def check(self) -> None:
        """Raise EngramqError for a relation that is not the caller's to write."""
        refuse_reserved(self.relation)


class QueryConnected(WriteReply, kw_only=True, tag="query_connected"):
    """What was found for both queries and what came of it; connect_result is a connect's reply or refusal.

    `notice` tells what the caller may not expect, and the next step.
    """

    status: Literal["success"] = "success"
    action: QueryLinkAction
    source_query: Contents[str]
    target_query: Contents[str]
    source_id: str | None
    target_id: str | None
    source_content: Contents[str | None]
    target_content: Contents[str | None]
    source_confidence: float | None
    target_confidence: float | None
    connect_result: dict[str, Any] | None
    summary: str
    notice: str | UnsetType = UNSET


class BatchLink(LinkRequest, frozen=True, kw_only=True, omit_defaults=True):
    """One link of a batch; `fault` when the door has refused it already."""

    source: str = ""
    target: str = ""
    fault: Fault | UnsetType = UNSET


class Connects(Command, frozen=True, kw_only=True, omit_defaults=True, tag="connects"):
    """Assert many links. Bad ones are errors of their index; `atomic`: all or nothing."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    edges: Annotated[tuple[BatchLink, ...], Meta(max_length=limits.BATCH_LINKS, description="The links; at most 200")]
    atomic: Annotated[bool, Meta(description="Write all or nothing")] = False


class BatchLinked(msgspec.Struct, kw_only=True):
    """What became of the link with this index: the fields of Connected (a Struct cannot share them with a reply)."""

    index: int
    action: LinkAction
    source_id: str
    target_id: str
    relation: str
    weight: float
    note: Contents[str | None]
    reinforcement_count: int
    displaced_edge: DisplacedLink | None
    displaced_edges: list[DisplacedLink]
    summary: str
    resolved: Resolved | UnsetType = UNSET
    untrusted: bool | UnsetType = UNSET
    warning: str | UnsetType = UNSET


class BatchRefusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the link with this index was refused."""

    index: int
    code: FaultCode
    error: str
    recovery: str
    field: str | UnsetType = UNSET
    memory_id: str | UnsetType = UNSET


class BatchConnected(WriteReply, kw_only=True, tag="batch_connected"):
    """What a batch did, by index, and counted."""

    status: Literal["success"] = "success"
    results: list[BatchLinked]
    created: int
    reinforced: int
    updated: int
    skipped: int
    deferred: int
    errors: list[BatchRefusal]
    summary: str


class RecordOutcome(Command, frozen=True, kw_only=True, omit_defaults=True, tag="record_outcome"):
    """Say how much memories helped: 1 fully, 0 not at all."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    memory_ids: Annotated[
        tuple[Identifier, ...],
        Meta(
            min_length=1,
            max_length=limits.OUTCOME_MEMORIES,
            description="Memory ids, @stored or @recalled[N]; the most important first",
        ),
    ]
    signal: Annotated[UnitInterval, Meta(description="1 helped, 0 misled")]
    weight: Annotated[float, Meta(gt=0, le=10, description="How much it counts, above 0")] = 1.0
    note: Annotated[Note, Meta(description="What happened")] | UnsetType = UNSET


class OutcomeRecorded(WriteReply, kw_only=True, tag="outcome_recorded"):
    """The new usefulness of each memory, what became of the links between them, and what was left out and why.

    `edges_skipped_by` counts the pairs of counted memories that were left out, by reason.
    """

    status: Literal["success"] = "success"
    updated: list[UsefulMemory]
    edges_created: int
    edges_reinforced: int
    edges_skipped: int
    edges_skipped_by: dict[str, int] = {}
    skipped: list[SkippedMemory]


class Near(msgspec.Struct, frozen=True, array_like=True):
    """A memory and its cosine similarity of content to another."""

    memory_id: str
    similarity: float


class Activated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that has just become active; `near` when its store has looked for its neighbours already."""

    memory_id: str
    near: tuple[Near, ...] | UnsetType = UNSET


class LinkActivated(Command, frozen=True, kw_only=True, omit_defaults=True, tag="link_activated"):
    """Make the similarity links of active memories and settle links that waited for them; sent by workers only."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.ADMIN
    gathered: ClassVar[bool] = True

    memories: tuple[Activated, ...]

    def joined(self, other: Command) -> Command | None:
        """Return one command for the memories of both, unless they are too many."""
        assert isinstance(other, LinkActivated)
        several = self.memories + other.memories
        return None if len(several) > MEMORIES_PER_FOLLOW_UP else LinkActivated(memories=several)


class LinksScheduled(Reply, kw_only=True, tag="links_scheduled"):
    """How many memories will be linked in a moment; the others are left to the sweep."""

    status: Literal["success"] = "success"
    scheduled: int
