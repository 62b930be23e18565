"""JSON-RPC: what a decoded message or batch is, and how answers and refusals are written."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import mcp_types as types
import pydantic
import pydantic_core
from pydantic_core import PydanticSerializationError

# The one revision that has batches. Its clients name no version over HTTP: the header came later.
BATCH_VERSION: Final = "2025-03-26"
BATCH_BOUND: Final = 50  # half of the calls that a principal may have under way at once

_NO_MESSAGE: Final = "A message must be one JSON-RPC 2.0 request, notification or response."
_ID_BOUND: Final = 2**53  # a larger number with a fraction part of zero is no exact integer


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error that answers a request, or what could not be read as one; the SDK's own takes no id such as 1.5."""

    code: int
    message: str
    request_id: str | int | float | None

    def dump(self) -> bytes:
        """Return it as it is sent."""
        error = {"code": self.code, "message": self.message}
        whole = {"jsonrpc": "2.0", "id": self.request_id, "error": error}
        try:
            return pydantic_core.to_json(whole)
        except PydanticSerializationError:  # as in `dump`
            return json.dumps(whole).encode()


def dump(message: types.JSONRPCMessage) -> bytes:
    """Return a message as it is sent."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except PydanticSerializationError:  # an id or a name that came with half a surrogate pair goes back the same way
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode()


def dump_batch(answers: Sequence[bytes]) -> bytes:
    """Return what answers a batch as it is sent."""
    return b"[" + b",".join(answers) + b"]"


def read_message(decoded: Any) -> types.JSONRPCMessage | Refusal:
    """Return the message that JSON holds, or the refusal to answer it with.

    The SDK takes a request whose id is neither text nor an integer for a notification, and its sender would wait.
    """
    known = None
    if isinstance(decoded, dict) and "id" in decoded:
        given = decoded["id"]
        known = _request_id(given)
        if known is None and "method" in decoded and not _is_notification(decoded):
            error = f"An id must be a text or an integer, not {_shown(given)}."
            echo = given if isinstance(given, float) and math.isfinite(given) else None
            return Refusal(types.INVALID_REQUEST, error, echo)
        if isinstance(given, float) and known is not None:
            decoded = {**decoded, "id": known}
    try:
        return types.jsonrpc_message_adapter.validate_python(decoded, by_name=False)
    except pydantic.ValidationError:
        return Refusal(types.INVALID_REQUEST, _NO_MESSAGE, known)


def refuse_batch(items: Sequence[Any], version: str | None) -> Refusal | None:
    """Return why a batch is not read, None if it is; `version` is the protocol's."""
    error = None
    if not items:
        error = "A batch must have at least one message."
    elif version != BATCH_VERSION:
        error = f"Batches are part of protocol version {BATCH_VERSION} alone: send every message by itself."
    elif len(items) > BATCH_BOUND:
        error = f"A batch may have at most {BATCH_BOUND} messages, not {len(items)}."
    return None if error is None else Refusal(types.INVALID_REQUEST, error, None)


def read_item(decoded: Any) -> types.JSONRPCMessage | Refusal:
    """Return the message that one item of a batch is, or the refusal to answer it with."""
    message = read_message(decoded)
    if isinstance(message, types.JSONRPCRequest) and message.method == "initialize":
        return Refusal(types.INVALID_REQUEST, "initialize must be sent by itself, not in a batch.", message.id)
    return message


def handshake_version(message: types.JSONRPCMessage) -> str | None:
    """Return the version that the answer to a handshake settles; no other has it and the server's name at its top."""
    if isinstance(message, types.JSONRPCResponse) and {"protocolVersion", "serverInfo"} <= message.result.keys():
        return str(message.result["protocolVersion"])
    return None


def _request_id(given: Any) -> str | int | None:
    """Return the id that a request may have; some clients have no integers and write 1.0."""
    if isinstance(given, float) and given.is_integer() and abs(given) <= _ID_BOUND:
        return int(given)
    return given if isinstance(given, str | int) and not isinstance(given, bool) else None


def _is_notification(decoded: dict[str, Any]) -> bool:
    """Say whether a client wrote null for the id that a notification has not; it expects no answer."""
    method = decoded["method"]
    return decoded["id"] is None and isinstance(method, str) and method.startswith("notifications/")


def _shown(given: Any) -> str:
    match given:
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            return json.dumps(given)
