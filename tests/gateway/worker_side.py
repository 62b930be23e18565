"""The other end of the queue, scripted: takes commands from real mailboxes and pushes answers as workers would."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from redis.asyncio import Redis

from engramq.schemas.codec import decode_envelope, decode_job, encode
from engramq.schemas.commands import (
    TOOLS,
    AuditList,
    Command,
    CommandReport,
    CountFacets,
    CountMemories,
    FacetCounts,
    ForgetMemory,
    Forgotten,
    GetCommand,
    GetMemory,
    ImportMemories,
    ListAudit,
    ListRecentMemories,
    MemoriesImported,
    MemoryChanged,
    MemoryFound,
    MemoryList,
    MemoryStats,
    MemoryTimeline,
    Ping,
    Pong,
    QueueDepth,
    ReceiptKey,
    ReceiptKeyShown,
    Reply,
    RestoreMemory,
    SearchMemories,
    Stats,
    Stored,
    StoreMemory,
    Superseded,
    SupersedeMemory,
    UpdateMemory,
    WriteReply,
)
from engramq.schemas.commands.base import Page
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import Fault
from engramq.schemas.keys import JOB_KEY, Keys
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import CommandStatus, WorkerKind
from tests.schemas.samples import sample

Script = Callable[[Any, Envelope], Reply | Fault | None]


def a_memory(**changes: Any) -> Memory:
    """Return a memory with everything that has no default."""
    times = {"created_at": "2026-01-31T09:00:00.000000Z", "updated_at": "2026-01-31T09:00:00.000000Z"}
    return Memory(**{"id": "m-1", "content": "Ada prefers tea", "created_by": "I/O", **times, **changes})


def no_memories(_command: Command, _envelope: Envelope) -> Reply:
    return MemoryList(memories=[], count=0)


def _sampled(kind: type[Any], _command: Command, envelope: Envelope) -> Reply:
    reply: Reply = sample(kind, full=True)
    if isinstance(reply, WriteReply):
        reply.command_id = envelope.id
    if isinstance(reply, Page):
        reply.next_cursor = None  # type: ignore[attr-defined]  # sealed, it would differ between installations
    return reply


SCRIPT: dict[type[Command], Script] = {
    # What stands below counts before this: the first of each tool's replies, with every field.
    **{
        tool.parameters: partial(_sampled, tool.replies[0])
        for tool in TOOLS.values()
        if issubclass(tool.parameters, Command)
    },
    StoreMemory: lambda command, envelope: Stored(stored=a_memory(content=command.content), command_id=envelope.id),
    SearchMemories: lambda _command, _envelope: MemoryList(memories=[a_memory(score=0.5, similarity=None)], count=1),
    ListRecentMemories: no_memories,
    GetMemory: lambda command, _envelope: MemoryFound(
        memory=a_memory(id=command.memory_id), links=[], status="success"
    ),
    SupersedeMemory: lambda _command, envelope: Superseded(old=a_memory(), new=a_memory(), command_id=envelope.id),
    UpdateMemory: lambda _command, envelope: MemoryChanged(status="updated", memory=a_memory(), command_id=envelope.id),
    ForgetMemory: lambda command, envelope: Forgotten(
        status="erased" if command.erase else "archived", id=command.memory_id, command_id=envelope.id
    ),
    ImportMemories: partial(_sampled, MemoriesImported),
    RestoreMemory: lambda _command, envelope: MemoryChanged(status="not_found", command_id=envelope.id),
    GetCommand: lambda _command, _envelope: CommandReport(status=CommandStatus.UNKNOWN),
    MemoryStats: lambda _command, _envelope: Stats(
        memories=0,
        by_partition={},
        by_sector={},
        by_state={},
        superseded=0,
        edges=[],
        queues={kind: QueueDepth(depth=0, dead=0) for kind in WorkerKind},
        embedder={"name": "hash"},
    ),
    Ping: lambda command, _envelope: Pong(payload=command.payload),
    ListAudit: lambda _command, _envelope: AuditList(entries=[], next_cursor=None),
    CountFacets: partial(_sampled, FacetCounts),
    CountMemories: partial(_sampled, MemoryTimeline),
    ReceiptKey: partial(_sampled, ReceiptKeyShown),
}

LIVES_S = 3_600  # what the signs of life are good for


class WorkerSide:
    """Answers by `script` (None: not at all) and remembers the envelopes that it `seen`."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self.redis: Any = redis  # its stubs do not tell the asynchronous client from the other
        self.keys = keys
        self.script: dict[type[Command], Script] = dict(SCRIPT)
        self.seen: list[Envelope] = []

    async def run(self) -> None:
        """Serve every mailbox until cancelled."""
        wakeups = {self.keys.of[kind].wakeups: kind for kind in WorkerKind}
        while True:
            woken = await self.redis.blpop(list(wakeups), timeout=1)
            if woken is not None:
                await self._empty(wakeups[woken[0].decode()])

    async def _empty(self, kind: WorkerKind) -> None:
        for job in await self.redis.zrange(self.keys.of[kind].mailbox, 0, -1):
            payload = await self.redis.get(JOB_KEY + job.decode())
            await self.redis.zrem(self.keys.of[kind].mailbox, job)
            for data in () if payload is None else decode_job(payload):  # None: its caller has hung up
                await self._answer(decode_envelope(data))

    async def _answer(self, envelope: Envelope) -> None:
        self.seen.append(envelope)
        said = self.script[type(envelope.command)](envelope.command, envelope)
        if said is None or not envelope.reply_to:
            return
        answer = Answer(id=envelope.id, fault=said) if isinstance(said, Fault) else Answer(id=envelope.id, reply=said)
        await self.redis.rpush(envelope.reply_to, encode(answer))


@asynccontextmanager
async def worker_side(redis_url: str, keys: Keys) -> AsyncIterator[WorkerSide]:
    """Run a scripted worker side for as long as the block lasts. A command that it has no answer to is an error."""
    redis = Redis.from_url(redis_url)
    side = WorkerSide(redis, keys)
    for of in keys.of.values():
        await side.redis.zadd(of.alive, {"worker-side": time.time() + LIVES_S})
    task = asyncio.create_task(side.run())
    try:
        yield side
    finally:
        task.cancel()
        await asyncio.wait([task])
        await side.redis.delete(*(of.alive for of in keys.of.values()))
        await redis.aclose()
        if not task.cancelled():
            task.result()
