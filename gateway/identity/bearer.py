"""Authenticate requests by bearer tokens; refusals say where a token comes from (RFC 9728) and how to present it.

Tokens of our own are resolved by the workers, by their digests, and the answer is cached for a moment.
"""

import logging
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope as ConnectionScope

from engramq.gateway.identity.authorization import Caller, token_caller
from engramq.gateway.limits import FailureLimit, SharedWork
from engramq.gateway.queue.bus import Bus
from engramq.schemas.commands import Authenticate, Identity
from engramq.schemas.envelope import Answer, Principal
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.ids import TOKEN_PREFIX, token_digest
from engramq.schemas.settings import Auth, Settings
from engramq.schemas.vocabulary import ALL_SCOPES, SYSTEM_NAMESPACE, SYSTEM_PRINCIPAL, Scope, Status

MCP_PATH: Final = "/mcp"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
METADATA_PATHS: Final = (METADATA_PATH, METADATA_PATH + MCP_PATH)


class Resource:
    """This server as its clients address it: by ENGRAMQ_PUBLIC_URL, else as they did, whose Host was checked."""

    def __init__(self, settings: Settings) -> None:
        self._public_url = settings.public_url.url
        # Tokens of our own come from `engramq token create`, from no server.
        self._issuers = [settings.jwt.issuer] if settings.auth is Auth.JWT else []

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
            return self._challenge(request, "A bearer token is needed.")
        address = request.client.host if request.client is not None else ""
        token = _BEARER.fullmatch(presented[0]) if len(presented) == 1 else None
        try:
            admit = partial(self._failures.check, address)
            caller = None if token is None else await self._authenticator.caller_of(token[1], admit)
            if caller is None:
                self._failures.note(address)
        except EngramqError as refusal:
            return _answer_refusal(refusal)
        if caller is None:
            log.info("Authentication failed", extra={"address": address})
            return self._challenge(request, "The token is unknown, expired or not valid here.", "invalid_token")
        return caller

    def _challenge(self, request: HTTPConnection, text: str, error: str = "") -> JSONResponse:
        challenge = self._resource.challenge(request, error=error)
        return JSONResponse({"status": Status.ERROR, "error": text}, 401, {"www-authenticate": challenge})


def _answer_refusal(refusal: EngramqError) -> JSONResponse:
    """Return 429 after too many failures, else 503: a token that could not be checked is not accepted."""
    fault = refusal.fault
    if fault.code is FaultCode.RATE_LIMITED:
        wait_s = fault.retry_after_s if isinstance(fault.retry_after_s, float) else RETRY_S
        return JSONResponse(
            {"status": Status.ERROR, "error": fault.error}, 429, {"retry-after": str(max(1, math.ceil(wait_s)))}
        )
    error = "The token cannot be checked at the moment."
    return JSONResponse({"status": Status.ERROR, "error": error}, 503, {"retry-after": str(RETRY_S)})


FRESH_S: Final = 30.0  # how long a token is believed after it was asked about, so after it was revoked at most
UNKNOWN_S: Final = 5.0  # how long an unknown one stays unknown
KEPT: Final = 10_000  # tokens of either kind that are remembered
LOOKUPS: Final = 256  # that may be under way at once
LOOKUP_S: Final = 5.0

_FORM: Final = re.compile(re.escape(TOKEN_PREFIX) + "[A-Za-z0-9_-]{43}")
T = TypeVar("T")

_ASKER: Final = Principal(name=SYSTEM_PRINCIPAL, scopes=ALL_SCOPES)


@dataclass(frozen=True, slots=True)
class _KnownToken:
    """The caller of a token, as the workers last answered."""

    caller: Caller
    fresh_until: float  # by the monotonic clock
    expires_at: float | None  # seconds since the epoch


class TokenAuthenticator:
    """Returns the caller of a token. Good and unknown tokens are cached apart, so that guesses evict no good token."""

    def __init__(
        self, bus: Bus, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._now = now
        self._known: OrderedDict[str, _KnownToken] = OrderedDict()
        self._unknown: OrderedDict[str, float] = OrderedDict()
        self._lookups: SharedWork[_KnownToken | None] = SharedWork(LOOKUPS)

    async def caller_of(self, token: str, admit: Callable[[], None]) -> Caller | None:
        """Return the caller of the token, None for one that is unknown, revoked or expired.

        `admit` is called before workers are asked about a token that was never good; it may raise. Raises EngramqError
        with `unavailable` or `overloaded` when the workers did not answer.
        """
        if _FORM.fullmatch(token) is None:
            return None
        digest = token_digest(token)
        known = self._known.get(digest)
        if known is None:
            if self._clock() < self._unknown.get(digest, 0.0):
                return None
            admit()
        if known is None or self._clock() >= known.fresh_until:
            known = await self._lookups.run(digest, lambda: self._look_up(digest))
        if known is None or (known.expires_at is not None and self._now() >= known.expires_at):
            return None
        if digest in self._known:
            self._known.move_to_end(digest)
        return known.caller

    async def _look_up(self, digest: str) -> _KnownToken | None:
        asked = self._clock()  # a token that is revoked from now on may still be answered for
        identity = await self._ask(digest)
        if identity.status != "success":
            self._known.pop(digest, None)
            _remember(self._unknown, digest, asked + UNKNOWN_S)
            return None
        known = _KnownToken(token_caller(identity), asked + FRESH_S, identity.expires_at)
        _remember(self._known, digest, known)
        return known

    async def _ask(self, digest: str) -> Identity:
        command = Authenticate(token_sha256=digest)
        answer = await self._bus.ask(command, namespace=SYSTEM_NAMESPACE, principal=_ASKER, timeout_s=LOOKUP_S)
        if not isinstance(answer, Answer):
            raise refuse(FaultCode.UNAVAILABLE, "No worker answered in time.")
        if answer.fault is not None:
            raise EngramqError(answer.fault)
        if not isinstance(answer.reply, Identity):
            raise TypeError(f"asked whose a token is, got {type(answer.reply).__name__}")
        return answer.reply


def _remember(kept: OrderedDict[str, T], digest: str, value: T) -> None:
    kept[digest] = value
    kept.move_to_end(digest)
    if len(kept) > KEPT:
        kept.popitem(last=False)
