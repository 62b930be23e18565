"""A stack of processes over servers of its own, each of which can be killed, stopped, cut off and started again."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row
from redis.asyncio import Redis

from bench.servers import Servers, start_servers
from engramq.deploy.local.embedded import process
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.db.conninfo import WORKER_ROLE
from engramq.workers.db.migrate import migrate
from engramq.workers.queue.dead_letters import DeadLetter, DeadLetters
from tests.faults.callers import HttpCaller, LoadClient
from tests.faults.disk import small_disk
from tests.faults.proxy import Proxy
from tests.lanes import lanes_at

ENGRAMQ = str(Path(sys.executable).with_name("engramq"))
BOUND_S = 60.0
LETTERS_MAX = 1000  # of a mailbox
POLL_S = 0.02
NO_CLOCK: Mapping[str, str] = {}


@dataclass(slots=True)
class Door:
    """A gateway process and its port."""

    process: subprocess.Popen[bytes]
    port: int


@dataclass
class World:
    """Two workers of all kinds and two gateways over one PostgreSQL and one Redis.

    With `proxies` (of PostgreSQL, and of Redis for the gateways and for the workers) each talks through its own.
    """

    servers: Servers
    resources: AsyncExitStack
    environment: dict[str, str]
    proxies: dict[str, Proxy] = field(default_factory=dict)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    doors: list[Door] = field(default_factory=list)
    keys: Keys = field(default_factory=lambda: Keys("engramq"))

    async def callers(self, count: int) -> list[LoadClient]:
        """Return clients of the gateways."""
        return [HttpCaller(lambda: [door.port for door in self.doors], number) for number in range(count)]

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Ask the database as its owner."""
        with psycopg.connect(self.servers.database_url_owner, autocommit=True, row_factory=dict_row) as owner:
            cursor = owner.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []

    async def redis(self, *words: object) -> Any:
        """Send Redis one command, past every proxy."""
        client: Any = Redis.from_url(self.servers.redis_url)
        async with client:
            return await client.execute_command(*words)

    async def dead_letters(self) -> list[DeadLetter]:
        """Return the commands that were given up."""
        return await dead_letters(self.servers.redis_url)

    def new_worker(self, clock: Mapping[str, str] = NO_CLOCK) -> subprocess.Popen[bytes]:
        """Start a worker of all kinds; `clock`: the variables of one of its own."""
        given = dict(clock)
        if self.proxies:
            given["ENGRAMQ_REDIS_URL"] = f"redis://127.0.0.1:{self.proxies['worker'].port}"
            given["ENGRAMQ_DATABASE_URL"] = (
                f"postgresql://{WORKER_ROLE}@127.0.0.1:{self.proxies['postgres'].port}/engramq"
            )
        worker = self._start(given, "worker", "--all")
        self.workers.append(worker)
        return worker

    def new_door(self, port: int = 0, clock: Mapping[str, str] = NO_CLOCK) -> Door:
        """Start a gateway; `clock`: the variables of one of its own."""
        port = port or free_port()
        given = {**clock, "ENGRAMQ_PORT": str(port)}
        if self.proxies:
            given["ENGRAMQ_REDIS_URL"] = f"redis://127.0.0.1:{self.proxies['gateway'].port}"
        door = Door(self._start(given, "gateway"), port)
        self.doors.append(door)
        return door

    async def ready(self) -> None:
        """Wait until every gateway answers, and so a worker behind it."""
        for door in self.doors:
            await until(lambda door=door: is_ready(door.port))  # type: ignore[misc] # mypy takes defaults for no capture

    async def alive(self, least: int) -> None:
        """Wait until at least so many workers have said within the last seconds that they serve."""
        mailbox = next(iter(self.keys.of.values())).alive
        began = time.time()

        async def are_there() -> bool:
            return int(await self.redis("ZCOUNT", mailbox, began, "+inf")) >= least

        await until(are_there)

    async def kill(self, child: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
        """Send a process a signal and wait for its end."""
        child.send_signal(number)
        await asyncio.to_thread(child.wait, BOUND_S)

    async def start_postgres(self) -> None:
        """Start PostgreSQL, which has ended, and wait until it answers."""
        self.servers.postgres.mend()
        log = self.servers.home.logs / "postgres.log"
        self.servers.postgres_process = process.start(self.servers.postgres.launch(), log)
        await until(lambda: asyncio.to_thread(self.servers.postgres.is_ready))

    async def start_redis(self) -> None:
        """Start Redis, which has ended, and wait until it answers."""
        self.servers.redis.mend()
        self.servers.redis_process = process.start(self.servers.redis.launch(), self.servers.home.logs / "redis.log")
        await until(lambda: asyncio.to_thread(self.servers.redis.is_ready))

    def postgres_processes(self) -> list[int]:
        """Return the process ids of PostgreSQL, all of them."""
        return [who.pid for who in process.working_in(self.servers.postgres.data, "postgres")]

    def _start(self, given: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
        with (self.servers.home.logs / f"{arguments[0]}.log").open("ab") as log:
            return subprocess.Popen(
                [ENGRAMQ, *arguments], env={**self.environment, **given}, stdout=log, stderr=subprocess.STDOUT
            )

    def stop(self) -> None:
        """End everything."""
        children = [*self.workers, *(door.process for door in self.doors)]
        for child in children:
            child.send_signal(signal.SIGCONT)
            child.kill()
        for child in children:
            child.wait(BOUND_S)
        for pid in (*self.postgres_processes(), self.servers.redis_process.pid):
            process.signal_group(pid, signal.SIGCONT)
        self.servers.stop()


@asynccontextmanager
async def new_world(
    *, proxied: bool = False, on_small_disk: bool = False, workers: int = 2, doors: int = 2, redis_url: str = ""
) -> AsyncIterator[World]:
    """Start a world; its home is below TMPDIR and removed at the end. `redis_url`: instead of the Redis of its own."""
    home = Path(tempfile.mkdtemp(prefix="engramq-faults-"))
    try:
        async with AsyncExitStack() as resources:
            if on_small_disk:
                (home / "postgres").mkdir()
                resources.enter_context(small_disk(home / "postgres"))
            # In this thread: the kernel ends servers with the thread that started them. Durable: they are to be killed.
            servers = start_servers(home, fsync=True)
            resources.callback(servers.stop)
            world = World(servers, resources, environment_of(servers))
            if redis_url:
                world.environment["ENGRAMQ_REDIS_URL"] = redis_url
            await migrate(servers.database_url_owner)
            if proxied:
                for name in ("postgres", "gateway", "worker"):
                    target = servers.postgres.socket if name == "postgres" else servers.redis.socket
                    world.proxies[name] = await resources.enter_async_context(Proxy(target))
            resources.callback(world.stop)
            for _ in range(workers):
                world.new_worker()
            for _ in range(doors):
                world.new_door()
            await world.ready()
            yield world
    finally:
        shutil.rmtree(home, ignore_errors=True)


async def dead_letters(redis_url: str) -> list[DeadLetter]:
    """Return the newest dead letters of every mailbox."""
    async with Redis.from_url(redis_url) as client:
        letters = DeadLetters(client, lanes_at("redis://unused", Keys("engramq")))
        return [letter for kind in WorkerKind for letter in await letters.list(kind, LETTERS_MAX)]


def environment_of(servers: Servers) -> dict[str, str]:
    """Return the environment of the processes of a world."""
    given = {
        "DATABASE_URL": servers.postgres.url(WORKER_ROLE),
        "REDIS_URL": servers.redis_url,
        "EMBEDDER": "hash",
        "LOG_LEVEL": "INFO",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    return kept | {f"ENGRAMQ_{name}": value for name, value in given.items()}


async def is_ready(port: int) -> bool:
    """Say whether a gateway and a worker behind it answer."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        writer.write(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        async with asyncio.timeout(5):
            return b" 200 " in await reader.readline()
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()


async def until(condition: Callable[[], Any], bound_s: float = BOUND_S) -> None:
    """Wait until an awaited condition holds; raises TimeoutError."""
    async with asyncio.timeout(bound_s):
        while not await condition():
            await asyncio.sleep(POLL_S)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
