"""Commands about the pipeline itself."""

from typing import Any, ClassVar, Literal

import msgspec

from engramq.schemas.commands.base import Command, Reply
from engramq.schemas.fields import Identifier
from engramq.schemas.vocabulary import CommandStatus, WorkerKind


class Ping(Command, frozen=True, kw_only=True, omit_defaults=True, tag="ping"):
    """Do nothing and answer; readiness and the round-trip benchmark use it. `payload` comes back as it is."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL

    payload: bytes = b""


class Pong(Reply, kw_only=True, tag="pong"):
    """The answer to a ping."""

    payload: bytes = b""
    status: Literal["success"] = "success"


class GetCommand(Command, frozen=True, kw_only=True, omit_defaults=True, tag="get_command"):
    """Ask what became of a command of this principal's."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL

    command_id: Identifier


class CommandReport(Reply, kw_only=True, tag="command_report"):
    """`reply` is what the command answered (a reply or a refusal as the client reads it), null until it has ended."""

    status: CommandStatus
    reply: dict[str, Any] | None = None


class MemoryStats(Command, frozen=True, kw_only=True, omit_defaults=True, tag="memory_stats"):
    """Count what this namespace holds."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL


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


class Stats(Reply, kw_only=True, tag="stats"):
    """Counts by partition, sector and state (both partitions), edges, queue depths by mailbox, the embedder."""

    status: Literal["success"] = "success"
    memories: int
    by_partition: dict[str, int]
    by_sector: dict[str, int]
    by_state: dict[str, int]
    superseded: int
    edges: list[EdgeCount]
    queues: dict[str, QueueDepth]
    embedder: dict[str, Any]
