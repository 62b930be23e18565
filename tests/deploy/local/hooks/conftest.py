"""One running stack for a process of tests, and sessions of clients over it, each test in a namespace of its own."""

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.stack import StdioClient, stdio_client, stop
from engramq.deploy.local.embedded.process import wait_until
from engramq.deploy.local.home import Home
from tests.deploy.local.hooks.sessions import Session

NUMBERS = itertools.count(1)


class Stack:
    """A stack that runs for as long as the tests, as it does while a client is connected."""

    def __init__(self, home: Path) -> None:
        self.home = Home(home)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
        self.environment |= {"ENGRAMQ_HOME": str(home), "ENGRAMQ_PORT": "0", "ENGRAMQ_REDACT": "off"}


class Owner:
    """The owner of a namespace, with a client of their own, whose word is trusted."""

    def __init__(self, stack: Stack, client: StdioClient, environment: dict[str, str]) -> None:
        self.stack = stack
        self.environment = environment
        self._client = client

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, again where a machine under load did not answer in time."""
        deadline = time.monotonic() + 60
        while True:
            reply = self._client.call(next(NUMBERS), tool, **arguments)
            if reply.get("code") not in {"unavailable", "overloaded"} or time.monotonic() > deadline:
                assert reply["status"] != "error", reply
                return reply

    def stores(self, content: str, **more: Any) -> str:
        reply = self.call("store_memory", content=content, **more)
        assert reply["status"] == "stored", reply
        return str(reply["stored"]["id"])

    def captured(self, **filters: Any) -> list[dict[str, Any]]:
        """Return all that was captured, the oldest first."""
        wanted = {"partitions": ["untrusted"], "limit": 100, "max_chars": 200_000, "project": "*", "detail": "full"}
        return list(reversed(self.call("list_recent_memories", **wanted, **filters)["memories"]))


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    home = Path(tempfile.mkdtemp(prefix="engramq-hooks-", dir="/tmp"))
    running = Stack(home)
    with stdio_client(running.environment) as client:
        client.initialize()
        client.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
        # The first store waits for the model, on a busy machine for longer than a gateway waits for a reply.
        assert wait_until(lambda: client.call(next(NUMBERS), "store_memory", content="x")["status"] == "stored", 120)
        yield running
        stop(running.environment)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def owner(stack: Stack) -> Iterator[Owner]:
    environment = {**stack.environment, "ENGRAMQ_NAMESPACE": f"hooks-{next(NUMBERS)}"}
    with stdio_client(environment) as client:
        client.initialize()
        client.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield Owner(stack, client, environment)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository, and a folder in it."""
    folder = tmp_path / "time machine" / "src"
    folder.mkdir(parents=True)
    (folder.parent / ".git").mkdir()
    return folder


@pytest.fixture
def somebody(tmp_path: Path) -> Session:
    """A session in a home whose stack does not run."""
    begun = Session(tmp_path / "transcript.jsonl", {"PATH": os.environ["PATH"], "ENGRAMQ_HOME": str(tmp_path / "home")})
    begun.home.ensure()
    begun.transcript.touch()
    return begun


@pytest.fixture
def session(owner: Owner, project: Path, tmp_path: Path) -> Callable[..., Session]:
    """Return what begins a session of a client in the project."""

    def begin(client: str = "claude-code", *options: str, **variables: str) -> Session:
        transcript = tmp_path / f"{client}-{next(NUMBERS)}.jsonl"
        transcript.touch()
        return Session(transcript, {**owner.environment, **variables}, client, str(project), options)

    return begin
