"""Connect the stdio relay to a gateway: hold the stack, greet, repeat the handshake.

Imported by the stdio relay: standard library only. Opening blocks, within a bound; afterwards nothing does.
"""

import json
import socket
import time

from engramq.deploy.local import settings
from engramq.deploy.local.conversation import RelayConversation
from engramq.deploy.local.home import DeployError, Home
from engramq.deploy.local.lines import Channel, LineBuffer
from engramq.deploy.local.stack_hold import StackHold, hold_stack

# A cold start needs some 2 s; clients give up after 10 to 30.
OPEN_BOUND_S = 25.0
ANSWER_BOUND_S = 10.0
_CHUNK = 65_536
# The wishes of a client that has such settings; without them the gateway takes its own, and it checks both.
_WISHES = {
    "tools": settings.TOOLS,
    "project": settings.PROJECT,
    "detail": settings.DETAIL,
    "reply_chars": settings.REPLY_CHARS,
}


class GatewayConnection:
    """An open connection, its greeting done. `early` are the gateway's lines that came meanwhile, for the client."""

    def __init__(self, hold: StackHold) -> None:
        self.hold = hold
        self.early: list[bytes] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._buffer = LineBuffer()

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def receive(self) -> list[bytes] | None:
        """The whole lines that have arrived, or None when the gateway has gone."""
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return [line for line in self._buffer.feed(data) if line is not None] if data else None

    def send(self, data: bytes) -> int | None:
        """Send as much as goes without waiting; the number of bytes, or None when the gateway has gone."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return None

    def channel(self) -> Channel:
        """Return the same connection for who asks and waits for each answer, which blocks."""
        return Channel(self._socket)

    def close(self) -> None:
        """Hang up and give the hold back."""
        self._socket.close()
        self.hold.close()

    def greet(self, hello: bytes, conversation: RelayConversation) -> None:
        """Connect, say who the client is, and repeat its handshake.

        Raises OSError when the gateway has gone again, or does not answer; DeployError when it refuses this client.
        """
        self._socket.settimeout(ANSWER_BOUND_S)
        self._socket.connect(self.hold.addresses["gateway_socket"])
        self._socket.sendall(hello)
        try:
            answer = json.loads(self._next_line())
        except ValueError as error:
            raise ConnectionError("the gateway's greeting is no JSON") from error
        if not answer.get("ok"):
            raise DeployError("refused", _text_of(answer.get("error")))
        initialize, initialized = conversation.handshake()
        if initialize:
            self._socket.sendall(initialize)
        # An answer that the client still waits for takes the usual way.
        if initialize and not conversation.owes_handshake():
            aside = []
            while not conversation.answers_handshake(line := self._next_line()):
                aside.append(line)
            self.early[:0] = aside
            if initialized:
                self._socket.sendall(initialized)
        self._socket.setblocking(False)

    def _next_line(self) -> bytes:
        while not self.early:
            data = self._socket.recv(_CHUNK)
            if not data:
                raise ConnectionError("the gateway hung up")
            self.early += [line for line in self._buffer.feed(data) if line is not None]
        return self.early.pop(0)


def open_connection(home: Home, environment: dict[str, str], conversation: RelayConversation) -> GatewayConnection:
    """Get the stack running, a connection and the handshake done, in OPEN_BOUND_S and several tries if need be.

    Raises DeployError when that takes longer, or cannot be with these settings.
    """
    settings.require_text(environment, (settings.NAMESPACE, settings.PRINCIPAL, *_WISHES.values()))
    deadline = time.monotonic() + OPEN_BOUND_S
    pause_s = 0.02
    while True:
        left_s = max(0.1, deadline - time.monotonic())
        connection = GatewayConnection(hold_stack(home, "stdio", environment, left_s))
        try:
            connection.greet(_hello(home, environment, conversation.session), conversation)
        except OSError as error:
            # It died again between its readiness and our connection.
            connection.close()
            if time.monotonic() > deadline:
                raise DeployError("not_ready", "engramq's gateway does not stay up.", "See engramq status.") from error
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.5)
        except BaseException:
            connection.close()
            raise
        else:
            return connection


def _hello(home: Home, environment: dict[str, str], session: str) -> bytes:
    hello: dict[str, object] = {
        "engramq": 1,
        "namespace": environment.get(settings.NAMESPACE) or settings.DEFAULT_NAMESPACE,
        "principal": settings.principal_of(home, environment),
        "output_schemas": settings.output_schemas(environment),
        "session": session,
    }
    if not environment.get(settings.PRINCIPAL):  # as the contract of reclassifications has it
        hello["actor"] = settings.DEFAULT_PRINCIPAL
    for name, variable in _WISHES.items():
        if environment.get(variable):
            hello[name] = environment[variable]
    return json.dumps(hello).encode() + b"\n"


def _text_of(error: object) -> str:
    if isinstance(error, dict):
        return " ".join(str(error[name]) for name in ("message", "error", "recovery") if error.get(name))
    return str(error)
