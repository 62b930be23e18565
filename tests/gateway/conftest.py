"""A real Redis, and a gateway's service over it whose workers are scripted."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import AF_UNIX, socket
from typing import Any
from uuid import uuid4

import pytest

from engramq.deploy.exporting import form_into
from engramq.deploy.importing.uploads import import_upload
from engramq.deploy.local.embedded.redis import find_binary
from engramq.gateway.cursors import CursorSecret
from engramq.gateway.queue.bus import Bus
from engramq.gateway.run import Gateway
from engramq.gateway.service import Service
from engramq.gateway.sessions import Breadcrumbs
from engramq.schemas.connection import Server
from engramq.schemas.envelope import PrincipalId
from engramq.schemas.keys import Keys
from engramq.schemas.settings import read_settings
from engramq.schemas.uploads import PageFiles
from tests.gateway.worker_side import WorkerSide, worker_side
from tests.lanes import lanes_at


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="engramq-test-"))  # short: socket paths have 107 bytes
    address = folder / "redis.sock"
    options = ("--port", "0", "--unixsocket", str(address), "--save", "", "--dir", str(folder), "--loglevel", "warning")
    with subprocess.Popen([find_binary(os.environ), *options], stdout=subprocess.DEVNULL) as server:
        try:
            await_socket(address)
            yield f"unix://{address}"
        finally:
            server.kill()
    shutil.rmtree(folder)


def await_socket(address: Path, bound_s: float = 15.0) -> None:
    """Return when somebody accepts connections there."""
    deadline = time.monotonic() + bound_s
    while True:
        try:
            with socket(AF_UNIX) as probe:
                probe.connect(str(address))
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@pytest.fixture
def keys() -> Keys:
    return Keys(f"test-{uuid4().hex[:12]}")


@pytest.fixture
async def workers(redis_url: str, keys: Keys) -> AsyncIterator[WorkerSide]:
    async with worker_side(redis_url, keys) as side:
        yield side


@asynccontextmanager
async def gateway_over(
    redis_url: str, keys: Keys, reply_timeout_s: float = 5.0, **variables: str
) -> AsyncIterator[Gateway]:
    """Run what every client of a gateway process shares, for as long as the block lasts.

    `variables` are settings without their prefix, in lower case.
    """
    changes = {f"ENGRAMQ_{name.upper()}": value for name, value in variables.items()}
    settings = read_settings(
        {"ENGRAMQ_REDIS_URL": redis_url, "ENGRAMQ_PORT": "0", "ENGRAMQ_HOME": "/nowhere", **changes}
    )
    redis = Server(redis_url).client(timeout_s=5.0)
    async with Bus(lanes_at(redis_url, keys), mailbox_bound=1_000, reply_timeout_s=reply_timeout_s) as bus:
        service = Service(bus, Breadcrumbs(redis, lanes_at("redis://unused", keys)), CursorSecret(redis, keys))
        yield Gateway(settings, bus, service, redis, keys, files=PageFiles(import_upload, form_into))
    await redis.aclose()


@pytest.fixture
async def gateway(redis_url: str, keys: Keys) -> AsyncIterator[Gateway]:
    async with gateway_over(redis_url, keys) as gateway:
        yield gateway


@pytest.fixture
async def service(gateway: Gateway) -> Service:
    return gateway.service


@pytest.fixture
async def breadcrumbs(workers: WorkerSide, keys: Keys) -> None:
    """What the workers leave behind after a store and a search in the session `s`."""
    whose = ("ns", PrincipalId("me"), "s")
    left: dict[Any, Any] = {"instance": "1", "seen": "99999999999999", "stored": "m-9", "recalled": "m-1\nm-2\n\n"}
    await workers.redis.hset(keys.session(*whose).state, mapping=left)
    await workers.redis.zadd(keys.session(*whose).touched, {"m-1": 1, "m-2": 2, "m-9": 3})


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """Return a path short enough for a socket, in a folder that is closed to others."""
    with tempfile.TemporaryDirectory(prefix="engramq-test-") as folder:
        yield Path(folder) / "gateway.sock"
