"""The `recall` kind: every read."""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import UNSET, UnsetType

from engramq.schemas.codec import fault_body, reply_body
from engramq.schemas.commands import (
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
    SearchMemories,
    Stats,
)
from engramq.schemas.envelope import Answer, Principal
from engramq.schemas.faults import invalid
from engramq.schemas.ids import format_time, parse_uuid
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import CommandStatus, Partition, Scope, WorkerKind
from engramq.workers.auth import handlers as identities
from engramq.workers.db.database import Store
from engramq.workers.db.ledger import find_entry
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Sizes
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.graph import read_handlers as graph_reads
from engramq.workers.links.co_retrieval import CoRetrievals
from engramq.workers.memories import reading as recall
from engramq.workers.memories.store import read_memories
from engramq.workers.queue.contract import Actor, Job, MailboxView, Outcome, SessionState, SessionUse
from engramq.workers.search.search import each_once, find_memories
from engramq.workers.search.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The handlers of the kind."""

    store: Store
    vectorizer: Vectorizer
    sizes: Sizes
    usage: Usage
    co_retrievals: CoRetrievals
    mailboxes: MailboxView

    async def search(self, job: Job) -> Outcome:
        """Carry out SearchMemories. While the model is away words alone decide, whatever ranking was asked for."""
        command, namespace = job.envelope.command, job.envelope.namespace
        assert isinstance(command, SearchMemories)
        if command.sectors == ():
            return _found([], UNSET)
        embedding = await self.vectorizer.try_embed(command.query)
        memories = await self.store.read(namespace, lambda tx: find_memories(tx, self.sizes, command, embedding))
        outcome = _found(memories, True if embedding is None else UNSET)
        counting = _counting(memories, job.envelope.principal)
        if not counting:
            return outcome

        async def note(use: SessionUse | None) -> None:
            await asyncio.gather(
                self.usage.note(namespace, [UUID(one.id) for one in counting]),
                self.co_retrievals.note(counting, use),
            )

        return replace(outcome, after_reply=note)

    async def list_recent(self, job: Job) -> Outcome:
        """Carry out ListRecentMemories; a cursor is the position that the last page's next_cursor was."""
        command = job.envelope.command
        assert isinstance(command, ListRecentMemories)
        after = None if command.cursor is UNSET else _place(command.cursor)
        if command.sectors == ():
            return Outcome(MemoryList(memories=[], count=0, next_cursor=None))
        memories, last = await self.store.read(
            job.envelope.namespace,
            lambda tx: recall.recent(
                tx,
                partitions=each_once(command.partitions),
                sectors=None if command.sectors is UNSET else command.sectors,
                include_superseded=command.include_superseded,
                after=after,
                limit=command.limit,
            ),
        )
        cursor = None if last is None else f"{format_time(last.created_at)}|{last.id}"
        return Outcome(MemoryList(memories=memories, count=len(memories), next_cursor=cursor))

    async def get_memory(self, job: Job) -> Outcome:
        """Carry out GetMemory; changes nothing."""
        command = job.envelope.command
        assert isinstance(command, GetMemory)
        memory_id = parse_uuid(command.memory_id)
        if memory_id is None:
            return Outcome(_NOT_FOUND)
        partitions = tuple(Partition) if command.include_untrusted else (Partition.TRUSTED,)

        async def read(tx: Transaction) -> MemoryFound:
            memory = (await read_memories(tx, [memory_id])).get(memory_id)
            if memory is None or memory.partition not in partitions:
                return _NOT_FOUND
            return MemoryFound(memory=memory, links=await recall.links_of(tx, memory_id, partitions), status="success")

        return Outcome(await self.store.read(job.envelope.namespace, read))

    async def get_command(self, job: Job) -> Outcome:
        """Carry out GetCommand: the ledger knows what has ended, the mailboxes what has not."""
        command, principal = job.envelope.command, job.envelope.principal
        assert isinstance(command, GetCommand)
        entry = await self.store.read(job.envelope.namespace, lambda tx: find_entry(tx, command.command_id))
        if entry is not None:
            return Outcome(_report(entry.answer) if _may_see(principal, entry.principal) else _UNKNOWN)
        asked_by = None if Scope.ADMIN in principal.scopes else principal.name
        found = await self.mailboxes.find(command.command_id, job.envelope.namespace, asked_by)
        if isinstance(found, Answer):
            return Outcome(_report(found))
        if found is None:
            # It may have ended between the two looks.
            entry = await self.store.read(job.envelope.namespace, lambda tx: find_entry(tx, command.command_id))
            if entry is not None and _may_see(principal, entry.principal):
                return Outcome(_report(entry.answer))
            return Outcome(_UNKNOWN)
        return Outcome(CommandReport(status=CommandStatus.RUNNING if found else CommandStatus.PENDING))

    async def stats(self, job: Job) -> Outcome:
        """Carry out MemoryStats."""
        counts = await self.store.read(job.envelope.namespace, recall.counts)
        depths = await self.mailboxes.depths()
        spec = self.vectorizer.spec
        return Outcome(
            Stats(
                memories=counts.memories,
                by_partition=counts.by_partition,
                by_sector=counts.by_sector,
                by_state=counts.by_state,
                superseded=counts.superseded,
                edges=counts.edges,
                queues={kind.value: QueueDepth(depth=depth, dead=dead) for kind, (depth, dead) in depths.items()},
                embedder={"name": spec.name, "dimensions": spec.dimensions, "sha256": spec.sha256},
            )
        )

    async def ping(self, job: Job) -> Outcome:
        """Carry out Ping."""
        command = job.envelope.command
        assert isinstance(command, Ping)
        return Outcome(Pong(payload=command.payload))


_NOT_FOUND: Final = MemoryFound(memory=None, status="not_found")
_UNKNOWN: Final = CommandReport(status=CommandStatus.UNKNOWN)


def _found(memories: list[Memory], degraded: bool | UnsetType) -> Outcome:
    reply = MemoryList(memories=memories, count=len(memories), degraded=degraded)
    return Outcome(reply, session_state=SessionState(recalled=tuple(one.id for one in memories)))


def _counting(memories: list[Memory], principal: Principal) -> list[Memory]:
    """Return what was found as far as it counts: an untrusted principal keeps no trusted memory from fading."""
    return [one for one in memories if not (principal.untrusted and one.partition is Partition.TRUSTED)]


def _place(cursor: str) -> recall.Place:
    """Return the place that a cursor stands for; the gateway has checked that we gave it out."""
    at, _, text = cursor.partition("|")
    memory_id = parse_uuid(text)
    try:
        created_at = datetime.fromisoformat(at)
    except ValueError:
        created_at = None
    if memory_id is None or created_at is None or created_at.tzinfo is None:
        raise invalid("cursor", "cursor is none that this list gave out.")
    return recall.Place(created_at, memory_id)


def _may_see(principal: Principal, owner: str) -> bool:
    return principal.name == owner or Scope.ADMIN in principal.scopes


def _report(answer: Answer) -> CommandReport:
    """Return the report on a command that has ended, its answer as its caller would read it."""
    if answer.fault is not None:
        return CommandReport(status=CommandStatus.FAILED, reply=fault_body(answer.fault))
    assert answer.reply is not None
    return CommandReport(status=CommandStatus.DONE, reply=reply_body(answer.reply))


def actor(reader: Reader) -> Actor:
    """Return the worker kind."""
    return Actor(
        WorkerKind.RECALL,
        {
            SearchMemories: reader.search,
            ListRecentMemories: reader.list_recent,
            GetMemory: reader.get_memory,
            GetCommand: reader.get_command,
            MemoryStats: reader.stats,
            Ping: reader.ping,
            **graph_reads.handlers(reader.store),
            **identities.handlers(reader.store),
        },
    )
