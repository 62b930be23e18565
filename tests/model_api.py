"""Serve the API of a model on loopback, for programs that take none but real ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@contextmanager
def serving(handler: "type[ModelHandler]", state: Any) -> Iterator[str]:
    """Serve as long as the block lasts; yield the address. Handlers find `state` in their server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.state = state  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


class ModelHandler(BaseHTTPRequestHandler):
    """Reads whole bodies, and writes whole answers."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Write no line for each request."""

    def do_GET(self) -> None:
        self.reply(200, b"{}")

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def do_POST(self) -> None:
        self.answer()

    def answer(self) -> None:
        """Answer a request to the model."""
        raise NotImplementedError

    @property
    def state(self) -> Any:
        """What `serving` was given."""
        return self.server.state  # type: ignore[attr-defined]

    def body(self) -> bytes:
        """Return the body of the request, sent in pieces or not."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while length := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """Answer the request."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
