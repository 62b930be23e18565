"""How bytes reach the MCP server over HTTP: tool calls straight to the service, the rest by the SDK's application."""

import re
from collections.abc import Sequence
from typing import Final

import mcp_types as types
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engramq.gateway.identity.authorization import CALLER, Caller
from engramq.gateway.identity.metadata import MCP_PATH
from engramq.gateway.mcp.http_calls import HttpCalls
from engramq.gateway.mcp.http_messages import HttpMessages
from engramq.gateway.mcp.messages import Refusal
from engramq.gateway.mcp.progress import ProgressStreams
from engramq.gateway.mcp.server import Context, McpServer
from engramq.gateway.mcp.tool_calls import ToolCalls
from engramq.schemas import limits

# Every escape in turn, so that an escaped backslash before a "u" is not taken for the beginning of one.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(?P<half>u[dD][89a-fA-F][\da-fA-F]{2})|.)", re.DOTALL
)


def http_caller(ctx: Context) -> Caller:
    """Return the caller of a request over HTTP, as the authentication before the application found; in both eras."""
    if ctx.request is None:
        raise TypeError("a request came without its HTTP scope, so its caller is unknown")
    caller = ctx.request.scope[CALLER]
    if not isinstance(caller, Caller):
        raise TypeError("a request came without authentication")
    return caller


def http_app(server: McpServer, calls: ToolCalls | None, routes: Sequence[Route]) -> ASGIApp:
    """Return the application that serves MCP at MCP_PATH and `routes` beside it; it must be run with its lifespan.

    Every request stands alone in both eras, so that any replica can answer it. Replies are plain JSON, but for those of
    calls that report progress. Host and Origin are checked by the caller, for every route alike. Without `calls` the
    SDK's server answers everything.
    """
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=limits.BODY_BYTES,
        transport_security=security,
        custom_starlette_routes=list(routes),
    )
    streams = StreamableHTTPSessionManager(
        app=server, stateless=True, max_request_body_size=limits.BODY_BYTES, security_settings=security
    )
    either = ProgressStreams(app, streams.asgi_app, streams.run)
    whole = RequestBodyLimitMiddleware(_NoStream(HttpMessages(_SurrogateMarker(either))), limits.BODY_BYTES)
    return whole if calls is None else HttpCalls(whole, calls)


class _NoStream:
    """Answers 405 to a GET of MCP's path, as the specification has it where a server offers no stream of its own.

    The SDK would open a silent stream that lasts until the client leaves, even after its token was revoked; a few
    hundred of them by one caller would use up all connections.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == MCP_PATH:
            no_stream = Refusal(types.INVALID_REQUEST, "Method Not Allowed: there is no stream to listen to", None)
            app = Response(no_stream.dump(), 405, {"allow": "POST"}, "application/json")
        await app(scope, receive, send)


class _SurrogateMarker:
    """Writes NUL where a body has half of an escaped surrogate pair; bodies come whole.

    The SDK's parser of the older era takes such a half for broken JSON and cannot say where it is. NUL gets through to
    the tool, which refuses either by the parameter's name. Clients in JavaScript send halves when they cut an emoji.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_marked() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                message["body"] = mark_surrogates(message.get("body", b""))
            return message

        await self._app(scope, receive_marked if scope["type"] == "http" else receive, send)


def mark_surrogates(body: bytes) -> bytes:
    """Return JSON of the same length with NUL for each half of a surrogate pair that is escaped alone."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda found: b"\\u0000" if found["half"] else found[0], body)
