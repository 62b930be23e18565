"""Route the requests of the page at /ui, sign people in and out, and set the headers of its responses."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from engramq.gateway.identity.bearer import Authenticator
from engramq.gateway.identity.local_peer import Account
from engramq.gateway.overview import AskHealth
from engramq.gateway.parts import PartTaker
from engramq.gateway.router import PAGE_PATH
from engramq.gateway.service import Service
from engramq.gateway.ui import (
    admin,
    changes,
    editing,
    exports,
    graph,
    imports,
    inbox,
    memories,
    memory,
    start,
    timeline,
)
from engramq.gateway.ui.html import STATIC, Asset, environment, read_assets
from engramq.gateway.ui.languages import read_messages
from engramq.gateway.ui.request import (
    FORM_BYTES,
    LANGUAGE_COOKIE,
    MEMORY_FORM_BYTES,
    PageCallRefused,
    PageRequest,
    SentFile,
    Site,
    read_form,
    read_upload,
)
from engramq.gateway.ui.sign_in import FORM_FIELD, FORM_HEADER, SignedIn, SignIn, Visitor, new_cookie
from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Auth, Settings
from engramq.schemas.uploads import PageFiles
from engramq.schemas.vocabulary import Scope as Right

View = Callable[[PageRequest], Awaitable[Response]]

SIGN_IN: Final = f"{PAGE_PATH}/sign-in"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "referrer-policy": "same-origin",  # without any, browsers name no origin of a form
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_KEPT: Final = "public, max-age=31536000, immutable"
_YEAR_S: Final = 365 * 86_400
_OWN_PATH: Final = re.compile(r"/ui(?:/[\w./-]*)?", re.ASCII)
_OWN_QUERY: Final = re.compile(r"[\w.~%&=+*,:@-]*", re.ASCII)


async def show_sign_in(page: PageRequest) -> Response:
    """Show the form that takes a token; who is known already goes on."""
    if page.visitor.caller is not None:
        return page.go(_own_path(page.query("next")))
    return page.render("sign_in.html", next=_own_path(page.query("next")), problem="")


async def sign_in(page: PageRequest) -> Response:
    """Let somebody in by the token of the form."""
    path = _own_path(page.entry("next"))
    visitor = await page.site.sign_in.let_in(page.request, page.entry("token"))
    if visitor is None:
        problem = "The token is unknown, expired, revoked or not valid here."
        return page.render("sign_in.html", status=401, next=path, problem=problem)
    response = page.go(path)
    page.site.sign_in.remember(page.request, response, visitor)
    return response


async def sign_out(page: PageRequest) -> Response:
    """Let the cookie stand for nothing any more."""
    await page.site.sign_in.let_go(page.visitor)
    return page.go("/ui/sign-in", done="signed_out")


async def choose(page: PageRequest) -> Response:
    """Keep the language that the visitor has chosen in their browser, and show the page again."""
    wanted = page.entry("language")
    if wanted not in page.site.templates:
        raise invalid("language", "There is no such language.", f"There are {', '.join(page.site.templates)}.")
    response = page.go(_own_path(page.entry("next")))
    response.set_cookie(LANGUAGE_COOKIE, wanted, max_age=_YEAR_S, path=PAGE_PATH, httponly=True, samesite="lax")
    return response


async def show_missing(page: PageRequest) -> Response:
    """Say that there is no such page."""
    return page.missing()


async def show_refusal(page: PageRequest, refusal: PageCallRefused) -> Response:
    """Show why a request was refused, and where nothing is answered, what of the installation is missing."""
    return await page.refuse("refusal_part.html" if page.is_partial else "refused.html", refusal.body)


def _own_path(wanted: str) -> str:
    """Return where to go after signing in: a page of ours, and no other."""
    path, _, query = wanted.partition("?")
    is_own = _OWN_PATH.fullmatch(path) and _OWN_QUERY.fullmatch(query)
    return wanted if is_own and "//" not in path and ".." not in path else PAGE_PATH


# Path below /ui, method, view.
VIEWS: Final[tuple[tuple[str, str, View], ...]] = (
    ("", "GET", start.show_start),
    ("/live", "GET", start.refresh_health),
    ("/more", "GET", start.show_more),
    ("/system", "GET", start.show_system),
    ("/system/live", "GET", start.refresh_system),
    ("/counts", "GET", start.show_counts),
    ("/memories", "GET", memories.show_memories),
    ("/memories", "POST", editing.store_new),
    ("/memories/new", "GET", editing.show_new),
    ("/memories/many", "POST", memories.change_many),
    ("/facets", "GET", memories.show_facets),
    ("/timeline", "GET", timeline.show_timeline),
    ("/contradictions", "GET", memories.show_contradictions),
    ("/contradictions", "POST", memories.decide_pair),
    ("/standing", "GET", changes.show_wishes),
    ("/changes", "GET", changes.show_changes),
    ("/changes", "POST", changes.note_seen),
    ("/projects", "GET", editing.list_projects),
    ("/memories/{memory_id}", "GET", memory.show_memory),
    ("/memories/{memory_id}/content", "GET", memory.show_content),
    ("/memories/{memory_id}/{action}", "POST", memory.change_memory),
    ("/inbox", "GET", inbox.show_inbox),
    ("/inbox", "POST", inbox.decide_many),
    ("/inbox/{memory_id}/{action}", "POST", inbox.decide_memory),
    ("/consent", "GET", admin.show_proposals),
    ("/consent/{proposal_id}", "POST", admin.decide_proposal),
    ("/graph", "GET", graph.show_graph),
    ("/graph/data", "GET", graph.graph_data),
    ("/audit", "GET", admin.show_audit),
    ("/audit/together/{together}", "POST", admin.take_back_many),
    ("/audit/{audit_id}/restore", "POST", admin.restore_in_graph),
    ("/imports", "GET", imports.show_imports),
    ("/imports", "POST", imports.import_file),
    ("/imports/live", "GET", imports.refresh_imports),
    ("/exports", "POST", exports.export_all),
    ("/exports/{export}", "GET", exports.show_progress),
    ("/tokens", "GET", admin.show_tokens),
    ("/tokens", "POST", admin.create_token),
    ("/tokens/{token_id}/revoke", "POST", admin.revoke_token),
    ("/language", "POST", choose),
    ("/sign-out", "POST", sign_out),
)
_FOR_EVERYBODY: Final = (show_sign_in, sign_in)
_WITH_A_MEMORY: Final = (editing.store_new, memory.change_memory)


async def _read_body(request: Request, visitor: Visitor, view: View) -> tuple[dict[str, list[str]], SentFile | None]:
    """Return the fields of a form and its file; a long body is read of those alone that may send it."""
    caller = visitor.caller
    if view is imports.import_file and caller is not None and Right.ADMIN in caller.principal.scopes:
        return await read_upload(request)
    is_long = caller is not None and view in _WITH_A_MEMORY
    return await read_form(request, MEMORY_FORM_BYTES if is_long else FORM_BYTES), None


class PageApp:
    """The application at /ui and below."""

    def __init__(
        self,
        service: Service,
        look: AskHealth,
        *,
        authenticator: Authenticator,
        account: Account | None,
        redis: Redis,
        keys: Keys,
        settings: Settings,
        files: PageFiles | None,
    ) -> None:
        """`look` finds how the installation is, `account` whose processes need no token; see Site for the last."""
        self._assets: Mapping[str, Asset] = read_assets()
        self._site = Site(
            service=service,
            sign_in=SignIn(SignedIn(redis, keys), authenticator, account, public_url=settings.public_url.url),
            look=look,
            templates={language: environment(language) for language in read_messages()},
            has_tokens=settings.auth is not Auth.JWT,
            needs_sign_in=settings.auth is not Auth.NONE,
            settings=settings,
            parts=PartTaker(redis, keys),
            files=files,
        )
        assets = Route(f"{STATIC}/{{digest}}/{{name}}", self._file, methods=["GET"])
        views = [("/sign-in", "GET", show_sign_in), ("/sign-in", "POST", sign_in), *VIEWS]
        routes = [Route(f"{PAGE_PATH}{path}", self._endpoint(view), methods=[method]) for path, method, view in views]
        nothing = Route(f"{PAGE_PATH}/{{rest:path}}", self._endpoint(show_missing), methods=["GET"])
        self._app = Starlette(routes=[assets, *routes, nothing])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with the headers of every response."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                wanted = {"cache-control": "no-store", **HEADERS}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in wanted.items() if name.encode() not in given),
                ]
            await send(message)

        await self._app({**scope, "path": scope["path"].rstrip("/") or "/"}, receive, send_guarded)

    def _endpoint(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a view; who is not known is sent to sign in, unless the view is for everybody."""

        async def endpoint(request: Request) -> Response:
            stranger = Visitor(new_cookie(), None)
            page = PageRequest(site=self._site, request=request, visitor=stranger)
            try:
                if request.method == "POST":
                    self._site.sign_in.require_origin(request)  # before anything of the body is read
                visitor = await self._site.sign_in.visitor(request)
                form, file = await _read_body(request, visitor, view) if request.method == "POST" else ({}, None)
                page = PageRequest(site=self._site, request=request, visitor=visitor, form=form, file=file)
                if request.method == "POST":
                    given = request.headers.get(FORM_HEADER) or page.entry(FORM_FIELD)
                    self._site.sign_in.require_own(visitor, given)
                if visitor.caller is None and view not in _FOR_EVERYBODY:
                    url = request.url
                    own = f"{url.path}?{url.query}" if url.query else url.path  # filters stay
                    wanted = own if request.method == "GET" and not page.is_partial else PAGE_PATH
                    response = page.go(SIGN_IN, **({"next": wanted} if wanted != PAGE_PATH else {}))
                else:
                    response = await view(page)
            except EngramqError as refusal:
                response = await show_refusal(page, PageCallRefused.of(refusal))
            except PageCallRefused as refusal:
                response = await show_refusal(page, refusal)
            if page.visitor is not stranger and "set-cookie" not in response.headers:
                self._site.sign_in.remember(request, response, page.visitor)
            return response

        return endpoint

    async def _file(self, request: Request) -> Response:
        asset = self._assets.get(request.path_params["name"])
        if asset is None or asset.path != request.url.path:
            return PlainTextResponse("There is no such file.", 404)
        return Response(asset.content, media_type=asset.media_type, headers={"cache-control": _KEPT})
