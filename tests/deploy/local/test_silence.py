"""A process that says nothing for 15 s hangs, unless the supervisor itself did not run: finding 5 of faults."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from engramq.deploy.local.supervisor import silence
from engramq.deploy.local.supervisor.silence import HUNG_S, STARTING_S, Heartbeat, Silence, until_hung
from engramq.telemetry.listener import telling_watchdog

pytestmark = pytest.mark.promise("OP-3")


@pytest.fixture
def heartbeat(tmp_path: Path) -> Iterator[Heartbeat]:
    made = Heartbeat(tmp_path / "alive")
    made.listen()
    yield made
    made.close()


def is_hang_after(counted: Silence, ticks: float) -> bool:
    for _ in range(int(ticks)):
        counted.tick()
    return counted.is_hang


def test_silence_is_counted_from_the_last_answer_on() -> None:
    clock = iter(range(1000))
    counted = Silence(lambda: float(next(clock)))
    assert not is_hang_after(counted, HUNG_S + 1), "who has not answered yet may still be starting"
    counted.end()
    assert not is_hang_after(counted, HUNG_S - 1)
    assert is_hang_after(counted, 1)
    counted.end()
    assert not is_hang_after(counted, 1)
    assert counted.seconds == 1.0


@pytest.mark.parametrize("answers_first", [False, True])
def test_what_starts_has_minutes_for_each_answer(*, answers_first: bool) -> None:
    clock = iter(range(1000))
    counted = Silence(lambda: float(next(clock)), is_starting=True)
    if answers_first:
        counted.end()
    assert not is_hang_after(counted, STARTING_S - 1)
    assert is_hang_after(counted, 1)


@pytest.mark.parametrize("slept_s", [60.0, 8 * 3600.0])
def test_a_machine_that_slept_is_no_hang(slept_s: float) -> None:
    clock = iter([0.0, 1.0, 1.0 + slept_s, 2.0 + slept_s])
    counted = Silence(lambda: next(clock))
    counted.end()
    for _ in range(3):
        counted.tick()
    assert counted.seconds < HUNG_S / 3


async def test_who_falls_silent_hangs_and_who_ends_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "HUNG_S", 0.1)
    monkeypatch.setattr(silence, "TICK_S", 0.02)
    monkeypatch.setattr(silence, "PROBE_PERIOD_S", 0.01)
    answers = iter([False, True, True])
    async with asyncio.timeout(10.0):
        assert await until_hung(lambda: next(answers, False), asyncio.Event()) >= 0.1
        ended = asyncio.Event()
        ended.set()
        assert await until_hung(lambda: True, ended) == 0.0


async def test_a_probe_that_fails_is_no_silence() -> None:
    def broken() -> bool:
        raise ZeroDivisionError

    async with asyncio.timeout(10.0):
        with pytest.raises(ZeroDivisionError):
            await until_hung(broken, asyncio.Event())


async def test_an_event_loop_that_turns_is_heard(heartbeat: Heartbeat) -> None:
    assert not heartbeat.was_heard()
    async with asyncio.timeout(10.0), telling_watchdog(heartbeat.variables()):
        while not heartbeat.was_heard():
            await asyncio.sleep(0)
    assert not heartbeat.was_heard(), "once is once"


async def test_who_serves_says_so_until_another_starts(heartbeat: Heartbeat) -> None:
    ready = asyncio.Event()
    async with asyncio.timeout(10.0), telling_watchdog(heartbeat.variables(), ready=ready):
        while not heartbeat.was_heard():
            await asyncio.sleep(0)
        assert not heartbeat.said_ready(), "it lives"
        ready.set()
        while not heartbeat.said_ready():
            await asyncio.sleep(0)
        assert heartbeat.was_heard(), "that is a sign of life too"
        assert heartbeat.said_ready()
        heartbeat.listen()
        assert not heartbeat.said_ready()


async def test_who_serves_says_so_again_where_it_could_not_be_told(
    heartbeat: Heartbeat, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    moved, ready = (tmp_path / "alive").rename(tmp_path / "away"), asyncio.Event()
    ready.set()
    async with (
        asyncio.timeout(10.0),
        telling_watchdog({**heartbeat.variables(), "WATCHDOG_USEC": "30000"}, ready=ready),
    ):
        while "The watchdog cannot be reached" not in caplog.text:
            await asyncio.sleep(0)
        moved.rename(tmp_path / "alive")
        while not heartbeat.said_ready():
            await asyncio.sleep(0)


def test_a_new_start_listens_anew(heartbeat: Heartbeat) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as child:
        child.sendto(b"WATCHDOG=1", heartbeat.variables()["NOTIFY_SOCKET"])
        heartbeat.listen()
        assert not heartbeat.was_heard(), "what the last process said"
        child.sendto(b"WATCHDOG=1", heartbeat.variables()["NOTIFY_SOCKET"])
        assert heartbeat.was_heard()


def test_what_answered_while_it_started_hangs_after_the_shorter_silence() -> None:
    clock = iter(range(1000))
    counted = Silence(lambda: float(next(clock)), has_answered=True)
    assert not is_hang_after(counted, HUNG_S - 1)
    assert is_hang_after(counted, 1)
