"""Fixtures of the queue's tests: one Redis server for all, a fresh key prefix for each."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from engramq.schemas.keys import Keys
from tests.queue.server import Server
from tests.queue.stage import Stage


@contextmanager
def started() -> Iterator[Server]:
    # A unix socket's path must be short: pytest's own folders are not.
    with tempfile.TemporaryDirectory(prefix="eq-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        server = Server(Path(folder))
        server.start()
        yield server
        server.kill()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with started() as server:
        yield server


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that the test may kill."""
    with started() as server:
        yield server


@pytest.fixture
def keys() -> Keys:
    return Keys(f"t-{uuid4().hex}")


@pytest.fixture
async def redis(server: Server) -> AsyncIterator[Redis]:
    client = Redis.from_url(server.url)
    yield client
    await client.aclose()


@pytest.fixture
async def stage(server: Server, keys: Keys) -> AsyncIterator[Stage]:
    async with Stage(server.url, keys) as stage:
        yield stage


@pytest.fixture
async def own_stage(own_server: Server, keys: Keys) -> AsyncIterator[Stage]:
    async with Stage(own_server.url, keys) as stage:
        yield stage
