"""Real PostgreSQL and Redis for every test that asks for them.

`database` is a fresh database (a copy of a migrated template, 35 ms), `store` is opened on it, `key_prefix` is a fresh
prefix on a shared Redis. Each xdist process has servers of its own, unless ENGRAMQ_TEST_DATABASE_URL (a superuser's, or
the owner's of databases with pgvector) and ENGRAMQ_TEST_REDIS_URL name others.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from engramq.deploy.embedded.servers import running_servers
from engramq.workers.db.conninfo import WORKER_ROLE
from engramq.workers.db.database import Store
from engramq.workers.db.migrate import migrate


MEMORY = Path("/dev/shm")
ROOM = 8 * 2**30  # bytes; four processes' servers, with 1 GB of WAL each at most, and what tests start themselves


def pytest_configure() -> None:
    """Keep temporary files in memory where there is room: on some disks a database takes 0.2 s to make, here 0.01 s."""
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


@dataclass(frozen=True)
class TestServers:
    """Where PostgreSQL (for a role that may create databases) and Redis are."""

    __test__ = False

    database_url: str
    redis_url: str
    worker_may_log_in: bool
    administrator: "psycopg.Connection[tuple[Any, ...]]"

    def url(self, database: str, role: str | None = None) -> str:
        parts = urlsplit(self.database_url)
        netloc = parts.netloc if role is None else f"{role}@{parts.netloc.rpartition('@')[2]}"
        return parts._replace(netloc=netloc, path=f"/{database}").geturl()

    def administer(self, statement: str) -> None:
        self.administrator.execute(statement.encode())


@dataclass(frozen=True)
class Database:
    """One database: `url` is what workers get, `owner_url` what migrations get."""

    name: str
    url: str
    owner_url: str


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def servers() -> Iterator[TestServers]:
    database_url = os.environ.get("ENGRAMQ_TEST_DATABASE_URL", "")
    redis_url = os.environ.get("ENGRAMQ_TEST_REDIS_URL", "")
    with ExitStack() as owned:
        if not (database_url and redis_url):
            home = Path(tempfile.mkdtemp(prefix="engramq-test-"))
            owned.callback(shutil.rmtree, home, ignore_errors=True)
            running = owned.enter_context(running_servers(home, fsync=False))
        embedded = not database_url
        database_url = database_url or running.database_url_owner
        administrator = owned.enter_context(psycopg.connect(database_url, autocommit=True))
        yield TestServers(database_url, redis_url or running.redis_url, embedded, administrator)


@pytest.fixture(scope="session")
def template(servers: TestServers) -> Iterator[str]:
    """The name of a migrated database that nobody is connected to."""
    name = f"engramq_template_{uuid4().hex[:12]}"
    servers.administer(f"create database {name}")
    try:
        asyncio.run(migrate(servers.url(name)))
        yield name
    finally:
        servers.administer(f"drop database {name} with (force)")


@pytest.fixture
def database(servers: TestServers, template: str) -> Iterator[Database]:
    name = f"engramq_test_{uuid4().hex[:12]}"
    servers.administer(f"create database {name} template {template} strategy file_copy")
    try:
        role = WORKER_ROLE if servers.worker_may_log_in else None
        yield Database(name, servers.url(name, role), servers.url(name))
    finally:
        servers.administer(f"drop database {name} with (force)")


@pytest.fixture
def empty_database(servers: TestServers) -> Iterator[Database]:
    """A database that no migration has touched."""
    name = f"engramq_test_{uuid4().hex[:12]}"
    servers.administer(f"create database {name}")
    try:
        yield Database(name, servers.url(name, WORKER_ROLE), servers.url(name))
    finally:
        servers.administer(f"drop database {name} with (force)")


@pytest.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    async with await Store.open(database.url) as opened:
        yield opened


@pytest.fixture
def redis_url(servers: TestServers) -> str:
    return servers.redis_url


@pytest.fixture
def key_prefix() -> str:
    return f"test-{uuid4().hex[:12]}"
