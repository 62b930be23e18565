"""Talking to supervisors and stdio relays from tests, every wait with a bound."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from pwd import getpwuid
from types import TracebackType
from typing import Any, Self

import pytest

from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.process import ProcessIdentity
from engramq.deploy.local.home import Home
from engramq.deploy.local.stack_hold import open_channel

BOUND_S = 45.0  # commands of 1 s have taken 20 s beside others on a slow machine
USER = getpwuid(os.geteuid()).pw_name
OTHER = 12345  # a user id that nobody has
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes a second user of the machine, which only root can be")
FAKE_ENGRAMQ = str(Path(__file__).with_name("fake_engramq.py"))


def status_of(home: Home) -> dict[str, Any]:
    channel = open_channel(home)
    assert channel is not None, "no supervisor"
    try:
        channel.send({"op": "status"})
        answer = channel.receive(BOUND_S)
    finally:
        channel.close()
    assert answer is not None
    return answer


def service(home: Home, name: str) -> dict[str, Any]:
    return next(each for each in status_of(home)["services"] if each["name"] == name)


def await_true(condition: Callable[[], bool]) -> None:
    assert process.wait_until(condition, BOUND_S), "not in time"


def is_stopped(home: Home) -> bool:
    return not home.supervisor_socket.exists()


def identity(pid: int) -> ProcessIdentity:
    found = process.identify(pid)
    assert found is not None
    return found


def engramq(
    environment: dict[str, str], *arguments: str, folder: Path | None = None, bound_s: float = BOUND_S
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", FAKE_ENGRAMQ, *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=bound_s,
        check=False,
    )


class Client:
    """An MCP client at the other end of a relay's stdin and stdout, which starts it in a folder."""

    def __init__(self, environment: dict[str, str], *arguments: str, folder: Path | str = "/") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", FAKE_ENGRAMQ, "stdio", *arguments],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate(timeout=BOUND_S)

    def tell(self, method: str, request_id: object = None, **parameters: object) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": parameters}
        if request_id is not None:
            message["id"] = request_id
        self.write(json.dumps(message).encode() + b"\n")

    def ask(self, method: str, request_id: object = 1, **parameters: object) -> dict[str, Any]:
        self.tell(method, request_id, **parameters)
        return self.hear()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None

    def shake_hands(self) -> dict[str, Any]:
        answer = self.ask("initialize", "first")
        self.tell("notifications/initialized")
        return answer
