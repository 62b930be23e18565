"""Faults of a home: `engramq up` with its embedded servers, its supervisor, and clients over stdio."""

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.postgres import OWNER_ROLE, Postgres
from engramq.deploy.local.home import Home
from engramq.workers.queue.dead_letters import DeadLetter
from tests.faults.callers import LoadClient, StdioCaller
from tests.faults.disk import filled, made_read_only, small_disk
from tests.faults.fault import Fault, Needs
from tests.faults.world import BOUND_S, ENGRAMQ, dead_letters, until

FULL_S = 5.0
PAUSE_S = (6.0, 12.0)


@dataclass
class HomeSite:
    """A home whose stack runs as long as clients of it do."""

    home: Home
    environment: dict[str, str]

    async def callers(self, count: int) -> list[LoadClient]:
        """Start clients, each with a relay of its own."""
        return list(await asyncio.gather(*(StdioCaller.start(ENGRAMQ, self.environment) for _ in range(count))))

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Ask the database as its owner, once it takes sessions: workers answer by those that they have."""
        url = Postgres(self.home).url(OWNER_ROLE)
        assert process.wait_until(self.is_reachable, BOUND_S)
        with psycopg.connect(url, autocommit=True, row_factory=dict_row) as owner:
            cursor = owner.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def is_reachable(self) -> bool:
        """Say whether the database takes a new session."""
        with suppress(psycopg.OperationalError), psycopg.connect(Postgres(self.home).url(OWNER_ROLE)):
            return True
        return False

    async def dead_letters(self) -> list[DeadLetter]:
        """Return the commands that were given up."""
        return await dead_letters(f"unix://{self.home.redis_socket}")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run a command of engramq to its end."""
        command = [ENGRAMQ, *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, timeout=BOUND_S * 3, check=False)

    async def status(self) -> dict[str, Any]:
        """Return what `engramq status` shows."""
        shown = await asyncio.to_thread(self.run, "status", "--json")
        found: dict[str, Any] = json.loads(shown.stdout)
        return found

    async def pids(self, *words: str) -> list[int]:
        """Return the processes of services whose names have one of these words; of all without words."""
        services = (await self.status())["services"]
        named = [service for service in services if not words or any(word in service["name"] for word in words)]
        return [item["pid"] for item in named if item["pid"]]


@asynccontextmanager
async def new_home(fault: Fault) -> AsyncIterator[HomeSite]:
    """Start a home; below a small file system of its own when the fault fills that."""
    folder = Path(tempfile.mkdtemp(prefix="engramq-faults-", dir="/tmp"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    given = {"HOME": str(folder / "home"), "PORT": "0", "TEST_LINGER_S": "60", "EMBEDDER": "hash"}
    site = HomeSite(Home(folder / "home"), kept | {f"ENGRAMQ_{name}": value for name, value in given.items()})
    try:
        with small_disk(folder) if fault.small_disk else nullcontext():
            try:
                (first,) = await site.callers(1)
                await first.call("memory_stats")
                await first.aclose()
                yield site
            finally:
                site.run("down")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def home_worker_killed(site: HomeSite) -> None:
    """Kill -9 the worker of a home."""
    await _kill(await site.pids("worker"))


async def home_gateway_killed(site: HomeSite) -> None:
    """Kill -9 the gateway of a home."""
    await _kill(await site.pids("gateway"))


async def home_servers_killed(site: HomeSite) -> None:
    """Kill -9 PostgreSQL and Redis of a home."""
    await _kill(await site.pids("postgres", "redis"))


async def home_supervisor_killed(site: HomeSite) -> None:
    """Kill -9 the supervisor of a home; its clients live on."""
    await _kill([(await site.status())["pid"]])


async def home_everything_killed(site: HomeSite) -> None:
    """Kill -9 the supervisor and all that it runs."""
    status = await site.status()
    await _kill([status["pid"], *(service["pid"] for service in status["services"] if service["pid"])])


async def home_supervisor_paused(site: HomeSite) -> None:
    """Stop the supervisor of a home for a while."""
    pid = (await site.status())["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(random.uniform(*PAUSE_S))
    finally:
        os.kill(pid, signal.SIGCONT)


async def home_disk_full(site: HomeSite) -> None:
    """Fill the disk that a home is on, for a while."""
    with filled(site.home.path):
        await asyncio.sleep(FULL_S)


async def home_copied(site: HomeSite) -> None:
    """Copy a home that runs, and use, mend and stop the copy."""
    before = set(await site.pids())
    copy = site.home.path.with_name("copy")
    other = replace(site, environment=site.environment | {"ENGRAMQ_HOME": str(copy)})
    # Files come and go meanwhile.
    await asyncio.to_thread(lambda: subprocess.run(["cp", "-a", site.home.path, copy], check=False))
    try:
        for arguments in (("status",), ("doctor", "--fix"), ("down",), ("recent",), ("down",)):
            await asyncio.to_thread(other.run, *arguments)
    finally:
        shutil.rmtree(copy)
    assert set(await site.pids()) == before, "a process of the original has ended"


async def home_supervisor_killed_while_postgres_hangs(site: HomeSite) -> None:
    """Stop all processes of PostgreSQL, and kill -9 the supervisor."""
    supervisor = (await site.status())["pid"]
    for each in process.working_in(site.home.postgres / "data", "postgres"):
        os.kill(each.pid, signal.SIGSTOP)
    await _kill([supervisor])


async def home_queue_file_damaged(site: HomeSite) -> None:
    """Spoil Redis' append-only file, and kill -9 Redis."""
    for file in (site.home.redis / "appendonlydir").glob("*.incr.aof"):
        with file.open("r+b") as spoilt:
            spoilt.write(b"spoilt" * 20)
    await _kill(await site.pids("redis"))


async def home_sockets_removed(site: HomeSite) -> None:
    """Remove the folders of the sockets while all runs."""
    for folder in (site.home.run, site.home.postgres_sockets):
        shutil.rmtree(folder, ignore_errors=True)


async def home_lock_removed(site: HomeSite) -> None:
    """Remove the lock and the record of processes, and kill -9 the supervisor."""
    supervisor = (await site.status())["pid"]
    site.home.lock.unlink()
    site.home.state.unlink(missing_ok=True)
    await _kill([supervisor])


async def home_read_only(site: HomeSite) -> None:
    """Let nobody open a file of the home for writing for a while, and kill -9 the supervisor meanwhile."""
    supervisor = (await site.status())["pid"]
    with made_read_only(site.home.path):
        await _kill([supervisor])
        await asyncio.sleep(FULL_S)


async def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    async def are_gone() -> bool:
        return all(process.identify(pid) is None for pid in pids)

    await until(are_gone)


FAULTS = tuple(
    Fault(cause.__name__, cause, times, back_s=back_s, needs=Needs.HOME, small_disk=full, reads_go_on=full)
    for cause, times, back_s, full in (
        (home_worker_killed, 10, 10.0, False),
        (home_gateway_killed, 10, 10.0, False),
        (home_servers_killed, 10, 10.0, False),
        (home_supervisor_killed, 10, 15.0, False),
        (home_everything_killed, 20, 15.0, False),
        (home_supervisor_paused, 3, 10.0, False),
        (home_disk_full, 2, 10.0, True),
        (home_copied, 5, 10.0, False),
        (home_supervisor_killed_while_postgres_hangs, 5, 30.0, False),
        (home_queue_file_damaged, 5, 15.0, False),
        (home_sockets_removed, 5, 30.0, False),
        (home_lock_removed, 5, 30.0, False),
        (home_read_only, 3, 30.0, False),
    )
)
