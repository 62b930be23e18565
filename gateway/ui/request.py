"""Wrap one request to the page: who asks, what they may, the tools that they may call, and how they are answered."""

from collections.abc import AsyncGenerator, Awaitable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from engramq.gateway.budget import Body
from engramq.gateway.identity.authorization import Caller
from engramq.gateway.mcp.audience import audience_with, omit_unavailable
from engramq.gateway.overview import AskHealth
from engramq.gateway.parts import PartTaker
from engramq.gateway.router import while_there
from engramq.gateway.service import Call, Service
from engramq.gateway.ui.html import DONE
from engramq.gateway.ui.languages import choose_language
from engramq.gateway.ui.sign_in import SignIn, Visitor
from engramq.schemas import commands
from engramq.schemas.codec import fault_body
from engramq.schemas.faults import EngramqError, FaultCode, invalid
from engramq.schemas.limits import BODY_BYTES, NAME_CHARS
from engramq.schemas.settings import Settings
from engramq.schemas.uploads import PageFiles
from engramq.schemas.vocabulary import Scope

Found = TypeVar("Found")

_OWN: Final = (
    commands.unlisted(commands.CountFacets, commands.FacetCounts, "count_facets()"),
    commands.unlisted(commands.CountMemories, commands.MemoryTimeline, "count_memories()"),
    commands.unlisted(commands.ListShownOften, commands.ShownOftenList, "list_shown_often()"),
    commands.unlisted(commands.ListImports, commands.ImportList, "list_imports()"),
    commands.unlisted(commands.ExportTenant, commands.TenantExported, 'export_tenant(channel="<id>")'),
    commands.unlisted(commands.DrawGraph, commands.GraphDrawing, "draw_graph()"),
    commands.unlisted(commands.ListNodes, commands.NodeList, "list_nodes()"),
    commands.unlisted(commands.ListTokens, commands.TokenList, "list_tokens()"),
    commands.unlisted(commands.CreateToken, commands.TokenCreated, 'create_token(principal="ada", scopes=["read"])'),
    commands.unlisted(commands.RevokeToken, commands.TokenRevoked, 'revoke_token(token_id="<id>")'),
)

PAGE_TOOLS: Final[Mapping[str, commands.Tool]] = {
    **commands.TOOLS,
    **{tool.name: tool for tool in (*commands.OPERATOR_TOOLS, *_OWN)},
}


# A reader of the page has no tools: advice about them is left out.
_PERSON: Final = audience_with((), dict.fromkeys(PAGE_TOOLS, ""))
_ADVICE: Final = ("recovery", "hint", "notice")
_PLAIN: Final = {
    FaultCode.INVALID_PARAMETER.recovery: "",
    "Give next_cursor of the last page with the same filters, or leave cursor out to start again.": (
        "Begin at the first page of the list."
    ),
    'Pass one of your own in every call, e.g. session="planning": references stand for its memories.': (
        "Pass the id itself."
    ),
    "Call again": "Try again",
    "call again": "try again",
    '; project="*" shows them': "",
    "include_superseded=true shows it too": "the filter “superseded ones too” shows it",
}


def for_people(body: Body) -> Body:
    """Return a reply with its advice in words for people."""
    return body | {name: _plain(str(body[name])) for name in _ADVICE if body.get(name)}


def _plain(text: str) -> str:
    text = omit_unavailable(text, _PERSON)
    for tools, page in _PLAIN.items():
        text = text.replace(tools, page)
    return text


LANGUAGE_COOKIE: Final = "engramq_language"
THEME_COOKIE: Final = "engramq_theme"
THEMES: Final = ("light", "dark")
FORM_FIELDS: Final = 200
FORM_BYTES: Final = 64 * 1024  # the longest reason, each character of it written as twelve, has a third
# Of those who are signed in, with a memory: its content has 384 KB in that writing, its tags twice 150.
MEMORY_FORM_BYTES: Final = 1024 * 1024


class PageCallRefused(Exception):
    """A call was refused; `body` is the refusal, in words for people."""

    def __init__(self, body: Body) -> None:
        super().__init__(body["error"])
        self.body = for_people(body)

    @classmethod
    def of(cls, error: EngramqError, **more: str) -> Self:
        """Return what a refusal is on the page, with `more` fields of its body."""
        return cls(fault_body(error.fault) | more)

    @property
    def status(self) -> int:
        """The status of the HTTP response."""
        return FaultCode(self.body["code"]).http_status


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The objects that all requests to the page share. `has_tokens`: visitors come in by tokens that engramq has made.

    `files`: None where no file can be imported.
    """

    service: Service
    sign_in: SignIn
    look: AskHealth
    templates: Mapping[str, Environment]  # by language
    has_tokens: bool
    needs_sign_in: bool
    settings: Settings
    parts: PartTaker
    files: PageFiles | None = None


class SentFile(NamedTuple):
    """A file of a form; its name is whatever the browser says."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """One request by a visitor; `form` has what a form sent, by name, `file` its file.

    `together`: of an action on many, its id.
    """

    site: Site
    request: Request
    visitor: Visitor
    form: Mapping[str, list[str]] = field(default_factory=dict)
    file: SentFile | None = None
    together: str = ""

    @property
    def caller(self) -> Caller:
        """The caller; only views for signed-in visitors ask for it."""
        assert self.visitor.caller is not None
        return self.visitor.caller

    @property
    def is_partial(self) -> bool:
        """Whether the page asks for a part of itself, by htmx."""
        return self.request.headers.get("hx-request") == "true"

    def may(self, scope: str) -> bool:
        """Say whether the visitor has a scope."""
        return Scope(scope) in self.caller.principal.scopes

    def query(self, name: str) -> str:
        """Return a parameter of the address, "" when it is not there."""
        return self.request.query_params.get(name, "").strip()

    def entry(self, name: str) -> str:
        """Return a field of the form, "" when it is not there."""
        return self.form.get(name, [""])[0].strip()

    def where_chosen(self) -> "PageRequest":
        """Return the request with its calls in the project that its form names, if it names one."""
        project = self.entry("project") or self.caller.project
        if len(project) > NAME_CHARS:
            raise invalid("project", f"The name of a project has at most {NAME_CHARS} characters.")
        return replace(self, visitor=replace(self.visitor, caller=replace(self.caller, project=project)))

    async def ask(self, tool: str, **arguments: Any) -> Body:
        """Return the reply to a call by this visitor; what is None or empty is left out.

        Raises PageCallRefused, CallerLeft.
        """
        given = {name: value for name, value in arguments.items() if value not in (None, "", [], ())}
        async with while_there(self.request.receive, is_read=not PAGE_TOOLS[tool].write):
            return for_people(await self.call(tool, given))

    async def call(self, tool: str, arguments: Body) -> Body:
        """Return the reply to a call as it is, whether or not the visitor waits; raises PageCallRefused."""
        call = Call(tool=PAGE_TOOLS[tool], arguments=arguments, caller=self.caller, together=self.together)
        reply = await self.site.service.call(call)
        if reply.is_error:
            raise PageCallRefused(reply.body)
        return reply.body

    def render(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a template as a response; `done` in the address says what the form before has done."""
        shown = {"page": self, "done": DONE.get(self.query("done"), ""), **values}
        return HTMLResponse(self.site.templates[self.language].get_template(template).render(shown), status)

    def say(self, text: str) -> str:
        """Return a sentence of ours in the language of the page, for what is answered without a template."""
        said: str = self.site.templates[self.language].call_filter("reason", text)
        return said

    @property
    def language(self) -> str:
        """The language of the page: the one that the visitor has chosen, else what their browser asks for."""
        accepted = self.request.headers.get("accept-language", "")
        return choose_language(self.request.cookies.get(LANGUAGE_COOKIE, ""), accepted, self.site.templates)

    @property
    def theme(self) -> str:
        """The theme that page.js keeps, which the page has before it is drawn; "" where the system's counts."""
        theme = self.request.cookies.get(THEME_COOKIE, "")
        return theme if theme in THEMES else ""

    async def refuse(self, template: str, refusal: Body, **values: Any) -> HTMLResponse:
        """Return a template that shows a refusal, and where nothing is answered, what the installation lacks."""
        status = FaultCode(refusal["code"]).http_status
        checks = (await self.site.look()).checks if status == 503 else []
        trouble = [check for check in checks if check.state != "ok"]
        response = self.render(template, status=status, refusal=refusal, trouble=trouble, **values)
        if isinstance(wait_s := refusal.get("retry_after_s"), float):
            response.headers["retry-after"] = str(max(1, round(wait_s)))
        return response

    def missing(self, what: str = "page") -> HTMLResponse:
        """Return the page that says that there is no such page, or no such `what`."""
        return self.render("missing.html", status=404, said=f"There is no such {what}")

    def go(self, path: str, **query: str) -> Response:
        """Redirect the visitor by GET; a part of a page makes the browser load that whole page."""
        address = f"{path}?{urlencode(query)}" if query else path
        if self.is_partial:
            return Response(status_code=204, headers={"hx-redirect": address})
        return RedirectResponse(address, 303)


async def unless_refused(found: Awaitable[Found], nothing: Found) -> tuple[Found, Body | None]:
    """Return what is found, or nothing and why a filter is not what it should be; any other refusal is raised."""
    try:
        return await found, None
    except PageCallRefused as refused:
        if refused.status != 400:
            raise
        return nothing, refused.body


async def _read_bounded(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a body; raises EngramqError as soon as they have more than `most` bytes together."""
    size = 0
    async for part in request.stream():
        if (size := size + len(part)) > most:
            raise invalid("body", f"A form may have at most {most} bytes.")
        yield part


async def read_form(request: Request, most: int) -> dict[str, list[str]]:
    """Return the fields of a form; raises EngramqError for what is none, or has more than `most` bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise invalid("body", "The body is no form.")
    body = b"".join([part async for part in _read_bounded(request, most)])
    try:
        return parse_qs(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=FORM_FIELDS)
    except ValueError:
        raise invalid("body", "The form cannot be read.") from None


async def read_upload(request: Request) -> tuple[dict[str, list[str]], SentFile | None]:
    """Return the fields of a form with a file, and the file; raises EngramqError as `read_form` does."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise invalid("body", "The body is no form with a file.")
    stream = _read_bounded(request, BODY_BYTES)
    parser = MultiPartParser(request.headers, stream, max_files=1, max_fields=FORM_FIELDS, max_part_size=FORM_BYTES)
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, LookupError):  # KeyError: no boundary is named
        raise invalid("body", "The form cannot be read.") from None
    try:
        sent = next((value for value in form.values() if isinstance(value, UploadFile)), None)
        file = None if sent is None else SentFile(sent.filename or "", await sent.read())
        return {name: [value] for name, value in form.items() if isinstance(value, str)}, file
    finally:
        await form.close()
