"""Calls of tools that come in lines, ahead of the SDK's server.

The SDK decides what era a conversation speaks, by its first request, and refuses calls before the handshake of the
older one. So calls are taken out only once that is settled: in the newer era with the first request, in the older one
with the answer to its handshake. Cancelling works as the SDK has it.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
import mcp_types as types
from anyio import CancelScope
from anyio.abc import TaskGroup
from mcp.shared.dispatcher import as_request_id, coerce_request_id

from engramq.gateway.framing import Line
from engramq.gateway.identity.authorization import Caller
from engramq.gateway.mcp.messages import Refusal, handshake_version
from engramq.gateway.mcp.tool_calls import ToolCalls, WireCall, dump
from engramq.schemas import limits

LAST_WRITE_S: Final = 1.0  # how long a call that is cut off may take to say so


class LineCalls:
    """The calls of one conversation."""

    def __init__(
        self,
        calls: ToolCalls,
        caller: Caller,
        tasks: TaskGroup,
        write: Callable[[bytes], Awaitable[None]],
        ended: Callable[[str | int], None],
    ) -> None:
        self._calls = calls
        self._caller = caller
        self._tasks = tasks
        self._write = write
        self._ended = ended
        self._scopes: dict[str | int, CancelScope] = {}
        self._is_newer: bool | None = None
        self._is_settled = False

    def note_request(self, request: types.JSONRPCRequest) -> None:
        """The SDK gets a request: the first one decides the era."""
        if self._is_newer is None:
            meta = (request.params or {}).get("_meta")
            stamped = isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta
            self._is_newer = self._is_settled = stamped and request.method != "initialize"

    def note_response(self, response: types.JSONRPCResponse | types.JSONRPCError) -> None:
        """The SDK has answered a request: a handshake's answer settles the era."""
        if handshake_version(response) is not None:
            self._is_settled = True

    def read(self, line: Line) -> WireCall | None:
        """Return the call in a line, None when the SDK is to get the line."""
        if not self._is_settled or line.size > limits.BODY_BYTES:
            return None
        call = self._calls.read(line.head)
        return call if call is not None and (call.version is not None) is self._is_newer else None

    def begin(self, call: WireCall) -> None:
        """Begin a call; its answer is written when it is there."""
        scope = self._scopes[coerce_request_id(call.id)] = CancelScope()
        self._tasks.start_soon(self._run, call, scope)

    def cancel(self, request_id: Any) -> None:
        """End a call without an answer, if there is one of that id."""
        known = as_request_id(request_id)
        if known is not None and (scope := self._scopes.get(coerce_request_id(known))) is not None:
            scope.cancel()

    async def _run(self, call: WireCall, scope: CancelScope) -> None:
        try:
            with scope:
                answer = dump(await self._calls.answer(call, self._caller))
                if not scope.cancel_called:
                    self._forget(call, scope)
                    await self._write(answer)
                    self._ended(call.id)
        except anyio.get_cancelled_exc_class():
            await self._cut_off(call, scope)
            raise
        finally:
            self._forget(call, scope)

    async def _cut_off(self, call: WireCall, scope: CancelScope) -> None:
        """The conversation ends before the call: say so, unless its answer is already on the way."""
        if self._forget(call, scope) and not scope.cancel_called:
            closed = Refusal(types.CONNECTION_CLOSED, "Connection closed", call.id)
            with anyio.move_on_after(LAST_WRITE_S, shield=True):
                await self._write(closed.dump())

    def _forget(self, call: WireCall, scope: CancelScope) -> bool:
        """Forget a call that is settled, and say whether it was known; another call may have taken its id."""
        key = coerce_request_id(call.id)
        if self._scopes.get(key) is not scope:
            return False
        del self._scopes[key]
        return True
