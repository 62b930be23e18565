"""tools/call without the SDK: what most calls look like is decoded here, and answered in the SDK's own bytes.

A request that is unusual in any way is the SDK's to answer: another method, a further key, `_meta` with reserved words
that are not the envelope's, an id that is neither text nor a small number, nesting, an unknown tool, one that reports
progress to a client that asked for it. So the SDK alone decides what is wrong with a request, and what is answered here
is answered by the same service. msgspec takes no JSON that the SDK's parsers refuse or read otherwise, but for its
depth.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import mcp_types as types
import msgspec
import pydantic
import pydantic_core
from mcp_types.methods import validate_client_request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.mcp.listing import Profile
from engramq.gateway.mcp.server import WRAPPED
from engramq.gateway.service import Call, Service, ToolReply
from engramq.schemas.commands import Tool

METHOD: Final = "tools/call"

_NESTING: Final = 190  # the SDK's parser of the older era takes 200 levels
_ID_BOUND: Final = 2**53
_RESERVED: Final = "io.modelcontextprotocol/"
_ENVELOPE: Final = frozenset(
    {types.PROTOCOL_VERSION_META_KEY, types.CLIENT_INFO_META_KEY, types.CLIENT_CAPABILITIES_META_KEY}
)
_ENVELOPE_BYTES: Final = 4_096
PROGRESS: Final = "progressToken"
_TRACE: Final = frozenset({"traceparent", "tracestate", "baggage"})


class _Params(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: Any
    method: Literal["tools/call"]
    params: _Params


_decoder: Final = msgspec.json.Decoder(_Request)


@dataclass(frozen=True, slots=True)
class WireCall:
    """A call as it came: `version` is the protocol's that its envelope names, None in the older era."""

    id: str | int
    tool: Tool
    arguments: dict[str, Any]
    traceparent: str | None
    version: str | None


class ToolCalls:
    """Reads and answers the calls of one profile's tools."""

    def __init__(self, service: Service, profile: Profile, server_info: Mapping[str, Any]) -> None:
        self._service = service
        self._profile = profile
        self._tools = {tool.name: tool for tool in profile.tools}
        self._stamp = {types.SERVER_INFO_META_KEY: server_info}

    def read(self, data: bytes) -> WireCall | None:
        """Return the call in a message, None when the SDK is to answer it."""
        if data.count(b"{") + data.count(b"[") > _NESTING:
            return None
        try:
            request = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        params = request.params
        tool = self._tools.get(params.name)
        arguments = params.arguments or {}
        if tool is None or WRAPPED in arguments or not _is_plain_id(request.id):
            return None
        meta = params.meta or {}
        if tool.reports and PROGRESS in meta:
            return None
        version = meta.get(types.PROTOCOL_VERSION_META_KEY)
        if not (_is_plain(meta) if version is None else _is_plain(meta, _ENVELOPE) and _is_envelope(meta)):
            return None
        traceparent = meta.get("traceparent")
        return WireCall(
            id=request.id,
            tool=tool,
            arguments=arguments,
            traceparent=traceparent if isinstance(traceparent, str) else None,
            version=version,
        )

    async def answer(self, call: WireCall, caller: Caller) -> dict[str, Any]:
        """Carry a call out and return its JSON-RPC response."""
        reply = await self._service.call(
            Call(
                tool=call.tool,
                arguments=call.arguments,
                caller=caller,
                traceparent=call.traceparent,
                tools=self._profile.tools,
            )
        )
        return self._response(call, reply)

    def _response(self, call: WireCall, reply: ToolReply) -> dict[str, Any]:
        result: dict[str, Any] = {"content": [{"text": reply.text, "type": "text"}], "isError": reply.is_error}
        if call.version is None:
            result["structuredContent"] = reply.body
        else:
            result |= {"resultType": "complete", "structuredContent": reply.body, "_meta": self._stamp}
        return {"jsonrpc": "2.0", "id": call.id, "result": result}


def dump(response: Mapping[str, Any]) -> bytes:
    """Return a response as the SDK writes it, but for HTTP in the newer era; msgspec would write 1e16 for 1e+16."""
    return pydantic_core.to_json(response, inf_nan_mode="null")


def dump_ascii(response: Mapping[str, Any]) -> bytes:
    """Return a response as the SDK writes it over HTTP in the newer era."""
    return json.dumps(response, separators=(",", ":")).encode()


def _is_plain_id(given: Any) -> bool:
    return type(given) is str or (type(given) is int and -_ID_BOUND <= given <= _ID_BOUND)


def _is_plain(meta: Mapping[str, Any], reserved: frozenset[str] = frozenset()) -> bool:
    """Say whether `_meta` has only what the SDK lets pass unread, and of what it reads the words `reserved`."""
    for key, value in meta.items():
        if key == PROGRESS:
            if type(value) is not str and type(value) is not int:
                return False
        elif key.startswith(_RESERVED):
            if key not in reserved:
                return False
        elif "/" not in key and key not in _TRACE:
            return False
    return True


def _is_envelope(meta: Mapping[str, Any]) -> bool:
    if types.CLIENT_CAPABILITIES_META_KEY not in meta:
        return False
    try:
        envelope = msgspec.json.encode({key: meta[key] for key in _ENVELOPE if key in meta})
    except (OverflowError, UnicodeEncodeError):
        return False
    return len(envelope) <= _ENVELOPE_BYTES and _is_known_envelope(envelope)


@lru_cache(maxsize=256)
def _is_known_envelope(envelope: bytes) -> bool:
    """Ask the SDK, once for each client: all its calls have the same."""
    meta = json.loads(envelope)
    version = meta[types.PROTOCOL_VERSION_META_KEY]
    if version not in MODERN_PROTOCOL_VERSIONS:
        return False
    try:
        validate_client_request(METHOD, version, {"name": "", "_meta": meta})
    except pydantic.ValidationError:
        return False
    return True
