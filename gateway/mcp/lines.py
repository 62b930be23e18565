"""MCP in lines of JSON-RPC on a stream: tool calls straight to the service, everything else by the SDK's server."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from engramq.gateway.framing import Line
from engramq.gateway.identity.authorization import Caller
from engramq.gateway.mcp.line_batches import Key, LineBatches, id_key
from engramq.gateway.mcp.line_calls import LineCalls
from engramq.gateway.mcp.messages import Refusal, dump, read_message
from engramq.gateway.mcp.server import McpServer
from engramq.gateway.mcp.tool_calls import ToolCalls
from engramq.schemas import limits
from engramq.schemas.phrases import SMALLER

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

    ids: set[Key | None] = field(default_factory=set)
    changed: anyio.Event = field(default_factory=anyio.Event)

    def begin(self, request_id: Any) -> None:
        self.ids.add(id_key(request_id))

    def end(self, request_id: Any) -> None:
        self.ids.discard(id_key(request_id))
        self.changed.set()

    async def at_most(self, count: int) -> None:
        while len(self.ids) > count:
            self.changed = anyio.Event()
            await self.changed.wait()


async def serve_lines(
    server: McpServer, calls: ToolCalls | None, caller: Caller, lines: AsyncIterator[Line], send: Send
) -> None:
    """Serve one client whose messages come as lines, one JSON-RPC message or batch each, until it has no more.

    A line that is not a message is answered with an error, and the connection goes on. A client that closes its sending
    side still gets the answers under way. Without `calls` the SDK's server answers everything.
    """
    incoming, read_stream = anyio.create_memory_object_stream[Incoming]()
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage]()
    in_flight = _InFlight()
    out = _Out(send)
    async with anyio.create_task_group() as tasks:
        direct = None if calls is None else LineCalls(calls, caller, tasks, out.write, in_flight.end)
        conversation = _Conversation(incoming, out, in_flight, direct)
        tasks.start_soon(conversation.read, lines)
        tasks.start_soon(conversation.write, outgoing)
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


class _Conversation:
    """What one client says and is told."""

    def __init__(
        self, incoming: MemoryObjectSendStream[Incoming], out: _Out, in_flight: _InFlight, direct: LineCalls | None
    ) -> None:
        self._incoming = incoming
        self._out = out
        self._in_flight = in_flight
        self._direct = direct
        self._batches = LineBatches()

    async def read(self, lines: AsyncIterator[Line]) -> None:
        """Read to the end, and then wait for the answers under way."""
        async with self._incoming:
            async for line in lines:
                if self._direct is not None and (call := self._direct.read(line)) is not None:
                    self._in_flight.begin(call.id)
                    self._direct.begin(call)
                else:
                    await self._pass_on(line)
                await self._in_flight.at_most(IN_FLIGHT_BOUND)
            with anyio.move_on_after(LAST_WORDS_S):
                await self._in_flight.at_most(0)

    async def write(self, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write what the SDK's server says."""
        async with outgoing:
            async for item in outgoing:
                message = item.message
                if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                    self._batches.note_response(message)
                    await self._say(self._batches.settle(message.id, dump(message)))
                    self._in_flight.end(message.id)
                    if self._direct is not None:
                        self._direct.note_response(message)
                else:
                    await self._out.write(dump(message))

    async def _say(self, answer: bytes | None) -> None:
        if answer is not None:
            await self._out.write(answer)

    async def _pass_on(self, line: Line) -> None:
        """Give the SDK's server the messages of a line, and answer it if it is none."""
        decoded = _decode(line)
        messages: list[types.JSONRPCMessage] = []
        answer = None
        if isinstance(decoded, list):
            busy = {key for key in self._in_flight.ids if key is not None}
            messages, answer = self._batches.begin(decoded, busy)
        else:
            message = decoded if isinstance(decoded, Refusal) else read_message(decoded)
            if isinstance(message, Refusal):
                answer = message.dump()
            else:
                messages = [message]
        await self._say(answer)
        for message in messages:
            await self._note(message)
            await self._incoming.send(SessionMessage(message))

    async def _note(self, message: types.JSONRPCMessage) -> None:
        """Note what a message for the SDK's server means for the calls under way."""
        if isinstance(message, types.JSONRPCRequest):
            self._in_flight.begin(message.id)
            if self._direct is not None:
                self._direct.note_request(message)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = (message.params or {}).get("requestId")
            await self._say(self._batches.settle(cancelled, None))
            self._in_flight.end(cancelled)  # a cancelled request is never answered
            if self._direct is not None:
                self._direct.cancel(cancelled)


def _decode(line: Line) -> Any:
    """Return the JSON in a line, or the refusal to answer it with."""
    if line.size > limits.BODY_BYTES:
        error = f"A message may have at most {limits.BODY_BYTES} bytes, not {line.size}. {SMALLER}"
        return Refusal(types.INVALID_REQUEST, error, _id_within(line))
    try:
        # Not the SDK's stricter parser: half a surrogate pair must reach the tool, whose refusal names the parameter.
        return json.loads(line.head)
    except (ValueError, RecursionError):
        return Refusal(types.PARSE_ERROR, "Parse error", _id_within(line))


def _id_within(line: Line) -> str | int | None:
    """Find the request id in a line that cannot be parsed, so that its sender need not wait for a timeout."""
    found = _ID_AT_HEAD.search(line.head[:300]) or _ID_AT_TAIL.search(line.tail)
    return None if found is None else json.loads(found[1])
