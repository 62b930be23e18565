"""Run a stack's services in order, count its holds, say how all is, and stop with the last hold: the supervisor."""

import asyncio
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from engramq.deploy.local.embedded import process
from engramq.deploy.local.home import DeployError, Home
from engramq.deploy.local.lines import ask_once
from engramq.deploy.local.ownership import SUPERVISOR, lies_at, lock_home, remove_leftover
from engramq.deploy.local.stack_hold import SERVING
from engramq.deploy.local.supervisor.runner import ServiceRunner, ServiceState, rotate_logs
from engramq.deploy.local.supervisor.stack import Stack, SupervisedService, stop_order
from engramq.deploy.local.supervisor.state import StateFile, end_predecessor
from engramq.schemas.passwords import without_password

logger = logging.getLogger(__name__)

# The starter connects within this, or never does.
FIRST_HOLD_BOUND_S = 10.0
ROTATION_PERIOD_S = 10.0
WATCH_S = 1.0  # between two looks whether home, lock and socket are still there
DESCRIPTORS = 4096  # that each of our processes may open, where the machine lets it


class Supervisor:
    """Owns the processes of one home's stack for as long as `run` runs."""

    def __init__(self, home: Home, stack: Stack, linger_s: float, lock: int) -> None:
        self.home = home
        self.folder_id = home.folder_id()
        self.stack = stack
        self.started_at = time.time()
        self.stopping = asyncio.Event()
        self._linger_s = linger_s
        self._state_file = StateFile(home)
        self._runners: dict[str, ServiceRunner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._holds: dict[object, dict[str, object]] = {}
        self._last_hold: asyncio.TimerHandle | None = None
        self._http_lock = asyncio.Lock()
        self._lock = lock

    async def run(self) -> None:
        """End what a killed predecessor left, run the services until `stopping` is set, and stop them in order."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        loop.add_signal_handler(signal.SIGCHLD, self._notice_exits)
        self._stop_when_unused(max(self._linger_s, FIRST_HOLD_BOUND_S))
        signals = {service.name: service.orphan_signals for service in self.stack.services}
        orphans = await asyncio.to_thread(end_predecessor, self.home, signals)
        logger.info("Supervisor started", extra={"home": str(self.home.path), "ended_orphans": orphans})
        allow_descriptors(DESCRIPTORS)
        chores = [asyncio.create_task(self._rotate_logs()), asyncio.create_task(self._watch_home())]
        try:
            for service in self.stack.services:
                self._start(service)
            await self.stopping.wait()
        finally:
            for chore in chores:
                chore.cancel()
            await self._stop_services()
            self._state_file.clear()

    async def wait_ready(self, names: Sequence[str]) -> None:
        """Wait until all of these services are ready.

        Raises DeployError when one of them keeps failing, or the stack is being stopped.
        """
        while True:
            if self.stopping.is_set():
                raise DeployError("stopping", "The stack is being stopped.")
            runners = [self._runners[name] for name in names if name in self._runners]
            if len(runners) == len(names) and all(runner.is_ready for runner in runners):
                return
            # A service may wait for one that itself waits for something that fails.
            failing = [runner for runner in self._with_causes(names) if runner.is_failing]
            if failing:
                raise DeployError("service_failing", failing[0].complaint)
            await self._changed.wait()

    def add_hold(self, key: object, kind: str, pid: int) -> None:
        """Keep the stack up until `drop_hold(key)`."""
        if self._last_hold is not None:
            self._last_hold.cancel()
            self._last_hold = None
        self._holds[key] = {"kind": kind, "pid": pid, "since": time.time()}

    async def drop_hold(self, key: object, *, linger: bool) -> bool:
        """Give a hold back (once more does no harm).

        Returns:
            whether it was the last, so that the stack stops: at once, or after lingering.
        """
        hold = self._holds.pop(key, None)
        if hold is not None and not self._holds_up():
            await self._close_http()
        if self._holds:
            return False
        if hold is not None:
            self._stop_when_unused(self._linger_s if linger else 0.0)
        return True

    async def choose_http(self, wanted: dict[str, str]) -> None:
        """Choose where HTTP is served, unless it is. Raises DeployError when the port is taken."""
        async with self._http_lock:
            if self.stack.http is not None:
                self.stack.http.choose(wanted)

    async def open_http(self) -> None:
        """Have the gateway, which is ready, serve HTTP for a hold. Raises DeployError when it cannot."""
        async with self._http_lock:
            if self.stack.http is not None and self._holds_up():
                await asyncio.to_thread(self.stack.http.open)

    def describe(self) -> dict[str, object]:
        """The facts that `engramq status` shows.

        Reads /proc for the memory figures and asks the gateway: call it in a thread.
        """
        return {
            "home": str(self.home.path),
            "pid": os.getpid(),
            "stopping": self.stopping.is_set(),
            "uptime_s": round(time.time() - self.started_at, 1),
            "memory_mb": memory_mb(os.getpid(), whole_tree=False),
            "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "http": (self.stack.http.url if self.stack.http is not None else "") or None,
            "addresses": {name: without_password(value) for name, value in self.stack.addresses.items()},
            "leases": [dict(hold) for hold in list(self._holds.values())],
            "health": health(self.home.gateway_socket),
            "services": [_figures(runner) for runner in list(self._runners.values())],
        }

    def _start(self, service: SupervisedService) -> None:
        runner = ServiceRunner(service, self.home.logs, self._state_file, self._announce)
        self._runners[service.name] = runner
        task = asyncio.create_task(runner.run(self._wait_turn))
        task.add_done_callback(self._check_task)
        self._tasks[service.name] = task

    async def _wait_turn(self, names: tuple[str, ...]) -> None:
        while not all(name in self._runners and self._runners[name].is_ready for name in names):
            await self._changed.wait()

    def _announce(self) -> None:
        # Wakes all who wait now; who waits later waits for the next change.
        self._changed.set()
        self._changed = asyncio.Event()

    def _with_causes(self, names: Sequence[str]) -> list[ServiceRunner]:
        causes: dict[str, ServiceRunner] = {}
        pending = list(names)
        while pending:
            runner = self._runners.get(pending.pop())
            if runner is not None and runner.service.name not in causes:
                causes[runner.service.name] = runner
                pending.extend(runner.service.after)
        return list(causes.values())

    def _check_task(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            # A defect of the supervisor's own: better no stack than one that is not watched.
            logger.critical("Supervisor failed", exc_info=task.exception())
            self.stopping.set()

    def _notice_exits(self) -> None:
        for runner in self._runners.values():
            runner.notice_exit()

    def _holds_up(self) -> bool:
        return any(hold["kind"] in SERVING for hold in self._holds.values())

    def _stop_when_unused(self, delay_s: float) -> None:
        if self._last_hold is not None:
            self._last_hold.cancel()
        self._last_hold = asyncio.get_running_loop().call_later(delay_s, self.stopping.set)

    async def _close_http(self) -> None:
        async with self._http_lock:
            if self.stopping.is_set():
                return  # the gateway ends with the stack, and its HTTP with it: nobody is left to ask
            if self.stack.http is not None and not self._holds_up():
                await asyncio.to_thread(self.stack.http.close)

    async def _stop_services(self) -> None:
        self._announce()
        in_haste = False
        async with self._http_lock:
            for names in stop_order([runner.service for runner in self._runners.values()]):
                # Somebody waits: one that is deaf may take its whole time, but not each of several.
                ended = await asyncio.gather(*(self._stop_one(name, in_haste=in_haste) for name in names))
                in_haste = in_haste or not all(ended)
        for path in self.home.run.glob("*.alive"):
            remove_leftover(path)
        logger.info("Supervisor stopped", extra={"home": str(self.home.path)})

    async def _stop_one(self, name: str, *, in_haste: bool) -> bool:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        return await self._runners[name].stop(in_haste=in_haste)

    async def _watch_home(self) -> None:
        """Stop when the home was removed, replaced or moved, or another process has its lock: it is ours no more."""
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                is_ours = self.home.folder_id() == self.folder_id
                if is_ours and not lies_at(self._lock, self.home.lock):
                    self._lock = lock_home(self.home, SUPERVISOR)  # the file was removed, and nobody was quicker
            except FileNotFoundError:
                is_ours = False
            except DeployError as error:
                is_ours = error.code != "home_in_use"
            except OSError:  # a disk that fails for now; PostgreSQL says so
                is_ours = True
            if not is_ours:
                logger.critical("The home is no longer this supervisor's", extra={"home": str(self.home.path)})
                self.stopping.set()
                return

    async def _rotate_logs(self) -> None:
        while True:
            await asyncio.sleep(ROTATION_PERIOD_S)
            await asyncio.to_thread(rotate_logs, self.home.logs)


def allow_descriptors(wanted: int) -> None:
    """Let this process and its children open so many files, as far as the machine lets them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


HEALTH_BOUND_S = 9.0  # a gateway takes up to 8 s to find that nobody answers

_KB_PER_MB = 1024
_ON_LINUX = sys.platform.startswith("linux")


def _figures(runner: ServiceRunner) -> dict[str, object]:
    """Name, state, pid, uptime, memory, restarts, log; the last log lines only of one that fails."""
    child = runner.child
    running = child is not None and child.poll() is None
    pid = child.pid if child is not None and running else None
    return {
        "name": runner.service.name,
        "state": str(runner.state),
        "pid": pid,
        "uptime_s": round(time.time() - runner.started_at, 1) if pid is not None else None,
        "memory_mb": memory_mb(pid, whole_tree=True) if pid is not None else None,
        "restarts": runner.restarts,
        "log": str(runner.log),
        "complaint": runner.complaint or runner.ailment,
        "last_lines": runner.last_lines if runner.complaint or runner.state is ServiceState.FAILING else [],
    }


def memory_mb(pid: int, *, whole_tree: bool) -> float:
    """Memory of a process, of its descendants too if asked: the proportional share on Linux, else the resident size."""
    pids = process.tree(pid) if whole_tree else [pid]
    return round(sum(_memory_kb(each) for each in pids) / _KB_PER_MB, 1)


def health(gateway_socket: Path) -> dict[str, object] | None:
    """Return the health of gateway and servers: `status`, and `missing` and `refused` where there is such.

    None where there is none that answers. Blocks, within HEALTH_BOUND_S.
    """
    try:
        report = ask_once(gateway_socket, {"engramq": 1, "health": True}, HEALTH_BOUND_S)
    except (OSError, ValueError):
        return None
    return report if report and "status" in report else None


def _memory_kb(pid: int) -> int:
    if _ON_LINUX:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return int(process.ps("-o", "rss=", "-p", str(pid)).strip() or 0)
