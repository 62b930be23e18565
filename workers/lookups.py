"""The reads of the `recall` kind that need no ranking: lists, single memories, commands, counts, the ping."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import UNSET

from schemas.codec import reply_body
from schemas.commands import (
    Command,
    CommandReport,
    GetCommand,
    GetMemory,
    ListRecentMemories,
    MemoryFound,
    MemoryList,
    MemoryStats,
    Ping,
    Pong,
    QueueDepth,
    Stats,
)
from schemas.envelope import Answer
from schemas.faults import invalid
from schemas.ids import format_time, parse_uuid
from schemas.vocabulary import CommandStatus, MemoryState, Partition, Scope, Sector
from workers.contract import Handler, Job, MailboxView, Outcome
from workers.store import lookups
from workers.store.ledger import find_entry
from workers.store.lookups import Page, Position
from workers.store.store import Store
from workers.vectorizer import Vectorizer

_SEPARATOR: Final = "|"  # between the parts of a position


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookups:
    """The handlers."""

    store: Store
    vectorizer: Vectorizer
    mailboxes: MailboxView

    def handlers(self) -> Mapping[type[Command], Handler]:
        """Return the handler of each command."""
        return {
            ListRecentMemories: self.list_recent,
            GetMemory: self.get_memory,
            GetCommand: self.get_command,
            MemoryStats: self.stats,
            Ping: self.ping,
        }

    async def list_recent(self, job: Job) -> Outcome:
        """Carry out ListRecentMemories. The cursor, which the gateway has checked, is the last page's position."""
        command = job.envelope.command
        assert isinstance(command, ListRecentMemories)
        page = Page(
            partitions=command.partitions,
            sectors=None if command.sectors is UNSET else command.sectors,
            include_superseded=command.include_superseded,
            limit=command.limit,
            after=None if command.cursor is UNSET else _read_position(command.cursor),
        )
        memories, end = await self.store.read(job.envelope.namespace, lambda tx: lookups.recent(tx, page))
        cursor = None if end is None else f"{format_time(end.created_at)}{_SEPARATOR}{end.memory_id}"
        return Outcome(MemoryList(memories=memories, count=len(memories), next_cursor=cursor))

    async def get_memory(self, job: Job) -> Outcome:
        """Carry out GetMemory; it changes no bookkeeping."""
        command = job.envelope.command
        assert isinstance(command, GetMemory)
        wanted = parse_uuid(command.memory_id)
        partitions = tuple(Partition) if command.include_untrusted else (Partition.TRUSTED,)
        found = None
        if wanted is not None:
            found = await self.store.read(
                job.envelope.namespace, lambda tx: lookups.memory_with_links(tx, wanted, partitions)
            )
        if found is None:
            return Outcome(MemoryFound(memory=None, status="not_found"))
        memory, links = found
        return Outcome(MemoryFound(memory=memory, links=links, status="success"))

    async def get_command(self, job: Job) -> Outcome:
        """Carry out GetCommand: the ledger knows what has ended, the queue what has not."""
        envelope = job.envelope
        command, principal = envelope.command, envelope.principal
        assert isinstance(command, GetCommand)
        entry = await self.store.read(envelope.namespace, lambda tx: find_entry(tx, command.command_id))
        if entry is not None:
            allowed = entry.principal == principal.name or Scope.ADMIN in principal.scopes
            return Outcome(_report(entry.answer) if allowed else CommandReport(status=CommandStatus.UNKNOWN))
        found = await self.mailboxes.find(command.command_id, envelope.namespace, principal.name)
        if isinstance(found, Answer):
            return Outcome(_report(found))
        words = {True: CommandStatus.RUNNING, False: CommandStatus.PENDING, None: CommandStatus.UNKNOWN}
        return Outcome(CommandReport(status=words[found]))

    async def stats(self, job: Job) -> Outcome:
        """Carry out MemoryStats."""
        namespace = job.envelope.namespace
        rows = await self.store.read(namespace, lookups.count_memories)
        edges = await self.store.read(namespace, lookups.count_edges)
        depths = await self.mailboxes.depths()
        spec = self.vectorizer.spec

        def counts(column: str, words: type[Partition] | type[Sector] | type[MemoryState]) -> dict[str, int]:
            counted: Counter[str] = Counter()
            for row in rows:
                counted[row[column]] += row["memories"]
            return {word.value: counted[word.value] for word in words}

        return Outcome(
            Stats(
                memories=sum(row["memories"] for row in rows),
                by_partition=counts("partition", Partition),
                by_sector=counts("sector", Sector),
                by_state=counts("state", MemoryState),
                superseded=sum(row["superseded"] for row in rows),
                edges=edges,
                queues={kind.value: QueueDepth(depth=depth, dead=dead) for kind, (depth, dead) in depths.items()},
                embedder={"name": spec.name, "dimensions": spec.dimensions, "sha256": spec.sha256},
            )
        )

    async def ping(self, job: Job) -> Outcome:
        """Carry out Ping."""
        command = job.envelope.command
        assert isinstance(command, Ping)
        return Outcome(Pong(payload=command.payload))


def _read_position(cursor: str) -> Position:
    moment, _, memory_id = cursor.partition(_SEPARATOR)
    wanted = parse_uuid(memory_id)
    try:
        created_at = datetime.fromisoformat(moment)
    except ValueError:
        created_at = None
    if wanted is None or created_at is None:
        raise invalid("cursor", "The cursor is not one that this list gave.", "Begin again without a cursor.")
    return Position(created_at, wanted)


def _report(answer: Answer) -> CommandReport:
    """Return what a command answered, as its caller reads it."""
    if answer.reply is not None:
        return CommandReport(status=CommandStatus.DONE, reply=reply_body(answer.reply))
    assert answer.fault is not None
    body: dict[str, Any] = {"status": answer.fault.status.value, **msgspec.to_builtins(answer.fault)}
    return CommandReport(status=CommandStatus.FAILED, reply=body)
