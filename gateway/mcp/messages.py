"""JSON-RPC messages of the SDK: how one is made, and how it is written."""

import json

import mcp_types as types
from pydantic_core import PydanticSerializationError


def refusal(code: int, message: str, request_id: str | int | None) -> types.JSONRPCError:
    """Return the error that answers a request, or what could not be read as one."""
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=message))


def dump(message: types.JSONRPCMessage) -> bytes:
    """Return a message as it is sent."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except PydanticSerializationError:  # an id or a name that came with half a surrogate pair goes back the same way
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode()
