"""Answer requests under /v1: each is one call of a tool. The caller is known by then, as for MCP."""

import math
from functools import cache
from typing import Final

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engramq.gateway.budget import Body
from engramq.gateway.identity.authorization import CALLER
from engramq.gateway.mcp.audience import ALL_TOOLS, audience_of
from engramq.gateway.rest import openapi
from engramq.gateway.rest.requests import MISSING, PathMatch, WrongRequest, arguments_of, match
from engramq.gateway.router import while_there
from engramq.gateway.service import Call, Service, fault_reply
from engramq.schemas.codec import text_of
from engramq.schemas.commands import REST_PREFIX, Tool
from engramq.schemas.faults import EngramqError, Fault, FaultCode
from engramq.schemas.vocabulary import Status

OPENAPI_PATH: Final = f"{REST_PREFIX}/openapi.json"

_JSON: Final = "application/json"
_RETRY_S: Final = 1  # where a refusal names no time
_UNKNOWN: Final = f"{OPENAPI_PATH} lists every path."


class Rest:
    """Answers what is under /v1. `service` is REST's own: see `run.Gateway.web`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; raises CallerLeft."""
        response = await self._answer(scope, receive)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        method = scope["method"]
        if scope["path"] == OPENAPI_PATH:  # the same for everybody, so anybody may read it
            if method not in ("GET", "HEAD"):
                return _other_method(method, "GET, HEAD, OPTIONS")
            return await anyio.to_thread.run_sync(_document)
        found = match(scope["raw_path"])
        if found is None:
            return _respond({"status": "error", "error": "There is nothing at this path.", "recovery": _UNKNOWN}, 404)
        tool = found.tools.get("GET" if method == "HEAD" else method)
        if tool is None:
            return _other_method(method, found.methods)
        return await self._call(tool, found, scope, receive)

    async def _call(self, tool: Tool, found: PathMatch, scope: Scope, receive: Receive) -> Response:
        caller, headers = scope[CALLER], Headers(scope=scope)
        try:
            arguments = await arguments_of(tool, found.values, scope["query_string"], headers, receive)
        except WrongRequest as wrong:
            return _refusal(wrong.fault, scope, wrong.status)
        except EngramqError as refused:
            return _refusal(refused.fault, scope)
        call = Call(tool=tool, arguments=arguments, caller=caller, traceparent=headers.get("traceparent"))
        async with while_there(receive, is_read=not tool.write):
            reply = await self._service.call(call)
        return _respond(reply.body, http_status_of(reply.body, write=tool.write), reply.text)


def http_status_of(body: Body, *, write: bool) -> int:
    """Return the HTTP status of a reply: a refusal's by its code; 404, 202 (of a `write`) or 200 by its word."""
    if body["status"] in (Status.ERROR, Status.INVALID_PARAMETER):
        return FaultCode(body["code"]).http_status
    if body["status"] in MISSING:
        return 404
    return 202 if write and body["status"] == "pending" else 200


def retry_after(body: Body, status: int) -> int | None:
    """Return the whole seconds of a Retry-After header, None where the reply has none."""
    if status not in (429, 503):
        return None
    wait_s: float = body.get("retry_after_s", _RETRY_S)
    return max(_RETRY_S, math.ceil(wait_s))


@cache
def _document() -> Response:
    """Return what describes the interface; made at its first use, since it takes 0.4 s that a start would wait."""
    return Response(text_of(openapi.document()), media_type=_JSON)


def _refusal(fault: Fault, scope: Scope, status: int | None = None) -> Response:
    principal = scope[CALLER].principal
    reply = fault_reply(fault, audience_of(ALL_TOOLS, principal.scopes, principal.untrusted))
    return _respond(reply.body, status or http_status_of(reply.body, write=False), reply.text)


def _respond(body: Body, status: int, text: str | None = None) -> Response:
    wait_s = retry_after(body, status)
    headers = {} if wait_s is None else {"retry-after": str(wait_s)}
    # A caller's reply is no other's, and is out of date a moment later.
    return Response(text or text_of(body), status, {"cache-control": "no-store", **headers}, _JSON)


def _other_method(method: str, allowed: str) -> Response:
    if method == "OPTIONS":
        return Response(None, 204, {"allow": allowed})
    error = {"status": "error", "error": f"This path is not for {method[:20]}.", "recovery": f"It takes {allowed}."}
    return Response(text_of(error), 405, {"allow": allowed}, _JSON)
