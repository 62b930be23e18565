"""The embedded Redis on a full disk: it goes on without its file, and with it again when there is room."""

import signal
import subprocess
from resource import RLIM_INFINITY, RLIMIT_FSIZE, prlimit

import pytest
from redis import Redis as Client
from redis.exceptions import ResponseError

from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded import redis as embedded
from engramq.deploy.local.embedded.redis import Redis
from engramq.deploy.local.home import Home
from tests.deploy.helpers import await_true

NOTHING = 0  # bytes that a file may have


@pytest.fixture
def server(home: Home) -> Redis:
    home.ensure()
    server = Redis(home)
    server.prepare()
    return server


def started(server: Redis) -> "subprocess.Popen[bytes]":
    child = process.start(server.launch(), server.home.logs / "redis.log")
    await_true(server.is_ready)
    return child


def limit_files(child: "subprocess.Popen[bytes]", most: int) -> None:
    """Let the server write no file beyond so many bytes: it sees an error, as of a disk that is full."""
    prlimit(child.pid, RLIMIT_FSIZE, (most, RLIM_INFINITY))


def refuses(client: Client) -> bool:
    try:
        client.set("fill", "disk")
    except ResponseError as refusal:
        return str(refusal).startswith("MISCONF")
    return False


@pytest.mark.promise("QP-17")
def test_a_redis_whose_disk_is_full_serves_without_its_file_until_there_is_room(
    server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "TRY_AGAIN_S", 0.0)
    child = started(server)
    try:
        with Client.from_url(server.url) as client:
            assert server.tend() == ""
            client.set("before", "kept")
            limit_files(child, NOTHING)
            await_true(lambda: refuses(client))
            assert "disk is full" in server.tend()
            assert not refuses(client)
            client.set("meanwhile", "kept")
            monkeypatch.setattr(embedded, "SPARE_BYTES", 2**62)
            assert "disk is full" in server.tend(), "no room yet"
            assert client.info("persistence")["aof_enabled"] == 0
            limit_files(child, RLIM_INFINITY)
            monkeypatch.setattr(embedded, "SPARE_BYTES", 0)
            assert server.tend() == ""
            assert client.info("persistence")["aof_enabled"] == 1
            await_true(lambda: client.info("persistence")["aof_rewrite_in_progress"] == 0)
            client.set("after", "kept")
            assert server.tend() == ""
        child.kill()
        child.wait()
        server.prepare()
        child = started(server)
        with Client.from_url(server.url) as client:
            assert client.mget("before", "meanwhile", "after") == [b"kept"] * 3
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()


def test_a_server_that_does_not_answer_is_not_tended(server: Redis) -> None:
    assert server.tend() == ""


def test_the_configuration_is_written_only_when_it_changes(server: Redis) -> None:
    before = (server.home.redis / "redis.conf").stat().st_ino
    server.prepare()
    assert (server.home.redis / "redis.conf").stat().st_ino == before
