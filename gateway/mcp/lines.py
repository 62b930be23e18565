"""MCP in lines of JSON-RPC on a stream: tool calls straight to the service, everything else by the SDK's server."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import mcp_types as types
import pydantic
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import SessionMessage

from engramq.gateway.framing import Line
from engramq.gateway.identity.authorization import Caller
from engramq.gateway.mcp.line_calls import LineCalls
from engramq.gateway.mcp.messages import dump, refusal
from engramq.gateway.mcp.server import McpServer
from engramq.gateway.mcp.tool_calls import ToolCalls
from engramq.schemas import limits

IN_FLIGHT_BOUND: Final = 1_000  # requests of one connection that may wait for their answers; then it is read no further
LAST_WORDS_S: Final = 30.0  # how long a peer that has closed its sending side may wait for answers still under way

Send = Callable[[bytes], Awaitable[None]]
Incoming = SessionMessage | Exception

_ID: Final = rb'(-?\d{1,18}|"[A-Za-z0-9_.:-]{1,100}")'
_ID_AT_HEAD: Final = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*' + _ID + rb"\s*,")
_ID_AT_TAIL: Final = re.compile(rb'"id"\s*:\s*' + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(slots=True)
class _InFlight:
    """The requests of a connection that are not answered yet."""

    ids: set[str | int | None] = field(default_factory=set)
    changed: anyio.Event = field(default_factory=anyio.Event)

    def begin(self, request_id: Any) -> None:
        self.ids.add(_key(request_id))

    def end(self, request_id: Any) -> None:
        self.ids.discard(_key(request_id))
        self.changed.set()

    async def at_most(self, count: int) -> None:
        while len(self.ids) > count:
            self.changed = anyio.Event()
            await self.changed.wait()


def _key(request_id: Any) -> str | int | None:
    """Return what two ids have in common that the SDK takes for one, as 7 and "7"."""
    known = as_request_id(request_id)
    return None if known is None else coerce_request_id(known)


async def serve_lines(
    server: McpServer, calls: ToolCalls | None, caller: Caller, lines: AsyncIterator[Line], send: Send
) -> None:
    """Serve one client whose messages come as lines, one JSON-RPC message each, until it has no more.

    A line that is not a message is answered with an error, and the connection goes on. A client that closes its sending
    side still gets the answers under way. Without `calls` the SDK's server answers everything.
    """
    incoming, read_stream = anyio.create_memory_object_stream[Incoming]()
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage]()
    in_flight = _InFlight()
    out = _Out(send)
    async with anyio.create_task_group() as tasks:
        direct = None if calls is None else LineCalls(calls, caller, tasks, out.write, in_flight.end)
        tasks.start_soon(_read, lines, incoming, write_stream.clone(), in_flight, direct)
        tasks.start_soon(_write, outgoing, out, in_flight, direct)
        await server.run(read_stream, write_stream, server.create_initialization_options())
        tasks.cancel_scope.cancel()


class _Out:
    """The sending side, which takes one message at a time."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = anyio.Lock(fast_acquire=True)

    async def write(self, message: bytes) -> None:
        async with self._lock:
            await self._send(message + b"\n")


async def _read(
    lines: AsyncIterator[Line],
    incoming: MemoryObjectSendStream[Incoming],
    errors: MemoryObjectSendStream[SessionMessage],
    in_flight: _InFlight,
    direct: LineCalls | None,
) -> None:
    async with incoming, errors:
        async for line in lines:
            if direct is not None and (call := direct.read(line)) is not None:
                in_flight.begin(call.id)
                direct.begin(call)
            else:
                message = _parse(line)
                if isinstance(message, types.JSONRPCError):
                    await errors.send(SessionMessage(message))
                    continue
                _note(message, in_flight, direct)
                await incoming.send(SessionMessage(message))
            await in_flight.at_most(IN_FLIGHT_BOUND)
        with anyio.move_on_after(LAST_WORDS_S):
            await in_flight.at_most(0)


def _note(message: types.JSONRPCMessage, in_flight: _InFlight, direct: LineCalls | None) -> None:
    """Note what a message for the SDK's server means for the calls under way."""
    if isinstance(message, types.JSONRPCRequest):
        in_flight.begin(message.id)
        if direct is not None:
            direct.note_request(message)
    elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
        cancelled = (message.params or {}).get("requestId")
        in_flight.end(cancelled)  # a cancelled request is never answered
        if direct is not None:
            direct.cancel(cancelled)


async def _write(
    outgoing: MemoryObjectReceiveStream[SessionMessage], out: _Out, in_flight: _InFlight, direct: LineCalls | None
) -> None:
    async with outgoing:
        async for item in outgoing:
            await out.write(dump(item.message))
            if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                in_flight.end(item.message.id)
                if direct is not None:
                    direct.note_response(item.message)


def _parse(line: Line) -> types.JSONRPCMessage:
    """Return the message in a line, or the error to answer it with."""
    if line.size > limits.BODY_BYTES:
        error = f"A message may have at most {limits.BODY_BYTES} bytes, not {line.size}."
        return refusal(types.INVALID_REQUEST, error, _id_within(line))
    try:
        # Not the SDK's stricter parser: half a surrogate pair must reach the tool, whose refusal names the parameter.
        decoded = json.loads(line.head)
    except (ValueError, RecursionError):
        return refusal(types.PARSE_ERROR, "Parse error", _id_within(line))
    try:
        return types.jsonrpc_message_adapter.validate_python(decoded, by_name=False)
    except pydantic.ValidationError:
        given = decoded.get("id") if isinstance(decoded, dict) else None
        known = given if isinstance(given, str | int) and not isinstance(given, bool) else None
        return refusal(types.INVALID_REQUEST, "A line must be one JSON-RPC message.", known)


def _id_within(line: Line) -> str | int | None:
    """Find the request id in a line that cannot be parsed, so that its sender need not wait for a timeout."""
    found = _ID_AT_HEAD.search(line.head[:300]) or _ID_AT_TAIL.search(line.tail)
    return None if found is None else json.loads(found[1])
