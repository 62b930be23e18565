"""A gateway whose every answer a test chooses, for what no sound stack would say."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from engramq.deploy.local.home import Home


def takes_all(call: dict[str, Any]) -> dict[str, Any]:
    return {
        "status": "accepted",
        "memories": [],
        "accepted": len(call["arguments"].get("records", ())),
        "command_id": "c1",
    }


@contextmanager
def listening(home: Home) -> Iterator[socket.socket]:
    """Take connections in the gateway's place, and answer none."""
    with socket.socket(socket.AF_UNIX) as listener:
        home.gateway_socket.unlink(missing_ok=True)  # a test of before may have had this path: it is outside the home
        listener.bind(str(home.gateway_socket))
        listener.listen(100)
        yield listener
    home.gateway_socket.unlink(missing_ok=True)


@contextmanager
def answering(
    home: Home, answer_to: Callable[[dict[str, Any]], dict[str, Any]] = takes_all, *, unknown: str = ""
) -> Iterator[list[dict[str, Any]]]:
    """Let a gateway answer every call, and note what is called. It does not know the tool `unknown`."""
    calls: list[dict[str, Any]] = []

    def converse(connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as lines, suppress(OSError):
            for line in lines:
                asked = json.loads(line)
                answer: dict[str, Any] = {"ok": True}
                if unknown and unknown in asked.get("tools", "").split(","):
                    answer = {"ok": False, "error": f"ENGRAMQ_TOOLS: there is no tool {unknown!r}. Give full."}
                if "id" in asked:
                    calls.append(asked["params"])
                    body = answer_to(asked["params"])
                    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"structuredContent": body}}
                lines.write(json.dumps(answer).encode() + b"\n")
                lines.flush()

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=converse, args=(connection,), daemon=True).start()

    with listening(home) as listener:
        server = threading.Thread(target=serve, args=(listener,), daemon=True)
        server.start()
        yield calls
        listener.shutdown(socket.SHUT_RDWR)
        server.join(60)
