"""How bytes reach the MCP server: lines of JSON-RPC on a stream, and the SDK's streamable HTTP application."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import mcp_types as types
import pydantic
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from mcp.shared.message import SessionMessage
from pydantic_core import PydanticSerializationError
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope
from starlette.types import Send as SendMessage

from engramq.gateway.framing import Line
from engramq.gateway.identity.authorization import CALLER, Caller
from engramq.gateway.identity.metadata import MCP_PATH
from engramq.gateway.mcp.server import Context, McpServer
from engramq.schemas import limits

IN_FLIGHT_BOUND: Final = 1_000  # requests of one connection that may wait for their answers; then it is read no further
LAST_WORDS_S: Final = 30.0  # how long a peer that has closed its sending side may wait for answers still under way

Send = Callable[[bytes], Awaitable[None]]
Incoming = SessionMessage | Exception

_ID: Final = rb'(-?\d{1,18}|"[A-Za-z0-9_.:-]{1,100}")'
_ID_AT_HEAD: Final = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*' + _ID + rb"\s*,")
_ID_AT_TAIL: Final = re.compile(rb'"id"\s*:\s*' + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')

# Every escape in turn, so that an escaped backslash before a "u" is not taken for the beginning of one.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(?P<half>u[dD][89a-fA-F][\da-fA-F]{2})|.)", re.DOTALL
)


@dataclass(slots=True)
class _InFlight:
    """The requests of a connection that are not answered yet."""

    ids: set[str] = field(default_factory=set)
    changed: anyio.Event = field(default_factory=anyio.Event)

    def begin(self, request_id: Any) -> None:
        self.ids.add(repr(request_id))

    def end(self, request_id: Any) -> None:
        self.ids.discard(repr(request_id))
        self.changed.set()

    async def at_most(self, count: int) -> None:
        while len(self.ids) > count:
            self.changed = anyio.Event()
            await self.changed.wait()


async def serve_lines(server: McpServer, lines: AsyncIterator[Line], send: Send) -> None:
    """Serve one client whose messages come as lines, one JSON-RPC message each, until it has no more.

    A line that is not a message is answered with an error, and the connection goes on. A client that closes its sending
    side still gets the answers under way.
    """
    incoming, read_stream = anyio.create_memory_object_stream[Incoming]()
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage]()
    in_flight = _InFlight()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, lines, incoming, write_stream.clone(), in_flight)
        tasks.start_soon(_write, outgoing, send, in_flight)
        await server.run(read_stream, write_stream, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _read(
    lines: AsyncIterator[Line],
    incoming: MemoryObjectSendStream[Incoming],
    errors: MemoryObjectSendStream[SessionMessage],
    in_flight: _InFlight,
) -> None:
    async with incoming, errors:
        async for line in lines:
            message = _parse(line)
            if isinstance(message, types.JSONRPCError):
                await errors.send(SessionMessage(message))
                continue
            if isinstance(message, types.JSONRPCRequest):
                in_flight.begin(message.id)
            elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
                in_flight.end((message.params or {}).get("requestId"))  # a cancelled request is never answered
            await incoming.send(SessionMessage(message))
            await in_flight.at_most(IN_FLIGHT_BOUND)
        with anyio.move_on_after(LAST_WORDS_S):
            await in_flight.at_most(0)


async def _write(outgoing: MemoryObjectReceiveStream[SessionMessage], send: Send, in_flight: _InFlight) -> None:
    async with outgoing:
        async for item in outgoing:
            await send(_dump(item.message) + b"\n")
            if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                in_flight.end(item.message.id)


def _parse(line: Line) -> types.JSONRPCMessage:
    """Return the message in a line, or the error to answer it with."""
    if line.size > limits.BODY_BYTES:
        error = f"A message may have at most {limits.BODY_BYTES} bytes, not {line.size}."
        return _refusal(types.INVALID_REQUEST, error, _id_within(line))
    try:
        # Not the SDK's stricter parser: half a surrogate pair must reach the tool, whose refusal names the parameter.
        decoded = json.loads(line.head)
    except (ValueError, RecursionError):
        return _refusal(types.PARSE_ERROR, "Parse error", _id_within(line))
    try:
        return types.jsonrpc_message_adapter.validate_python(decoded, by_name=False)
    except pydantic.ValidationError:
        given = decoded.get("id") if isinstance(decoded, dict) else None
        known = given if isinstance(given, str | int) and not isinstance(given, bool) else None
        return _refusal(types.INVALID_REQUEST, "A line must be one JSON-RPC message.", known)


def _id_within(line: Line) -> str | int | None:
    """Find the request id in a line that cannot be parsed, so that its sender need not wait for a timeout."""
    found = _ID_AT_HEAD.search(line.head[:300]) or _ID_AT_TAIL.search(line.tail)
    return None if found is None else json.loads(found[1])


def _refusal(code: int, message: str, request_id: str | int | None) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=message))


def _dump(message: types.JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except PydanticSerializationError:  # an id or a name that came with half a surrogate pair goes back the same way
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode()


def http_caller(ctx: Context) -> Caller:
    """Return the caller of a request over HTTP, as the authentication before the application found; in both eras."""
    if ctx.request is None:
        raise TypeError("a request came without its HTTP scope, so its caller is unknown")
    caller = ctx.request.scope[CALLER]
    if not isinstance(caller, Caller):
        raise TypeError("a request came without authentication")
    return caller


def http_app(server: McpServer, routes: Sequence[Route]) -> ASGIApp:
    """Return the application that serves MCP at MCP_PATH and `routes` beside it; it must be run with its lifespan.

    Every request stands alone in both eras, so that any replica can answer it. Replies are plain JSON, which costs half
    of an event stream. Host and Origin are checked by the caller, for every route alike.
    """
    app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=limits.BODY_BYTES,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        custom_starlette_routes=list(routes),
    )
    return RequestBodyLimitMiddleware(_NoStream(_SurrogateMarker(app)), limits.BODY_BYTES)


class _NoStream:
    """Answers 405 to a GET of MCP's path, as the specification has it where a server offers no stream of its own.

    The SDK would open a silent stream that lasts until the client leaves, even after its token was revoked; a few
    hundred of them by one caller would use up all connections.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: SendMessage) -> None:
        app = self._app
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == MCP_PATH:
            refusal = _refusal(types.INVALID_REQUEST, "Method Not Allowed: there is no stream to listen to", None)
            app = Response(_dump(refusal), 405, {"allow": "POST"}, "application/json")
        await app(scope, receive, send)


class _SurrogateMarker:
    """Writes NUL where a body has half of an escaped surrogate pair; bodies come whole.

    The SDK's parser of the older era takes such a half for broken JSON and cannot say where it is. NUL gets through to
    the tool, which refuses either by the parameter's name. Clients in JavaScript send halves when they cut an emoji.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: SendMessage) -> None:
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
