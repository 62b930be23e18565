"""Reach the running stack's memory from hooks: one connection to the gateway's socket, tools called one by one.

It says of itself that it is not to be trusted: what it stores is kept apart, and it may change nothing else. It starts
nothing: without a stack there is no memory.
"""

import os
import socket
import stat
import time
from collections.abc import Mapping
from typing import Any, Final

from engramq.deploy.local import settings
from engramq.deploy.local.home import Home
from engramq.deploy.local.hooks.turns import INVALID, UNTRUSTED
from engramq.deploy.local.lines import Channel

TOOLS: Final = frozenset({"get_memory", "import_memories", "list_recent_memories", "list_standing", "search_memories"})
NEWER: Final = "list_standing"  # which a gateway that was started before an upgrade may not know
PROTOCOL: Final = "2026-07-28"  # the version whose calls need no handshake; a test compares it with the SDK's


class Away(Exception):
    """There is no stack, it did not answer in time, or it does not take the call now."""


class HookCallRefused(Away):
    """The call can be taken never: what it says is wrong. The message says why, without what was said."""


class HookConnection:
    """A connection for one session of a client. Every method raises Away."""

    def __init__(self, home: Home, client: str, namespace: str, project: str, until: float) -> None:
        """Connect. `until`: when the whole has to be done, on the monotonic clock."""
        self.home = home
        self.project = project
        self.until = until
        self._calls = 0
        self.tools = TOOLS
        self._channel: Channel | None = None
        hello: dict[str, Any] = {
            "engramq": 1,
            "namespace": namespace,
            "principal": capturer_of(client),
            "project": project,
            "detail": "brief",
            UNTRUSTED: True,
            "acts_for": settings.principal_of(home, os.environ),
        }
        try:
            _refuse_foreign(home)
            answer = self._greet(hello)
            if not answer.get("ok") and f"no tool '{NEWER}'" in str(answer.get("error")):
                self.close()
                self.tools = TOOLS - {NEWER}
                answer = self._greet(hello)
            if not answer.get("ok"):
                raise Away(str(answer.get("error")))
        except (OSError, Away) as problem:
            self.close()
            raise Away(str(problem)) from problem

    def _greet(self, hello: Mapping[str, Any]) -> dict[str, Any]:
        """Connect anew, say who this is and which tools it wants, and return the answer."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._channel = Channel(connection)
        connection.settimeout(max(0.001, self.until - time.monotonic()))
        connection.connect(str(self.home.gateway_socket))
        return self._exchange({**hello, "tools": ",".join(sorted(self.tools))})

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool and return its reply, no refusal. Raises HookCallRefused where asking again is useless."""
        self._calls += 1
        answer = self._exchange(call_of(tool, arguments, client="engramq-hook", number=self._calls))
        result = answer.get("result")
        body = result.get("structuredContent") if isinstance(result, dict) else None
        if isinstance(body, dict) and body.get("code") == INVALID:
            raise HookCallRefused(f"{body.get('field')}: {body.get('error')}")
        if not isinstance(result, dict) or not isinstance(body, dict) or result.get("isError"):
            raise Away(f"{tool}: {body or answer.get('error')}")
        return body

    def close(self) -> None:
        """Hang up."""
        if self._channel is not None:
            self._channel.close()

    def _exchange(self, message: Mapping[str, Any]) -> dict[str, Any]:
        assert self._channel is not None
        try:
            answer = self._channel.exchange(message, self.until - time.monotonic())
        except (OSError, ValueError) as problem:
            raise Away(str(problem)) from problem
        if answer is None:
            raise Away("the gateway hung up")
        return answer


def call_of(tool: str, arguments: Mapping[str, Any], *, client: str, number: int = 1) -> dict[str, Any]:
    """Return the request that calls a tool; it says itself whose it is, so that no handshake has to come before."""
    about = {
        "io.modelcontextprotocol/protocolVersion": PROTOCOL,
        "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    parameters = {"name": tool, "arguments": arguments, "_meta": about}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": parameters}


def _refuse_foreign(home: Home) -> None:
    """Check that the socket is this user's; raises Away: another user would read what is said here."""
    status = home.gateway_socket.stat()
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
        raise Away(f"{home.gateway_socket} is no socket of this user")


def capturer_of(client: str) -> str:
    """Return who captures of a client are by: nobody else stores by that name, so a purge finds them all."""
    return f"hooks/{client}"
