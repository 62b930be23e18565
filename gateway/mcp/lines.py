"""Serve MCP in lines of JSON-RPC on a stream: calls by wire.py, a client's introduction and lists by introduction.py.

Everything else is answered by the SDK's server, which is loaded for the first client that needs it.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import TaskGroup

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.mcp.introduction import Introduction
from engramq.gateway.mcp.listing import Profile
from engramq.gateway.mcp.wire import (
    INVALID_REQUEST,
    PARSE_ERROR,
    TOO_LARGE,
    CallRequest,
    Refusal,
    RequestId,
    ToolCalls,
    Write,
    as_request_id,
    dump,
    is_notification,
)
from engramq.gateway.service import Service
from engramq.gateway.stdio_sessions import Line
from engramq.schemas import limits

if TYPE_CHECKING:
    from types import ModuleType

    from engramq.gateway.mcp.server import SdkStream

IN_FLIGHT_BOUND: Final = 1_000  # requests of one connection that may wait for their answers; then it is read no further
LAST_WORDS_S: Final = 30.0  # how long a peer that has closed its sending side may wait for answers still under way

_ID: Final = rb'(-?\d{1,18}|"[A-Za-z0-9_.:-]{1,100}")'
_ID_AT_HEAD: Final = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*' + _ID + rb"\s*,")
_ID_AT_TAIL: Final = re.compile(rb'"id"\s*:\s*' + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


async def serve_lines(
    service: Service, profile: Profile, caller: Caller, lines: AsyncIterator[Line], send: Write
) -> None:
    """Serve one client whose messages come as lines, one JSON-RPC message each, until it has no more.

    A line that is not a message is answered with an error, and the connection goes on. A client that closes its sending
    side still gets the answers under way.
    """
    async with anyio.create_task_group() as tasks:
        await _LineClient(service, profile, caller, send, tasks).read(lines)
        tasks.cancel_scope.cancel()


class _LineClient:
    """One client and its requests under way: of a call its cancel scope, of what the SDK answers None."""

    def __init__(self, service: Service, profile: Profile, caller: Caller, send: Write, tasks: TaskGroup) -> None:
        """`tasks`: where the SDK's server runs, if the client needs it."""
        self._service = service
        self._profile = profile
        self._calls = ToolCalls(service.call, profile.tools, profile.unlisted)
        self._introduction = Introduction(profile, caller.principal)
        self._sdk: SdkStream | None = None
        self._caller = caller
        self._send = send
        self._tasks = tasks
        self._lock = anyio.Lock(fast_acquire=True)
        self._under_way: dict[RequestId, CancelScope | None] = {}
        self._changed = anyio.Event()

    async def read(self, lines: AsyncIterator[Line]) -> None:
        """Read to the end, and then wait for the answers under way."""
        async with anyio.create_task_group() as tasks:
            async for line in lines:
                is_large = line.size > limits.BODY_BYTES
                message = Refusal(INVALID_REQUEST, TOO_LARGE) if is_large else self._calls.read(line.head, self._caller)
                if isinstance(message, Refusal):
                    if is_large or message.code == PARSE_ERROR:
                        message = replace(message, request_id=_id_within(line))
                    await self._write(message.dump())
                elif isinstance(message, CallRequest):
                    scope = self._under_way[_key(message.id)] = CancelScope()
                    tasks.start_soon(self._call, message, scope)
                else:
                    await self._take(message)
                await self._at_most(IN_FLIGHT_BOUND)
            with anyio.move_on_after(LAST_WORDS_S):
                await self._at_most(0)
            tasks.cancel_scope.cancel()

    async def _call(self, call: CallRequest, scope: CancelScope) -> None:
        answer = None
        with scope:
            answer = await self._calls.answer(call, self._write)
        if answer is not None:
            await self._write(answer)
        self._end(call.id, scope)

    async def _take(self, message: dict[str, Any]) -> None:
        """Answer what is no call, or have the SDK do it."""
        if is_notification(message):
            if message["method"] == "notifications/cancelled" and self._cancel(message.get("params", {})):
                return
            if self._sdk is None and self._introduction.version:
                return  # nothing is under way that it could be about
        elif self._sdk is None and (result := self._introduction.answer(message)) is not None:
            await self._write(dump({"jsonrpc": "2.0", "id": message["id"], "result": result}))
            return
        await self._pass_on(message)

    def _cancel(self, params: dict[str, Any]) -> bool:
        """End a request, which is never answered then; return whether it was a call."""
        cancelled = as_request_id(params.get("requestId"))
        scope = None if cancelled is None else self._under_way.get(_key(cancelled))
        if scope is None:
            self._end(cancelled, None)
            return False
        scope.cancel()
        return True

    async def _pass_on(self, message: dict[str, Any]) -> None:
        if self._sdk is None:
            module = await to_thread.run_sync(_load_sdk)
            self._sdk = module.SdkStream(self._service, self._profile, self._caller, self._write_answer)
            await self._tasks.start(self._sdk.run, self._introduction.version)
        whole = self._sdk.read(message)
        if isinstance(whole, Refusal):
            await self._write(whole.dump())
            return
        if "method" in message and (request_id := as_request_id(message.get("id"))) is not None:
            self._under_way[_key(request_id)] = None
        await self._sdk.send(whole)

    async def _write_answer(self, answer: bytes, request_id: RequestId | None) -> None:
        await self._write(answer)
        self._end(request_id, None)

    async def _write(self, message: bytes) -> None:
        async with self._lock:
            await self._send(message + b"\n")

    def _end(self, request_id: RequestId | None, scope: CancelScope | None) -> None:
        """Forget a request; another one may have taken its id."""
        key = None if request_id is None else _key(request_id)
        if key is not None and key in self._under_way and self._under_way[key] is scope:
            del self._under_way[key]
            self._changed.set()

    async def _at_most(self, count: int) -> None:
        while len(self._under_way) > count:
            self._changed = anyio.Event()
            await self._changed.wait()


def _key(request_id: RequestId) -> RequestId:
    """Return what an id is known by: a client may cancel "7" which it began as 7."""
    with suppress(ValueError):
        return int(request_id)
    return request_id


def _load_sdk() -> ModuleType:
    from engramq.gateway.mcp import server  # noqa: PLC0415 - 28 MB and much of a start, for clients that need it

    return server


def _id_within(line: Line) -> str | int | None:
    """Find the request id in a line that cannot be parsed, so that its sender need not wait for a timeout."""
    found = _ID_AT_HEAD.search(line.head[:300]) or _ID_AT_TAIL.search(line.tail)
    return None if found is None else json.loads(found[1])
