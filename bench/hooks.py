"""Sessions with hooks, many at once: `python -m bench.hooks [--sessions 50] [--turns 4] [--rounds 30]`. Linux only.

Over a stack of its own with some memories: first one session alone, for what a client waits at each event; then so many
sessions at once, each with the events of Claude Code, after which every turn must be stored exactly once and no process
be left. Prints a JSON line for each; ends with 1 when a turn was lost or kept twice, or a process stayed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.client_sessions import Ended, Session
from bench.stack import StdioClient, bare_python, stdio_client, stop
from engramq.deploy.hooks import progress

FACTS: Final = 200
TOPICS: Final = ("tea", "trains", "zebras", "glaciers", "kettles", "ledgers", "harbours", "violins")
TARGET_MS: Final = 300.0


def emit(measure: str, **figures: Any) -> None:
    print(
        json.dumps({"bench": "hooks", "measure": measure, "load_1m": round(os.getloadavg()[0], 2), **figures}),
        flush=True,
    )


@contextmanager
def running(home: str) -> Iterator[tuple[StdioClient, dict[str, str]]]:
    """A stack that runs while a client is connected, with facts to recall."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    environment |= {"ENGRAMQ_HOME": home, "ENGRAMQ_PORT": "0"}
    with stdio_client(environment) as client:
        client.initialize()
        client.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
        facts = [{"content": f"Fact {n}: {TOPICS[n % len(TOPICS)]} matter to team {n}."} for n in range(FACTS)]
        client.call(2, "import_memories", records=facts)
        try:
            yield client, environment
        finally:
            stop(environment)


def one_alone(environment: Mapping[str, str], folder: Path, rounds: int) -> dict[str, list[float]]:
    """Return the seconds that a client waits for each event of a session that has the stack to itself."""
    waited: dict[str, list[float]] = {}

    def note(event: str, ended: Ended) -> None:
        waited.setdefault(event, []).append(ended.seconds)

    session = Session(folder / "alone.jsonl", dict(environment))
    session.transcript.touch()
    for number in range(rounds):
        prompt = f"What about the {TOPICS[number % len(TOPICS)]} of team {number}?"
        note("SessionStart", session.tell("SessionStart", source="resume"))
        note("UserPromptSubmit", session.tell("UserPromptSubmit", prompt=prompt))
        session.says("user", prompt)
        session.says("assistant", f"Answer {number}.")
        note("Stop", session.tell("Stop", stop_hook_active=False))
    return waited


def lived(session: Session, turns: int) -> list[Ended]:
    """Go through a whole session; return what its hooks did."""
    session.transcript.touch()
    ended = [session.tell("SessionStart", source="startup")]
    for number in range(turns):
        text = f"Session {session.id} asks about {TOPICS[number % len(TOPICS)]}, turn {number}."
        ended.append(session.tell("UserPromptSubmit", prompt=text))
        session.says("user", text)
        session.says("assistant", f"Session {session.id} answers in turn {number}.")
        ended.append(session.tell("Stop", stop_hook_active=False))
    ended.append(session.tell("PreCompact", trigger="manual", custom_instructions=""))
    ended.append(session.tell("SessionEnd", reason="exit"))
    return ended


def captured(client: StdioClient, session: str) -> list[str]:
    """Return the contents that are kept of a session's turns."""
    reply = client.call(
        3, "list_recent_memories", partitions=["untrusted"], thread=session, limit=100, max_chars=200_000, project="*"
    )
    return [memory["content"] for memory in reply["memories"]]


def processes_left(home: str) -> list[int]:
    """Return the processes of hooks of this home that still run."""
    found = subprocess.run(["pgrep", "-f", "engramq hook "], capture_output=True, text=True, check=False).stdout.split()
    return [int(pid) for pid in found if f"ENGRAMQ_HOME={home}".encode() in _environment_of(pid)]


def _environment_of(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def caught_up(environment: Mapping[str, str], folder: Path, home: str, bound_s: float = 60.0) -> int:
    """Let sessions start until none is behind, as they would in the days after; return how many that took."""
    notes = Path(home, progress.FOLDER)
    deadline = time.monotonic() + bound_s
    count = 0
    while behind(notes) and time.monotonic() < deadline:
        for note in notes.iterdir():  # a minute of quiet, without waiting for it
            os.utime(note, (time.time() - 2 * progress.QUIET_S,) * 2)
        session = Session(folder / f"later-{count}.jsonl", dict(environment))
        session.transcript.touch()
        session.tell("SessionStart", source="startup")
        count += 1
    return count


def behind(notes: Path) -> list[str]:
    """Return the sessions of which more was said than is captured."""
    found = [json.loads(note.read_text()) for note in notes.iterdir() if not note.name.startswith(".")]
    return [one["session"] for one in found if one["transcript"] and _size(one["transcript"]) > one["offset"]]


def _size(transcript: str) -> int:
    try:
        return Path(transcript).stat().st_size
    except OSError:  # its client has cleared it away
        return 0


def at_once(
    client: StdioClient, environment: Mapping[str, str], folder: Path, home: str, sessions: int, turns: int
) -> bool:
    """Let sessions live at once; tell and return whether nothing was lost, kept twice, or left running."""
    living = [Session(folder / f"{number}.jsonl", dict(environment)) for number in range(sessions)]
    begun = time.perf_counter()
    with ThreadPoolExecutor(sessions) as pool:
        ended = [one for several in pool.map(lived, living, [turns] * sessions) for one in several]
    seconds = time.perf_counter() - begun
    later = caught_up(environment, folder, home)
    kept = {session.id: Counter(captured(client, session.id)) for session in living}
    lost = sum(2 * turns - len(counts) for counts in kept.values())
    twice = sum(count - 1 for counts in kept.values() for count in counts.values())
    failed = [f"{one.code} {one.errors}" for one in ended if one.code != 0 or one.errors]
    left = len(processes_left(home))
    longest = max(one.seconds for one in ended)
    emit(
        "at_once", sessions=sessions, turns=2 * turns * sessions, hooks=len(ended), seconds=round(seconds, 1),
        lost=lost, twice=twice, failed=len(failed), errors=sorted(failed)[:3], left=left,
        caught_up_by=later, longest_s=round(longest, 2),
        p50_ms=percentile(ended, 50), p95_ms=percentile(ended, 95),
    )  # fmt: skip
    return lost == twice == len(failed) == left == 0


def percentile(ended: Iterable[Ended], share: int) -> float:
    return round(statistics.quantiles([one.seconds for one in ended], n=100)[share - 1] * 1000, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="engramq-bench-", dir="/tmp") as home,
        running(home) as (client, environment),
    ):
        folder = Path(home)
        one_alone(environment, folder, 3)  # the first ones find a stack that is cold
        emit("bare_python", p50_ms=round(statistics.median(bare_python() for _ in range(given.rounds)) * 1000, 1))
        for event, waited in one_alone(environment, folder, given.rounds).items():
            cuts = statistics.quantiles(waited, n=100)
            emit(
                "alone",
                event=event,
                p50_ms=round(cuts[49] * 1000, 1),
                p95_ms=round(cuts[94] * 1000, 1),
                target_ms=TARGET_MS,
            )
        return 0 if at_once(client, environment, folder, home, given.sessions, given.turns) else 1


if __name__ == "__main__":
    sys.exit(main())
