"""Authentication before every route: each request needs a good bearer token, or is answered 401, 429 or 503."""

import logging
import math
import re
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, Protocol

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from engramq.gateway.identity.authorization import CALLER, Caller
from engramq.gateway.identity.metadata import Resource
from engramq.gateway.limits import FailureLimit
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.vocabulary import Status

log = logging.getLogger(__name__)

RETRY_S: Final = 2  # when to retry after a token could not be checked

_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE | re.ASCII)


class Authenticator(Protocol):
    """Resolves a token to its caller."""

    async def caller_of(self, token: str, admit: Callable[[], None]) -> Caller | None:
        """Return the caller, None for an unknown token; `admit` may be called before costly work, and may raise.

        Raises EngramqError when the token could not be checked.
        """


class Everybody:
    """Lets every request in as the same caller, whose ever it is; see `local_peer.OwnerOnly`."""

    def __init__(self, app: ASGIApp, caller: Caller) -> None:
        self._app = app
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        await self._app({**scope, CALLER: self._caller}, receive, send)


class Bearer:
    """Passes on requests with a good token, and every request to the paths of `open_paths`, these without a caller."""

    def __init__(
        self, app: ASGIApp, authenticator: Authenticator, resource: Resource, *, open_paths: Collection[str]
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._resource = resource
        self._open_paths = open_paths
        self._failures = FailureLimit()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] == "lifespan" or (scope["type"] == "http" and scope["path"] in self._open_paths):
            await self._app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        try:
            caller = await self._caller_of(request)
        except EngramqError as refusal:
            await _refused(refusal)(scope, receive, send)
            return
        if isinstance(caller, JSONResponse):
            await caller(scope, receive, send)
            return
        await self._app({**scope, CALLER: caller}, receive, send)

    async def _caller_of(self, request: HTTPConnection) -> Caller | JSONResponse:
        presented = request.headers.getlist("authorization")
        if not any(one.partition(" ")[0].lower() == "bearer" for one in presented):
            return self._unauthorized(request, "A bearer token is needed.")
        address = request.client.host if request.client is not None else ""
        found = _BEARER.fullmatch(presented[0]) if len(presented) == 1 else None
        caller = None
        if found is not None:
            caller = await self._authenticator.caller_of(found[1], partial(self._failures.check, address))
        if caller is None:
            self._failures.note(address)
            log.info("Authentication failed", extra={"address": address})
            return self._unauthorized(request, "The token is unknown, expired or not valid here.", "invalid_token")
        return caller

    def _unauthorized(self, request: HTTPConnection, said: str, error: str = "") -> JSONResponse:
        challenge = self._resource.challenge(request, error=error)
        return JSONResponse({"status": Status.ERROR, "error": said}, 401, {"www-authenticate": challenge})


def _refused(refusal: EngramqError) -> JSONResponse:
    """Return 429 after too many failures, else 503: a token that could not be checked is not accepted."""
    fault = refusal.fault
    if fault.code is FaultCode.RATE_LIMITED:
        wait_s = fault.retry_after_s if isinstance(fault.retry_after_s, float) else RETRY_S
        return JSONResponse(
            {"status": Status.ERROR, "error": fault.error}, 429, {"retry-after": str(max(1, math.ceil(wait_s)))}
        )
    error = "The token cannot be checked at the moment."
    return JSONResponse({"status": Status.ERROR, "error": error}, 503, {"retry-after": str(RETRY_S)})
