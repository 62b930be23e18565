"""Open a session of PostgreSQL over its socket, without a driver and without a process.

Speaks as much of the protocol (version 3.0) as a look and one statement take.
"""

import socket
import struct
from io import BufferedReader
from pathlib import Path

PROBE_BOUND_S = 2.0


def probe(path: Path, role: str, database: str, bound_s: float = PROBE_BOUND_S, statement: str = "") -> str:
    """Open a session, carry out a statement if there is one, and end it.

    Returns:
        "ready", "down" (nobody answers), or the SQLSTATE with which session or statement was refused.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line, line.makefile("rb") as stream:
            line.settimeout(bound_s)
            line.connect(str(path))
            asked = struct.pack("!i", 3 << 16) + _texts("user", role, "database", database, "")
            line.sendall(_frame(asked))
            answer = _read_answer(stream)
            if answer == "ready" and statement:
                line.sendall(b"Q" + _frame(_texts(statement)))
                answer = _read_answer(stream)
            if answer == "ready":
                line.sendall(b"X" + _frame(b""))
            return answer
    except (OSError, struct.error):
        return "down"


def _read_answer(stream: BufferedReader) -> str:
    while True:
        kind, length = struct.unpack("!ci", stream.read(5))
        payload = stream.read(length - 4)
        if kind == b"Z":
            return "ready"
        if kind == b"E":
            fields = {field[:1]: field[1:] for field in payload.split(b"\0") if field}
            return fields.get(b"C", b"?????").decode()


def _texts(*texts: str) -> bytes:
    return b"".join(text.encode() + b"\0" for text in texts)


def _frame(body: bytes) -> bytes:
    return struct.pack("!i", len(body) + 4) + body
