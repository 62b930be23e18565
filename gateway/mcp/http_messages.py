"""Bodies that come over HTTP, ahead of the SDK's application: a batch, or what the SDK would pass over in silence.

A request goes on untouched unless the SDK would take its headers as they are, so that it is refused for them as ever.
"""

import json
from typing import Any, Final

import anyio
import mcp_types as types
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engramq.gateway.identity.metadata import MCP_PATH
from engramq.gateway.mcp.http_calls import again, takes_json
from engramq.gateway.mcp.messages import BATCH_VERSION, Refusal, dump_batch, read_item, read_message, refuse_batch

_JSON: Final = "application/json"


class HttpMessages:
    """Refuses a body that is no message, answers a batch, and passes on every message; bodies come whole."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or pass it on."""
        if not _is_post_of_json(scope):
            await self._app(scope, receive, send)
            return
        first = await receive()
        response = None
        try:
            decoded = json.loads(first.get("body", b""))
        except (ValueError, RecursionError):  # the SDK says so
            pass
        else:
            if isinstance(decoded, list):
                response = await self._answer_batch(decoded, scope, receive)
            else:
                response, first = _read(decoded, first)
        if response is None:
            await self._app(scope, again(first, receive), send)
        else:
            await response(scope, receive, send)

    async def _answer_batch(self, items: list[Any], scope: Scope, receive: Receive) -> Response:
        """Return the answers to a batch's messages, in their order; each is carried out as if it had come alone."""
        refused = refuse_batch(items, Headers(scope=scope).get("mcp-protocol-version", BATCH_VERSION))
        if refused is not None:
            return _bad_request(refused)
        answers = [b""] * len(items)

        async def answer(place: int, item: Any) -> None:
            message = read_item(item)
            if isinstance(message, Refusal):
                answers[place] = message.dump()
            else:
                body = json.dumps(_with_id(item, message)).encode()
                answers[place] = await self._ask({"type": "http.request", "body": body}, scope, receive)

        async with anyio.create_task_group() as tasks:
            for place, item in enumerate(items):
                tasks.start_soon(answer, place, item)
        said = [one for one in answers if one]
        return Response(dump_batch(said), 200, media_type=_JSON) if said else Response(None, 202)

    async def _ask(self, request: Message, scope: Scope, receive: Receive) -> bytes:
        """Return what the application answers to one message; empty when it answers nothing."""
        said = bytearray()

        async def hear(message: Message) -> None:
            said.extend(message.get("body", b""))

        await self._app(_for_json(scope), again(request, receive), hear)
        return bytes(said)


def _for_json(scope: Scope) -> Scope:
    """Return the scope of one message of a batch: its answer is JSON, never a stream."""
    headers = [(name, value) for name, value in scope["headers"] if name != b"accept"]
    return {**scope, "headers": [*headers, (b"accept", _JSON.encode())]}


def _read(decoded: Any, first: Message) -> tuple[Response | None, Message]:
    """Return the refusal of a body if it is no message, and what is to be passed on if it is one."""
    message = read_message(decoded)
    if isinstance(message, Refusal):
        return _bad_request(message), first
    whole = _with_id(decoded, message)
    return None, first if whole is decoded else {**first, "body": json.dumps(whole).encode()}


def _with_id(decoded: dict[str, Any], message: types.JSONRPCMessage) -> dict[str, Any]:
    """Return a request with its id as an integer if it was written as 1.0, which the SDK takes for none."""
    if isinstance(message, types.JSONRPCRequest) and isinstance(decoded["id"], float):
        return {**decoded, "id": message.id}
    return decoded


def _bad_request(refusal: Refusal) -> Response:
    return Response(refusal.dump(), 400, media_type=_JSON)


def _is_post_of_json(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != MCP_PATH:
        return False
    headers = Headers(scope=scope)
    is_json = headers.get("content-type", "").split(";")[0].strip() == _JSON
    return is_json and takes_json(headers.get("accept", "").encode("latin-1"))
