"""A worker process whose handlers do what a ping's payload says; run as `python -m`, given Redis URL, key prefix and by
how many seconds its clock is ahead.

echo         answer
wait NAME    say NAME under `began`, wait for a word under `go`, answer
die          kill this process
"""

import asyncio
import os
import signal
import sys
import time
from typing import Any

from engramq.schemas.commands import Ping, Pong, Stored, StoreMemory
from engramq.schemas.connection import Lanes
from engramq.schemas.records import Memory
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Assignment, Completion, WorkerSpec
from engramq.workers.queue.process import serve

WAIT_S = 30  # for a word

# What PostgreSQL does in one transaction: whoever enters the command first has its effect.
LEDGER = """
local new = redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
if new == 1 then redis.call('HINCRBY', KEYS[2], ARGV[2], 1) end
return new
"""


async def main() -> None:
    url, prefix, ahead_s = sys.argv[1:]
    set_clock(float(ahead_s))
    lanes = Lanes(url, prefix)
    redis: Any = lanes.server.client(timeout_s=2 * WAIT_S)
    tests = f"{lanes.first.prefix}:test"

    async def ping(assignment: Assignment) -> Completion:
        command = assignment.envelope.command
        assert isinstance(command, Ping)
        word, _, name = command.payload.decode().partition(" ")
        if word == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "wait":
            await redis.rpush(f"{tests}:began", name)
            await redis.blpop([f"{tests}:go"], timeout=WAIT_S)
            assignment.lease.require()
        await redis.hincrby(f"{tests}:done", str(os.getpid()))
        return Completion(Pong(payload=command.payload))

    async def store(assignment: Assignment) -> Completion:
        command = assignment.envelope.command
        assert isinstance(command, StoreMemory)
        names = (f"{tests}:ledger", f"{tests}:effects")
        new = await redis.eval(LEDGER, 2, *names, assignment.envelope.id, command.content)
        return Completion(Stored(stored=a_memory(command.content)), replayed=not new)

    ready = asyncio.Event()
    actors = [WorkerSpec(WorkerKind.RECALL, {Ping: ping}), WorkerSpec(WorkerKind.EMBEDDING, {StoreMemory: store})]
    settings = read_settings({"ENGRAMQ_REDIS_URL": url, "ENGRAMQ_KEY_PREFIX": prefix})
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(actors, settings, grace_s=1.0, ready=ready))
        await ready.wait()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
    await redis.aclose()


def set_clock(ahead_s: float) -> None:
    """Let this process's clock be ahead by so much, negative: behind."""
    right = time.time
    time.time = lambda: right() + ahead_s


def a_memory(content: str, memory_id: str = "m") -> Memory:
    moment = "2026-01-31T09:00:00.000000Z"
    return Memory(id=memory_id, content=content, created_by="ada", created_at=moment, updated_at=moment)


if __name__ == "__main__":
    asyncio.run(main())
