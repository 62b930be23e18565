"""What nobody waits for gives way to commands that somebody waits for, but never for longer than its bound."""

import asyncio
import time

import pytest

from engramq.workers.queue import background
from engramq.workers.queue.background import QUIET_S, Activity

LONG_S = 30.0  # a pause of this length fails its test by the bound
BOUND_S = 10.0


async def paused(activity: Activity, at_least_s: float, at_most_s: float, stopping: asyncio.Event) -> float:
    """Return how many seconds a pause took."""
    began = time.monotonic()
    async with asyncio.timeout(BOUND_S):
        await activity.pause(at_least_s, at_most_s, stopping)
    return time.monotonic() - began


async def test_a_pause_lasts_until_a_moment_after_the_last_command() -> None:
    doing, entered, leave = Activity(), asyncio.Event(), asyncio.Event()

    async def serve() -> float:
        with doing.serving():
            entered.set()
            await leave.wait()
        return time.monotonic()

    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve())
        await entered.wait()
        pause = group.create_task(paused(doing, 0.0, LONG_S, asyncio.Event()))
        await asyncio.wait([pause], timeout=2 * QUIET_S)
        assert not pause.done()
        leave.set()
        ended = await serving
        await pause
        assert time.monotonic() - ended >= QUIET_S * 0.9


async def test_however_busy_the_process_a_pause_ends_at_its_bound() -> None:
    doing = Activity()
    with doing.serving():
        assert await paused(doing, 0.0, 0.1, asyncio.Event()) >= 0.09


async def test_a_stop_ends_a_pause_at_once() -> None:
    doing, stopping = Activity(), asyncio.Event()
    stopping.set()
    with doing.serving():
        await paused(doing, LONG_S, LONG_S, stopping)


async def test_a_load_goes_on_between_two_of_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    doing = Activity()
    assert doing.loading_s == 0
    with doing.loading():
        assert doing.loading_s > 0
    first = doing.loading_s
    assert first > 0
    with doing.loading():
        assert doing.loading_s > first
    monkeypatch.setattr(background, "BETWEEN_BATCHES_S", 0.0)
    assert doing.loading_s == 0
