"""Gateways and workers of one test, in this process and in others."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from inspect import isawaitable
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError

from engramq.gateway.queue.bus import Bus, Unanswered
from engramq.schemas.codec import encode, encode_job
from engramq.schemas.commands import Command, Ping, Pong, StoreMemory
from engramq.schemas.connection import Lanes, run
from engramq.schemas.envelope import Answer, Envelope, Principal
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, Keys
from engramq.schemas.scripts import ENQUEUE_WRITES
from engramq.schemas.settings import Settings, read_settings
from engramq.schemas.vocabulary import ALL_SCOPES, WorkerKind
from engramq.workers.queue.contract import Assignment, Completion, Periodic, RunAssignment, WorkerSpec
from engramq.workers.queue.process import serve
from tests.lanes import lanes_at

BOUND_S = 30.0  # of every wait
ADA = Principal(name="ada", scopes=ALL_SCOPES)
ADA_ID = ADA.identity
NAMESPACE = "tenant"
SESSION = "default"


async def echo(assignment: Assignment) -> Completion:
    """Answer a ping."""
    command = assignment.envelope.command
    assert isinstance(command, Ping)
    return Completion(Pong(payload=command.payload))


def an_actor(
    *runners: RunAssignment, kind: WorkerKind = WorkerKind.RECALL, schedule: tuple[Periodic, ...] = ()
) -> WorkerSpec:
    """Return an actor that gives pings to the first runner and stores to the second."""
    return WorkerSpec(kind, dict(zip((Ping, StoreMemory), runners, strict=False)), schedule)


class InProcess:
    """Workers in this process."""

    def __init__(self, actors: list[WorkerSpec], settings: Settings, grace_s: float) -> None:
        self._stop = asyncio.Event()
        self.ready = asyncio.Event()
        self.task = asyncio.create_task(
            serve(actors, settings, grace_s=grace_s, stop=self._stop, ready=self.ready, handle_signals=False)
        )

    async def stop(self) -> None:
        """Ask them to stop and wait until they have."""
        self._stop.set()
        async with asyncio.timeout(BOUND_S):
            await self.task


class Child:
    """A worker process of its own: see tests/queue/worker_process.py for what its handlers do."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for its end and return its exit code."""
        async with asyncio.timeout(BOUND_S):
            return await self._process.wait()


class Stage:
    """Starts what a test asks for and ends all of it."""

    def __init__(self, url: str, keys: Keys, lanes: Lanes | None = None) -> None:
        """`keys` are all keys at `url`, unless `lanes` are those of a cluster there."""
        self.url = url
        self.keys = keys
        self.lanes = lanes or lanes_at(url, keys)
        self.server = self.lanes.server
        # A test's own questions must not fail because its server was restarted since the last one.
        self.redis: Any = (
            Redis.from_url(url, retry=Retry(NoBackoff(), 3), retry_on_error=[RedisConnectionError])
            if lanes is None
            else lanes.server.client(timeout_s=BOUND_S)
        )
        self._stack = AsyncExitStack()
        self._workers: list[InProcess] = []
        self._children: list[Child] = []

    @property
    def settings(self) -> Settings:
        prefix = self.keys.prefix.strip("{}").partition(":")[0]
        return read_settings({"ENGRAMQ_REDIS_URL": self.url, "ENGRAMQ_KEY_PREFIX": prefix})

    async def __aenter__(self) -> "Stage":
        return self

    async def __aexit__(self, *_: object) -> None:
        for child in self._children:
            if child.alive:
                child.kill(signal.SIGCONT)
                child.kill()
                await child.ended()
        for worker in self._workers:
            if not worker.task.done():
                await worker.stop()
        await self._stack.aclose()
        await self.redis.aclose()

    async def bus(self, *, bound: int = 1000, timeout_s: float = BOUND_S) -> Bus:
        """Return a running gateway half."""
        bus = Bus(self.lanes, mailbox_bound=bound, reply_timeout_s=timeout_s)
        return await self._stack.enter_async_context(bus)

    async def workers(self, *actors: WorkerSpec, grace_s: float = 2.0) -> InProcess:
        """Start workers in this process and return when they listen."""
        started = self.start(*actors, grace_s=grace_s)
        async with asyncio.timeout(BOUND_S):
            await started.ready.wait()
        return started

    def start(self, *actors: WorkerSpec, grace_s: float = 2.0) -> InProcess:
        """Start workers in this process."""
        started = InProcess(list(actors), self.settings, grace_s)
        self._workers.append(started)
        return started

    async def child(self, ahead_s: float = 0.0) -> Child:
        """Start a worker process, whose clock is ahead by so much, and return when it listens."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.queue.worker_process",
            self.url,
            self.settings.key_prefix,
            str(ahead_s),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        child = Child(process)
        self._children.append(child)
        assert process.stdout is not None
        async with asyncio.timeout(BOUND_S):
            assert await process.stdout.readline() == b"ready\n"
        return child

    async def pop(self, name: str) -> str:
        """Wait for what a handler in a worker process has said under this name."""
        found = await self.redis.blpop([f"{self.keys.prefix}:test:{name}"], timeout=BOUND_S)
        assert found is not None, f"nothing came under {name}"
        return str(found[1].decode())

    async def push(self, name: str, *values: str) -> None:
        """Say something to a handler in a worker process."""
        await self.redis.rpush(f"{self.keys.prefix}:test:{name}", *values)

    async def leases(self, kind: WorkerKind = WorkerKind.RECALL) -> list[str]:
        """Return the keys of the leases that are held in a mailbox."""
        jobs = await self.redis.zrange(self.keys.of[kind].mailbox, 0, -1)
        held = [LEASE_KEY + job.decode() for job in jobs]
        return [key for key in held if await self.redis.exists(key)]

    async def leases_run_out(self, kind: WorkerKind = WorkerKind.RECALL) -> None:
        """Let the time of a lease pass in a moment: whoever held a job of this mailbox lost it."""
        mailbox = self.keys.of[kind].mailbox
        for job in await self.redis.zrange(mailbox, 0, -1):
            await self.redis.delete(LEASE_KEY + job.decode())
            await self.redis.zadd(mailbox, {job: 0})
        await self.redis.lpush(self.keys.of[kind].wakeups, "1")

    def job(self, name: str) -> str:
        """Return the id of a job that is called by hand; in a cluster it has to be in the lane's slot."""
        return self.keys.job_id(name, 1).removesuffix(".1")

    async def enqueue(
        self,
        job: str,
        payload: bytes,
        *,
        bound: int,
        kind: WorkerKind = WorkerKind.RECALL,
        longest_ms: int = 0,
        fewest: int = 0,
    ) -> int | list[int]:
        """Put a job into a mailbox as a gateway does."""
        keys = self.keys
        of = keys.of[kind]
        where = (of.mailbox, of.wakeups, of.depth, JOB_KEY + job, of.rate)
        taken = await run(self.redis, ENQUEUE_WRITES, keys, where, job, payload, bound, longest_ms, fewest)
        return taken if isinstance(taken, list) else int(taken)

    async def until(self, read: Callable[[], Any], holds: Callable[[Any], object] = bool) -> None:
        """Wait until something holds of what is read, awaited if it has to be."""
        await until(read, holds)

    async def reaches(self, count: Callable[[], int], enough: int) -> None:
        """Wait until a count that other tasks raise is high enough."""
        await self.until(lambda: count() >= enough)

    async def depth(self, kind: WorkerKind = WorkerKind.RECALL) -> tuple[int, int]:
        """Return (jobs, commands) in a mailbox."""
        jobs = await self.redis.zcard(self.keys.of[kind].mailbox)
        return jobs, int(await self.redis.get(self.keys.of[kind].depth) or 0)

    async def empty(self, kind: WorkerKind = WorkerKind.RECALL) -> bool:
        """Say whether a mailbox is empty."""
        return await self.depth(kind) == (0, 0)


async def until(read: Callable[[], Any], holds: Callable[[Any], object] = bool) -> None:
    """Wait until something holds of what is read, awaited if it has to be."""
    deadline = time.monotonic() + BOUND_S
    while not holds(await found if isawaitable(found := read()) else found):
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.005)


async def ping(bus: Bus, payload: bytes | str = b"", **more: Any) -> Answer | Unanswered:
    """Send a ping."""
    data = payload.encode() if isinstance(payload, str) else payload
    return await send(bus, Ping(payload=data), **more)


async def send(bus: Bus, command: Command, **more: Any) -> Answer | Unanswered:
    """Send a command as ADA."""
    return await bus.ask(command, **{"namespace": NAMESPACE, "principal": ADA, "session": SESSION, **more})


async def put(
    stage: Stage, command: Command, *, namespace: str = NAMESPACE, principal: Principal = ADA, bound: int = 1_000
) -> str:
    """Put a command into its mailbox, with nobody who waits for it, and return its id."""
    envelope = Envelope(id=uuid7(), namespace=namespace, principal=principal, command=command, issued_at=time.time())
    kind = command.mailbox
    job = stage.keys.job_id(envelope.id, 1, kind, namespace)
    assert await stage.enqueue(job, encode_job([encode(envelope)], 0), bound=bound, kind=kind) == -1
    return envelope.id


def payload_of(answer: Answer | Unanswered) -> str:
    """Return what a ping's answer carries."""
    assert isinstance(answer, Answer), answer
    assert isinstance(answer.reply, Pong), answer
    return answer.reply.payload.decode()


def counts(stats: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return the calls in an INFO commandstats, those inside scripts among them."""
    return {name.removeprefix("cmdstat_"): figures["calls"] for name, figures in stats.items()}
