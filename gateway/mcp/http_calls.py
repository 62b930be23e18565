"""Calls of tools that come over HTTP, ahead of the SDK's application.

A request goes on untouched unless the SDK would take its headers as they are, and its body came whole at once.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engramq.gateway.identity.authorization import CALLER
from engramq.gateway.identity.metadata import MCP_PATH
from engramq.gateway.mcp.tool_calls import METHOD, ToolCalls, WireCall, dump, dump_ascii
from engramq.schemas import limits

_VERSION: Final = b"mcp-protocol-version"
_NAME: Final = b"mcp-name"
_READ: Final = frozenset({b"accept", b"content-type", b"mcp-method", _NAME, _VERSION})
_OLDER: Final = frozenset({None, *(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)})
_NEWER: Final = frozenset(version.encode() for version in MODERN_PROTOCOL_VERSIONS)
_CONTENT_TYPES: Final = frozenset({b"application/json", b"application/json; charset=utf-8"})
_ACCEPTED: Final = frozenset({"application/json", "application/*", "*/*"})
_TYPE: Final = (b"content-type", b"application/json")


class HttpCalls:
    """Answers what is a plain call, and passes on every other request."""

    def __init__(self, app: ASGIApp, calls: ToolCalls) -> None:
        self._app = app
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or pass it on."""
        headers = _plain_headers(scope)
        if headers is None:
            await self._app(scope, receive, send)
            return
        first = await receive()
        call = self._read(first, headers)
        if call is None:
            await self._app(scope, again(first, receive), send)
            return
        response = await self._calls.answer(call, scope[CALLER])
        # The SDK's order of the headers in either era.
        if call.version is None:
            body = dump(response)
            fields = [_TYPE, (b"content-length", b"%d" % len(body))]
        else:
            body = dump_ascii(response)
            fields = [(b"content-length", b"%d" % len(body)), _TYPE]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": body})

    def _read(self, first: Message, headers: dict[bytes, bytes]) -> WireCall | None:
        """Return the call in a body that came whole, None when the SDK is to answer it."""
        if first["type"] != "http.request" or first.get("more_body", False):
            return None
        body: bytes = first.get("body", b"")
        if len(body) > limits.BODY_BYTES:
            return None
        call = self._calls.read(body)
        if call is None:
            return None
        version = headers.get(_VERSION)
        if call.version is None:
            return call if version in _OLDER else None
        return call if call.version.encode() == version and call.tool.name.encode() == headers.get(_NAME) else None


def _plain_headers(scope: Scope) -> dict[bytes, bytes] | None:
    """Return the headers of a request that may be a call, by name; None when the SDK is to judge them."""
    if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != MCP_PATH:
        return None
    found = _read_headers(scope["headers"])
    if found is None or found.get(b"content-type") not in _CONTENT_TYPES or not takes_json(found.get(b"accept", b"")):
        return None
    version = found.get(_VERSION)
    is_plain = version in _OLDER or (version in _NEWER and found.get(b"mcp-method") == METHOD.encode())
    return found if is_plain else None


def _read_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
    """Return the headers that the SDK reads, None when one of them came twice."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _READ:
            if name in found:
                return None
            found[name] = value
    return found


@lru_cache(maxsize=64)
def takes_json(accept: bytes) -> bool:
    """Say whether an Accept header takes JSON, as the SDK reads it."""
    kinds = (kind.split(";")[0].strip().lower() for kind in accept.decode("latin-1").split(","))
    return any(kind in _ACCEPTED for kind in kinds)


def again(first: Message, receive: Receive) -> Receive:
    """Return what gives `first` once more, then the rest of a request."""
    waiting = [first]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
