"""The page as an application: its routes, who may ask for which, and the headers that every response has."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engramq.gateway.identity.bearer import Authenticator
from engramq.gateway.identity.local_peer import Account
from engramq.gateway.identity.signed_in import SignedIn, new_cookie
from engramq.gateway.service import Service
from engramq.gateway.ui.door import FORM_FIELD, FORM_HEADER, PATH, Door, Visitor
from engramq.gateway.ui.rendering import STATIC, Asset, environment, read_assets
from engramq.gateway.ui.views import audit, consent, graph, imports, inbox, memories, memory, overview, tokens, welcome
from engramq.gateway.ui.visit import AskOverview, Refused, Site, Visit, read_form
from engramq.schemas.codec import fault_body
from engramq.schemas.faults import EngramqError
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Auth, Settings

View = Callable[[Visit], Awaitable[Response]]

SIGN_IN: Final = f"{PATH}/sign-in"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # without any, browsers name no origin of a form
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_KEPT: Final = "public, max-age=31536000, immutable"

# Path below /ui, method, view.
VIEWS: Final[tuple[tuple[str, str, View], ...]] = (
    ("", "GET", overview.show),
    ("/live", "GET", overview.live),
    ("/counts", "GET", overview.counts),
    ("/memories", "GET", memories.show),
    ("/memories/{memory_id}", "GET", memory.show),
    ("/memories/{memory_id}/{action}", "POST", memory.act),
    ("/inbox", "GET", inbox.show),
    ("/inbox/{memory_id}/{action}", "POST", inbox.act),
    ("/consent", "GET", consent.show),
    ("/consent/{proposal_id}", "POST", consent.decide),
    ("/graph", "GET", graph.show),
    ("/graph/data", "GET", graph.data),
    ("/audit", "GET", audit.show),
    ("/audit/{audit_id}/restore", "POST", audit.restore),
    ("/imports", "GET", imports.show),
    ("/imports/live", "GET", imports.live),
    ("/tokens", "GET", tokens.show),
    ("/tokens", "POST", tokens.create),
    ("/tokens/{token_id}/revoke", "POST", tokens.revoke),
    ("/sign-out", "POST", welcome.sign_out),
)


class Page:
    """The application at /ui and below."""

    def __init__(
        self, service: Service, door: Door, look: AskOverview, *, has_tokens: bool, needs_sign_in: bool
    ) -> None:
        """`look` finds how the installation is; see Site for the rest."""
        self._assets: Mapping[str, Asset] = read_assets()
        self._site = Site(
            service=service,
            door=door,
            look=look,
            templates=environment(self._assets),
            has_tokens=has_tokens,
            needs_sign_in=needs_sign_in,
        )
        routes = [Route(f"{PATH}{path}", self._known(view), methods=[method]) for path, method, view in VIEWS]
        opened = [Route(SIGN_IN, self._anybody(welcome.ask), methods=["GET"])]
        opened += [Route(SIGN_IN, self._anybody(welcome.sign_in), methods=["POST"])]
        files = Route(f"{STATIC}/{{digest}}/{{name}}", self._file, methods=["GET"])
        nothing = Route(f"{PATH}/{{rest:path}}", self._known(welcome.nothing), methods=["GET"])
        self._app = Starlette(routes=[*opened, files, *routes, nothing])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with the headers of every response."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                more = {"cache-control": "no-store", **HEADERS}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in more.items() if name.encode() not in given),
                ]
            await send(message)

        await self._app({**scope, "path": scope["path"].rstrip("/") or "/"}, receive, send_guarded)

    def _known(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a view for those who are known."""

        async def answer(visit: Visit) -> Response:
            if visit.visitor.caller is None:
                wanted = visit.request.url.path if visit.request.method == "GET" else PATH
                return visit.go(SIGN_IN, **({"next": wanted} if wanted != PATH and not visit.is_partial else {}))
            return await view(visit)

        return self._anybody(answer)

    def _anybody(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a view for everybody; what it refuses is shown."""

        async def endpoint(request: Request) -> Response:
            stranger = Visitor(new_cookie(), None)
            visit = Visit(site=self._site, request=request, visitor=stranger)
            try:
                visitor = await self._site.door.visitor(request)
                form = await read_form(request) if request.method == "POST" else {}
                visit = Visit(site=self._site, request=request, visitor=visitor, form=form)
                if request.method == "POST":
                    given = request.headers.get(FORM_HEADER) or visit.entry(FORM_FIELD)
                    self._site.door.require_own(request, visitor, given)
                response = await view(visit)
            except EngramqError as refusal:
                response = await welcome.refused(visit, Refused(fault_body(refusal.fault)))
            except Refused as refusal:
                response = await welcome.refused(visit, refusal)
            if visit.visitor is not stranger and "set-cookie" not in response.headers:
                self._site.door.remember(request, response, visit.visitor)
            return response

        return endpoint

    async def _file(self, request: Request) -> Response:
        asset = self._assets.get(request.path_params["name"])
        if asset is None or asset.path != request.url.path:
            return PlainTextResponse("There is no such file.", 404)
        return Response(asset.content, media_type=asset.media_type, headers={"cache-control": _KEPT})


class BesidePage:
    """Gives the page what is under its path, and another application everything else.

    A browser that is given the bare address is led to the page; whoever does not ask for HTML (a probe, a client of
    MCP) is answered as without a page.
    """

    def __init__(self, app: ASGIApp, page: Page) -> None:
        self._app = app
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if _is_browser_at_root(scope):
            await RedirectResponse(PATH, 307, {"vary": "accept"})(scope, receive, send)
            return
        is_for_page = scope["type"] == "http" and (scope["path"] == PATH or scope["path"].startswith(f"{PATH}/"))
        await (self._page if is_for_page else self._app)(scope, receive, send)


def _is_browser_at_root(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["path"] != "/" or scope["method"] not in {"GET", "HEAD"}:
        return False
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def beside_page(
    app: ASGIApp,
    service: Service,
    look: AskOverview,
    *,
    authenticator: Authenticator,
    account: Account | None,
    redis: Redis,
    keys: Keys,
    settings: Settings,
) -> ASGIApp:
    """Return the application with the page beside it.

    `look` finds how the installation is, `account` whose processes need no token.
    """
    door = Door(SignedIn(redis, keys), authenticator, account, public_url=settings.public_url)
    page = Page(
        service, door, look, has_tokens=settings.auth is not Auth.JWT, needs_sign_in=settings.auth is not Auth.NONE
    )
    return BesidePage(app, page)
