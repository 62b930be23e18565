"""Keep one service running: start it in its turn, watch it, restart it with growing delays, stop it in bounded time."""

import asyncio
import contextlib
import logging
import shutil
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from engramq.deploy.local.embedded import process
from engramq.deploy.local.home import SEE_DISK, DeployError
from engramq.deploy.local.supervisor.silence import until_hung
from engramq.deploy.local.supervisor.stack import SupervisedService
from engramq.deploy.local.supervisor.state import StateFile

logger = logging.getLogger(__name__)

# The first death is mended at once; each further one within STEADY_S waits twice as long.
FIRST_DELAY_S = 0.25
LONGEST_DELAY_S = 10.0
STEADY_S = 10.0
# From the third early death on, clients that wait for the service get an error instead of waiting on.
DEATHS_TO_FAIL = 3
# Killed from outside (an operator, the kernel short of memory): no sign that it cannot run, so it is soon back.
_KILLED = (-signal.SIGKILL, -signal.SIGTERM)
LONGEST_DELAY_AFTER_KILL_S = 0.5
# Programs that refuse a setting end with this (as command lines do); trying again at once is of no use.
REFUSED_EXIT_CODE = 2
TEND_PERIOD_S = 1.0
FIRST_PROBE_S = 0.01
LONGEST_PROBE_S = 0.25


class ServiceState(StrEnum):
    """Where a service stands."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    FAILING = "failing"
    DONE = "done"
    STOPPED = "stopped"


class ServiceRunner:
    """Owns the process of one service. `changed` is called after every change of state."""

    def __init__(
        self, service: SupervisedService, logs: Path, state_file: StateFile, changed: Callable[[], None]
    ) -> None:
        self.service = service
        self.log = logs / f"{service.name}.log"
        self.state = ServiceState.WAITING
        self.child: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.restarts = 0
        self.complaint = ""
        self.ailment = ""  # what is wrong with it while it serves
        self._state_file = state_file
        self._changed = changed
        self._exited = asyncio.Event()
        self._early_deaths = 0
        self._longest_delay_s = LONGEST_DELAY_S
        self._prepared = False
        self._has_answered = False
        self._log_began = _size(self.log)  # after what earlier supervisors' processes had to say

    @property
    def is_ready(self) -> bool:
        """Whether others may use the service."""
        return self.state in (ServiceState.READY, ServiceState.DONE)

    @property
    def is_failing(self) -> bool:
        """Whether it died again and again (or could not even be started), so that waiting is of little use."""
        return self.state is not ServiceState.READY and bool(self.complaint)

    @property
    def last_lines(self) -> list[str]:
        """The last lines that its processes have logged."""
        return last_lines(self.log, since=self._log_began)

    def notice_exit(self) -> None:
        """Some child of ours has ended: see whether it was this one."""
        if self.child is not None and self.child.poll() is not None:
            self._exited.set()

    async def run(self, wait_for: Callable[[tuple[str, ...]], Awaitable[None]]) -> None:
        """Keep the service running until cancelled. `wait_for` resolves when the named services are ready."""
        while True:
            await wait_for(self.service.after)
            self._become(ServiceState.FAILING if self.complaint else ServiceState.STARTING)
            code, problems = 0, tuple[Exception | ExceptionGroup[Exception], ...]()
            try:
                code = await self._live()
            except* (DeployError, OSError, subprocess.SubprocessError) as errors:
                problems = errors.exceptions
            if problems:
                await self._note_problems(problems)
            elif self.service.once and code == 0:
                self.complaint = ""
                self._become(ServiceState.DONE)
                return
            else:
                self._note_death(code)
            self.restarts += 1
            self._become(ServiceState.FAILING if self.complaint else ServiceState.STARTING)
            await asyncio.sleep(self._delay_s())

    async def stop(self, *, in_haste: bool) -> bool:
        """End the process with the service's signals, each within its bound; return whether the first was enough.

        `run` has been cancelled before. `in_haste`: another service has used up the time, so this one gets little.
        """
        is_running = self.child is not None and self.child.poll() is None
        if self.service.before_stop is not None and is_running and not in_haste:
            await asyncio.to_thread(self.service.before_stop)
        needed = await self._end(self.service.hung_signals if in_haste else self.service.stop_signals)
        self._state_file.forget(self.service.name)
        self._become(ServiceState.STOPPED)
        return needed <= 1

    async def _end(self, signals: Sequence[tuple[int, float]]) -> int:
        """Send each signal in turn until the process has ended; return how many it took."""
        for count, (number, bound_s) in enumerate(signals):
            if self.child is None or self.child.poll() is not None:
                return count
            process.signal_group(self.child.pid, number)
            # A process stopped by SIGSTOP hears no signal but this one and SIGKILL.
            await asyncio.to_thread(process.signal_tree, self.child.pid, signal.SIGCONT)
            try:
                await asyncio.wait_for(self._exited.wait(), bound_s)
            except TimeoutError:
                logger.warning("Service slow to stop", extra={"service": self.service.name, "signal": number})
        return len(signals)

    async def _live(self) -> int:
        """Start the process, wait until it is ready, then until it ends.

        Returns:
            its exit code (negative: the signal that killed it).
        """
        hook = (self._prepared and self.service.mend) or self.service.prepare
        if hook is not None:
            await asyncio.to_thread(hook)
        self._prepared = True
        self._has_answered = False
        self._exited.clear()
        # In this thread, which lives as long as we do: the kernel ends the child when the thread that made it ends.
        self.child = process.start(
            self.service.launch(), self.log, lambda who: self._state_file.record(self.service.name, who)
        )
        self.started_at = time.time()
        self.notice_exit()
        if not self.service.once:
            await self._watched(self._until_ready(), is_starting=True)
            await self._watched(self._tend(), is_starting=False)
        await self._exited.wait()
        self._state_file.forget(self.service.name)
        return self.child.returncode

    async def _watched(self, work: Coroutine[Any, Any, None], *, is_starting: bool) -> None:
        """Do `work`, and end the process meanwhile when it hangs."""
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._end_when_hung(is_starting=is_starting))
            await work
            watching.cancel()

    async def _until_ready(self) -> None:
        if self.service.is_ready is None:
            # It cannot be asked: only time tells, and more of it when it has failed before.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._exited.wait(), STEADY_S if self.complaint else self.service.settle_s)
        pause_s = FIRST_PROBE_S
        while not self._exited.is_set():
            if self.service.is_ready is None or await asyncio.to_thread(self.service.is_ready):
                self.complaint = ""
                self._become(ServiceState.READY)
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, LONGEST_PROBE_S)

    async def _tend(self) -> None:
        """Look after the service until it ends."""
        while (self.service.tend or self.service.sockets) and not self._exited.is_set():
            if gone := [str(path) for path in self.service.sockets if not path.is_socket()]:
                # Nobody reaches it any more, and it does not make them again.
                logger.warning(
                    "Sockets removed: service is replaced", extra={"service": self.service.name, "gone": gone}
                )
                await self._end(self.service.hung_signals)
                break
            ailment = await asyncio.to_thread(self.service.tend) if self.service.tend else ""
            if ailment != self.ailment:
                extra = {"service": self.service.name, "problem": ailment or self.ailment}
                logger.warning("Service ails" if ailment else "Service ails no more", extra=extra)
                self.ailment = ailment
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._exited.wait(), TEND_PERIOD_S)
        await self._exited.wait()
        self.ailment = ""

    async def _end_when_hung(self, *, is_starting: bool) -> None:
        """End the process when it answers nothing; `run` starts another one."""
        answers = self.service.answers
        if answers is None:
            return

        def noted() -> bool:
            if answered := answers():
                self._has_answered = True
            return answered

        silent_s = await until_hung(noted, self._exited, is_starting=is_starting, has_answered=self._has_answered)
        if self._exited.is_set() or self.child is None:
            return
        extra = {"service": self.service.name, "pid": self.child.pid, "silent_s": round(silent_s, 1)}
        logger.warning("Service hangs: it is replaced", extra=extra)
        await self._end(self.service.hung_signals)

    async def _note_problems(self, problems: Sequence[Exception]) -> None:
        """Note why the service could not be started or watched, and end what runs of it."""
        self._early_deaths += 1
        self._longest_delay_s = LONGEST_DELAY_S
        self.complaint = "; ".join(map(self._tell, problems))
        extra = {"service": self.service.name, "error": self.complaint}
        logger.warning("Service not started or not watched", extra=extra)
        await self._end(self.service.stop_signals)

    def _tell(self, problem: Exception) -> str:
        if isinstance(problem, OSError) and problem.strerror:  # of its disk, which says neither what nor how to mend it
            return f"{self.service.name} cannot be started: {problem.strerror}. {SEE_DISK}"
        return str(problem)

    def _note_death(self, code: int) -> None:
        lived_s = time.time() - self.started_at
        logger.warning(
            "Service died", extra={"service": self.service.name, "exit_code": code, "lived_s": round(lived_s, 1)}
        )
        if lived_s >= STEADY_S:
            self._early_deaths = 0
        self._early_deaths += 1
        self._longest_delay_s = LONGEST_DELAY_AFTER_KILL_S if code in _KILLED else LONGEST_DELAY_S
        if code not in _KILLED and (self._early_deaths >= DEATHS_TO_FAIL or code == REFUSED_EXIT_CODE):
            ending = "\n".join(self.last_lines)
            self.complaint = f"{self.service.name} ended with {code}. Its last lines ({self.log}):\n{ending}"
        else:
            self.complaint = ""

    def _delay_s(self) -> float:
        if self._early_deaths <= 1 and not self.complaint:
            return 0.0
        return min(FIRST_DELAY_S * 2.0 ** max(0, self._early_deaths - 2), self._longest_delay_s)

    def _become(self, state: ServiceState) -> None:
        self.state = state
        self._changed()


# Two generations of this for each of six programs: 60 MB at most, plus what is written between two looks.
LARGEST_BYTES = 5 * 1024 * 1024
_TAIL_BYTES = 8 * 1024
_LAST_LINES = 8


def rotate_logs(folder: Path, largest_bytes: int = LARGEST_BYTES) -> None:
    """Move what is in a too large log to NAME.log.1 and empty the log.

    Copied and truncated rather than renamed, because the children hold it open, for appending.
    """
    for log in folder.glob("*.log"):
        with contextlib.suppress(OSError):
            if _size(log) > largest_bytes:
                older = log.with_name(log.name + ".1")
                shutil.copyfile(log, older)
                older.chmod(0o600)
                with log.open("r+b") as emptied:
                    emptied.truncate(0)


def _size(log: Path) -> int:
    """The bytes of a log; 0 when there is none."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def last_lines(log: Path, *, since: int = 0) -> list[str]:
    """The last lines of a log, after so many bytes, that are not blank; none when it cannot be read."""
    try:
        with log.open("rb") as source:
            whole = log.stat().st_size
            # It was emptied meanwhile when it is shorter.
            source.seek(max(since if since <= whole else 0, whole - _TAIL_BYTES))
            text = source.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-_LAST_LINES:]
