"""From a clean machine to the first memory of a past session that Claude Code itself recalls, in seconds.

    python -m bench.first_memory [--sessions 1000] [--setup]

In a home of its own with made-up sessions of Claude Code and Codex, as their released versions leave them. Prints a
JSON line for each step: `setup` (with --setup: a clone of this checkout, `make setup` in it), `connect` (with hooks
and the start of the stack), `import` (`engramq import --found --yes`), `promote` (one turn is looked for, verified
and promoted), `told` (the program runs once, and its model, a local server, is told that turn); then the `total`.
Needs what `make test-agents` installs.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.common import emit
from tests.agents.model import running_model
from tests.agents.test_days import INSTALLED, Desk
from tests.deploy.importing.agent_homes import ASSISTANT, USER, claude_code, codex

BENCH: Final = "first_memory"
ROOT: Final = Path(__file__).resolve().parents[1]
BOUND_S: Final = 600.0
DECISION: Final = "We deploy rover on Tuesdays, after the smoke test"
QUESTION: Final = "When do we deploy rover?"


@dataclass
class CleanDesk(Desk):
    """A desk whose `engramq` is that of a checkout."""

    programs: Path = Path(sys.executable).parent

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a desk, with those programs first."""
        environment = super().environment
        return environment | {"PATH": f"{self.programs}:{environment['PATH']}"}


def write_sessions(home: Path, repository: Path, number: int) -> None:
    """Write so many sessions of two turns; the first is of the repository, and holds the decision."""
    for at in range(number):
        turns = [
            (USER, f"Question {at}: how do we restart worker {at % 97} after an outage on host h{at % 311}?"),
            (ASSISTANT, f"Case {at}: drain queue q{at % 53}, start profile p{at % 29}, watch port {4000 + at % 900}."),
        ]
        folder, write = f"/srv/project-{at % 40}", claude_code if at % 2 else codex
        if at == 0:
            turns, folder, write = (
                [(USER, DECISION), (ASSISTANT, "I shall wait for Tuesday.")],
                str(repository),
                claude_code,
            )
        write(home, folder, f"{at:08x}-0000-4000-8000-000000000000", turns)


@contextmanager
def step(name: str, taken: dict[str, float], **more: Any) -> Iterator[dict[str, Any]]:
    """Time a step, and print its line; what the block adds to the dictionary goes into it."""
    begun = time.perf_counter()
    yield more
    taken[name] = time.perf_counter() - begun
    emit(BENCH, name, seconds=round(taken[name], 1), **more)


def measure(home: Path, sessions: int, *, with_setup: bool) -> None:
    """Take all steps in a home."""
    taken: dict[str, float] = {}
    with running_model() as model:
        desk = CleanDesk(home, model)
        (desk.repository / ".git").mkdir(parents=True)
        if with_setup:
            checkout = home / "checkout"
            with step("setup", taken):
                subprocess.run(["git", "clone", "--quiet", str(ROOT), str(checkout)], check=True)
                subprocess.run(["make", "setup"], cwd=checkout, capture_output=True, timeout=BOUND_S, check=True)
            desk.programs = checkout / ".venv/bin"
        write_sessions(home, desk.repository, sessions)
        try:
            with step("connect", taken):
                desk.run("engramq", "connect", "claude-code")
                desk.run("engramq", "hooks", "install", "claude-code")
                desk.run("engramq", "up", "--detach")
            with step("import", taken, sessions=sessions) as told:
                said = desk.run("engramq", "import", "--found", "--yes", bound_s=BOUND_S)
                told["rows"] = int(said.split()[1].replace(",", ""))
            emit(
                BENCH,
                "import_rate",
                sessions_s=round(sessions / taken["import"], 1),
                rows_s=round(told["rows"] / taken["import"], 1),
            )
            with step("promote", taken):
                asked = ("engramq", "search", QUESTION, "--partition", "untrusted", "--project", "*", "--json")
                found = json.loads(desk.run(*asked))["memories"]
                (memory_id,) = [one["id"] for one in found if one["content"] == DECISION]
                desk.run("engramq", "verify", memory_id, "--yes")
                desk.run("engramq", "promote", memory_id, "--yes")
            with step("told", taken):
                desk.ask("claude-code", QUESTION)
                if DECISION not in model.request_of(QUESTION):
                    raise RuntimeError("the model was not told what is known")
            emit(BENCH, "total", seconds=round(sum(taken.values()), 1))
        finally:
            subprocess.run(["engramq", "down"], env=desk.environment, capture_output=True, timeout=60, check=False)


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--setup", action="store_true")
    given = parser.parse_args()
    if not INSTALLED.is_dir():
        parser.error("make test-agents installs the program that is asked")
    home = Path(tempfile.mkdtemp(prefix="engramq-first-", dir="/tmp"))
    try:
        measure(home, given.sessions, with_setup=given.setup)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
