"""One service and its process: what hangs at its start is replaced, and no second one starts beside the first."""

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engramq.deploy.local import settings
from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.process import LaunchOrder
from engramq.deploy.local.home import Home
from engramq.deploy.local.supervisor import silence
from engramq.deploy.local.supervisor.runner import ServiceRunner, ServiceState
from engramq.deploy.local.supervisor.stack import GATEWAY, WORKER, SupervisedService, default_stack
from engramq.deploy.local.supervisor.state import StateFile
from tests.deploy.helpers import identity

pytestmark = [pytest.mark.promise("OP-3"), pytest.mark.timeout(60)]

QUICK = ((15, 5.0), (9, 5.0))
FINE = {"is_ready": lambda: True, "answers": lambda: True, "tend": lambda: ""}


def slow_service(
    is_ready: Callable[[], bool] | None = None,
    answers: Callable[[], bool] | None = None,
    tend: Callable[[], str] | None = None,
) -> SupervisedService:
    """A program that does nothing for a minute."""
    return SupervisedService(
        "slow",
        lambda: LaunchOrder(("/bin/sleep", "60")),
        is_ready=is_ready,
        answers=answers,
        tend=tend,
        stop_signals=QUICK,
        hung_signals=QUICK,
    )


@asynccontextmanager
async def running(service: SupervisedService, folder: Path) -> AsyncIterator[ServiceRunner]:
    """Run a service, whose exits are seen soon, and end it with the block."""

    async def never_wait(_names: tuple[str, ...]) -> None:
        return

    async def see_exits() -> None:
        while True:
            runner.notice_exit()
            await asyncio.sleep(0.01)

    runner = ServiceRunner(service, folder, StateFile(Home(folder)), lambda: None)
    tasks = [asyncio.create_task(runner.run(never_wait)), asyncio.create_task(see_exits())]
    try:
        async with asyncio.timeout(20.0):
            yield runner
        assert not tasks[0].done()
    finally:
        tasks[0].cancel()
        await asyncio.wait(tasks[:1])
        await runner.stop(in_haste=False)
        tasks[1].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tasks[1]


async def first_child(runner: ServiceRunner) -> process.ProcessIdentity:
    while runner.child is None:
        await asyncio.sleep(0.01)
    return identity(runner.child.pid)


@pytest.mark.parametrize("is_ready", [False, True])
async def test_what_never_answers_is_replaced_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_ready: bool
) -> None:
    monkeypatch.setattr(silence, "STARTING_S", 0.5)
    monkeypatch.setattr(silence, "TICK_S", 0.02)
    async with running(slow_service(lambda: is_ready, lambda: False), tmp_path) as runner:
        first = await first_child(runner)
        while runner.restarts == 0:
            await asyncio.sleep(0.01)
        assert not process.is_alive(first)


async def test_what_answers_while_it_starts_has_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "STARTING_S", 0.5)
    monkeypatch.setattr(silence, "TICK_S", 0.02)
    monkeypatch.setattr(silence, "PROBE_PERIOD_S", 0.01)
    recovers = asyncio.Event()
    answered = 0

    def answers() -> bool:
        nonlocal answered
        answered += 1
        return True

    async with running(slow_service(recovers.is_set, answers), tmp_path) as runner:
        while answered < 100:  # a second of recovery
            await asyncio.sleep(0.01)
        recovers.set()
        while runner.state is not ServiceState.READY:
            await asyncio.sleep(0.01)
        assert runner.restarts == 0


async def test_a_worker_whose_other_database_is_away_is_ready_to_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    home.ensure()
    heartbeats = {name: silence.Heartbeat(home.run / f"{name}.alive") for name in (GATEWAY, WORKER)}
    monkeypatch.setattr(silence, "Heartbeat", lambda path: heartbeats[path.stem])
    away = {settings.DATABASE_URL: "postgresql://127.0.0.1:1/away", settings.REDIS_URL: "redis://127.0.0.1:1/0"}
    (worker,) = [service for service in default_stack(home, away).services if service.name == WORKER]
    with contextlib.closing(heartbeats[WORKER]):
        async with running(worker, tmp_path) as runner:
            while runner.state is not ServiceState.READY:
                await asyncio.sleep(0.01)
            while "Waiting for the database" not in "".join(runner.last_lines):
                await asyncio.sleep(0.01)
            assert runner.restarts == 0


@pytest.mark.parametrize("half", ["is_ready", "tend", "answers"])
@pytest.mark.parametrize("error", [OSError("no more files"), subprocess.TimeoutExpired("ps", 5)])
async def test_what_cannot_be_watched_is_ended_before_another_starts(
    tmp_path: Path, error: Exception, half: str
) -> None:
    first_seen, runners = threading.Event(), list[ServiceRunner]()

    def fails_at_first() -> bool:
        assert first_seen.wait(10.0)
        if runners[0].restarts == 0:
            raise error
        return True

    async with running(slow_service(**{**FINE, half: fails_at_first}), tmp_path) as runner:  # type: ignore[arg-type]
        runners.append(runner)
        first = await first_child(runner)
        first_seen.set()
        while runner.restarts == 0 or runner.state is not ServiceState.READY:
            await asyncio.sleep(0.01)
        assert not process.is_alive(first)
        assert runner.child is not None
        assert process.is_alive(identity(runner.child.pid))
        assert runner.restarts == 1
