"""Commands on links (the association layer): what agents assert about two memories, and what helped them."""

import math
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, ExampleCall, Items, Reply, Tool, ToolGuide, WriteCommand, WriteReply
from engramq.schemas.contents import Contents
from engramq.schemas.faults import Fault, FaultCode, invalid, refuse
from engramq.schemas.fields import Identifier, MemoryReference, Name, Note, UnitInterval, refuse_control_characters
from engramq.schemas.limits import MEMORIES_PER_FOLLOW_UP
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

QueryText = Annotated[str, Meta(min_length=1, max_length=limits.QUERY_CHARS, pattern=r"\S")]
IfLinked = Annotated[IfExists, Meta(description="If linked already")]


# The subject of the guide's examples.
_HERE: Final = {"session": "the queue"}
_BEFORE: Final = (
    ExampleCall.of("store_memory", content="We chose Redis for the queue because latency matters most", **_HERE),
    ExampleCall.of("search_memories", query="Why did we choose Redis for the queue?", **_HERE),
    ExampleCall.of("store_memory", content="A round trip through the queue takes half a millisecond", **_HERE),
)
_CONNECT: Final = ExampleCall.of(
    "connect", source="@stored", target="@recalled[0]", relation="supports", note="the figure behind it", **_HERE
)


class LinkRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The caller's description of one link. `weight` is clamped to [0, 1]; relation and weight have defaults."""

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
        refuse_relation(self.relation)
        if self.source == self.target:
            raise refuse(FaultCode.SELF_LOOP, "A memory cannot be linked to itself.")


def refuse_relation(relation: str | UnsetType) -> None:
    """Raise EngramqError for a relation that is no name, and for the one that only supersede_memory may write."""
    refuse_control_characters(relation=relation)
    if relation == Relation.SUPERSEDES:
        error = "relation 'supersedes' is written by supersede_memory alone."
        raise invalid("relation", error, "Leave it out, or use another word. supersede_memory writes that one.")


class Connect(LinkRequest, WriteCommand, frozen=True, kw_only=True, tag="connect"):
    """Assert that two memories are related."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a deferred link: made (with its action) or dropped (with the code, the error and the recovery)."""

    state: Resolution
    action: LinkAction | None = None
    code: FaultCode | None = None
    error: str | None = None
    recovery: str | None = None
    at: str


class Connected(WriteReply, kw_only=True, tag="connected"):
    """A link as it is stored, ends in the caller's order. `resolved` comes later, when the link had been deferred.

    `untrusted` and `warning` where an end is untrusted: its author may have chosen relation and note.
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


CONNECT: Final = Tool(
    parameters=Connect,
    replies=(Connected,),
    rest="POST /links",
    client_name="connect",
    title="Connect two memories",
    summary="Say how two memories are related: searches for one lift the other. Call it when one explains, supports or "
    "contradicts the other. Not for likeness. If one replaces the other, call supersede_memory.",
    example='connect(source="<id>", target="<id>", relation="supports")',
    core=("source", "target", "relation", "note", "session"),
    ids=("source", "target"),
    destructive=True,
    everyday=("source", "target", "relation", "note", "if_exists", "session"),
    guide=ToolGuide(
        what="Asserts how two memories are related. Searches that find one then lift or bring in the other.",
        when="One memory explains, supports or contradicts another and wording alone would not show it: a decision and "
        "its measurement, a rule and its exception.",
        when_not="They merely resemble each other: similarity links are made by themselves. One replaces the other: "
        "supersede_memory. Named things and facts: graph_add_edge.",
        cost="One transaction that locks both memories, about 10 ms; no embedding. A memory has room for 10 links by "
        "default; the weakest automatic one makes room.",
        returns="action (created, reinforced, updated, skipped, deferred), the link as stored, and what it displaced. "
        "deferred: an end is still being embedded; get_command tells what became of it.",
        next="relation_conflict: if_exists update changes the relation. degree_limit: disconnect one of the links that "
        "get_memory, with include_untrusted, shows of the memory named.",
        before=_BEFORE,
        example=_CONNECT,
    ),
)


class Disconnect(WriteCommand, frozen=True, kw_only=True, tag="disconnect"):
    """Remove the link between two memories, in either order."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES

    source: MemoryReference
    target: MemoryReference
    guard_relation: Annotated[Name, Meta(description="Only a link of this relation")] | UnsetType = UNSET
    reason: Note | UnsetType = UNSET


class Disconnected(WriteReply, kw_only=True, tag="disconnected"):
    """The links that were removed; null with `what` and `hint` when there were none.

    A guarded link stays and is described.
    """

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


DISCONNECT: Final = Tool(
    parameters=Disconnect,
    replies=(Disconnected,),
    rest="DELETE /links",
    client_name="disconnect",
    title="Disconnect two memories",
    summary="Remove the link between two memories for good. Call it when it misleads searches. If only its relation "
    "is wrong, call connect with if_exists update.",
    example='disconnect(source="@recalled[0]", target="@recalled[1]")',
    ids=("source", "target"),
    destructive=True,
    idempotent=True,
    everyday=("source", "target", "session"),
    guide=ToolGuide(
        what="Removes the link between two memories, in either order, also one that is deferred. Automatic writers do "
        "not make an automatic one again.",
        when="A link misleads: search results come via it and do not belong.",
        when_not="The memory itself is wrong: supersede_memory or forget_memory. You want another relation: connect "
        "with if_exists update.",
        cost="One audited transaction, about 10 ms.",
        returns="action removed (with the relation and weight that it had), not_found, or guarded: it has "
        "another relation than guard_relation, or is a supersession, which restore_memory undoes.",
        next="Nothing; the next search does not follow it. connect makes it again.",
        before=(*_BEFORE, _CONNECT),
        example=ExampleCall.of(
            "disconnect", source="@recalled[0]", target="@stored", guard_relation="supports", **_HERE
        ),
    ),
)


class ConnectByQuery(WriteCommand, frozen=True, kw_only=True, tag="connect_by_query"):
    """Link the memory that best answers one query to the one that best answers another."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES

    source_query: Annotated[QueryText, Meta(description="What one memory says")]
    target_query: Annotated[QueryText, Meta(description="What the other says")]
    relation: Annotated[Name, Meta(description="Left out: similar")] | UnsetType = UNSET
    note: Annotated[Note, Meta(description="Why they belong together")] | UnsetType = UNSET
    min_confidence: Annotated[UnitInterval, Meta(description="Least chance of a right match")] = 0.70
    if_exists: IfLinked = IfExists.REINFORCE
    dry_run: Annotated[bool, Meta(description="Only show what it would link")] = False

    def check(self) -> None:
        """Raise EngramqError for a relation that is not the caller's to write."""
        refuse_relation(self.relation)


class QueryConnected(WriteReply, kw_only=True, tag="query_connected"):
    """The matches of both queries and the result of connecting them; connect_result is a connect's reply or refusal.

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


CONNECT_BY_QUERY: Final = Tool(
    parameters=ConnectByQuery,
    replies=(QueryConnected,),
    rest="POST /links/by-query",
    client_name="connect_by_query",
    title="Connect memories by query",
    summary="Link the memories that best match two queries. Call it when you know no ids; first with dry_run. If you "
    "know them, call connect.",
    example='connect_by_query(source_query="Redis", target_query="latency", dry_run=true)',
    bounded=True,
    destructive=True,
    everyday=("source_query", "target_query", "relation", "min_confidence", "dry_run"),
    guide=ToolGuide(
        what="Links the memory that best matches one query to the one that best matches another.",
        when="You know both memories by what they say and have neither id at hand.",
        when_not="You have just stored or recalled them: connect with @stored and @recalled[N] is exact and cheaper.",
        cost="Two embeddings and two vector searches, about 30 ms, and what connect costs. dry_run writes nothing. "
        "With a custom embedder the first call also calibrates it, for seconds.",
        returns="action (insufficient_confidence, same_memory, dry_run_preview, refused, connected), what was found "
        "for both with the chance that it is the one meant, and connect_result.",
        next="insufficient_confidence: read the contents found; ask more exactly, or connect by id. Preview is right: "
        "again without dry_run.",
        before=_BEFORE,
        example=ExampleCall.of(
            "connect_by_query",
            source_query="How long does a round trip through the queue take?",
            target_query="Why was Redis chosen for the queue?",
            relation="supports",
            dry_run=True,
        ),
    ),
)


class BatchLink(LinkRequest, frozen=True, kw_only=True):
    """One link of a batch; `fault` when the door has refused it already."""

    source: str = ""
    target: str = ""
    fault: Fault | UnsetType = UNSET


class Connects(WriteCommand, frozen=True, kw_only=True, tag="connects"):
    """Assert many links. Bad ones are errors of their index; `atomic`: all or nothing."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES

    edges: Annotated[tuple[BatchLink, ...], Meta(max_length=limits.BATCH_LINKS, description="The links; at most 200")]
    atomic: Annotated[bool, Meta(description="All or nothing")] = False


class BatchLinked(msgspec.Struct, kw_only=True):
    """The result for the link with this index: the fields of Connected (a Struct cannot share them with a reply)."""

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
    """The results of a batch, counted, and by index: failures first, since a client may cut a long reply."""

    status: Literal["success"] = "success"
    summary: str
    created: int
    reinforced: int
    updated: int
    skipped: int
    deferred: int
    errors: list[BatchRefusal]
    results: list[BatchLinked]


CONNECTS: Final = Tool(
    parameters=Connects,
    replies=(BatchConnected,),
    rest="POST /links/batch",
    client_name="connect_many",
    title="Connect in a batch",
    summary="Make many links at once; bad ones are reported by index. Call it to link a set. For one call connect.",
    example='connects(edges=[{"source": "@recalled[0]", "target": "@recalled[1]"}])',
    session=True,
    bounded=True,
    batches={"edges": Items(taken=LinkRequest, kept=BatchLink, ids=("source", "target"))},
    destructive=True,
    everyday=("edges", "session"),
    guide=ToolGuide(
        what="Asserts up to 200 links in one call, each as in connect.",
        when="You link a whole set: the steps of a plan, everything that a report rests on.",
        when_not="One link: connect.",
        cost="One transaction, about as much as the links would cost alone, without the round trips.",
        returns="results and errors, each with its index, and counts. A bad item is an error of its index. atomic: all "
        "or nothing, and the first error is the answer. Many results come in parts: rest names the call that goes on.",
        next="Correct the items in errors and send those again.",
        before=_BEFORE,
        example=ExampleCall.of(
            "connects",
            edges=[
                {"source": "@stored", "target": "@recalled[0]", "relation": "supports"},
                {"source": "@recalled[0]", "target": "@stored", "note": "said twice: the link is reinforced"},
            ],
            atomic=True,
            **_HERE,
        ),
    ),
)


class RecordOutcome(WriteCommand, frozen=True, kw_only=True, tag="record_outcome"):
    """Say how much memories helped: 1 fully, 0 not at all."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES

    memory_ids: Annotated[
        tuple[Identifier, ...],
        Meta(min_length=1, max_length=limits.OUTCOME_MEMORIES, description="Ids or references, the best first"),
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


RECORD_OUTCOME: Final = Tool(
    parameters=RecordOutcome,
    replies=(OutcomeRecorded,),
    rest="POST /outcomes",
    client_name="record_outcome",
    title="Record an outcome",
    summary="Say how much memories helped (1) or misled (0), for later ranks. Call it when a task that relied on them "
    "has ended. Not for what you only read.",
    example='record_outcome(memory_ids=["@recalled[0]"], signal=0.9)',
    core=("memory_ids", "signal", "note", "session"),
    ids=("memory_ids",),
    everyday=("memory_ids", "signal", "session"),
    guide=ToolGuide(
        what="Says how much memories helped, from 1 (helped) to 0 (misled). Moves their rank within bounds, and links "
        "those that helped together.",
        when="A task that relied on recalled memories has ended, well or badly. Name those that you used, the most "
        "important first.",
        when_not="You only read them. You do not know the outcome yet. One is false: supersede_memory or verify_memory "
        "rejected says so, a low signal does not.",
        cost="One transaction, about 10 ms for a few memories. Pairs without room for a link are skipped.",
        returns="updated (the new usefulness of each), edges_created, edges_reinforced, edges_skipped, and skipped "
        "memories with the reason.",
        next="Store what you learned from the task with store_memory.",
        before=_BEFORE[:2],
        example=ExampleCall.of("record_outcome", memory_ids=["@recalled[0]"], signal=0.9, **_HERE),
    ),
)


class Near(msgspec.Struct, frozen=True, array_like=True):
    """A memory and its cosine similarity of content to another."""

    memory_id: str
    similarity: float


class Activated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that has just become active; `near` when its store has looked for its neighbours already."""

    memory_id: str
    near: tuple[Near, ...] | UnsetType = UNSET


class LinkActivated(Command, frozen=True, kw_only=True, tag="link_activated"):
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
