"""Answer what every client asks at its start, without the MCP SDK: `initialize`, `ping` and the lists.

The SDK takes 28 MB and most of the CPU of a gateway's start. It answers all else (server.py), and refuses in its own
words requests that are not well made.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from engramq.gateway.mcp.listing import LISTS, SERVER_INFO, Profile, instructions_for, list_for
from engramq.gateway.mcp.wire import ANSWERS, PROTOCOL_VERSION_KEY
from engramq.schemas.envelope import Principal

# The versions that begin with `initialize`, oldest first, and what a server with our handlers can do in them.
HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_CAPABILITIES: Final = {
    "prompts": {"listChanged": False},
    "resources": {"subscribe": False, "listChanged": False},
    "tools": {"listChanged": False},
}

_Object = dict[str, Any]


class _Meta(msgspec.Struct, rename="camel"):
    progress_token: str | int = 0  # null is none to the SDK


class _Params(msgspec.Struct):
    """The parameters of a request that takes none of its own."""

    meta: _Meta = msgspec.field(name="_meta", default_factory=_Meta)


class _Roots(msgspec.Struct, rename="camel"):
    list_changed: bool | None = None


class _Sampling(msgspec.Struct):
    context: _Object | None = None
    tools: _Object | None = None


class _Elicitation(msgspec.Struct):
    form: _Object | None = None
    url: _Object | None = None


class _Capabilities(msgspec.Struct):
    """`tasks` is left to the SDK: it has four levels, and no client that we know sends it."""

    roots: _Roots | None = None
    sampling: _Sampling | None = None
    elicitation: _Elicitation | None = None
    experimental: dict[str, _Object] | None = None
    extensions: dict[str, _Object] | None = None
    tasks: None = None


class _Icon(msgspec.Struct, rename="camel"):
    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["dark", "light"] | None = None


class _ClientInfo(msgspec.Struct, rename="camel"):
    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[_Icon] | None = None


class _Handshake(_Params, rename="camel", kw_only=True):
    protocol_version: str
    capabilities: _Capabilities
    client_info: _ClientInfo


class Introduction:
    """The messages that a client sends before it calls: `initialize`, then lists, none of them unusual."""

    def __init__(self, profile: Profile, principal: Principal, version: str = "") -> None:
        """`version`: the protocol's, once the client has introduced itself."""
        self._profile = profile
        self._principal = principal
        self.version = version

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result of a request, None where the SDK has to answer."""
        method, params = message.get("method"), message.get("params", {})
        if message.get("jsonrpc") != "2.0" or not isinstance(params, dict) or message.keys() & ANSWERS:
            return None
        try:
            if PROTOCOL_VERSION_KEY in params.get("_meta", {}):
                return None
            if method == "initialize":
                return None if self.version else self._introduce(msgspec.convert(params, _Handshake))
            msgspec.convert(params, _Params)
        except (msgspec.ValidationError, TypeError):
            return None
        if not self.version or params.keys() - {"_meta"}:
            return None
        if method == "ping":
            return {}
        return list_for(method, self._profile, self._principal) if method in LISTS else None

    def _introduce(self, handshake: _Handshake) -> dict[str, Any]:
        asked = handshake.protocol_version
        self.version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return {
            "protocolVersion": self.version,
            "capabilities": _CAPABILITIES,
            "serverInfo": SERVER_INFO,
            "instructions": instructions_for(self._profile, self._principal),
        }
