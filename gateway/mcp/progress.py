"""Progress over HTTP: a call whose client asked for it is answered by an event stream, which ends with the answer.

Every other answer is plain JSON, which costs half of one and has no room for a notification.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import mcp_types as types
import msgspec
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from engramq.gateway.identity.metadata import MCP_PATH
from engramq.gateway.mcp.http_calls import again, takes_json
from engramq.gateway.mcp.tool_calls import METHOD, PROGRESS
from engramq.schemas.commands import TOOLS

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
    """Gives the calls that are to be answered by a stream to `streams`, and the others to `app`; bodies come whole.

    To be run with its lifespan, which holds `running` for as long as it lasts.
    """

    def __init__(
        self, app: ASGIApp, streams: ASGIApp, running: Callable[[], AbstractAsyncContextManager[None]]
    ) -> None:
        self._app = app
        self._streams = streams
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or pass it on."""
        if scope["type"] == "lifespan":
            async with self._running():
                await self._app(scope, receive, send)
        elif _takes_stream(scope):
            first = await receive()
            app = self._streams if wants_progress(first.get("body", b"")) else self._app
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
    reports = isinstance(params.name, str) and params.name in REPORTING
    return reports and isinstance(token, str | int) and not isinstance(token, bool)


def _takes_stream(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != MCP_PATH:
        return False
    accept = Headers(scope=scope).get("accept", "")
    return EVENT_STREAM in accept.lower() and takes_json(accept.encode("latin-1"))
