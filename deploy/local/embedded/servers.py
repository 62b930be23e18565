"""Both embedded servers without a supervisor, for as long as the caller lives: what tests and benchmarks stand on."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.postgres import OWNER_ROLE, Postgres
from engramq.deploy.local.embedded.postgres import STOP_SIGNALS as POSTGRES_SIGNALS
from engramq.deploy.local.embedded.redis import STOP_SIGNALS as REDIS_SIGNALS
from engramq.deploy.local.embedded.redis import Redis
from engramq.deploy.local.home import DeployError, Home

READY_BOUND_S = 60.0
# By the names that a supervisor records: without them PostgreSQL would wait for its clients, and be killed.
SERVER_SIGNALS: Mapping[str, Sequence[tuple[int, float]]] = {"postgres": POSTGRES_SIGNALS, "redis": REDIS_SIGNALS}


@dataclass
class Servers:
    """Two running servers. `stop` ends both; it may be called twice. They also end when the calling process dies."""

    home: Home
    postgres: Postgres
    redis: Redis
    postgres_process: subprocess.Popen[bytes]
    redis_process: subprocess.Popen[bytes]
    _lock: int | None

    @property
    def database_url_owner(self) -> str:
        """For the superuser that owns the database `engramq` and may create others."""
        return self.postgres.url(OWNER_ROLE)

    @property
    def redis_url(self) -> str:
        """unix:// address of the server."""
        return self.redis.url

    def stop(self) -> None:
        """Shut both down in order, by force after a bound, and release the home."""
        _stop(self.redis_process, REDIS_SIGNALS)
        _stop(self.postgres_process, POSTGRES_SIGNALS)
        self.postgres.mend()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def start_servers(home: Path, *, fsync: bool = True) -> Servers:
    """Start PostgreSQL and Redis below `home` and wait until both answer.

    `fsync=False` trades safety against a power cut for speed, which is right for tests. Call it in the main thread: the
    kernel ends the servers when the thread that started them ends.

    Raises:
        DeployError: the home is in use or unusable, or a server cannot be started; the message has its last log lines.
    """
    place = Home(home)
    place.ensure()
    lock = lock_home(place)
    postgres, redis = Postgres(place, fsync=fsync), Redis(place, fsync=fsync)
    started: list[tuple[subprocess.Popen[bytes], Sequence[tuple[int, float]]]] = []
    try:
        redis.prepare()
        started.append((process.start(redis.launch(), place.logs / "redis.log"), REDIS_SIGNALS))
        postgres.prepare()
        started.append((process.start(postgres.launch(), place.logs / "postgres.log"), POSTGRES_SIGNALS))
        _await_ready(redis, started[0][0], place)
        _await_ready(postgres, started[1][0], place)
    except BaseException:
        for child, signals in started:
            _stop(child, signals)
        os.close(lock)
        raise
    return Servers(place, postgres, redis, started[1][0], started[0][0], lock)


@contextlib.contextmanager
def running_servers(home: Path, *, fsync: bool = True) -> Iterator[Servers]:
    """`start_servers` for the length of a block."""
    servers = start_servers(home, fsync=fsync)
    try:
        yield servers
    finally:
        servers.stop()


@contextlib.contextmanager
def running_postgres(home: Home) -> Iterator[Postgres]:
    """Run PostgreSQL alone, for the length of a block, on a home whose lock the caller holds.

    Raises:
        DeployError: it cannot be started; the message has its last log lines.
    """
    server = Postgres(home)
    server.prepare()
    child = process.start(server.launch(), home.logs / "postgres.log")
    try:
        _await_ready(server, child, home)
        yield server
    finally:
        _stop(child, POSTGRES_SIGNALS)
        server.mend()


def lock_home(home: Home) -> int:
    """Take the lock that says who owns the home's servers; the kernel releases it with the holder.

    Returns:
        the descriptor that holds it. Children do not inherit it.

    Raises:
        DeployError: somebody else has it.
    """
    descriptor = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise DeployError(
            "home_in_use", f"{home.path} is in use by another stack.", "Stop it first: engramq down."
        ) from error
    return descriptor


def _await_ready(server: Postgres | Redis, child: subprocess.Popen[bytes], home: Home) -> None:
    ready = process.wait_until(lambda: server.is_ready() or child.poll() is not None, READY_BOUND_S)
    if ready and child.poll() is None:
        return
    name = type(server).__name__.lower()
    last_lines = (home.logs / f"{name}.log").read_text(errors="replace")[-1000:]
    raise DeployError("server_failed", f"{name} did not start:\n{last_lines}")


def _stop(child: subprocess.Popen[bytes], signals: Sequence[tuple[int, float]]) -> None:
    for number, bound_s in (*signals, (signal.SIGKILL, 5.0)):
        if child.poll() is not None:
            return
        process.signal_group(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(bound_s)
