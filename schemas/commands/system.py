"""Commands about the pipeline itself."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.checks import Check
from engramq.schemas.commands.base import Command, ExampleCall, Page, Reply, Tool, ToolGuide
from engramq.schemas.commands.memories import DEFAULT_PARTITIONS, Partitions, Sectors
from engramq.schemas.faults import invalid
from engramq.schemas.fields import Cursor, Identifier, Moment, Name
from engramq.schemas.records import AuditEntry
from engramq.schemas.vocabulary import AuditAction, CommandStatus, MemoryState, Scope

# The subject of the guide's examples.
_STORE: Final = ExampleCall.of(
    "store_memory", content="The release is planned for the first of May", session="planning"
)


class Ping(Command, frozen=True, kw_only=True, tag="ping"):
    """Do nothing and answer; readiness and the round-trip benchmark use it. `payload` comes back as it is.

    `database`: say too whether the database serves; `checks`: what else a worker alone can look at.
    """

    payload: bytes = b""
    database: bool = False
    checks: bool = False


class Pong(Reply, kw_only=True, tag="pong"):
    """The answer to a ping: what the database refuses, as a sentence, whether it serves reads, other checks."""

    payload: bytes = b""
    refused: str = ""
    reads: bool = True
    checks: list[Check] = []
    status: Literal["success"] = "success"


class GetCommand(Command, frozen=True, kw_only=True, tag="get_command"):
    """Ask what became of a command of this principal's."""

    command_id: Identifier
    first: Annotated[int, Meta(ge=0, le=limits.IMPORT_ROWS, description="First item to show")] = 0


class CommandReport(Reply, kw_only=True, tag="command_report"):
    """`reply` is what the command answered (a reply or a refusal as the client reads it), null until it has ended."""

    status: CommandStatus
    reply: dict[str, Any] | None = None


GET_COMMAND: Final = Tool(
    parameters=GetCommand,
    replies=(CommandReport,),
    rest="GET /commands/{command_id}",
    client_name="get_command",
    title="Get a command's outcome",
    summary="Learn what became of a write, and its reply. Call it when one answered pending, or the connection "
    "broke. A write that answered is final. Until then do not write again.",
    example='get_command(command_id="<id>")',
    detailed=True,
    core=("command_id",),
    read_only=True,
    guide=ToolGuide(
        what="Tells what became of a write by its command_id: pending, running, done, failed or unknown.",
        when="A write answered pending, your connection broke in the middle of one, or a connect was deferred.",
        when_not="The write answered: its reply is final. Do not write again to be sure: ask here, or repeat the call "
        "with the idempotency_key that it had.",
        cost="One read, a few milliseconds. Only the same principal, or admin, sees it.",
        returns="status and reply, the answer that you would have got; null until it has ended. Many receipts come in "
        "parts: rest names the call that goes on, with first.",
        next="pending or running: ask again in a second. failed: reply says why, and nothing was applied. unknown: no "
        "such command of yours, or one of more than a week ago.",
        before=(_STORE,),
        example=ExampleCall.of("get_command", command_id="<command_id>"),
    ),
)


class ListAudit(Command, frozen=True, kw_only=True, tag="audit"):
    """List who did what, newest first. The gateway checks a cursor and hands its inner position on."""

    scope: ClassVar[Scope] = Scope.ADMIN

    target: Annotated[Identifier, Meta(description="Id of a memory, edge or node")] | UnsetType = UNSET
    actor: Annotated[Name, Meta(description="The principal who did it")] | UnsetType = UNSET
    action: Annotated[Name, Meta(description="E.g. erase")] | UnsetType = UNSET
    command_id: Annotated[Identifier, Meta(description="All that one write did")] | UnsetType = UNSET
    since: Annotated[datetime, Meta(tz=True, description="A time or date")] | UnsetType = UNSET
    until: Annotated[Moment, Meta(description="As since; whole date")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=limits.LIST_LIMIT)] = 20
    cursor: Cursor | UnsetType = UNSET

    def check(self) -> None:
        """Refuse an action that is never audited: the listing has no room for all of them."""
        super().check()
        if self.action is not UNSET and self.action not in set(AuditAction):
            raise invalid("action", "action is none that is audited.", f"Give one of {', '.join(AuditAction)}.")


class AuditList(Page, kw_only=True, tag="audit_entries"):
    """The audit entries, newest first; `next_cursor` is null at the end."""

    listed: ClassVar[str] = "entries"

    status: Literal["success"] = "success"
    entries: list[AuditEntry]
    next_cursor: str | None

    def positions(self) -> list[str]:
        """Return the position after each entry."""
        return [str(entry.id) for entry in self.entries]


LIST_AUDIT: Final = Tool(
    parameters=ListAudit,
    replies=(AuditList,),
    rest="GET /audit",
    client_name="audit",
    title="Audit",
    summary="See who changed what, newest first. Call it when something "
    "is hidden or gone. For its content call get_memory.",
    example='audit(target="<id>")',
    bounded=True,
    read_only=True,
    guide=ToolGuide(
        what="Lists who did what to memories, links, edges, nodes and tokens, with old and new values and reasons, "
        "newest first. target takes a memory with its links and outcomes, or a node with its edges.",
        when="A memory is hidden, linked, verified or gone and you have to know who did that, when and why.",
        when_not="You want to know what a memory says: get_memory. The audit holds ids and changes, never contents.",
        cost="One read, a few milliseconds; with target, of all entries of the namespace. Needs the admin scope.",
        returns="entries and next_cursor, null at the end. Unknown ids have none.",
        next="A change was wrong: restore_memory, verify_memory or disconnect undo most of them.",
        before=(_STORE,),
        example=ExampleCall.of("audit", target="<stored.id>"),
    ),
)


class MemoryStats(Command, frozen=True, kw_only=True, tag="memory_stats"):
    """Count what this namespace holds. Projects are named as far as they have memories in `partitions`."""

    partitions: Annotated[Partitions, Meta(description="Whose projects are named")] = DEFAULT_PARTITIONS


class CountFacets(Command, frozen=True, kw_only=True, tag="count_facets"):
    """Count the memories of a list by the words that the page offers to filter by. The page sends it."""

    partitions: Partitions = DEFAULT_PARTITIONS
    sectors: Sectors | UnsetType = UNSET
    project: Name | UnsetType = UNSET
    project_only: bool = False
    states: tuple[MemoryState, ...] | UnsetType = UNSET
    include_superseded: bool = False


class FacetCounts(Reply, kw_only=True, tag="facet_counts"):
    """How many memories a list would show with each word in the place of the one that was chosen of its kind.

    Memories without a sector are in none. Projects are those with most.
    """

    status: Literal["success"] = "success"
    by_project: dict[str, int]
    by_sector: dict[str, int]
    by_state: dict[str, int]
    by_partition: dict[str, int]


class EdgeCount(msgspec.Struct, frozen=True, kw_only=True):
    """Edges of one origin and relation."""

    layer: str
    origin: str
    relation: str
    count: int


class QueueDepth(msgspec.Struct, frozen=True, kw_only=True):
    """Commands waiting or running in one mailbox, and its dead letters."""

    depth: int
    dead: int


class ProjectCount(msgspec.Struct, frozen=True, kw_only=True):
    """Memories of one project, null: of none, that hold, in both partitions; how many of them are untrusted."""

    project: str | None
    memories: int
    untrusted_count: int


class Stats(Reply, kw_only=True, tag="stats"):
    """Counts by partition, sector and state (both partitions), edges, queue depths by mailbox, the embedder.

    `project` is the caller's own. `projects` are those with most memories in the partitions that were asked for,
    counted in both as lists show them, without superseded, archived and rejected ones; `projects_omitted`: how many
    more there are. `full_text` has the `language` of the words, and `rebuilding` with `done` of `total` memories after
    a change of it. `private` says how private memories are kept: `visibility`, what new ones are, null as usual;
    `consent`, sharing takes somebody else's; `admins_read`, administrators may read them. To administrators
    `of_others`: how many are not their own.
    """

    status: Literal["success"] = "success"
    memories: int
    by_partition: dict[str, int]
    by_sector: dict[str, int]
    by_state: dict[str, int]
    superseded: int
    edges: list[EdgeCount]
    queues: dict[str, QueueDepth]  # empty for who is no administrator: they are those of all namespaces
    embedder: dict[str, Any]
    full_text: dict[str, Any] = {}  # empty: from a worker before 0.8
    project: str | None = None
    projects: list[ProjectCount] = []
    projects_omitted: int = 0
    private: dict[str, Any] = {}  # empty: from a worker before 0.8


MEMORY_STATS: Final = Tool(
    parameters=MemoryStats,
    replies=(Stats,),
    rest="GET /stats",
    client_name="stats",
    title="Memory statistics",
    summary="Count memories by partition, sector, state and project, links, and waiting jobs. Call it to judge "
    "how much is known. Not for contents.",
    example="memory_stats()",
    read_only=True,
    guide=ToolGuide(
        what="Counts memories by partition, sector, state and project, links by origin, and what waits in the queues.",
        when="You judge how much is known at all and in which projects, or why things are slow (depth) or lost (dead).",
        when_not="You look for content: it shows none.",
        cost="Memories are counted by kept totals, links one by one: milliseconds, longer for a million links.",
        returns="memories, by_partition (both), by_sector, by_state, superseded, edges, queues, embedder; project, in "
        "which your calls are that name none, and projects, those with memories in partitions. Projects of captured "
        "turns alone need partitions=['untrusted']. private: how private memories are kept, "
        "and whether administrators read them.",
        next="Search another project by project, all by '*'. A queue with dead commands: tell the operator. queues is "
        "empty without the scope admin.",
        example=ExampleCall.of("memory_stats"),
    ),
)
