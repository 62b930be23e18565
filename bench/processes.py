"""CPU time and memory of processes and of those below them, by kind. Linux only (reads /proc)."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PARENT, _OWN, _ENDED = 1, slice(11, 13), slice(13, 15)  # fields of /proc/PID/stat after the command's name


@dataclass(frozen=True, slots=True)
class Kind:
    """The processes of one kind: those of these ids, and, unless `alone`, all below them."""

    pids: tuple[int, ...]
    alone: bool = False

    def all_pids(self) -> list[int]:
        """Return those that live now."""
        return list(self.pids) if self.alone else with_descendants(self.pids)


def with_descendants(pids: Iterable[int]) -> list[int]:
    """Return these processes and all that were started below them."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (fields := _fields(int(entry.name))):
            children.setdefault(int(fields[_PARENT]), []).append(int(entry.name))
    waiting, found = list(pids), []
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def cpu_seconds(pids: Iterable[int], *, ended: bool = False) -> float:
    """Return the CPU time that these have used; with `ended`, that of their children that are gone is theirs too."""
    ticks = 0
    for pid in pids:
        fields = _fields(pid) or ["0"] * _ENDED.stop
        ticks += sum(map(int, fields[_OWN])) + (sum(map(int, fields[_ENDED])) if ended else 0)
    return ticks / TICKS_PER_S


def cpu_by_kind(kinds: Mapping[str, Kind], *, without: Sequence[int] = ()) -> dict[str, float]:
    """Return the CPU seconds that each kind has used so far; `without` are processes that are no part of them."""
    return {
        name: cpu_seconds([pid for pid in kind.all_pids() if pid not in without], ended=not kind.alone)
        for name, kind in kinds.items()
    }


def pss_mb(pids: Iterable[int]) -> float:
    """Return the sum of the proportional set sizes: a page that several share counts once."""
    return sum(_kilobytes(PROC / str(pid) / "smaps_rollup", "Pss:") for pid in pids) / 1024


def rss_mb(pids: Iterable[int]) -> float:
    """Return the sum of the resident set sizes."""
    return sum(_kilobytes(PROC / str(pid) / "status", "VmRSS:") for pid in pids) / 1024


def peak_rss_mb(pids: Iterable[int]) -> float:
    """Return the largest resident set size that one of these has ever had."""
    return max((_kilobytes(PROC / str(pid) / "status", "VmHWM:") for pid in pids), default=0.0) / 1024


def processor() -> str:
    """Return the name of the machine's processor."""
    lines = (PROC / "cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _fields(pid: int) -> list[str]:
    """Return the fields of a process after its name, none when it is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def _kilobytes(file: Path, name: str) -> float:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:  # it is gone
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith(name)), 0.0)
