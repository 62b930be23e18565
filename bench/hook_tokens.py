"""Measure what hooks cost and add: the tokens and milliseconds of each event, by real processes over a running stack.

    python -m bench.hook_tokens [--tokens 800]

Keeps the facts of prompts and files in one project, and begins sessions in its repository. Prints a JSON line for each
event: how many were told anything (`told`); of those that have a fact, how many sessions
were told it by then (`right`); the tokens (o200k) of one that tells, and the mean over all of the event; the times of
the process as its client waits for it. `file_again`: the session used the file before. `stack_down`: nothing runs.
"""

import argparse
import os
import tempfile
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any, Final, NamedTuple
from uuid import uuid4

from bench.common import emit
from bench.replies import tokens
from bench.stack import StdioClient, stdio_client, stop
from tests.deploy.local.hooks.sessions import Session
from tools.relevance import worlds

BENCH: Final = "hook_tokens"
SCENARIOS: Final = Path(__file__).resolve().parents[1] / "tests" / "scenarios"
PROJECT: Final = "rover"
STARTS: Final = 20
TRIES: Final = 60
NUMBERS: Final = count(1)


class Probe(NamedTuple):
    """The text that an event added, its milliseconds, and whether the expected fact was there by then."""

    text: str
    ms: float
    is_right: bool | None = None


class Talk:
    """A session of Claude Code, and all that hooks added for its model."""

    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        self._session = Session(home / f"{uuid4()}.jsonl", environment, folder=str(home / PROJECT))
        self._heard = ""

    def event(self, name: str, fact: str = "", **fields: Any) -> Probe:
        """Run the hook for an event."""
        ended = self._session.tell(name, **fields)
        self._heard += ended.context
        return Probe(ended.context, 1000 * ended.seconds, fact in self._heard if fact else None)

    def start(self, source: str = "startup") -> Probe:
        """Begin the session, or go on after a compaction."""
        return self.event("SessionStart", source=source)

    def prompts(self, lines: Iterable[tuple[str, str]]) -> Iterator[Probe]:
        """Send prompts, each with the fact that bears on it, if any."""
        for prompt, fact in lines:
            yield self.event("UserPromptSubmit", fact, prompt=prompt)

    def files(self, lines: Iterable[tuple[str, str]]) -> Iterator[Probe]:
        """Let a tool read each file."""
        for path, fact in lines:
            yield self.event("PreToolUse", fact, tool_name="Read", tool_input={"file_path": path})


def facts_of_files() -> list[tuple[str, str]]:
    """Return files with the fact that names each, "" for none."""
    lines = (SCENARIOS / "files.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [(path, fact) for path, fact in (line.split("\t") for line in lines)]


def keep(client: StdioClient, facts: list[str]) -> int:
    """Store facts in the project; return how many."""
    for fact in facts:
        if not any(is_kept(client, fact) for _ in range(TRIES)):
            raise RuntimeError("a fact was not stored")
    return len(facts)


def is_kept(client: StdioClient, fact: str) -> bool:
    """Say whether a fact is stored now; on a machine under load a first try may only be accepted."""
    reply = client.call(next(NUMBERS), "store_memory", content=fact, project=PROJECT, idempotency_key=fact[:100])
    return reply.get("status") == "stored"


def show(kind: str, events: Iterable[Probe]) -> None:
    """Print the figures of a kind of event."""
    probes = list(events)
    costs = [tokens(probe.text) for probe in probes if probe.text]
    meant = [probe.is_right for probe in probes if probe.is_right is not None]
    right: dict[str, Any] = {"right": f"{sum(meant)} of {len(meant)}"} if meant else {}
    times = [probe.ms for probe in probes]
    emit(
        BENCH,
        kind,
        n=len(probes),
        told=len(costs),
        **right,
        tokens=round(mean(costs)) if costs else 0,
        most_tokens=max(costs, default=0),
        mean_tokens=round(sum(costs) / len(probes), 1),
        p50_ms=round(median(times)),
        p95_ms=round(quantiles(times, n=20)[-1]),
    )


def measure(home: Path, environment: dict[str, str]) -> None:
    """Measure each kind of event."""
    (home / PROJECT / ".git").mkdir(parents=True)
    prompts = [*worlds.prompts("first").items(), *worlds.prompts("later").items()]
    files = facts_of_files()
    unnamed = [(path, "") for path, _ in files]
    with stdio_client(environment) as client:
        client.initialize()
        client.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
        emit(BENCH, "memories", memories=keep(client, [fact for _, fact in (*prompts, *files) if fact]))
        show("start", [Talk(home, environment).start() for _ in range(STARTS)])
        talk = Talk(home, environment)
        talk.start()
        show("unrelated_prompt", talk.prompts(line for line in prompts if not line[1]))
        show("prompt", talk.prompts(line for line in prompts if line[1]))
        show("compaction", [talk.start("compact") for _ in range(2)])
        talk = Talk(home, environment)
        show("file", talk.files(line for line in files if line[1]))
        show("other_file", talk.files(line for line in files if not line[1]))
        show("file_again", talk.files(unnamed))
    stop(environment)
    show("stack_down", Talk(home, environment).files(unnamed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=800, help="ENGRAMQ_HOOK_TOKENS")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="engramq-bench-", dir="/tmp") as place:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
        own = {"ENGRAMQ_HOME": f"{place}/home", "ENGRAMQ_PORT": "0", "ENGRAMQ_HOOK_TOKENS": str(chosen.tokens)}
        measure(Path(place), kept | own)


if __name__ == "__main__":
    main()
