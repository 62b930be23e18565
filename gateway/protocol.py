"""Speak HTTP/1.1 by uvicorn, with bounds on connections, and on bytes and time of heads and bodies.

A whole request that comes at once sets no timer: what comes at once is as large as one read, 256 KB. Refusals are
written here, since the application sees a request only when its head is whole.
"""

import asyncio
import ipaddress
import json
import resource
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from engramq.gateway.identity.local_peer import CONNECTION, OWN_ACCOUNTS, LocalConnection
from engramq.gateway.limits import network_of
from engramq.schemas.vocabulary import GUARDS

_FILES_OF_OUR_OWN: Final = 256  # Redis, stdio sessions, logs, and what Python opens


@dataclass(frozen=True, slots=True)
class ConnectionBounds:
    """The limits of a connection: bytes, seconds, and a place among the others.

    A request's head, and what frames its body beside the body itself (chunk sizes, trailers), has at most
    `header_bytes`, and `header_s` from its first byte; a body has `body_s`. A client may take `write_s` to read what it
    asked for. A refused client has `linger_s` to read why. Beyond `connections` or `share` of one address a few are
    heard for `spare_s`, and only their question after the server's health is answered. The server's own account and
    root have their shares whatever the others hold.
    """

    header_bytes: int = 64 * 1024
    headers: int = 200
    header_s: float = 10.0
    body_s: float = 30.0
    write_s: float = 60.0
    linger_s: float = 2.0
    connections: int = 2_000
    share: int = 500
    spare: int = 64
    spare_of_one: int = 8
    spare_s: float = 2.0


BOUNDS: Final = ConnectionBounds()


class Admission(Enum):
    """The place and the limits that a new connection gets."""

    SERVED = "served"
    SPARE = "asked for nothing but the server's health"
    REFUSED = "refused"


class ConnectionCounts:
    """Counts the connections by the address at their other end; a network of IPv6 with 64 bits is one address.

    Those of this machine, which all have the same address, are counted by account where it is known: so none closes
    the server to its owner. Proxies that the settings name have no share: many clients come by way of each.
    """

    def __init__(self, bounds: ConnectionBounds, proxies: Iterable[str] = ()) -> None:
        self._bounds = bounds
        self._proxies = [ipaddress.ip_network(proxy) for proxy in proxies]
        self._held: dict[Admission, Counter[str]] = {Admission.SERVED: Counter(), Admission.SPARE: Counter()}
        self._all = {Admission.SERVED: 0, Admission.SPARE: 0}

    def enter(self, address: str, account: int | None = None) -> Admission:
        """Count a connection and say what it gets; a connection that is admitted has to `leave`."""
        bounds, client, is_own = self._bounds, _client(address, account), account in OWN_ACCOUNTS
        has_share = self._held[Admission.SERVED][client] < bounds.share
        is_free = {
            Admission.SERVED: (is_own and has_share)
            or (self._all[Admission.SERVED] < bounds.connections and (has_share or self._is_proxy(address))),
            Admission.SPARE: (is_own or self._all[Admission.SPARE] < bounds.spare)
            and self._held[Admission.SPARE][client] < bounds.spare_of_one,
        }
        for admission, has_place in is_free.items():
            if has_place:
                self._held[admission][client] += 1
                self._all[admission] += 1
                return admission
        return Admission.REFUSED

    def leave(self, address: str, admission: Admission, account: int | None = None) -> None:
        """Take a connection off the count."""
        held, client = self._held[admission], _client(address, account)
        self._all[admission] -= 1
        held[client] -= 1
        if not held[client]:
            del held[client]

    def _is_proxy(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)  # of an IPv6 address that stands for one of IPv4
        return any((mapped or parsed) in network for network in self._proxies)


def _client(address: str, account: int | None) -> str:
    return network_of(address) if account is None else f"account {account}"


def affordable(bounds: ConnectionBounds) -> ConnectionBounds:
    """Return the bounds as far as this process may open files; it asks for as many as it needs, if it may have them."""
    shares = len(OWN_ACCOUNTS) * (bounds.share + bounds.spare_of_one)
    needed = bounds.connections + shares + bounds.spare + _FILES_OF_OUR_OWN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return bounds
    places = soft - bounds.spare - _FILES_OF_OUR_OWN
    connections = max(16, places * bounds.connections // (bounds.connections + shares))
    share = max(8, bounds.share * connections // bounds.connections)
    return replace(bounds, connections=connections, share=share)


# Chunks of one byte have five around it; more than so much of frame for each byte is nobody's body.
FRAME_PER_BYTE: Final = 16
RETRY_S: Final = 1

_BUSY: Final = "There are too many connections, all together or from this address."
_LARGE_HEAD: Final = "The request line and headers may have at most {0.header_bytes} bytes and {0.headers} headers."
_LARGE_FRAME: Final = "The body's chunks have too much around them."
_SLOW_HEAD: Final = "The request line and headers did not come within {0.header_s:g} seconds."
_SLOW_BODY: Final = "The body did not come within {0.body_s:g} seconds."


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `health` are the paths that are answered whatever the limits."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        bounds: ConnectionBounds,
        connections: ConnectionCounts,
        health: frozenset[str],
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._bounds = bounds
        self._counted = connections
        self._health = frozenset(path.encode() for path in health)
        self._admission = Admission.REFUSED
        self._address = ""
        self._line = LocalConnection(None, None)
        self._account: int | None = None
        self._in_head = False
        self._in_body = False
        self._heads = 0  # that began in what is being read
        self._head_bytes = 0  # that have come of this head, as far as known
        self._frame_bytes = 0  # of this body's parts so far, less the body
        self._body_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._refused = False

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Count the connection, and begin to wait for its first request."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        host, port = self.server or ("", None)
        self._line = LocalConnection(self.client, None if port is None else (host, port))
        self._account = self._line.account()
        self._admission = self._counted.enter(self._address, self._account)
        if self._admission is Admission.REFUSED:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)
            self.transport.close()  # at once, since it is not counted
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the connection off the count, once."""
        self._disarm()
        self._stop_write_deadline()
        if self._admission is not Admission.REFUSED:
            self._counted.leave(self._address, self._admission, self._account)
            self._admission = Admission.REFUSED
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the connection is refused; then judge how far the request has come."""
        if self._refused:
            return  # read and dropped: closed with bytes unread, the client would see no answer but a reset
        was_idle = not self._in_head and not self._in_body
        self._heads = 0
        self._head_bytes += len(data)  # of a head, as this of a body: the parser says when either begins
        self._frame_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing() or self._refused:
            return
        if self._heads and self._in_head:
            # Where it begins in these bytes is not known, unless they are all there is.
            self._head_bytes = len(data) if was_idle and self._heads == 1 else 0
        if self._in_head:
            if self._head_bytes > self._bounds.header_bytes:
                self._refuse_head()
            elif self._deadline is None:
                self._await_head()
        elif self._in_body:
            frame = self._frame_bytes - self._body_bytes
            if frame > self._bounds.header_bytes + FRAME_PER_BYTE * self._body_bytes:
                self._refuse(HTTPStatus.BAD_REQUEST, _LARGE_FRAME)
            elif self._deadline is None and not self.pipeline:  # no request before it is being answered
                self._await_body()
        elif not (self._heads or self._deadline or self.timeout_keep_alive_task or self._is_busy()):
            self._await_head()  # what came was no beginning of a request: an empty line

    # What the parser finds

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._in_head = True
        self._heads += 1
        super().on_message_begin()
        self.scope[CONNECTION] = self._line  # type: ignore[typeddict-unknown-key]  # ours

    def on_headers_complete(self) -> None:
        """Begin to serve a request, or refuse it for the size of its head or the number of connections."""
        self._in_head = False
        if self._deadline is not None:
            self._disarm()
        if self._refused:
            return
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._bounds.header_bytes or len(self.headers) > self._bounds.headers:
            self._refuse_head()
            return
        asks_for_health = self.url.partition(b"?")[0] in self._health
        if not asks_for_health and (
            self._admission is Admission.SPARE
            or (len(self.tasks) >= self._bounds.connections + self._bounds.spare and self._account not in OWN_ACCOUNTS)
        ):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)
            return
        self._in_body = True
        self._frame_bytes = self._body_bytes = 0
        super().on_headers_complete()
        self.headers = []  # trailers go there, not into the request that its application has already
        if self._admission is Admission.SPARE:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        if self._refused:
            return
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._in_body = False
        if self._deadline is not None:
            self._disarm()
        if not self._refused:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """End an answer; a request that had to wait for it begins to have a body's time only now."""
        super().on_response_complete()
        if self.transport.is_closing():
            self.loop.call_later(self._bounds.write_s, self.transport.abort)
        elif self._in_body and self._is_busy() and not self.pipeline:
            self._await_body()

    # Time

    def pause_writing(self) -> None:
        """Wait for the client to read its answer, for so long."""
        super().pause_writing()
        self._stop_write_deadline()
        self._write_deadline = self.loop.call_later(self._bounds.write_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        self._stop_write_deadline()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that nobody uses; what its client has not read by now is lost."""
        self._close_soon()

    def _await_head(self) -> None:
        is_spare = self._admission is Admission.SPARE
        self._arm(self._bounds.spare_s if is_spare else self._bounds.header_s, self._head_is_late)

    def _await_body(self) -> None:
        self._arm(self._bounds.body_s, self._body_is_late)

    def _head_is_late(self) -> None:
        self._deadline = None
        if self._is_busy():
            self._await_head()  # what was asked before is still being answered
        elif self._in_head:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, _SLOW_HEAD.format(self._bounds))
        else:
            self._close_soon()

    def _body_is_late(self) -> None:
        self._deadline = None
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, _SLOW_BODY.format(self._bounds))

    def _arm(self, seconds: float, late: Callable[[], None]) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, late)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_write_deadline(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    # Ends

    def _is_busy(self) -> bool:
        """Say whether a request is being answered; uvicorn's type hides that there is none before the first."""
        last: RequestResponseCycle | None = self.cycle
        return last is not None and not last.response_complete

    def _refuse_head(self) -> None:
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _LARGE_HEAD.format(self._bounds))

    def _refuse(self, status: HTTPStatus, error: str) -> None:
        """Answer by this status, unless an answer is under way, and close the connection once that can be read."""
        self._disarm()
        self._refused = True
        is_answered = False
        last: RequestResponseCycle | None = self.cycle
        if last is not None and last.response_complete:
            is_answered = self._in_body  # early, before its body had come
        elif last is not None:
            # A body that is late ends its own request, which then cannot answer; a head, whatever was asked before.
            is_answered = last.response_started or bool(self.pipeline) or not self._in_body
            last.disconnected = True
            last.message_event.set()
        if is_answered:
            self._close_soon()
            return
        body = json.dumps({"status": "error", "error": error}).encode()
        lines = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
            *map(": ".join, GUARDS),
        ]
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            lines.append(f"retry-after: {RETRY_S}")
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(self._bounds.linger_s, self.transport.abort)

    def _close_soon(self) -> None:
        """Close the connection when what is written has been read, or soon."""
        if not self.transport.is_closing():
            self.transport.close()
        self.loop.call_later(self._bounds.linger_s, self.transport.abort)
