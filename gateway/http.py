"""Serve HTTP: check each request, hand it to whoever answers its path, answer /healthz and /readyz."""

import asyncio
import errno
import math
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio
import msgspec
import uvicorn
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from engramq.gateway.bodies import Bodies, Exchange, NoRoom
from engramq.gateway.identity.authorization import CALLER, Caller
from engramq.gateway.identity.bearer import MCP_PATH
from engramq.gateway.limits import Shared
from engramq.gateway.overview import AskHealth
from engramq.gateway.protocol import BOUNDS, BoundedProtocol, ConnectionBounds, Connections, affordable
from engramq.schemas import limits
from engramq.schemas.checks import Health
from engramq.schemas.codec import fault_body
from engramq.schemas.command_line import SMALLER
from engramq.schemas.commands import REST_PREFIX
from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import Settings, SettingsError, is_loopback
from engramq.schemas.vocabulary import GUARDS

GRACE_S: Final = 10  # what is under way at a stop may take so long
# Longer than clients (5 s) and proxies (60 s) keep an idle connection, so that the side which sends requests closes
# it: otherwise a call that arrives just as the time is up is cut off, and its outcome is unknown.
KEEP_ALIVE_S: Final = 75
# At a stop clients hear with their next answer that the connection ends; only one on which nothing comes for so long is
# closed by us, for a call that is on its way then would be cut off.
DRAIN_S: Final = 1.0
DRAIN_POLL_S: Final = 0.02

PAGE_PATH: Final = "/ui"
RECEIPT_KEY_PATH: Final = "/.well-known/engramq.json"
HEALTH_PATHS: Final = ("/healthz", "/readyz")
METRICS_PATH: Final = "/metrics"

_SCHEMES: Final = ("http://", "https://")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/@]+)(?::\d{1,5})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The names of this server that a Host header may have, and the origins of pages that may call it.

    Pages that this machine serves by a loopback name may, whatever their port.
    """

    names: frozenset[str]
    origins: frozenset[str]

    def origin(self, origin: str) -> bool:
        """Say whether pages of that origin may call."""
        scheme, _, authority = origin.lower().partition("//")
        local = _name_in(authority) in _LOOPBACK and f"{scheme}//" in _SCHEMES
        return local or origin.lower() in self.origins


def allowed(settings: Settings) -> Allowed:
    """Return what the settings allow: loopback, the bound address, the public address, and what they list."""
    host = settings.host.lower().strip("[]")
    names = {*_LOOPBACK, *settings.allowed_hosts, f"[{host}]" if ":" in host else host} - {"0.0.0.0", "[::]"}  # noqa: S104 - no name
    public = {settings.public_url} if settings.public_url else set()
    names |= {_name_in(url.partition("//")[2]) for url in public}
    return Allowed(frozenset(names), frozenset({*settings.allowed_origins, *public}))


def _name_in(authority: str) -> str:
    """Return the name in a Host header without its port, which does not matter: proxies change it."""
    found = _AUTHORITY.fullmatch(authority)
    return "" if found is None else found[1].lower()


class CallerLeft(Exception):
    """The caller has closed the connection: there is nobody to answer."""


@asynccontextmanager
async def while_there(receive: Receive, *, is_read: bool) -> AsyncIterator[None]:
    """Run the block; a read is cancelled when its caller hangs up, which raises CallerLeft. A write goes on.

    The request's body has been read, so that `receive` gives nothing more but the end of the connection.
    """
    if not is_read:
        yield
        return
    block, has_left = asyncio.current_task(), False
    assert block is not None

    async def watch() -> None:
        nonlocal has_left
        while (await receive())["type"] != "http.disconnect":
            pass
        has_left = True
        block.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if has_left and not block.uncancel():
            raise CallerLeft from None
        raise
    finally:
        watching.cancel()


# Returns the caller of a request, or the answer to one that is not let in.
Authenticate = Callable[[Scope], Awaitable[Caller | Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """What answers each request: the page at /ui, REST at /v1, MCP at /mcp, and `others` everything else.

    `open_paths` need no caller, nor does the page, which has its own sign-in.
    """

    authenticate: Authenticate
    mcp: ASGIApp
    others: ASGIApp
    rest: ASGIApp | None = None
    page: ASGIApp | None = None
    open_paths: frozenset[str] = frozenset(HEALTH_PATHS)


class Router:
    """Checks each request, finds out who is calling, and hands it to what answers it.

    It refuses what a web page could send by way of its user's browser (a foreign Host or Origin), and huge bodies,
    health included; MCP and REST count a body's bytes themselves as well.
    """

    def __init__(self, routes: Routes, settings: Settings, bodies: Bodies) -> None:
        self.routes = routes
        self._welcome = allowed(settings)
        self._bodies = bodies
        self._app: ASGIApp = self._route
        if settings.allowed_origins:
            self._app = CORSMiddleware(
                self._route,
                allow_origins=settings.allowed_origins,
                allow_methods=["GET", "POST", "PATCH", "DELETE"],
                allow_headers=["*"],
                expose_headers=["mcp-session-id", "www-authenticate", "retry-after"],
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.routes.others(scope, receive, send)
            return
        # RFC 9110 takes white space around a value for no part of it; httptools leaves it there.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        # Not by a redirect: some clients follow none, or leave body or token behind.
        path = MCP_PATH if scope["path"] == f"{MCP_PATH}/" else scope["path"]
        scope = {**scope, "headers": headers, "path": path}
        exchange = Exchange(scope, receive, send, self._bodies)
        app = self._refusal(headers, path) or self._app
        try:
            await app(scope, exchange.receive, exchange.send)
        except CallerLeft:
            return
        except NoRoom as refusal:
            body = fault_body(refusal.fault)
            answer = JSONResponse(body, 503, {"retry-after": f"{math.ceil(body['retry_after_s'])}"})
            await answer(scope, exchange.receive, exchange.send)
        finally:
            exchange.let_go()

    def _refusal(self, headers: Sequence[tuple[bytes, bytes]], path: str) -> JSONResponse | None:
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1 or _name_in(hosts[0]) not in self._welcome.names:
            return _refused(421, "The Host header names another server.")
        for name, value in headers:
            if name == b"origin" and not self._welcome.origin(value.decode("latin-1")):
                return _refused(403, "Requests of this Origin are not served.")
            if name == b"content-length" and (not value.isdigit() or int(value[:20]) > limits.BODY_BYTES):
                return _refused(413, f"A body may have at most {limits.BODY_BYTES} bytes. {SMALLER}")
        # A page of another site may have its browser send this, for an image or a frame: then no Origin is named.
        sent = dict(headers)
        if sent.get(b"sec-fetch-site") == b"cross-site" and b"origin" not in sent:
            is_page = path == "/" or f"{path}/".startswith(f"{PAGE_PATH}/")
            is_followed = (sent.get(b"sec-fetch-mode"), sent.get(b"sec-fetch-dest")) == (b"navigate", b"document")
            if not (is_page and is_followed):  # a person may follow a link to the page
                return _refused(403, "Requests of other sites are not served.")
        return None

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        routes, path = self.routes, scope["path"]
        if routes.page is not None and path == "/" and _is_browser(scope):
            app: ASGIApp = RedirectResponse(PAGE_PATH, 307, {"vary": "accept"})
        elif routes.page is not None and f"{path}/".startswith(f"{PAGE_PATH}/"):
            app = routes.page
        else:
            if path not in routes.open_paths:
                caller = await routes.authenticate(scope)
                if isinstance(caller, Response):
                    await caller(scope, receive, send)
                    return
                scope[CALLER] = caller
            if path == MCP_PATH:
                app = routes.mcp
            elif routes.rest is not None and f"{path}/".startswith(f"{REST_PREFIX}/"):
                app = routes.rest
            else:
                app = routes.others
        await app(scope, receive, send)


def _is_browser(scope: Scope) -> bool:
    """Say whether HTML is asked for; a probe or a client of MCP is answered as without a page."""
    accepts_html = any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
    return accepts_html and scope["method"] in {"GET", "HEAD"}


def _refused(status: int, error: str) -> JSONResponse:
    return JSONResponse({"status": "error", "error": error}, status)


def health_routes(ask_health: AskHealth) -> list[Route]:
    """Return /healthz (the process lives) and /readyz (calls can be answered; 503 names what is missing).

    Where reads are answered and writes refused, /readyz says `degraded` and why; it stays 200, for reads to go on.

    These need no authentication, so requests at the same time share one check.
    """
    looks: Shared[Health] = Shared(1)

    async def healthz(_request: Request) -> JSONResponse:
        return JSONResponse({"status": "alive"})

    async def readyz(_request: Request) -> JSONResponse:
        try:
            found = await looks.run("ready", ask_health)
        except EngramqError as refusal:
            found = Health("unavailable", [refusal.fault.error])
        return JSONResponse(msgspec.to_builtins(found), 503 if found.missing else 200)

    return [Route(path, endpoint) for path, endpoint in zip(HEALTH_PATHS, (healthz, readyz), strict=True)]


def receipt_key_route(ask_key: Callable[[], Coroutine[Any, Any, str]]) -> Route:
    """Return the route of the public key for receipts, which anybody may read. It is asked for once: it stays the same.

    503 while no worker says what it is.
    """
    looks: Shared[str] = Shared(1)
    known: list[str] = []

    async def key(_request: Request) -> JSONResponse:
        try:
            known[:] = known or [await looks.run("key", ask_key)]
        except EngramqError as refusal:
            return JSONResponse({"error": refusal.fault.error, "recovery": refusal.fault.recovery}, 503)
        return JSONResponse({"receipts": {"algorithm": "Ed25519", "public_key": known[0]}})

    return Route(RECEIPT_KEY_PATH, key)


def bind(host: str, port: int, *, authenticated: bool = False) -> socket.socket:
    """Return a socket that listens there; raises SettingsError naming the variable that is wrong.

    Only a server that authenticates its callers listens on an address which other machines reach.
    """
    if not authenticated and not is_loopback(host):
        raise SettingsError(
            f"ENGRAMQ_HOST: {host!r} is not a loopback address, and without authentication nothing else is served. "
            "Use 127.0.0.1, or set ENGRAMQ_AUTH to token or jwt."
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as problem:
        raise SettingsError(f"ENGRAMQ_HOST: {host!r} cannot be resolved: {problem}.") from None
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
        bound.listen(1024)
    except OSError as problem:
        bound.close()
        taken = problem.errno == errno.EADDRINUSE
        reason = "is taken; give another one, or 0 for a free one" if taken else f"cannot be used: {problem.strerror}"
        raise SettingsError(f"ENGRAMQ_PORT: port {port} on {host} {reason}.") from None
    return bound


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: the process has its own, since it may serve stdio sessions too."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no new connections, end those that are kept open with their next answer, then the others."""
        for server in self.servers:
            server.close()
        self.server_state.default_headers.append((b"connection", b"close"))  # of every answer from now on
        with anyio.move_on_after(DRAIN_S):
            while self.server_state.connections:  # noqa: ASYNC110 - uvicorn tells nobody when one has gone
                await anyio.sleep(DRAIN_POLL_S)
        await super().shutdown(sockets)


def http_server(
    routes: Routes, settings: Settings, bounds: ConnectionBounds = BOUNDS, bodies: Bodies | None = None
) -> HttpServer:
    """Return a server of what answers requests, on connections that are bounded, as are their bodies."""
    bounds = affordable(bounds)
    options: dict[str, Any] = {
        "http": partial(
            BoundedProtocol,
            bounds=bounds,
            connections=Connections(bounds, settings.trusted_proxies),
            health=frozenset(HEALTH_PATHS),
        ),
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "headers": list(GUARDS),
        "proxy_headers": bool(settings.trusted_proxies),
        "forwarded_allow_ips": list(settings.trusted_proxies),
        "timeout_graceful_shutdown": GRACE_S,
        "timeout_keep_alive": KEEP_ALIVE_S,
    }
    return HttpServer(uvicorn.Config(Router(routes, settings, bodies or Bodies()), **options))
