"""Answer every tool call ahead of the MCP SDK, and leave it every other message.

For example, `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "guide"}}` is answered here, which
takes .4 to .6 ms of CPU less than the SDK. introduction.py answers `initialize` and lists. All else is the SDK's, which
over HTTP takes bytes and parses them again, and refuses calls of unknown tools, versions and headers. Messages that
would leave their sender without an answer, and JSON-RPC batches, are refused here.
"""

import json
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.mcp.listing import SERVER_INFO
from engramq.gateway.service import Call, ToolReply
from engramq.schemas import limits
from engramq.schemas.command_line import NO_BATCH, SMALLER
from engramq.schemas.commands import Tool

METHOD: Final = "tools/call"

NO_MESSAGE: Final = "A message must be one JSON-RPC 2.0 request, notification or response."
TOO_LARGE: Final = f"A message may have at most {limits.BODY_BYTES} bytes. {SMALLER}"
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
MODERN_VERSIONS: Final = ("2026-07-28",)  # the protocol's, in which every request names its own
_PREFIX: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION_KEY: Final = f"{_PREFIX}protocolVersion"  # in the _meta of every newer request
ANSWERS: Final = frozenset({"result", "error"})  # a message with one of them is an answer, whatever else it has
_ID_BOUND: Final = 2**53  # a larger number with a fraction part of zero is no exact integer

RequestId = str | int
Write = Callable[[bytes], Awaitable[None]]


def dump(message: Any) -> bytes:
    """Return JSON; an id that came with half a surrogate pair, or as a huge number, goes back the same way."""
    try:
        return msgspec.json.encode(message)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(message).encode()


def as_request_id(value: object) -> RequestId | None:
    """Return what may be an id, None for anything else."""
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def is_notification(message: dict[str, Any]) -> bool:
    """Say whether a message is a notification, and well made."""
    is_message = message.get("jsonrpc") == "2.0" and isinstance(message.get("method"), str)
    is_alone = not message.keys() & {"id", *ANSWERS}
    return is_message and is_alone and isinstance(message.get("params", {}), dict)


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
    """A call that came in a message. `version` is the protocol's, which its `_meta` names; None before 2026-07-28."""

    id: str | int
    version: str | None
    progress_token: RequestId | None


class ToolCalls:
    """Reads messages, and answers the calls of `tools`, or of `unlisted` ones."""

    def __init__(
        self,
        call: Callable[[Call], Awaitable[ToolReply]],
        tools: Sequence[Tool],
        unlisted: Sequence[Tool] = (),
    ) -> None:
        self._call = call
        self._profile = tuple(tools)
        self._unlisted = tuple(unlisted)
        self._tools = {tool.name: tool for tool in (*unlisted, *tools)}
        self._stamp = {f"{_PREFIX}serverInfo": SERVER_INFO}

    def read(self, data: bytes, caller: Caller) -> CallRequest | dict[str, Any] | Refusal:
        """Return the call in a message, the object that it is if others are to answer it, or a refusal."""
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            return Refusal(PARSE_ERROR, "Parse error")
        if isinstance(message, list):
            return Refusal(INVALID_REQUEST, NO_BATCH)
        if isinstance(message, dict) and "method" in message and "id" in message:
            given = message["id"]
            if isinstance(given, float) and given.is_integer() and abs(given) <= _ID_BOUND:
                message["id"] = int(given)  # some clients have no integers and write 1.0
            elif as_request_id(given) is None and not (given is None and "notifications/" in str(message["method"])):
                # The SDK takes such a request for a notification, and its sender would wait.
                echo = given if isinstance(given, float) and math.isfinite(given) else None
                error = f"An id must be a text or an integer, not {json.dumps(given)[:100]}."
                return Refusal(INVALID_REQUEST, error, echo)
            if message["method"] == METHOD and (request := self._request(message, caller)) is not None:
                return request
        return message if isinstance(message, dict) else Refusal(INVALID_REQUEST, NO_MESSAGE)

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
        version = meta.get(PROTOCOL_VERSION_KEY)
        if version is not None:
            parts = (meta.get(f"{_PREFIX}clientCapabilities"), meta.get(f"{_PREFIX}clientInfo", {}))
            if version not in MODERN_VERSIONS or not all(isinstance(part, dict) for part in parts):
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
