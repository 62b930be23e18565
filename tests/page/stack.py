"""A stack as `engramq up` starts it with tokens, filled by agents, for a real browser to look at."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.architecture.source import ROOT

ENGRAMQ = str(ROOT / ".venv/bin/engramq")
ALL = "read,write,verify,admin"
PROTOCOL = "2025-11-25"


@dataclass
class Stack:
    """What runs: where, as which environment `engramq` means it, and the tokens that were made, by principal."""

    origin: str
    environment: Mapping[str, str]
    tokens: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)

    def invite(self, principal: str, scopes: str = ALL, *more: str) -> str:
        """Make a token of a principal and return it."""
        command = [ENGRAMQ, "token", "create", "--principal", principal, "--scopes", scopes, "--json", *more]
        made = subprocess.run(command, env=dict(self.environment), capture_output=True, text=True, check=True)
        self.tokens[principal] = json.loads(made.stdout)["token"]
        return self.tokens[principal]

    def call(self, principal: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool over MCP as one of those who have a token."""
        answer = httpx.post(
            f"{self.origin}/mcp",
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": tool, "arguments": arguments},
            },
            headers={
                "accept": "application/json, text/event-stream",
                "authorization": f"Bearer {self.tokens[principal]}",
                "mcp-protocol-version": PROTOCOL,
            },
            timeout=60,
        )
        result: dict[str, Any] = answer.json()["result"]
        assert not result.get("isError"), result
        body: dict[str, Any] = result["structuredContent"]
        return body

    def call_all(self, principal: str, tool: str, several: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Call a tool with each of these arguments, some at a time, and return the replies in their order."""
        with ThreadPoolExecutor(12) as threads:
            return list(threads.map(lambda arguments: self.call(principal, tool, **arguments), several))


@contextmanager
def running_stack(**variables: str) -> Iterator[Stack]:
    """Run a stack in a home of its own for as long as the block lasts."""
    home = Path(tempfile.mkdtemp(prefix="engramq-page-", dir="/tmp"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    environment |= {"ENGRAMQ_HOME": str(home / "home"), "ENGRAMQ_PORT": "0", "ENGRAMQ_AUTH": "token", "HOME": str(home)}
    environment |= {f"ENGRAMQ_{name.upper()}": value for name, value in variables.items()}
    try:
        with subprocess.Popen([ENGRAMQ, "up"], env=environment, stdout=subprocess.PIPE, text=True) as up:
            try:
                assert up.stdout is not None
                url = next(at[0] for line in up.stdout if (at := re.search(r"http://[^/\s]+", line)))
                yield Stack(url, environment)
            finally:
                up.terminate()
                up.communicate(timeout=60)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def chromium() -> str | None:
    """Return the path of Chromium, None where there is none."""
    named = os.environ.get("ENGRAMQ_CHROMIUM")
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return named or next(filter(None, found), None)


if not Path(ENGRAMQ).exists():
    sys.exit("tests/page need `make setup` first")
