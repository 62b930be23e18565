"""Serve MCP in lines of JSON-RPC on a stream: tool calls by wire.py, everything else by the SDK's server."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

import anyio
import mcp_types as types
from anyio import CancelScope
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import SessionMessage

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.mcp.server import McpServer
from engramq.gateway.mcp.wire import TOO_LARGE, CallRequest, Refusal, ToolCalls, Write, dump_model
from engramq.gateway.stdio_sessions import Line
from engramq.schemas import limits

IN_FLIGHT_BOUND: Final = 1_000  # requests of one connection that may wait for their answers; then it is read no further
LAST_WORDS_S: Final = 30.0  # how long a peer that has closed its sending side may wait for answers still under way

_ID: Final = rb'(-?\d{1,18}|"[A-Za-z0-9_.:-]{1,100}")'
_ID_AT_HEAD: Final = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*' + _ID + rb"\s*,")
_ID_AT_TAIL: Final = re.compile(rb'"id"\s*:\s*' + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


async def serve_lines(
    server: McpServer, calls: ToolCalls, caller: Caller, lines: AsyncIterator[Line], send: Write
) -> None:
    """Serve one client whose messages come as lines, one JSON-RPC message each, until it has no more.

    A line that is not a message is answered with an error, and the connection goes on. A client that closes its sending
    side still gets the answers under way.
    """
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception]()
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as tasks:
        client = _LineClient(calls, caller, incoming, send)
        tasks.start_soon(client.read, lines)
        tasks.start_soon(client.write_answers, outgoing)
        await server.run(read_stream, write_stream, server.create_initialization_options())
        tasks.cancel_scope.cancel()


class _LineClient:
    """One client and its requests under way: of a call its cancel scope, of what the SDK answers None."""

    def __init__(
        self,
        calls: ToolCalls,
        caller: Caller,
        incoming: MemoryObjectSendStream[SessionMessage | Exception],
        send: Write,
    ) -> None:
        self._calls = calls
        self._caller = caller
        self._incoming = incoming
        self._send = send
        self._lock = anyio.Lock(fast_acquire=True)
        self._under_way: dict[str | int, CancelScope | None] = {}
        self._changed = anyio.Event()

    async def read(self, lines: AsyncIterator[Line]) -> None:
        """Read to the end, and then wait for the answers under way."""
        async with self._incoming, anyio.create_task_group() as tasks:
            async for line in lines:
                is_large = line.size > limits.BODY_BYTES
                message = (
                    Refusal(types.INVALID_REQUEST, TOO_LARGE) if is_large else self._calls.read(line.head, self._caller)
                )
                if isinstance(message, Refusal):
                    if is_large or message.code == types.PARSE_ERROR:
                        message = replace(message, request_id=_id_within(line))
                    await self._write(message.dump())
                elif isinstance(message, CallRequest):
                    scope = self._under_way[coerce_request_id(message.id)] = CancelScope()
                    tasks.start_soon(self._call, message, scope)
                else:
                    await self._pass_on(message)
                await self._at_most(IN_FLIGHT_BOUND)
            with anyio.move_on_after(LAST_WORDS_S):
                await self._at_most(0)
            tasks.cancel_scope.cancel()

    async def write_answers(self, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write what the SDK's server says."""
        async with outgoing:
            async for item in outgoing:
                await self._write(dump_model(item.message))
                if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                    self._end(item.message.id, None)

    async def _call(self, call: CallRequest, scope: CancelScope) -> None:
        answer = None
        with scope:
            answer = await self._calls.answer(call, self._write)
        if answer is not None:
            await self._write(answer)
        self._end(call.id, scope)

    async def _pass_on(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest):
            self._under_way[coerce_request_id(message.id)] = None
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            # A cancelled request is never answered.
            cancelled = as_request_id((message.params or {}).get("requestId"))
            scope = None if cancelled is None else self._under_way.get(coerce_request_id(cancelled))
            if scope is not None:
                scope.cancel()
                return
            self._end(cancelled, None)
        await self._incoming.send(SessionMessage(message))

    async def _write(self, message: bytes) -> None:
        async with self._lock:
            await self._send(message + b"\n")

    def _end(self, request_id: types.RequestId | None, scope: CancelScope | None) -> None:
        """Forget a request; another one may have taken its id."""
        key = None if request_id is None else coerce_request_id(request_id)
        if key is not None and key in self._under_way and self._under_way[key] is scope:
            del self._under_way[key]
            self._changed.set()

    async def _at_most(self, count: int) -> None:
        while len(self._under_way) > count:
            self._changed = anyio.Event()
            await self._changed.wait()


def _id_within(line: Line) -> str | int | None:
    """Find the request id in a line that cannot be parsed, so that its sender need not wait for a timeout."""
    found = _ID_AT_HEAD.search(line.head[:300]) or _ID_AT_TAIL.search(line.tail)
    return None if found is None else json.loads(found[1])
