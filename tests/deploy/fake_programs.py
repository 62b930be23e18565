"""Programs that a supervisor under test runs in place of engramq's own: `python fake_programs.py NAME HOME ...`.

`gateway` speaks the protocol of stdio relays, and answers each request with what it has seen on that connection.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any


def leave_a_note_on_stopping(name: str, home: Path) -> None:
    def note(*_: object) -> None:
        with (home / "stopped").open("a") as notes:
            notes.write(f"{name}\n")
        os._exit(0)

    signal.signal(signal.SIGTERM, note)


def serve_one(line: socket.socket, home: Path) -> None:
    seen: list[str] = []
    stream = line.makefile("rwb")
    hello = json.loads(stream.readline())
    if "health" in hello:
        send(stream, {"status": "degraded", "refused": ["The disk is full."]})
        stream.close()
        line.close()
        return
    if "http" in hello:
        send(stream, serve_http(hello["http"]))
        stream.close()
        line.close()
        return
    refused = hello["namespace"] == "refused"
    send(stream, {"ok": False, "error": "That namespace is refused."} if refused else {"ok": True})
    for text in stream:
        message = json.loads(text)
        seen.append(message.get("method", "answer"))
        held = message.get("method") == "initialize" and (home / "slow-handshake").exists()
        if "id" not in message or message["method"] == "never" or held:
            continue
        if message["method"] == "notify-first":
            send(stream, {"jsonrpc": "2.0", "method": "notifications/message"})
        size = message.get("params", {}).get("size", 0)
        result = {"pid": os.getpid(), "seen": seen, "hello": hello, "filling": "x" * size}
        send(stream, {"jsonrpc": "2.0", "id": message["id"], "result": result})


def send(stream: Any, message: dict[str, Any]) -> None:
    stream.write(json.dumps(message).encode() + b"\n")
    stream.flush()


def serve_gateway(home: Path, path: str) -> None:
    if (home / "gateway-broken").exists():
        sys.exit("the gateway is broken on purpose")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    while True:
        line, _ = listener.accept()
        threading.Thread(target=serve_one, args=(line, home), daemon=True).start()


HTTP: list[socket.socket] = []  # the listener of HTTP while it is served


def serve_http(variables: dict[str, str] | None) -> dict[str, Any]:
    while HTTP:
        listener = HTTP.pop()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    if variables is None:
        return {"ok": True}
    if variables.get("ENGRAMQ_AUTH") == "jwt" and "ENGRAMQ_JWT" not in variables:
        return {"ok": False, "error": "There is no key."}
    HTTP.append(socket.create_server(("127.0.0.1", int(variables["ENGRAMQ_PORT"]))))
    threading.Thread(target=answer_http, args=(HTTP[0], Path(sys.argv[2])), daemon=True).start()
    return {"ok": True}


def answer_http(listener: socket.socket, home: Path) -> None:
    with contextlib.suppress(OSError):
        while True:
            line = listener.accept()[0]
            with line, contextlib.suppress(OSError):
                if line.recv(4096) and not (home / "http-silent").exists():
                    line.sendall(b'HTTP/1.0 200 OK\r\n\r\n{"status": "alive"}')


def main() -> None:
    name, home = sys.argv[1], Path(sys.argv[2])
    leave_a_note_on_stopping(name, home)
    (home / f"{name}.up").touch()
    if name == "gateway":
        serve_gateway(home, sys.argv[3])
    elif name == "failing":
        sys.exit("this one always fails")
    elif name == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
