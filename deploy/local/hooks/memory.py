"""The running stack's memory as hooks reach it: one connection to the gateway's socket, tools called one by one.

It says of itself that it is not to be trusted: what it stores is kept apart, and it may change nothing else. It starts
nothing: without a stack there is no memory.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import time
from collections.abc import Mapping
from typing import Any, Final

from engramq.deploy.local.home import Home
from engramq.deploy.local.hooks.words import INVALID, UNTRUSTED
from engramq.deploy.local.lines import LineBuffer

TOOLS: Final = "import_memories,list_recent_memories,search_memories"
PROTOCOL: Final = "2026-07-28"  # the version whose calls need no handshake; a test compares it with the SDK's
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": PROTOCOL,
    "io.modelcontextprotocol/clientInfo": {"name": "engramq-hook", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_CHUNK: Final = 65_536


class Away(Exception):
    """There is no stack, it did not answer in time, or it does not take the call now."""


class Refused(Away):
    """The call can be taken never: what it says is wrong. The message says why, without what was said."""


class Memory:
    """A connection for one session of a client. Every method raises Away."""

    def __init__(self, home: Home, client: str, namespace: str, project: str, until: float) -> None:
        """Connect. `until`: when the whole has to be done, on the monotonic clock."""
        self.home = home
        self._until = until
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._buffer = LineBuffer()
        self._lines: list[bytes] = []
        self._calls = 0
        hello = {
            "engramq": 1,
            "namespace": namespace,
            "principal": principal_of(client),
            "project": project,
            "tools": TOOLS,
            "detail": "brief",
            UNTRUSTED: True,
        }
        try:
            self._refuse_foreign(home)
            self._patience()
            self._socket.connect(str(home.gateway_socket))
            self._send(hello)
            answer = self._receive()
        except BaseException as problem:
            self._socket.close()
            if isinstance(problem, OSError | ValueError):
                raise Away(str(problem)) from problem
            raise
        if not answer.get("ok"):
            self._socket.close()
            raise Away(str(answer.get("error")))

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool and return its reply, which is no refusal. Raises Refused where asking again is of no use."""
        self._calls += 1
        parameters = {"name": tool, "arguments": arguments, "_meta": _META}
        try:
            self._send({"jsonrpc": "2.0", "id": self._calls, "method": "tools/call", "params": parameters})
            while (answer := self._receive()).get("id") != self._calls:
                pass
        except (OSError, ValueError) as problem:
            raise Away(str(problem)) from problem
        result = answer.get("result")
        body = result.get("structuredContent") if isinstance(result, dict) else None
        if isinstance(body, dict) and body.get("code") == INVALID:
            raise Refused(f"{body.get('field')}: {body.get('error')}")
        if not isinstance(result, dict) or not isinstance(body, dict) or result.get("isError"):
            raise Away(f"{tool}: {body or answer.get('error')}")
        return body

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _refuse_foreign(self, home: Home) -> None:
        """Raise OSError for a socket of another user's, who would be told what is said here."""
        found = home.gateway_socket.stat()
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(f"{home.gateway_socket} is no socket of this user")

    def _patience(self) -> None:
        self._socket.settimeout(max(0.001, self._until - time.monotonic()))

    def _send(self, message: Mapping[str, Any]) -> None:
        self._patience()
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _receive(self) -> dict[str, Any]:
        while not self._lines:
            self._patience()
            data = self._socket.recv(_CHUNK)
            if not data:
                raise ConnectionError("the gateway hung up")
            self._lines += [line for line in self._buffer.feed(data) if line is not None]
        found = json.loads(self._lines.pop(0))
        return found if isinstance(found, dict) else {}


def principal_of(client: str) -> str:
    """Return who captures of a client are by: nobody else stores by that name, so a purge finds them all."""
    return f"hooks/{client}"
