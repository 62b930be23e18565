"""Serve MCP over HTTP: calls by wire.py, a client's introduction and lists by introduction.py.

Everything else is answered by the SDK's application, which is loaded for the first client that needs it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from engramq.gateway.identity.authorization import CALLER
from engramq.gateway.late import Late
from engramq.gateway.mcp.introduction import HANDSHAKE_VERSIONS, Introduction
from engramq.gateway.mcp.listing import Profile
from engramq.gateway.mcp.wire import (
    INVALID_REQUEST,
    METHOD,
    TOO_LARGE,
    CallRequest,
    Refusal,
    ToolCalls,
    as_request_id,
    dump,
    is_notification,
)
from engramq.gateway.router import while_there
from engramq.schemas import limits

if TYPE_CHECKING:
    from engramq.gateway.mcp.server import SdkApp

_JSON: Final = b"application/json"
_EVENTS: Final = b"text/event-stream"
_TAKES_JSON: Final = frozenset({_JSON, b"application/*", b"*/*"})
_JUDGED: Final = frozenset({b"content-type", b"accept", b"mcp-protocol-version", b"mcp-method", b"mcp-name"})
_OLDER: Final = frozenset({None, *(version.encode() for version in HANDSHAKE_VERSIONS)})


class HttpWire:
    """Serves MCP_PATH within `running`: answers calls and refuses what is no message; the SDK answers everything else.

    The SDK would open a silent stream for a GET, which lasts until the client leaves, even after its token was revoked.
    """

    def __init__(self, make_sdk: Callable[[], SdkApp], calls: ToolCalls, profile: Profile | None) -> None:
        """`make_sdk` is called in a thread; `profile`: what is listed here, None where the SDK lists."""
        self._make_sdk = make_sdk
        self._calls = calls
        self._profile = profile
        self._sdk: Late[SdkApp]

    @asynccontextmanager
    async def running(self, _app: object) -> AsyncIterator[None]:
        """Run what the SDK has begun for the length of the block."""
        async with anyio.create_task_group() as tasks:
            self._sdk = Late(lambda: self._start_sdk(tasks))
            yield
            tasks.cancel_scope.cancel()

    async def _start_sdk(self, tasks: TaskGroup) -> SdkApp:
        async def run(*, task_status: TaskStatus[SdkApp]) -> None:
            sdk = await to_thread.run_sync(self._make_sdk)
            async with sdk.running():
                task_status.started(sdk)
                await anyio.sleep_forever()

        started: SdkApp = await tasks.start(run)
        return started

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or pass it on."""
        if scope["method"] != "POST":
            refused = Refusal(INVALID_REQUEST, "Method Not Allowed: there is no stream to listen to")
            await Response(refused.dump(), 405, {"allow": "POST"}, "application/json")(scope, receive, send)
            return
        parts, size = [], 0
        while (part := await receive())["type"] == "http.request":
            parts.append(part.get("body", b""))
            size += len(parts[-1])
            if size > limits.BODY_BYTES or not part.get("more_body", False):
                break
        else:
            return  # the client has left
        body = b"".join(parts)
        is_large = len(body) > limits.BODY_BYTES
        read = Refusal(INVALID_REQUEST, TOO_LARGE) if is_large else self._calls.read(body, scope[CALLER])
        if isinstance(read, CallRequest) and (accept := _read_accept(scope, read)) is not None:
            await self._answer(read, accept, receive, send)
            return
        if isinstance(read, dict) and (response := self._introduce(read, scope)) is not None:
            await response(scope, receive, send)
            return
        if not isinstance(read, Refusal):
            sdk = await self._sdk.get()
            whole = sdk.body_of(read, body) if isinstance(read, dict) else body
            if not isinstance(whole, Refusal):
                await sdk(scope, _again(whole, receive), send)
                return
            read = whole
        await Response(read.dump(), 413 if is_large else 400, None, "application/json")(scope, receive, send)

    def _introduce(self, message: dict[str, Any], scope: Scope) -> Response | None:
        """Return the response to what a client asks before it calls, None where the SDK has to answer."""
        if self._profile is None or not _is_plain(message) or _read_accept(scope, None) is None:
            return None
        if is_notification(message):  # of nothing: no state is kept
            return Response(None, 202, None, "application/json")
        version = "" if message.get("method") == "initialize" else HANDSHAKE_VERSIONS[-1]
        result = Introduction(self._profile, scope[CALLER].principal, version).answer(message)
        if result is None or as_request_id(message.get("id")) is None:
            return None
        return Response(dump({"jsonrpc": "2.0", "id": message["id"], "result": result}), 200, None, "application/json")

    async def _answer(self, request: CallRequest, accept: frozenset[bytes], receive: Receive, send: Send) -> None:
        """Answer by JSON, or by a stream of events if the client is to hear how far its call is."""

        async def event(message: bytes, *, more: bool = True) -> None:
            data = b"event: message\r\ndata: " + message + b"\r\n\r\n"
            await send({"type": "http.response.body", "body": data, "more_body": more})

        if request.progress_token is not None and _EVENTS in accept:
            headers = [(b"content-type", _EVENTS), (b"cache-control", b"no-cache, no-transform")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async with while_there(receive, is_read=not request.tool.write):
                answer = await self._calls.answer(request, event)
            await event(answer, more=False)
            return
        async with while_there(receive, is_read=not request.tool.write):
            answer = await self._calls.answer(request, None)
        headers = [(b"content-type", _JSON), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


def _read_accept(scope: Scope, call: CallRequest | None) -> frozenset[bytes] | None:
    """Return the media types that the client accepts.

    None where the SDK has to judge the headers of a call, or of an older message.
    """
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _JUDGED and headers.setdefault(name, value) != value:
            if name != b"accept":
                return None
            headers[name] += b", " + value  # a list, which may come in parts
    version = headers.get(b"mcp-protocol-version")
    if call is None or call.version is None:
        is_routed = version in _OLDER and (call is not None or b"mcp-method" not in headers)
    else:
        names = (version, headers.get(b"mcp-method"), headers.get(b"mcp-name"))
        is_routed = names == (call.version.encode(), METHOD.encode(), call.tool.name.encode())
    accept = frozenset(map(_media_type, headers.get(b"accept", b"").split(b",")))
    is_json = _media_type(headers.get(b"content-type", b"")) == _JSON
    return accept if is_routed and is_json and accept & _TAKES_JSON else None


@lru_cache(maxsize=64)
def _media_type(value: bytes) -> bytes:
    """Return a media type without its parameters; the SDK does not weigh `q` either."""
    return value.partition(b";")[0].strip().lower()


def _is_plain(message: dict[str, Any]) -> bool:
    """Say whether a message has no half of a surrogate pair, which the SDK takes for no JSON, and no huge number."""
    try:
        msgspec.json.encode(message)
    except (UnicodeEncodeError, OverflowError):
        return False
    return True


def _again(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was read once more, then the rest of a request."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
