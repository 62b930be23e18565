"""Progress over HTTP: a call whose client asked for it is answered by an event stream, which ends with the answer.

Every other answer is plain JSON, which costs half of one and has no room for a notification.
"""

from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from engramq.gateway.identity.metadata import MCP_PATH
from engramq.gateway.mcp.http_calls import again, takes_json
from engramq.gateway.mcp.server import McpServer
from engramq.gateway.mcp.tool_calls import METHOD, PROGRESS
from engramq.gateway.mcp.tools import TOOLS
from engramq.schemas import limits

EVENT_STREAM: Final = "text/event-stream"
REPORTING: Final = frozenset(name for name, tool in TOOLS.items() if tool.reports)


class _Params(msgspec.Struct):
    name: Any = None
    meta: Any = msgspec.field(name="_meta", default=None)


class _Message(msgspec.Struct):
    method: Any = None
    params: _Params | None = None


_decoder: Final = msgspec.json.Decoder(_Message)


class ProgressStreams:
    """Gives the calls that are to be answered by a stream to the SDK's server, and the others to `app`.

    Bodies come whole. To be run with its lifespan.
    """

    def __init__(self, app: ASGIApp, server: McpServer, security: TransportSecuritySettings) -> None:
        self._app = app
        self._streams = StreamableHTTPSessionManager(
            app=server,
            stateless=True,
            max_request_body_size=limits.BODY_BYTES,
            security_settings=security,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or pass it on."""
        if scope["type"] == "lifespan":
            async with self._streams.run():
                await self._app(scope, receive, send)
        elif _takes_stream(scope):
            first = await receive()
            app = self._streams.asgi_app if wants_progress(first.get("body", b"")) else self._app
            await app(scope, again(first, receive), send)
        else:
            await self._app(scope, receive, send)


def wants_progress(body: bytes) -> bool:
    """Say whether a body is a call of a tool that reports progress, by a client that asked for it."""
    if PROGRESS.encode() not in body:
        return False
    try:
        message = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False  # the SDK says what is wrong with it
    params = message.params
    if message.method != METHOD or params is None or not isinstance(params.meta, dict):
        return False
    token: types.ProgressToken | None = params.meta.get(PROGRESS)
    return params.name in REPORTING and isinstance(token, str | int) and not isinstance(token, bool)


def _takes_stream(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != MCP_PATH:
        return False
    accept = Headers(scope=scope).get("accept", "")
    return EVENT_STREAM in accept.lower() and takes_json(accept.encode("latin-1"))
