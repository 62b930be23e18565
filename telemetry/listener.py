"""A small HTTP server in a process that has none, for /metrics and for probes: its threads ask the event loop."""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from threading import Lock, Thread
from typing import Any, Final, NamedTuple

from engramq.schemas.settings import SettingsError

log = logging.getLogger(__name__)

REQUEST_S: Final = 5.0  # for a part of a request to come, and for its client to read the answer
STOP_S: Final = 0.2  # in which it notices that it is to end
CONNECTIONS_MAX: Final = 16  # at once; each has a thread, and who connects has shown nothing yet
PLAIN: Final = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """What a page says."""

    status: int
    body: bytes
    content_type: str = PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is at one path. `read` runs in the event loop, within `bound_s`; `late` is answered where it takes longer.

    `stuck` is answered where the loop does not get round to it; None: `late`.

    Whoever asks shows `token`, if there is one; `token_variable` is where it is from.
    """

    read: Callable[[], Awaitable[Answer]]
    bound_s: float
    late: Answer
    stuck: Answer | None = None
    token: str = ""
    token_variable: str = ""


@contextmanager
def serving(host: str, port: int, pages: Mapping[str, Page], *, variable: str) -> Iterator[int]:
    """Serve the pages, read in this thread's event loop, for as long as the block lasts, which gets the port.

    Raises SettingsError naming `variable`, which the port is from, where it cannot be used.
    """
    loop = asyncio.get_running_loop()

    def ask(page: Page) -> Answer:
        async def reading() -> Answer:
            try:
                async with asyncio.timeout(page.bound_s):
                    return await page.read()
            except TimeoutError:
                return page.late

        told = asyncio.run_coroutine_threadsafe(reading(), loop)
        try:
            return told.result(page.bound_s + 1)
        except TimeoutError:
            told.cancel()
            return page.stuck or page.late
        except CancelledError:  # the loop ends
            return page.late

    try:
        server = _Server((host.strip("[]"), port), partial(_Handler, pages=pages, ask=ask))
    except OSError as problem:
        raise SettingsError(f"{variable}: port {port} on {host} cannot be used: {problem.strerror}.") from None
    serve = partial(server.serve_forever, poll_interval=STOP_S)
    thread = Thread(target=serve, name=" ".join(pages), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: Callable[..., BaseHTTPRequestHandler]) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        self._lock = Lock()
        self._silent: dict[socket, None] = {}  # that have asked for nothing yet, the oldest first
        self._heard: set[socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, where there is room or a connection is silent, which then makes some."""
        if not self._take_in(request):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be had
            self._let_go(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._let_go(request)

    def hear(self, request: socket) -> bool:
        """Note that a connection has asked, so that it stays until it is answered; False: it had to make room."""
        with self._lock:
            if request not in self._silent:
                return False
            del self._silent[request]
            self._heard.add(request)
            return True

    def _take_in(self, request: socket) -> bool:
        with self._lock:
            if len(self._silent) + len(self._heard) >= CONNECTIONS_MAX:
                if not self._silent:
                    return False
                oldest = next(iter(self._silent))
                del self._silent[oldest]
                with suppress(OSError):  # its client has closed it
                    oldest.shutdown(SHUT_RDWR)  # its thread reads the end, and closes it
            self._silent[request] = None
            return True

    def _let_go(self, request: socket) -> None:
        with self._lock:
            self._silent.pop(request, None)
            self._heard.discard(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the library's signature
        """Say nothing of a client that went away; the library would print a traceback."""
        log.debug("A request ended early")


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of the pages."""

    server: "_Server"
    timeout = REQUEST_S  # of the connection
    server_version = "engramq"
    sys_version = ""

    def __init__(self, *arguments: Any, pages: Mapping[str, Page], ask: Callable[[Page], Answer]) -> None:
        self._pages = pages
        self._ask = ask
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Send a page."""
        if self.server.hear(self.connection):
            self._send(self._found())

    def do_HEAD(self) -> None:
        """Send the head of a page."""
        self.do_GET()

    def _found(self) -> Answer:
        path = self.path.partition("?")[0]
        page = self._pages.get(path)
        if page is None:
            return Answer(404, f"There is nothing here but {' and '.join(self._pages)}.\n".encode())
        if not self._is_admitted(page):
            return Answer(401, f"{path} wants `Authorization: Bearer` with {page.token_variable}.\n".encode())
        try:
            return self._ask(page)
        except Exception as problem:  # noqa: BLE001 - whoever asks is to learn of it, and the worker to live
            log.error("A page cannot be read", extra={"path": path, "error": type(problem).__name__})
            return Answer(500, b"This cannot be read; see the log.\n")

    def _is_admitted(self, page: Page) -> bool:
        kind, _, given = self.headers.get("authorization", "").partition(" ")
        shown = kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), page.token.encode())
        return shown or not page.token

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("content-type", answer.content_type)
        self.send_header("content-length", str(len(answer.body)))
        if answer.status == 401:
            self.send_header("www-authenticate", "Bearer")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Say nothing of each request."""
