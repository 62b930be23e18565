"""Cut the bytes of a connection into lines, and send and receive JSON objects, one a line.

Imported by the stdio relay and by hooks: standard library only, and nothing heavy of it.
"""

import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# A line beyond this is neither a legal request (1,000 records of 32,768 characters fit) nor worth the memory.
LONGEST_LINE = 128 * 1024 * 1024


class LineBuffer:
    """Cuts a stream of bytes into lines, within LONGEST_LINE."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._partial = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that are now complete, each with its newline; None stands for one that was too long."""
        *complete, rest = data.split(b"\n")
        lines: list[bytes | None] = []
        for piece in complete:
            too_long = self._skipping or len(self._partial) + len(piece) > self._longest
            lines.append(None if too_long else bytes(self._partial) + piece + b"\n")
            self._partial.clear()
            self._skipping = False
        if self._skipping or len(self._partial) + len(rest) > self._longest:
            self._partial.clear()
            self._skipping = True
        else:
            self._partial += rest
        return lines

    @property
    def is_partial(self) -> bool:
        """Whether it holds a line of which the end is missing."""
        return bool(self._partial) or self._skipping

    def finish(self) -> list[bytes | None]:
        """The last line, when the stream has ended without a newline."""
        return self.feed(b"\n") if self.is_partial else []


class Channel:
    """A connection on which either side sends JSON objects, one a line."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = LineBuffer()
        self._lines: list[bytes] = []

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def unread(self) -> int | None:
        """Return the descriptor for another process, which reads on; None where something was read for us alone."""
        return None if self._lines or self._buffer.is_partial else self.fileno()

    def send(self, message: Mapping[str, Any], bound_s: float = 5.0) -> None:
        """Send one object. Raises OSError when the other side has gone, or takes nothing in `bound_s` seconds."""
        self._socket.settimeout(max(0.001, bound_s))
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, bound_s: float) -> dict[str, Any] | None:
        """Receive one object, or None when the other side has hung up.

        Raises TimeoutError when nothing came in `bound_s` seconds; ValueError when what came is no JSON.
        """
        deadline = time.monotonic() + bound_s
        while not self._lines:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self._socket.recv(65_536)
            except ConnectionError:
                return None
            if not data:
                return None
            self._lines += [line for line in self._buffer.feed(data) if line is not None]
        message = json.loads(self._lines.pop(0))
        return message if isinstance(message, dict) else {}

    def exchange(self, request: Mapping[str, Any], bound_s: float) -> dict[str, Any] | None:
        """Send a request and return its answer, that of the same id; None when the other side has hung up.

        Raises what `send` and `receive` raise.
        """
        deadline = time.monotonic() + bound_s
        self.send(request, bound_s)
        while (answer := self.receive(deadline - time.monotonic())) is not None:
            if answer.get("id") == request.get("id"):
                break
        return answer

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def ask_once(path: Path, request: Mapping[str, Any], bound_s: float) -> dict[str, Any] | None:
    """Return the answer of the gateway that listens at a socket; raises OSError, and ValueError for what is no JSON."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(bound_s)
        line.connect(str(path))
        return Channel(line).exchange(request, bound_s)
