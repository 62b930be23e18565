"""Start child processes so that none is lost, know them again by pid and start time, and end them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_LAUNCHER = Path(__file__).with_name("launch.py")
_POLL_S = 0.01
_ON_LINUX = sys.platform.startswith("linux")


@dataclass(frozen=True)
class LaunchOrder:
    """How to start one program.

    `death_signal` is what the kernel sends it when the parent dies (Linux). `mapped_to` is the user id that root is
    called inside (a user namespace); `account` is the (uid, gid) to become for good. `must_reach` are paths without
    which the program had better not start.
    """

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    death_signal: int = signal.SIGTERM
    mapped_to: int | None = None
    account: tuple[int, int] | None = None
    must_reach: Sequence[str] = ()


@dataclass(frozen=True)
class ProcessIdentity:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    started: str


def start(
    launch: LaunchOrder, log: Path, record: Callable[[ProcessIdentity], None] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, its output appended to `log`.

    `record` is called with its identity before the program proper runs: a kill in between leaves no unknown
    child, since the launcher then sees its gate close. Call it from the thread that lives as long as the child should.
    """
    gate, opener = os.pipe()
    try:
        child = _popen(launch, log, gate)
        if record is not None:
            record(identify(child.pid) or ProcessIdentity(child.pid, "gone"))
        with contextlib.suppress(BrokenPipeError):
            os.write(opener, b"g")
    finally:
        os.close(gate)
        os.close(opener)
    return child


def stream(launch: LaunchOrder, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a program whose output is read from `stdout` as it comes; its complaints go to `errors`."""
    return subprocess.Popen(
        _argv(launch, None),
        env=dict(launch.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
    )


def run(launch: LaunchOrder, timeout_s: float, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program to its end within `timeout_s` seconds and return what it printed.

    Raises subprocess.TimeoutExpired when it did not end in time; it has been killed.
    """
    return subprocess.run(
        _argv(launch, None),
        env=dict(launch.environment),
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a live process, or None when there is none with that pid (a zombie counts as none)."""
    if _ON_LINUX:
        fields = _fields(pid)
        # Fields 3 and 22 of proc(5): state, and start time in ticks since boot.
        return ProcessIdentity(pid, f"{_boot_id()}:{fields[19]}") if fields and fields[0] not in "ZX" else None
    shown = ps("-o", "stat=,lstart=", "-p", str(pid)).split(None, 1)
    return None if not shown or shown[0].startswith("Z") else ProcessIdentity(pid, shown[1].strip())


def is_alive(who: ProcessIdentity) -> bool:
    """Whether exactly this process still runs."""
    return identify(who.pid) == who


def end(who: ProcessIdentity, signals: Sequence[tuple[int, float]]) -> bool:
    """Send each signal in turn, to the process and its group, until it has gone; each has its number of seconds.

    A process that somebody has stopped (SIGSTOP) goes on, to hear it, and what it started too.
    """
    for number, bound_s in signals:
        if not is_alive(who):
            return True
        signal_group(who.pid, number)
        signal_tree(who.pid, signal.SIGCONT)
        wait_until(lambda: not is_alive(who), bound_s)
    return not is_alive(who)


def end_all(signals: Mapping[ProcessIdentity, Sequence[tuple[int, float]]]) -> None:
    """End several processes, each by signals of its own, at the same time: it takes as long as the slowest."""
    if signals:
        with ThreadPoolExecutor(len(signals)) as threads:
            list(threads.map(end, signals, signals.values()))


def wait_until(condition: Callable[[], bool], bound_s: float) -> bool:
    """Poll a cheap condition for at most `bound_s` seconds."""
    deadline = time.monotonic() + bound_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def working_in(folder: Path, program: str) -> list[ProcessIdentity]:
    """The processes named `program` that work in `folder`: a PostgreSQL server and, on Linux, its backends."""
    if not _ON_LINUX:
        return _named_with(program, folder)
    processes = []
    for pid in _pids():
        entry = Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):
            if (entry / "comm").read_text().strip() == program and (entry / "cwd").readlink() == folder:
                processes.append(identify(pid))
    return [who for who in processes if who is not None]


def _named_with(program: str, folder: Path) -> list[ProcessIdentity]:
    shown = ps("-axo", "pid=,command=").splitlines()
    lines = [line.split(None, 1) for line in shown if program in line and str(folder) in line]
    return [who for line in lines if (who := identify(int(line[0]))) is not None]


def _popen(launch: LaunchOrder, log: Path, gate: int) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            _argv(launch, gate),
            env=dict(launch.environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(gate,),
            start_new_session=True,
        )


def _argv(launch: LaunchOrder, gate: int | None) -> list[str]:
    account = ("", "") if launch.account is None else launch.account
    parts = (gate, os.getpid(), int(launch.death_signal), launch.mapped_to, *account, *launch.must_reach)
    order = ["" if part is None else str(part) for part in parts]
    return [sys.executable, "-I", "-S", str(_LAUNCHER), str(len(order)), *order, *launch.argv]


def signal_group(pid: int, number: int) -> None:
    """Signal a child that leads a session of its own, together with whatever it started there."""
    # The group may be there when its leader is not, and the reverse before the child's setsid.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def signal_tree(pid: int, number: int) -> None:
    """Signal a process and its descendants, whatever their groups: each backend of PostgreSQL has one of its own."""
    for each in tree(pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, number)


def tree(root: int) -> list[int]:
    """Return a process and its descendants."""
    if _ON_LINUX:
        pairs = [(pid, int(fields[1])) for pid in _pids() if (fields := _fields(pid))]
    else:
        pairs = [(int(pid), int(parent)) for pid, parent in map(str.split, ps("-axo", "pid=,ppid=").splitlines())]
    members = [root]
    for member in members:
        members.extend(pid for pid, parent in pairs if parent == member)
    return members


def ps(*arguments: str) -> str:
    """Return what ps prints."""
    return subprocess.run(["ps", *arguments], capture_output=True, text=True, check=False, timeout=5).stdout


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _fields(pid: int) -> list[str]:
    """Return what proc(5) says of a process, from its third field on; nothing when it has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
