"""Commands about the pipeline itself."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, Page, Reply
from engramq.schemas.commands.memories import DEFAULT_PARTITIONS, Partitions
from engramq.schemas.faults import invalid
from engramq.schemas.fields import Cursor, Identifier, Moment, Name, refuse_reversed
from engramq.schemas.overview import Check
from engramq.schemas.records import AuditEntry
from engramq.schemas.vocabulary import AuditAction, CommandStatus, Scope, WorkerKind


class Ping(Command, frozen=True, kw_only=True, omit_defaults=True, tag="ping"):
    """Do nothing and answer; readiness and the round-trip benchmark use it. `payload` comes back as it is.

    `database`: say too whether the database serves; `checks`: what else a worker alone can look at.
    """

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL

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


class GetCommand(Command, frozen=True, kw_only=True, omit_defaults=True, tag="get_command"):
    """Ask what became of a command of this principal's."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL

    command_id: Identifier


class CommandReport(Reply, kw_only=True, tag="command_report"):
    """`reply` is what the command answered (a reply or a refusal as the client reads it), null until it has ended."""

    status: CommandStatus
    reply: dict[str, Any] | None = None


class ListAudit(Command, frozen=True, kw_only=True, omit_defaults=True, tag="audit"):
    """List who did what, newest first. The gateway checks a cursor and hands its inner position on."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL
    scope: ClassVar[Scope] = Scope.ADMIN

    target: Annotated[Identifier, Meta(description="Id of a memory, edge or node")] | UnsetType = UNSET
    actor: Annotated[Name, Meta(description="The principal who did it")] | UnsetType = UNSET
    action: Annotated[Name, Meta(description="E.g. erase")] | UnsetType = UNSET
    since: Annotated[datetime, Meta(tz=True, description="A time or date")] | UnsetType = UNSET
    until: Annotated[Moment, Meta(description="As since, with the whole of a date")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=limits.LIST_LIMIT)] = 20
    cursor: Cursor | UnsetType = UNSET

    def check(self) -> None:
        """Refuse an action that is never audited (the listing has no room for all of them), and a reversed span."""
        refuse_reversed(self.since, self.until)
        if self.action is not UNSET and self.action not in set(AuditAction):
            raise invalid("action", "action is none that is audited.", f"Give one of {', '.join(AuditAction)}.")


class AuditList(Page, kw_only=True, tag="audit_entries"):
    """What was done, newest first; `next_cursor` is null at the end."""

    listed: ClassVar[str] = "entries"

    status: Literal["success"] = "success"
    entries: list[AuditEntry]
    next_cursor: str | None

    def positions(self) -> list[str]:
        """Return the position after each entry."""
        return [str(entry.id) for entry in self.entries]


class MemoryStats(Command, frozen=True, kw_only=True, omit_defaults=True, tag="memory_stats"):
    """Count what this namespace holds. Projects are named as far as they have memories in `partitions`."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL

    partitions: Annotated[Partitions, Meta(description="Whose projects are named")] = DEFAULT_PARTITIONS


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
    """Memories of one project, null: of none, in both partitions; how many of them are untrusted."""

    project: str | None
    memories: int
    untrusted_count: int


class Stats(Reply, kw_only=True, tag="stats"):
    """Counts by partition, sector and state (both partitions), edges, queue depths by mailbox, the embedder.

    `project` is the caller's own. `projects` are those with most memories in the partitions that were asked for,
    counted in both, and `projects_omitted` how many more there are. `full_text` has the `language` of the words, and
    `rebuilding` with `done` of `total` memories after a change of it.
    """

    status: Literal["success"] = "success"
    memories: int
    by_partition: dict[str, int]
    by_sector: dict[str, int]
    by_state: dict[str, int]
    superseded: int
    edges: list[EdgeCount]
    queues: dict[str, QueueDepth]
    embedder: dict[str, Any]
    full_text: dict[str, Any] = {}  # empty: from a worker before 0.8
    project: str | None = None
    projects: list[ProjectCount] = []
    projects_omitted: int = 0
