"""Route each request to what answers it: check Host and Origin, find the caller, and bound its body."""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import anyio
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engramq.gateway.bodies import Bodies, NoRoom
from engramq.gateway.identity.authorization import CALLER, Caller
from engramq.gateway.identity.bearer import MCP_PATH
from engramq.gateway.limits import network_of
from engramq.schemas import limits
from engramq.schemas.codec import fault_body
from engramq.schemas.command_line import SMALLER
from engramq.schemas.commands import REST_PREFIX
from engramq.schemas.settings import Settings

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


def read_allowed(settings: Settings) -> Allowed:
    """Return what the settings allow: loopback, the bound address, the public address, and what they list."""
    host = settings.host.lower().strip("[]")
    names = {*_LOOPBACK, *settings.public_url.names, f"[{host}]" if ":" in host else host} - {"0.0.0.0", "[::]"}  # noqa: S104 - no name
    public = {settings.public_url.url} if settings.public_url.url else set()
    names |= {_name_in(url.partition("//")[2]) for url in public}
    return Allowed(frozenset(names), frozenset({*settings.public_url.pages, *public}))


@lru_cache(maxsize=256)
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
IdentifyCaller = Callable[[Scope], Awaitable[Caller | Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The application of each path: the page at /ui, REST at /v1, MCP at /mcp, and `others` for everything else.

    `open_paths` need no caller, nor does the page, which has its own sign-in.
    """

    authenticate: IdentifyCaller
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
        self._welcome = read_allowed(settings)
        self._bodies = bodies
        self._app: ASGIApp = self._route
        if settings.public_url.pages:
            self._app = CORSMiddleware(
                self._route,
                allow_origins=settings.public_url.pages,
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
        exchange = HttpExchange(scope, receive, send, self._bodies)
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
            if exchange.held:
                exchange.let_go()

    def _refusal(self, headers: Sequence[tuple[bytes, bytes]], path: str) -> JSONResponse | None:
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1 or _name_in(hosts[0]) not in self._welcome.names:
            return _refuse(421, "The Host header names another server.")
        for name, value in headers:
            if name == b"origin" and not self._welcome.origin(value.decode("latin-1")):
                return _refuse(403, "Requests of this Origin are not served.")
            if name == b"content-length" and (not value.isdigit() or int(value[:20]) > limits.BODY_BYTES):
                return _refuse(413, f"A body may have at most {limits.BODY_BYTES} bytes. {SMALLER}")
        # A page of another site may have its browser send this, for an image or a frame: then no Origin is named.
        sent = dict(headers)
        if sent.get(b"sec-fetch-site") == b"cross-site" and b"origin" not in sent:
            is_page = path == "/" or f"{path}/".startswith(f"{PAGE_PATH}/")
            is_followed = (sent.get(b"sec-fetch-mode"), sent.get(b"sec-fetch-dest")) == (b"navigate", b"document")
            if not (is_page and is_followed):  # a person may follow a link to the page
                return _refuse(403, "Requests of other sites are not served.")
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


def _refuse(status: int, error: str) -> JSONResponse:
    return JSONResponse({"status": "error", "error": error}, status)


LARGE_BYTES: Final = 64 * 1024  # a body of more takes turns: to decode 4 MB may take 150 ms, and others wait meanwhile
DISCARD_PAUSE_S: Final = 0.02  # between two parts of it, of 64 to 256 KB: nobody waits for what it says
DISCARD_BYTES: Final = 16 * limits.BODY_BYTES
DISCARD_S: Final = 5.0  # so long and so much of a body that is refused is read before the refusal is sent


@dataclass(slots=True)
class HttpExchange:
    """A request's body on its way in, and its answer on its way out. The code that ends it calls `let_go`."""

    scope: Scope
    take: Receive
    give: Send
    bodies: Bodies
    body_bytes: int = 0
    is_read: bool = False
    held: int = 0
    _whose: Hashable = field(default=None)

    async def receive(self) -> Message:
        """Return the next part of the body, the last one of a large body when it is its turn; raises NoRoom."""
        message = await self.take()
        self.body_bytes += len(message.get("body", b""))
        self.is_read = message["type"] != "http.request" or not message.get("more_body", False)
        if message["type"] != "http.request":
            return message
        if not (self.is_read and self.body_bytes <= LARGE_BYTES):  # a small one that is whole waits for nothing
            self._hold(self.body_bytes - self.held)
            if self.is_read:
                await self.bodies.turns.take(self._whose)
        if self.is_read and self.held:
            self.let_go()
        return message

    def _hold(self, count: int) -> None:
        if not self.held:
            caller: Caller | None = self.scope.get(CALLER)
            self._whose = caller.namespace if caller else network_of((self.scope.get("client") or ("",))[0])
        self.bodies.hold(self._whose, count)
        self.held += count

    def let_go(self) -> None:
        """Give back the room of what was read: it was handed on, or nobody waits for it any more."""
        if self.held:
            self.bodies.let_go(self._whose, self.held)
            self.held = 0

    async def send(self, message: Message) -> None:
        """Answer once the body is read: a client that still sends would see a broken connection, not an answer."""
        if not self.is_read:
            self.let_go()  # nobody keeps what is read now
            with anyio.move_on_after(DISCARD_S):
                more = True
                while more and self.body_bytes < DISCARD_BYTES:
                    part = await self.take()
                    self.body_bytes += len(part.get("body", b""))
                    if more := part.get("more_body", False):
                        await anyio.sleep(DISCARD_PAUSE_S)
            self.is_read = True
        await self.give(message)
