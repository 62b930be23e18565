"""What the programs share: jobs on stdin, arguments as a client's model would fill them in, reports on stdout."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.agents.hosts import Fill


@dataclass(frozen=True)
class Call:
    """One call of a tool, with what the model has to say."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Job:
    """Which door to knock at (a URL, or a command to start), what to call there, what to give for other parameters."""

    url: str | None
    command: str
    arguments: list[str]
    environment: dict[str, str]
    fill: Fill
    calls: list[Call]


@dataclass
class Report:
    """The tools as the client's model gets them, what could not be converted, and the answers to the calls.

    `strict` names the tools whose schema the client has made strict, `protocol` the revision that was agreed on.
    """

    tools: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    strict: list[str] = field(default_factory=list)
    protocol: str = ""
    answers: list[dict[str, Any]] = field(default_factory=list)

    def convert(self, tool: Any, schema_of: Callable[[Any], Any]) -> None:
        """Note the schema that the client makes of a tool, or why it fails."""
        try:
            self.tools[tool.name] = schema_of(tool)
        except Exception as problem:  # noqa: BLE001 - whatever a converter raises is what the test wants to know
            self.failed[tool.name] = f"{type(problem).__name__}: {problem}"

    def answered(self, text: str, *, refused: bool) -> None:
        """Note the answer to a call, as the client's model reads it."""
        self.answers.append({"refused": refused, "body": json.loads(text)})


def run(program: Callable[[Job, Report], Awaitable[None]]) -> None:
    """Do the jobs that stand on stdin, one after the other, and print their reports as the last line."""
    reports = []
    for given in json.load(sys.stdin):
        job = Job(**{**given, "fill": Fill(given["fill"]), "calls": [Call(**call) for call in given["calls"]]})
        reports.append(Report())
        asyncio.run(_done(program(job, reports[-1])))
    sys.stdout.write(json.dumps([asdict(report) for report in reports]) + "\n")


async def _done(work: Awaitable[None]) -> None:
    await work
