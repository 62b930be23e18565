"""Both embedded servers without a supervisor, for as long as the caller lives: what tests and benchmarks stand on."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.postgres import OWNER_ROLE, Postgres
from engramq.deploy.local.embedded.postgres import STOP_SIGNALS as POSTGRES_SIGNALS
from engramq.deploy.local.embedded.redis import STOP_SIGNALS as REDIS_SIGNALS
from engramq.deploy.local.embedded.redis import Redis
from engramq.deploy.local.embedded.servers import await_ready, stop_server
from engramq.deploy.local.home import Home
from engramq.deploy.local.ownership import lock_home


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
        stop_server(self.redis_process, REDIS_SIGNALS)
        stop_server(self.postgres_process, POSTGRES_SIGNALS)
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
    lock = lock_home(place, "a test")
    postgres, redis = Postgres(place, fsync=fsync), Redis(place, fsync=fsync)
    started: list[tuple[subprocess.Popen[bytes], Sequence[tuple[int, float]]]] = []
    try:
        redis.prepare()
        started.append((process.start(redis.launch(), place.logs / "redis.log"), REDIS_SIGNALS))
        postgres.prepare()
        started.append((process.start(postgres.launch(), place.logs / "postgres.log"), POSTGRES_SIGNALS))
        await_ready(redis, started[0][0], place)
        await_ready(postgres, started[1][0], place)
    except BaseException:
        for child, signals in started:
            stop_server(child, signals)
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
