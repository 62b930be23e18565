"""Faults of PostgreSQL and Redis: killed, stopped, emptied, refusing, locked."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from redis.asyncio import Redis

from bench.servers import start_servers
from engramq.schemas.vocabulary import WorkerKind
from tests.faults.disk import filled
from tests.faults.fault import Fault
from tests.faults.world import ENGRAMQ, World

DOWN_S = 1.0  # at most, before a server is started again
REFUSING_S = 2.0
READ_ONLY_S = 5.0
LOCKED_S = (8.0, 15.0)  # a call waits 5 s for a lock
PAUSE_S = (2.0, 8.0)
HUNG_S = (10.5, 12.0)  # a caller waits for 10 s
FULL_S = 5.0
FRESH_S = 30.0


async def redis_killed(world: World) -> None:
    """Kill -9 Redis; it is started again."""
    await world.kill(world.servers.redis_process)
    await asyncio.sleep(random.uniform(0, DOWN_S))
    await world.start_redis()


async def redis_emptied(world: World) -> None:
    """Empty Redis: FLUSHALL."""
    await world.redis("FLUSHALL")


async def redis_scripts_forgotten(world: World) -> None:
    """Have Redis forget all scripts."""
    await world.redis("SCRIPT", "FLUSH")


async def redis_clients_ended(world: World) -> None:
    """Have Redis hang up on every client."""
    await world.redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


async def redis_clients_paused(world: World) -> None:
    """Have Redis answer nobody for a while."""
    seconds = random.uniform(*PAUSE_S)
    await world.redis("CLIENT", "PAUSE", round(seconds * 1000), "ALL")
    await asyncio.sleep(seconds)


async def redis_full(world: World) -> None:
    """Redis at maxmemory."""
    await _configured(world, "maxmemory", "1", "512mb")


async def redis_lonely(world: World) -> None:
    """Redis that takes writes only with a replica (NOREPLICAS)."""
    await _configured(world, "min-replicas-to-write", "1", "0")


async def redis_demoted(world: World) -> None:
    """Redis that has become a replica of nobody who is there (READONLY)."""
    await world.redis("CONFIG", "SET", "replica-serve-stale-data", "yes")
    await world.redis("REPLICAOF", "127.0.0.1", "9")
    try:
        await asyncio.sleep(REFUSING_S)
    finally:
        await world.redis("REPLICAOF", "NO", "ONE")


async def redis_locked(world: World) -> None:
    """Redis that wants a password which nobody has (NOAUTH)."""
    operator: Any = Redis.from_url(world.servers.redis_url)
    async with operator:
        await operator.config_set("requirepass", "secret")  # who is in already stays in
        await operator.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        try:
            await asyncio.sleep(REFUSING_S)
        finally:
            await operator.config_set("requirepass", "")


async def redis_stopped(world: World) -> None:
    """Redis that hangs: SIGSTOP."""
    await _stopped([world.servers.redis_process.pid], random.uniform(*PAUSE_S))


async def postgres_killed(world: World) -> None:
    """Kill -9 PostgreSQL's first process; it is started again."""
    await world.kill(world.servers.postgres_process)
    await asyncio.sleep(random.uniform(0, DOWN_S))
    await world.start_postgres()


async def postgres_restarted(world: World, number: int) -> None:
    """Stop PostgreSQL, fast or at once, and start it again."""
    await world.kill(world.servers.postgres_process, number)
    await asyncio.sleep(random.uniform(0, DOWN_S))
    await world.start_postgres()


async def backend_killed(world: World) -> None:
    """Kill -9 a session's process of PostgreSQL, which then restarts all of them."""
    pids = world.rows("select pid from pg_stat_activity where application_name like 'engramq-worker%%'")
    with suppress(ProcessLookupError):  # it may have ended meanwhile
        os.kill(random.choice(pids)["pid"], signal.SIGKILL)
    await asyncio.sleep(0.2)
    await _answers(world)


async def sessions_ended(world: World) -> None:
    """End all sessions of workers."""
    _end_sessions(world)


async def postgres_stopped(world: World) -> None:
    """PostgreSQL that hangs: SIGSTOP of all its processes."""
    await _stopped(world.postgres_processes(), random.uniform(*PAUSE_S))


async def postgres_hung_and_killed(world: World) -> None:
    """PostgreSQL that hangs until all callers have been told pending, and is then killed and started again."""
    pids = world.postgres_processes()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(random.uniform(*HUNG_S))
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(world.servers.postgres_process.wait)
    await world.start_postgres()


async def postgres_read_only(world: World) -> None:
    """PostgreSQL that takes no writes for a while, as after a failover."""
    world.rows("alter database engramq set default_transaction_read_only = on")
    _end_sessions(world)
    try:
        await asyncio.sleep(READ_ONLY_S)
    finally:
        with psycopg.connect(world.servers.database_url_owner, autocommit=True) as owner:
            owner.execute("set default_transaction_read_only = off")
            owner.execute("alter database engramq reset default_transaction_read_only")


async def table_locked(world: World, table: str) -> None:
    """A foreign session that holds a table for itself."""
    connection = await psycopg.AsyncConnection.connect(world.servers.database_url_owner)
    async with connection:
        await connection.execute(f"lock table {table} in access exclusive mode".encode())
        await asyncio.sleep(random.uniform(*LOCKED_S))


async def disk_full(world: World) -> None:
    """Fill the disk that PostgreSQL is on, for a while; it is started again if it shut down."""
    with filled(world.servers.home.postgres):
        await asyncio.sleep(FULL_S)
    if world.servers.postgres_process.poll() is not None:
        await world.start_postgres()


async def fresh_cluster(world: World) -> None:
    """Start a worker on a new cluster and an empty Redis: it makes the schema by itself, and serves."""
    folder = Path(tempfile.mkdtemp(prefix="engramq-fresh-"))
    # In a thread of the pool, which lives on: the kernel ends the servers with the thread that started them.
    servers = await asyncio.to_thread(start_servers, folder)
    try:
        given = {"ENGRAMQ_DATABASE_URL": servers.database_url_owner, "ENGRAMQ_REDIS_URL": servers.redis_url}
        silent = subprocess.DEVNULL
        worker = subprocess.Popen([ENGRAMQ, "worker", "--all"], env={**world.environment, **given}, stderr=silent)
        try:
            alive = world.keys.of[WorkerKind.RECALL].alive
            client: Any = Redis.from_url(servers.redis_url)
            async with client, asyncio.timeout(FRESH_S):
                while not await client.zcard(alive):
                    await asyncio.sleep(0.05)
        finally:
            await world.kill(worker, signal.SIGTERM)
    finally:
        await asyncio.to_thread(servers.stop)
        shutil.rmtree(folder, ignore_errors=True)


async def _configured(world: World, name: str, bad: str, good: str) -> None:
    await world.redis("CONFIG", "SET", name, bad)
    try:
        await asyncio.sleep(REFUSING_S)
    finally:
        await world.redis("CONFIG", "SET", name, good)


async def _stopped(pids: list[int], seconds: float) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _end_sessions(world: World) -> None:
    world.rows("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'engramq-worker%%'")


async def _answers(world: World) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(world.servers.postgres.is_ready):
            await asyncio.sleep(0.02)


def _named(name: str, cause: Any, *given: Any, times: int, back_s: float = 3.0) -> Fault:
    """Return a fault of a family, told by what it is given."""

    async def brought_about(world: World) -> None:
        await cause(world, *given)

    brought_about.__doc__ = cause.__doc__
    return Fault(name, brought_about, times, back_s=back_s)


FAULTS = (
    Fault("redis_killed", redis_killed, 50),
    Fault("redis_emptied", redis_emptied, 10),
    Fault("redis_scripts_forgotten", redis_scripts_forgotten, 10),
    Fault("redis_clients_ended", redis_clients_ended, 10),
    Fault("redis_clients_paused", redis_clients_paused, 5),
    Fault("redis_stopped", redis_stopped, 5),
    Fault("redis_full", redis_full, 5),
    Fault("redis_lonely", redis_lonely, 5),
    Fault("redis_demoted", redis_demoted, 5),
    Fault("redis_locked", redis_locked, 5),
    Fault("postgres_killed", postgres_killed, 20),
    _named("postgres_restarted_fast", postgres_restarted, signal.SIGINT, times=25),
    _named("postgres_restarted_immediately", postgres_restarted, signal.SIGQUIT, times=25),
    Fault("backend_killed", backend_killed, 20),
    Fault("sessions_ended", sessions_ended, 20),
    Fault("postgres_stopped", postgres_stopped, 5),
    Fault("postgres_hung_and_killed", postgres_hung_and_killed, 200, keeps_pending=True),
    Fault("postgres_read_only", postgres_read_only, 5, back_s=2.0, reads_go_on=True),
    Fault("disk_full", disk_full, 3, back_s=10.0, small_disk=True, reads_go_on=True),
    Fault("fresh_cluster", fresh_cluster, 1, unnoticed=True),
    *(_named(f"{table}_locked", table_locked, table, times=3) for table in ("memories", "nodes", "ledger")),
)
