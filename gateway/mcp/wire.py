"""Answer every tool call ahead of the MCP SDK, and hand it every other message.

For example, `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "guide"}}` is answered here, which
takes .4 to .6 ms of CPU less than the SDK. `initialize`, lists, resources and prompts are the SDK's, which over HTTP
takes bytes and parses them again. It also refuses calls of unknown tools, versions and headers. What would leave its
sender without an answer, and JSON-RPC batches, are refused here.
"""

import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import mcp_types as types
import msgspec
import pydantic
from mcp.shared.dispatcher import as_request_id
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engramq.gateway.identity.authorization import CALLER, Caller
from engramq.gateway.router import while_there
from engramq.gateway.service import Call, ToolReply
from engramq.schemas import limits
from engramq.schemas.command_line import NO_BATCH, SMALLER
from engramq.schemas.commands import Tool

METHOD: Final = "tools/call"

_NO_MESSAGE: Final = "A message must be one JSON-RPC 2.0 request, notification or response."
TOO_LARGE: Final = f"A message may have at most {limits.BODY_BYTES} bytes. {SMALLER}"
_ID_BOUND: Final = 2**53  # a larger number with a fraction part of zero is no exact integer
_JSON: Final = b"application/json"
_EVENTS: Final = b"text/event-stream"
_TAKES_JSON: Final = (_JSON, b"application/*", b"*/*")
_JUDGED: Final = frozenset({b"content-type", b"accept", b"mcp-protocol-version", b"mcp-method", b"mcp-name"})
_OLDER: Final = frozenset({b"", *(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)})

Write = Callable[[bytes], Awaitable[None]]


def dump(message: Any) -> bytes:
    """Return JSON; an id that came with half a surrogate pair, or as a huge number, goes back the same way."""
    try:
        return msgspec.json.encode(message)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(message).encode()


def dump_model(message: types.JSONRPCMessage) -> bytes:
    """Return a message of the SDK's as it is sent."""
    return dump(message.model_dump(by_alias=True, exclude_unset=True))


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error that answers what is not one well made message; the SDK's own takes no id such as 1.5."""

    code: int
    error: str
    request_id: str | int | float | None = None

    def dump(self) -> bytes:
        """Return it as it is sent."""
        return dump({"jsonrpc": "2.0", "id": self.request_id, "error": {"code": self.code, "message": self.error}})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest(Call):
    """A call that came in a message. `version` is the protocol's that its envelope names, None before 2026-07-28."""

    id: str | int
    version: str | None
    progress_token: types.RequestId | None


class ToolCalls:
    """Reads messages, and answers the calls of `tools`, or of `unlisted` ones."""

    def __init__(
        self,
        call: Callable[[Call], Awaitable[ToolReply]],
        tools: Sequence[Tool],
        server_info: Mapping[str, Any],
        unlisted: Sequence[Tool] = (),
    ) -> None:
        self._call = call
        self._profile = tuple(tools)
        self._unlisted = tuple(unlisted)
        self._tools = {tool.name: tool for tool in (*unlisted, *tools)}
        self._stamp = {types.SERVER_INFO_META_KEY: server_info}

    def read(self, data: bytes, caller: Caller) -> CallRequest | types.JSONRPCMessage | Refusal:
        """Return the call in a message, the message if the SDK is to answer it, or the refusal of what is none."""
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            return Refusal(types.PARSE_ERROR, "Parse error")
        if isinstance(message, list):
            return Refusal(types.INVALID_REQUEST, NO_BATCH)
        if isinstance(message, dict) and "method" in message and "id" in message:
            given = message["id"]
            if isinstance(given, float) and given.is_integer() and abs(given) <= _ID_BOUND:
                message["id"] = int(given)  # some clients have no integers and write 1.0
            elif as_request_id(given) is None and not (given is None and "notifications/" in str(message["method"])):
                # The SDK takes such a request for a notification, and its sender would wait.
                echo = given if isinstance(given, float) and math.isfinite(given) else None
                error = f"An id must be a text or an integer, not {json.dumps(given)[:100]}."
                return Refusal(types.INVALID_REQUEST, error, echo)
            if message["method"] == METHOD and (request := self._request(message, caller)) is not None:
                return request
        try:
            return types.jsonrpc_message_adapter.validate_python(message, by_name=False)
        except pydantic.ValidationError:
            known = as_request_id(message.get("id")) if isinstance(message, dict) else None
            return Refusal(types.INVALID_REQUEST, _NO_MESSAGE, known)

    def _request(self, message: dict[str, Any], caller: Caller) -> CallRequest | None:
        """Return the call that a message asks for; None if no such tool exists, or the form is not its version's."""
        params = message.get("params")
        if message.get("jsonrpc") != "2.0" or not isinstance(params, dict):
            return None
        name, arguments, meta = params.get("name"), params.get("arguments"), params.get("_meta")
        tool = self._tools.get(name) if isinstance(name, str) else None
        meta = {} if meta is None else meta
        if tool is None or not isinstance(meta, dict):
            return None
        version = meta.get(types.PROTOCOL_VERSION_META_KEY)
        if version is not None:
            parts = (meta.get(types.CLIENT_CAPABILITIES_META_KEY), meta.get(types.CLIENT_INFO_META_KEY, {}))
            if version not in MODERN_PROTOCOL_VERSIONS or not all(isinstance(part, dict) for part in parts):
                return None
        traceparent = meta.get("traceparent")
        return CallRequest(
            tool=tool,
            arguments={} if arguments is None else arguments,
            caller=caller,
            traceparent=traceparent if isinstance(traceparent, str) else None,
            tools=self._profile,
            unlisted=self._unlisted,
            id=message["id"],
            version=version,
            progress_token=as_request_id(meta.get("progressToken")) if tool.reports else None,
        )

    async def answer(self, request: CallRequest, write: Write | None) -> bytes:
        """Carry a call out and return its response; `write` sends how far it is, if the client asked for that."""

        async def report(progress: int, total: int, text: str) -> None:
            params = {"progressToken": request.progress_token, "progress": progress, "total": total, "message": text}
            assert write is not None  # else nobody is given this
            await write(dump({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))

        is_heard = request.progress_token is not None and write is not None
        reply = await self._call(replace(request, report=report) if is_heard else request)
        content = [{"type": "text", "text": reply.text}]
        result: dict[str, Any] = {"content": content, "structuredContent": reply.body, "isError": reply.is_error}
        if request.version is not None:
            result |= {"resultType": "complete", "_meta": self._stamp}
        return dump({"jsonrpc": "2.0", "id": request.id, "result": result})


class HttpWire:
    """Serves MCP_PATH: answers calls and refuses what is no message; `app` answers everything else.

    The SDK would open a silent stream for a GET, which lasts until the client leaves, even after its token was revoked.
    """

    def __init__(self, app: ASGIApp, calls: ToolCalls) -> None:
        self._app = app
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or pass it on."""
        if scope["method"] != "POST":
            refused = Refusal(types.INVALID_REQUEST, "Method Not Allowed: there is no stream to listen to")
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
        message = Refusal(types.INVALID_REQUEST, TOO_LARGE) if is_large else self._calls.read(body, scope[CALLER])
        if isinstance(message, Refusal):
            await Response(message.dump(), 413 if is_large else 400, None, "application/json")(scope, receive, send)
        elif isinstance(message, CallRequest) and (accept := _read_accept(scope, message)) is not None:
            await self._answer(message, accept, receive, send)
        else:
            if isinstance(message, types.JSONRPCRequest):  # its id may have been written as 1.0
                body = dump_model(message)
            await self._app(scope, _again(body, receive), send)

    async def _answer(self, request: CallRequest, accept: bytes, receive: Receive, send: Send) -> None:
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


def _read_accept(scope: Scope, call: CallRequest) -> bytes | None:
    """Return what the client accepts; None where the SDK has to judge the headers of a call."""
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _JUDGED and headers.setdefault(name, value) != value:
            if name != b"accept":
                return None
            headers[name] += b", " + value  # a list, which may come in parts
    version, accept = headers.get(b"mcp-protocol-version", b""), headers.get(b"accept", b"").lower()
    if call.version is None:
        is_routed = version in _OLDER
    else:
        names = (version, headers.get(b"mcp-method"), headers.get(b"mcp-name"))
        is_routed = names == (call.version.encode(), METHOD.encode(), call.tool.name.encode())
    is_json = headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == _JSON
    return accept if is_routed and is_json and any(kind in accept for kind in _TAKES_JSON) else None


def _again(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was read once more, then the rest of a request."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
