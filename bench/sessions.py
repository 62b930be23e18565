"""Past sessions of a coding agent in one folder: how fast they are read and brought in, in how much memory.

    python -m bench.sessions [--sessions 10000] [--turns 4] [--embedder minilm]

Writes made-up sessions as Claude Code does, reads them (`engramq import --dry-run`), and brings them into servers of
its own. Prints a JSON line for each: sessions and turns a second, the CPU of a session in ms by process, and the peak
memory of the import. The line of the second has the ratio of its turns a second to those of the first.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.common import ENGRAMQ, PrivateStack, emit, private_stack
from bench.synthetic import Texts

BENCH: Final = "sessions"
SPEAKERS: Final = ("user", "assistant")
TOOL_CHARS: Final = 4_000  # of a tool's output, which is most of a session


def write_sessions(folder: Path, sessions: int, turns: int) -> int:
    """Write so many sessions with so many turns each; return their bytes."""
    texts = iter(Texts().mixed(sessions * turns))
    size = 0
    for number in range(sessions):
        place = folder / f"-work-project-{number % 20}"
        place.mkdir(parents=True, exist_ok=True)
        session = f"00000000-0000-4000-8000-{number:012}"
        lines = list[dict[str, Any]]()
        for turn in range(turns):
            speaker = SPEAKERS[turn % 2]
            at = f"2026-{1 + number % 12:02}-{1 + number % 28:02}T10:{turn % 60:02}:00.000Z"
            common = {
                "cwd": f"/work/project-{number % 20}",
                "sessionId": session,
                "timestamp": at,
                "isSidechain": False,
            }
            spoken, output = {"type": "text", "text": next(texts)}, {"type": "tool_result", "content": "x" * TOOL_CHARS}
            for kind, role, content in (("", speaker, spoken), ("-tool", "user", output)):
                message = {"role": role, "content": [content]}
                lines.append({**common, "type": role, "uuid": f"{session}-{turn}{kind}", "message": message})
        path = place / f"{session}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        size += path.stat().st_size
    return size


def measure(stack: PrivateStack, folder: Path, sessions: int, turns: int, *more: str) -> dict[str, Any]:
    """Run the import; return its figures, of which `turns` are those that it counted."""
    command = [ENGRAMQ, "import", "--format", "claude-code", str(folder), *more]
    with stack.cpu_used() as used:
        begun = time.perf_counter()
        with subprocess.Popen(command, env=stack.environment(), stdout=subprocess.DEVNULL) as running:
            _, status, usage = os.wait4(running.pid, 0)
            running.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begun
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)
    cpu = {**used, "import": usage.ru_utime + usage.ru_stime}
    return {
        "sessions_per_s": sessions / seconds,
        "turns_per_s": sessions * turns / seconds,
        "peak_rss_mb": usage.ru_maxrss / 1024,
        "cpu_ms_a_session": {
            name: round(1000 * spent / sessions, 2) for name, spent in cpu.items() if name != "client"
        },
    }


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=4, help="of each")
    parser.add_argument("--embedder", default="minilm")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, private_stack() as stack:
        folder = Path(name, "projects")
        size = write_sessions(folder, chosen.sessions, chosen.turns)
        stack.start_workers(1, EMBEDDER=chosen.embedder)
        said: dict[str, Any] = {"sessions": chosen.sessions, "turns": chosen.turns, "size_mb": size / 2**20}
        read = measure(stack, folder, chosen.sessions, chosen.turns, "--dry-run")
        emit(BENCH, "read", **said, **read)
        sys.stdout.flush()
        done = measure(stack, folder, chosen.sessions, chosen.turns)
        ratio = done["turns_per_s"] / read["turns_per_s"]
        emit(BENCH, "import", **said, **done, embedder=chosen.embedder, ratio_to_reading=ratio)


if __name__ == "__main__":
    main()
