"""systemd's watchdog is told by gateways and workers, also while these wait for their servers, and by nobody else."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from engramq.telemetry.listener import telling_watchdog
from tests.telemetry.tracing.processes import environment_of, process

pytestmark = [pytest.mark.promise("OP-8"), pytest.mark.timeout(90)]

BOUND_S = 40.0


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    """What systemd listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(BOUND_S)
        yield listening


def asked(systemd: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "300000", **more}


def until_silent(systemd: socket.socket) -> int:
    """Read until nothing comes for as long as the socket waits; return how often something came."""
    count = 0
    while True:
        try:
            systemd.recv(64)
        except TimeoutError:
            return count
        count += 1


@pytest.mark.parametrize("command", [("worker", "recall"), ("gateway",)])
@pytest.mark.long
def test_a_process_that_waits_for_its_servers_tells_that_it_turns(
    command: tuple[str, ...], systemd: socket.socket, tmp_path: Path, key_prefix: str
) -> None:
    away = environment_of("postgresql:///nowhere", "redis://127.0.0.1:9", key_prefix, tmp_path)
    with process({**away, **asked(systemd)}, *command):
        assert [systemd.recv(64) for _ in range(4)] == [b"WATCHDOG=1"] * 4


async def test_a_loop_that_stands_still_tells_nothing(systemd: socket.socket) -> None:
    async with telling_watchdog(asked(systemd)):
        assert await asyncio.to_thread(systemd.recv, 64) == b"WATCHDOG=1"
        systemd.settimeout(1)
        left = until_silent(systemd)  # in the loop's own thread
        assert left <= 1


async def test_a_process_that_systemd_does_not_ask_tells_nothing(systemd: socket.socket) -> None:
    for wrong in ({"WATCHDOG_PID": str(os.getpid() + 1)}, {"WATCHDOG_USEC": ""}, {"NOTIFY_SOCKET": ""}):
        async with telling_watchdog({**asked(systemd), **wrong}):
            await asyncio.sleep(0)
            systemd.setblocking(False)
            with pytest.raises(BlockingIOError):
                systemd.recv(64)


async def test_a_systemd_that_is_away_is_told_again(
    systemd: socket.socket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "notify"
    moved = place.rename(tmp_path / "away")
    async with telling_watchdog(asked(systemd)):
        await asyncio.sleep(0)
        assert "The watchdog cannot be reached" in caplog.text
        moved.rename(place)
        assert await asyncio.to_thread(systemd.recv, 64) == b"WATCHDOG=1"
