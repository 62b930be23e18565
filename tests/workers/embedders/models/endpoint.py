"""A real HTTP server on a free port that speaks the embeddings API, well or badly, as a test scripts it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from engramq.workers.embedders.openai import Endpoint

DIMENSIONS = 4


class Answer(msgspec.Struct, frozen=True):
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}
    waits_for: threading.Event | None = None


class Request(msgspec.Struct, frozen=True):
    path: str
    authorization: str
    body: dict[str, Any]


def vector(text: str) -> list[float]:
    """Not of length 1, and different for texts of different length."""
    return [3.0, float(len(text)), 0.0, 1.0]


def answer_to(texts: list[str], *, reverse: bool = False) -> Answer:
    rows = [{"object": "embedding", "index": index, "embedding": vector(text)} for index, text in enumerate(texts)]
    data = rows[::-1] if reverse else rows
    return Answer(body=msgspec.json.encode({"object": "list", "data": data, "model": "m", "usage": {}}))


Script = Callable[[Request], Answer]


class Server:
    """Answer by `script`, first come first served from `queued` answers; keep what was asked."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.queued: list[Answer] = []
        self.script: Script = lambda request: answer_to(request.body["input"])
        self.url = ""
        self.running = 0
        self.most_running = 0
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            answer = self.queued.pop(0) if self.queued else None
        try:
            answer = answer or self.script(request)
            if answer.waits_for is not None:
                answer.waits_for.wait(10.0)
            return answer
        finally:
            with self._lock:
                self.running -= 1

    def endpoint(self, **changes: Any) -> Endpoint:
        defaults: dict[str, Any] = {"model": "m", "url": self.url, "backoff_s": 0.01, "timeout_s": 5.0}
        return Endpoint(**(defaults | changes))


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = Request(self.path, self.headers.get("Authorization", ""), msgspec.json.decode(body))
            answer = server.answer(request)
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the caller gave up, as some tests want

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature of the base class
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join(10.0)
        http.server_close()
