"""The file that says which processes this home's supervisor runs, so that a later one can end them if it is killed."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.process import ProcessIdentity

logger = logging.getLogger(__name__)

SUPERVISOR = "supervisor"
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
            with open(fresh, "w", opener=_private) as file:
                file.write(text)
            fresh.replace(self._path)
        except OSError as error:
            # A full disk must not take the stack down; on Linux the kernel ends our children with us all the same.
            logger.warning("State file not written", extra={"path": str(self._path), "error": str(error)})


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def recorded(path: Path) -> dict[str, ProcessIdentity]:
    """What the file says; nothing when it is missing or spoilt. The processes need not be alive."""
    try:
        content = json.loads(path.read_text())
        return {name: ProcessIdentity(int(pid), str(started)) for name, (pid, started) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def end_predecessor(path: Path, signals: Mapping[str, Sequence[tuple[int, float]]]) -> list[str]:
    """End the children that a killed supervisor left, newest first, and remove the file.

    Blocks, within the signals' bounds. The caller holds the lock of the home. A pid that another program has by now is
    left alone: its start time differs.

    Returns:
        the names of those that were still alive.
    """
    orphans = [
        (name, who)
        for name, who in reversed(recorded(path).items())
        if name != SUPERVISOR and who.pid != os.getpid() and process.is_alive(who)
    ]
    for name, who in orphans:
        process.end(who, signals.get(name, _DEFAULT_SIGNALS))
    path.unlink(missing_ok=True)
    return [name for name, _ in orphans]
