"""How a process says that it lives: a worker by a small HTTP server (/metrics, pages for probes), any by a watchdog.

The watchdog is systemd's: where the unit of a process asks for it, the event loop says that it turns. One that stands
still says nothing, and systemd starts the process anew. It is the protocol of sd_notify(3): a datagram to the socket
that NOTIFY_SOCKET names.
"""

import asyncio
import hmac
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from socket import AF_INET, AF_INET6, create_server, has_dualstack_ipv6
from typing import Final, NamedTuple

from engramq.schemas.settings import SettingsError
from engramq.schemas.vocabulary import GUARDS

log = logging.getLogger(__name__)

REQUEST_S: Final = 5.0  # for a request to come, and for its client to read the answer
CONNECTIONS_MAX: Final = 16  # at once; who connects has shown nothing yet
PLAIN: Final = "text/plain; charset=utf-8"


class PageAnswer(NamedTuple):
    """The answer of a page."""

    status: int
    body: bytes
    content_type: str = PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPage:
    """The page at one path. `late` is answered where `read` takes longer than `bound_s`.

    A caller shows `token`, if there is one; `token_variable` is where it is from.
    """

    read: Callable[[], Awaitable[PageAnswer]]
    bound_s: float
    late: PageAnswer
    token: str = ""
    token_variable: str = ""


@asynccontextmanager
async def serving(host: str, port: int, pages: Mapping[str, ServedPage], *, variable: str) -> AsyncIterator[int]:
    """Serve the pages for as long as the block lasts, which gets the port.

    Raises SettingsError naming `variable`, which the port is from, where it cannot be used.
    """
    address, connections = host.strip("[]"), _PageConnections(pages)
    try:
        family, both = (AF_INET6 if ":" in address else AF_INET), address == "::" and has_dualstack_ipv6()
        bound = create_server((address, port), family=family, dualstack_ipv6=both)
    except OSError as problem:
        raise SettingsError(f"{variable}: port {port} on {host} cannot be used: {problem.strerror}.") from None
    server = await asyncio.start_server(connections.serve, sock=bound)
    try:
        yield int(bound.getsockname()[1])
    finally:
        server.close()
        connections.close()


class _PageConnections:
    """The open connections: those that have asked for nothing yet, the oldest first, and those that have."""

    def __init__(self, pages: Mapping[str, ServedPage]) -> None:
        self._pages = pages
        self._silent: dict[asyncio.StreamWriter, None] = {}
        self._asking: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """PageAnswer one request, if there is room for it or a connection that is silent, which then makes some."""
        if len(self._silent) + len(self._asking) >= CONNECTIONS_MAX:
            if not self._silent:
                writer.close()
                return
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            oldest.close()
        self._silent[writer] = None
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
            if writer not in self._silent:  # it had to make room
                return
            del self._silent[writer]
            self._asking.add(writer)
            writer.write(_response(*await self._answer(head.decode("latin-1"))))
            async with asyncio.timeout(REQUEST_S):
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            log.debug("A request ended early")
        finally:
            self._silent.pop(writer, None)
            self._asking.discard(writer)
            writer.close()

    def close(self) -> None:
        """Close them all."""
        for writer in (*self._silent, *self._asking):
            writer.close()

    async def _answer(self, head: str) -> tuple[PageAnswer, bool]:
        """Return the answer to a request, and whether its body is sent."""
        request, *lines = head.split("\r\n")
        method, _, target = request.partition(" ")
        if method not in {"GET", "HEAD"}:
            return PageAnswer(405, b"Only GET and HEAD are answered here.\n"), True
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        path = target.partition(" ")[0].partition("?")[0]
        return await self._read(path, headers.get("authorization", "")), method == "GET"

    async def _read(self, path: str, authorization: str) -> PageAnswer:
        page = self._pages.get(path)
        if page is None:
            return PageAnswer(404, f"There is nothing here but {' and '.join(self._pages)}.\n".encode())
        kind, _, given = authorization.partition(" ")
        shown = kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), page.token.encode())
        if page.token and not shown:
            return PageAnswer(401, f"{path} wants `Authorization: Bearer` with {page.token_variable}.\n".encode())
        try:
            async with asyncio.timeout(page.bound_s):
                return await page.read()
        except TimeoutError:
            return page.late
        except Exception as problem:  # noqa: BLE001 - the caller learns of it, and the worker lives
            log.error("A page cannot be read", extra={"path": path, "error": type(problem).__name__})
            return PageAnswer(500, b"This cannot be read; see the log.\n")


def _response(answer: PageAnswer, with_body: bool) -> bytes:
    asks = "www-authenticate: Bearer\r\n" if answer.status == HTTPStatus.UNAUTHORIZED else ""
    guards = "".join(f"{name}: {value}\r\n" for name, value in GUARDS)
    head = (
        f"HTTP/1.0 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
        f"content-type: {answer.content_type}\r\ncontent-length: {len(answer.body)}\r\n"
        f"{asks}{guards}connection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if with_body else b"")


TURNS: Final = b"WATCHDOG=1"
SERVES: Final = b"READY=1\n" + TURNS
OFTEN: Final = 3  # times in the time that systemd waits


@asynccontextmanager
async def telling_watchdog(
    environ: Mapping[str, str] | None = None, *, ready: asyncio.Event | None = None
) -> AsyncIterator[None]:
    """Say it for as long as the block lasts, and that the process serves, each time, once `ready` is set.

    Nothing is said where nobody asks this process.
    """
    environ = os.environ if environ is None else environ
    address, microseconds = environ.get("NOTIFY_SOCKET", ""), environ.get("WATCHDOG_USEC", "")
    is_for_us = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    if not (is_for_us and address and microseconds.isdigit()):
        yield
        return
    place = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        notifier.setblocking(False)
        every_s = int(microseconds) / 1_000_000 / OFTEN
        telling = asyncio.create_task(_tell(notifier, place, every_s, ready or asyncio.Event()))
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.wait([telling])


async def _tell(notifier: socket.socket, place: str, every_s: float, ready: asyncio.Event) -> None:
    while True:
        serves = ready.is_set()
        try:
            notifier.sendto(SERVES if serves else TURNS, place)
        except OSError as problem:  # systemd is busy, or begins anew: it waits for the next one
            log.warning("The watchdog cannot be reached", extra={"error": type(problem).__name__})
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(every_s) if serves else ready.wait(), every_s)
