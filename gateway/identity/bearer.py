"""Authenticate requests by bearer tokens; refusals say where a token comes from (RFC 9728) and how to present it."""

import logging
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope as ConnectionScope

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.limits import FailureLimit
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.settings import Auth, Settings
from engramq.schemas.vocabulary import Scope, Status

MCP_PATH: Final = "/mcp"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
METADATA_PATHS: Final = (METADATA_PATH, METADATA_PATH + MCP_PATH)


class Resource:
    """This server as its clients address it: by ENGRAMQ_PUBLIC_URL, else as they did, whose Host was checked."""

    def __init__(self, settings: Settings) -> None:
        self._public_url = settings.public_url
        # Tokens of our own come from `engramq token create`, from no server.
        self._issuers = [settings.jwt_issuer] if settings.auth is Auth.JWT else []

    def challenge(self, request: HTTPConnection, *, error: str = "") -> str:
        """Return the WWW-Authenticate header of a 401; `error` says what was wrong with a token that was presented."""
        said = [
            f'resource_metadata="{self._base(request)}{METADATA_PATH}{MCP_PATH}"',
            f'scope="{Scope.READ} {Scope.WRITE}"',
        ]
        if error:
            said = [f'error="{error}"', 'error_description="The token is unknown, expired or not valid here"', *said]
        return f"Bearer {', '.join(said)}"

    def routes(self) -> Sequence[Route]:
        """Return the routes of the metadata, which need no authentication."""
        return [Route(path, self._metadata, methods=["GET"]) for path in METADATA_PATHS]

    async def _metadata(self, request: Request) -> JSONResponse:
        described = {
            "resource": self._base(request) + MCP_PATH,
            "resource_name": "engramq",
            "scopes_supported": list(Scope),
            "bearer_methods_supported": ["header"],
        }
        if self._issuers:
            described["authorization_servers"] = self._issuers
        return JSONResponse(described)

    def _base(self, request: HTTPConnection) -> str:
        return self._public_url or f"{request.url.scheme}://{request.url.netloc}"


log = logging.getLogger(__name__)

RETRY_S: Final = 2  # when to retry after a token could not be checked

_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE | re.ASCII)


class Authenticator(Protocol):
    """Resolves a token to its caller."""

    async def caller_of(self, token: str, admit: Callable[[], None]) -> Caller | None:
        """Return the caller, None for an unknown token; `admit` may be called before costly work, and may raise.

        Raises EngramqError when the token could not be checked.
        """


class Bearer:
    """Finds the caller of a request by its bearer token."""

    def __init__(self, authenticator: Authenticator, resource: Resource) -> None:
        self._authenticator = authenticator
        self._resource = resource
        self._failures = FailureLimit()

    async def authenticate(self, scope: ConnectionScope) -> Caller | Response:
        """Return the caller of a request, or the answer to one without a good token: 401, 429 or 503."""
        request = HTTPConnection(scope)
        presented = request.headers.getlist("authorization")
        if not any(header.partition(" ")[0].lower() == "bearer" for header in presented):
            return self._unauthorized(request, "A bearer token is needed.")
        address = request.client.host if request.client is not None else ""
        token = _BEARER.fullmatch(presented[0]) if len(presented) == 1 else None
        try:
            admit = partial(self._failures.check, address)
            caller = None if token is None else await self._authenticator.caller_of(token[1], admit)
            if caller is None:
                self._failures.note(address)
        except EngramqError as refusal:
            return _refused(refusal)
        if caller is None:
            log.info("Authentication failed", extra={"address": address})
            return self._unauthorized(request, "The token is unknown, expired or not valid here.", "invalid_token")
        return caller

    def _unauthorized(self, request: HTTPConnection, text: str, error: str = "") -> JSONResponse:
        challenge = self._resource.challenge(request, error=error)
        return JSONResponse({"status": Status.ERROR, "error": text}, 401, {"www-authenticate": challenge})


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
