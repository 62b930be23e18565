"""Record in a file which processes a supervisor runs, so that those of a killed one can be ended.

`engramq down` (`shut_down`) stops a home's stack whoever uses it, also when its supervisor hangs or has been killed.
"""

import json
import logging
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from engramq.deploy.local.embedded import postgres, process
from engramq.deploy.local.embedded.process import ProcessIdentity
from engramq.deploy.local.embedded.servers import SERVER_SIGNALS, lock_home
from engramq.deploy.local.home import DeployError, Home, exists
from engramq.deploy.local.lease import connect

logger = logging.getLogger(__name__)

SUPERVISOR = "supervisor"
# More than all services' own bounds together.
STOP_BOUND_S = 120.0
# A supervisor that is just starting listens by then, and one that does not hang has answered.
ANSWER_BOUND_S = 5.0
_DEFAULT_SIGNALS: Sequence[tuple[int, float]] = ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0))


class StateFile:
    """Names and identities of the supervisor and its children, replaced whole at every change."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._processes: dict[str, ProcessIdentity] = {}

    def record(self, name: str, who: ProcessIdentity) -> None:
        """Write down a process before it runs."""
        self._processes[name] = who
        self._write()

    def forget(self, name: str) -> None:
        """A process has ended and was waited for."""
        self._processes.pop(name, None)
        self._write()

    def clear(self) -> None:
        """Nothing runs any more."""
        self._processes.clear()
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        text = json.dumps({name: [who.pid, who.started] for name, who in self._processes.items()})
        fresh = self._path.with_suffix(".new")
        try:
            with open(fresh, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(text)
            fresh.replace(self._path)
        except OSError as error:
            # A full disk must not take the stack down; on Linux the kernel ends our children with us all the same.
            logger.warning("State file not written", extra={"path": str(self._path), "error": str(error)})


def read_recorded(path: Path) -> dict[str, ProcessIdentity]:
    """Return the processes that the file names, alive or not; none when it is missing or spoilt."""
    try:
        content = json.loads(path.read_text())
        return {name: ProcessIdentity(int(pid), str(started)) for name, (pid, started) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def end_predecessor(path: Path, signals: Mapping[str, Sequence[tuple[int, float]]] = SERVER_SIGNALS) -> list[str]:
    """End the children that a killed supervisor left, newest first, and remove the file.

    Blocks, within the signals' bounds. The caller holds the lock of the home. A pid that another program has by now is
    left alone: its start time differs.

    Returns:
        the names of those that were still alive.
    """
    orphans = [
        (name, who)
        for name, who in reversed(read_recorded(path).items())
        if name != SUPERVISOR and who.pid != os.getpid() and process.is_alive(who)
    ]
    for name, who in orphans:
        process.end(who, signals.get(name, _DEFAULT_SIGNALS))
    path.unlink(missing_ok=True)
    return [name for name, _ in orphans]


def shut_down(home: Home, stop_bound_s: float = STOP_BOUND_S, answer_bound_s: float = ANSWER_BOUND_S) -> bool:
    """Stop everything that runs for this home and wait until it has gone.

    A supervisor that does not stop within `stop_bound_s` seconds of being asked, or holds the home's lock and does not
    answer for `answer_bound_s`, is ended by force.

    Returns whether anything ran. Raises DeployError naming what could not be stopped, and when
    others may have written to the home.
    """
    if not exists(home.path):
        return False
    home.refuse_others()  # the file there names processes to be ended
    answered = _ask_to_stop(home, stop_bound_s, answer_bound_s)
    was_there = answered is not None
    deadline = time.monotonic() + answer_bound_s
    while True:
        try:
            lock = lock_home(home)
            break
        except DeployError:
            if time.monotonic() > deadline:
                _end_supervisor(home, answer_bound_s if answered is False else stop_bound_s)
        # Perhaps it was only starting when it was asked first.
        answered = _ask_to_stop(home, stop_bound_s, answer_bound_s)
        was_there = was_there or answered is not None
        time.sleep(0.05)
    try:
        orphans = end_predecessor(home.state)
        postgres.Postgres(home).mend()
    finally:
        os.close(lock)
    return was_there or bool(orphans)


def _ask_to_stop(home: Home, stop_bound_s: float, answer_bound_s: float) -> bool | None:
    """Ask the supervisor to stop, and wait until it has; return whether it answered, None where there is none."""
    channel = connect(home)
    if channel is None:
        return None
    answered = False
    try:
        channel.send({"op": "stop"})
        # It answers at once, and hangs up when all has stopped.
        while channel.receive(stop_bound_s if answered else answer_bound_s) is not None:
            answered = True
    except OSError:
        # It hangs or has gone: the lock says which.
        pass
    finally:
        channel.close()
    return answered


def _end_supervisor(home: Home, bound_s: float) -> None:
    who = read_recorded(home.state).get(SUPERVISOR)
    if who is None or not process.end(who, ((signal.SIGTERM, bound_s), (signal.SIGKILL, 5.0))):
        pid = f" (pid {who.pid})" if who is not None else ""
        raise DeployError("not_stopped", f"The supervisor of {home.path}{pid} does not stop.", "End it by hand.")
