"""What can be said about running services: their figures for `engramq status`."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

from engramq.deploy.local.supervisor.runner import Runner, State

HEALTH_BOUND_S = 9.0  # a gateway takes up to 8 s to find that nobody answers

_KB_PER_MB = 1024
_ON_LINUX = sys.platform.startswith("linux")


def of_service(runner: Runner) -> dict[str, object]:
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
        "last_lines": runner.last_lines if runner.complaint or runner.state is State.FAILING else [],
    }


def memory_mb(pid: int, *, whole_tree: bool) -> float:
    """Memory of a process, of its descendants too if asked: the proportional share on Linux, else the resident size."""
    pids = _tree(pid) if whole_tree else [pid]
    return round(sum(_memory_kb(each) for each in pids) / _KB_PER_MB, 1)


def health(gateway_socket: Path) -> dict[str, object] | None:
    """What the gateway says of itself and of the servers: `status`, and `missing` and `refused` where there is such.

    None where there is none that answers. Blocks, within HEALTH_BOUND_S.
    """
    answer = b""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(HEALTH_BOUND_S)
            line.connect(str(gateway_socket))
            line.sendall(b'{"engramq": 1, "health": true}\n')
            while not answer.endswith(b"\n") and (piece := line.recv(65_536)):
                answer += piece
        found = json.loads(answer)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "status" in found else None


def _memory_kb(pid: int) -> int:
    if _ON_LINUX:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return int(_ps("-o", "rss=", "-p", str(pid)).strip() or 0)


def _tree(root: int) -> list[int]:
    shown = _pids_and_parents() if _ON_LINUX else _ps("-axo", "pid=,ppid=")
    pairs = [(int(pid), int(parent)) for pid, parent in (line.split() for line in shown.splitlines())]
    found = [root]
    for member in found:
        found.extend(pid for pid, parent in pairs if parent == member)
    return found


def _ps(*arguments: str) -> str:
    return subprocess.run(["ps", *arguments], capture_output=True, text=True, check=False, timeout=5).stdout


def _pids_and_parents() -> str:
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            lines.append(f"{entry.name} {fields[1]}")
    return "\n".join(lines)
