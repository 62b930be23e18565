"""A gateway and a worker as processes over the tests' servers, and calls of tools over HTTP."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.architecture.source import ROOT

BOUND_S = 60.0
ACCEPT = {"accept": "application/json, text/event-stream"}


def _record(line: bytes) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(line)
    except ValueError:
        raise AssertionError(f"no line of the log: {line!r}") from None
    return record


@dataclass
class Process:
    """One process of ours and the log lines that it has written."""

    running: subprocess.Popen[bytes]
    lines: list[dict[str, Any]] = field(default_factory=list)
    _new: "queue.Queue[dict[str, Any] | None]" = field(default_factory=queue.Queue)

    def read(self) -> None:
        assert self.running.stderr is not None
        try:
            for line in self.running.stderr:
                self._new.put(_record(line))
        finally:
            self._new.put(None)

    def said(self, message: str) -> dict[str, Any]:
        """Return the first log line with this message that was not looked at, as soon as it is there."""
        until = time.monotonic() + BOUND_S
        while (line := self._new.get(timeout=max(0.1, until - time.monotonic()))) is not None:
            self.lines.append(line)
            if line["message"] == message:
                return line
        raise AssertionError(f"never said {message!r}: {self.lines}")

    def stop(self) -> int:
        """Ask it to stop, and return its exit code; all that it said is in `lines` then."""
        self.running.terminate()
        code = self.running.wait(BOUND_S)
        while (line := self._new.get(timeout=BOUND_S)) is not None:
            self.lines.append(line)
        return code


@contextmanager
def process(environment: dict[str, str], *arguments: str) -> Iterator[Process]:
    """Run `engramq` with these arguments for as long as the block lasts."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ENGRAMQ_", "OTEL_"))}
    command = [sys.executable, "-m", "engramq", *arguments]
    with subprocess.Popen(command, cwd=ROOT, env={**clean, **environment}, stderr=subprocess.PIPE) as running:
        one = Process(running)
        threading.Thread(target=one.read, daemon=True).start()
        try:
            yield one
        finally:
            running.kill()


@dataclass
class Live:
    """A gateway and a worker that serve."""

    gateway: Process
    worker: Process
    url: str

    def call(self, tool: str, arguments: dict[str, Any], **meta: str) -> dict[str, Any]:
        """Call a tool; `meta` is what the client says beside, such as its traceparent."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        answered = httpx.post(
            f"{self.url}/mcp", json={**message, "params": params}, headers=ACCEPT, timeout=BOUND_S, verify=False
        )
        body: dict[str, Any] = answered.json()["result"]["structuredContent"]
        return body


@contextmanager
def live(environment: dict[str, str]) -> Iterator[Live]:
    """Run both for as long as the block lasts."""
    with ExitStack() as running:
        worker = running.enter_context(process(environment, "worker", "--all"))
        gateway = running.enter_context(process(environment, "gateway"))
        worker.said("Workers serve")
        port = gateway.said("Serving MCP over HTTP")["port"]
        yield Live(gateway, worker, f"http://127.0.0.1:{port}")


def environment_of(database_url: str, redis_url: str, key_prefix: str, home: Path, **changes: str) -> dict[str, str]:
    """Return the variables of a live stack; `changes` without their prefix, in lower case."""
    variables = {
        "home": str(home),
        "database_url": database_url,
        "redis_url": redis_url,
        "key_prefix": key_prefix,
        "embedder": "hash",
        "test_sweep_interval_s": "0.2",
        "port": "0",
        **changes,
    }
    return {f"ENGRAMQ_{name.upper()}": value for name, value in variables.items()}
