"""Remember a conversation of the stdio relay, so that it can go on with another gateway process.

Pure: lines in, lines out. It knows of MCP only the names of three messages, and of JSON-RPC only ids. Imported by the
stdio relay: standard library only.
"""

import json
import math
import re

from engramq.deploy.local.lines import LONGEST_LINE
from engramq.schemas.command_line import NO_BATCH

# Tools that change nothing; `make generate` writes their names.
READ_TOOLS = frozenset(
    {
        "audit",
        "get_breadcrumbs",
        "get_command",
        "get_edge",
        "get_memory",
        "get_node_by_name",
        "graph_find_path",
        "graph_list_edges",
        "graph_query_neighbors",
        "guide",
        "list_contradictions",
        "list_proposals",
        "list_recent_memories",
        "list_standing",
        "memory_stats",
        "search_memories",
        "survey_memories",
        "why",
    }
)
_READ_METHODS = frozenset({"ping", "server/discover"})
_READ_ENDINGS = ("/list", "/read", "/get")

UNAVAILABLE = -32000
INVALID_REQUEST = -32600
# The fate of a write that was under way is unknown; a request that was never sent was not carried out.
_UNDER_WAY = {
    "status": "pending",
    "recovery": "A write may have been done: look for its effect, or repeat it with the same idempotency_key, which "
    "never does it twice.",
}
_READ_UNDER_WAY = {
    "status": "error",
    "code": "unavailable",
    "recovery": "It was a read: nothing was changed. Call again.",
}
_NEVER_SENT = {
    "status": "error",
    "code": "unavailable",
    "recovery": "Nothing was applied. Try again in a few seconds; if it lasts, run `engramq status`.",
}
# How the gateway's results begin: of a long one the rest need not be parsed. The id is written as _key writes it.
_PLAIN_RESULT = re.compile(rb'\{"jsonrpc":"2\.0","id":(0|[1-9]\d{0,17}|"[A-Za-z0-9_.:-]{1,100}"),"result":\{')


class RelayConversation:
    """The session of its own, the handshake to repeat, and the requests that are still to be answered.

    `session` is what calls are in that name none; no other conversation of the home has it.
    """

    def __init__(self, session: str = "") -> None:
        self.session = session
        self._initialize = b""
        self._initialize_key = ""
        self._initialized = b""
        self._has_discovered = False
        self._open: dict[str, object] = {}
        self._reads: set[str] = set()  # the keys of open requests that change nothing; and of some that were open

    @property
    def open_requests(self) -> int:
        """How many requests the client waits for."""
        return len(self._open)

    def note_sent(self, line: bytes) -> None:
        """The client's line is about to go to the gateway."""
        message = _message(line)
        method = message.get("method")
        if method == "notifications/initialized":
            self._initialized = line
        elif method == "notifications/cancelled":
            # No answer is owed to a cancelled request; one that comes all the same is passed on.
            parameters = message.get("params")
            cancelled = parameters.get("requestId") if isinstance(parameters, dict) else None
            self._open.pop(_key(cancelled), None)
        elif isinstance(method, str) and _is_id(message.get("id")):
            self._note_request(message)
            self._has_discovered = method == "server/discover" or (self._has_discovered and method != "initialize")
            if method == "initialize":
                self._initialize, self._initialize_key, self._initialized = line, _key(message["id"]), b""

    def falls_back(self, line: bytes) -> bool:
        """Whether the client sends `initialize` after `server/discover`, which took it too long, as at a cold start.

        The connection on which it has discovered serves the newer protocol alone.
        """
        return self._has_discovered and b"initialize" in line and _message(line).get("method") == "initialize"

    def _note_request(self, message: dict[str, object]) -> None:
        key = _key(message["id"])
        self._open[key] = message["id"]
        self._reads.discard(key)
        if _is_read(message):
            if len(self._reads) > 2 * len(self._open):
                self._reads &= self._open.keys()
            self._reads.add(key)

    def note_received(self, line: bytes) -> None:
        """The gateway's line is about to go to the client."""
        plain = _PLAIN_RESULT.match(line)
        if plain is not None:
            self._open.pop(plain[1].decode(), None)
            return
        message = _message(line)
        if "method" not in message:
            key = _key(message.get("id"))
            if self._open.pop(key, None) is not None and key == self._initialize_key and "error" in message:
                self._initialize, self._initialize_key, self._initialized = b"", "", b""

    def fail_open(self, reason: str) -> list[bytes]:
        """Answer all open requests with an error, since their gateway has gone.

        A handshake still to be answered is kept: it has no effects, and `handshake` sends it again.
        """
        kept = {key: value for key, value in self._open.items() if key == self._initialize_key}
        lines = [
            _error(value, reason, _READ_UNDER_WAY if key in self._reads else _UNDER_WAY)
            for key, value in self._open.items()
            if key not in kept
        ]
        self._open = kept
        return lines

    def fail_all(self, reason: str) -> list[bytes]:
        """Refuse all open requests, a handshake too: no gateway can be had, and none of them was sent to one."""
        lines = [_error(value, reason, _NEVER_SENT) for value in self._open.values()]
        if self._initialize_key in self._open:
            self._initialize, self._initialize_key, self._initialized = b"", "", b""
        self._open = {}
        return lines

    def handshake(self) -> tuple[bytes, bytes]:
        """The `initialize` and `notifications/initialized` to send to a new gateway; b"" where the client sent none."""
        return self._initialize, self._initialized

    def owes_handshake(self) -> bool:
        """Whether the client still waits for the answer to `initialize`, so that it must not be swallowed."""
        return self._initialize_key in self._open

    def answers_handshake(self, line: bytes) -> bool:
        """Whether this line of the gateway answers `initialize`."""
        message = _message(line)
        return "method" not in message and _key(message.get("id")) == self._initialize_key


def refusal(line: bytes | None) -> bytes:
    """The answer to a line that no gateway need see, b"" for any other: one that was too long to be kept, or a batch.

    It has no id: that of the first is not known, and a batch has several.
    """
    if line is None:
        told = f"A message has at most {LONGEST_LINE} bytes."
    elif line.lstrip().startswith(b"["):
        told = NO_BATCH
    else:
        return b""
    return _line({"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": told}})


def _error(request_id: object, reason: str, result: dict[str, str]) -> bytes:
    data = {**result, "error": reason}
    return _line({"jsonrpc": "2.0", "id": request_id, "error": {"code": UNAVAILABLE, "message": reason, "data": data}})


def _line(message: dict[str, object]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _message(line: bytes) -> dict[str, object]:
    """The JSON-RPC message of a line; nothing if it is none, which the gateway answers."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _is_id(request_id: object) -> bool:
    """Whether the answer to a request of this id has it too; other ids are refused without one."""
    if isinstance(request_id, float):
        return math.isfinite(request_id)  # of an int that is larger than any float this is an error
    return isinstance(request_id, (int, str)) and not isinstance(request_id, bool)


def _key(request_id: object) -> str:
    # 1 and "1" are different ids; 1.0 is answered as 1.
    if isinstance(request_id, float) and request_id.is_integer():
        request_id = int(request_id)
    return json.dumps(request_id)


def _is_read(message: dict[str, object]) -> bool:
    """Whether a request certainly changes nothing: when its gateway dies, it may simply be made again."""
    method, parameters = message.get("method"), message.get("params")
    if method == "tools/call":
        name = parameters.get("name") if isinstance(parameters, dict) else None
        return isinstance(name, str) and name in READ_TOOLS
    return isinstance(method, str) and (method in _READ_METHODS or method.endswith(_READ_ENDINGS))
