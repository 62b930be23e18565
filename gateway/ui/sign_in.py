"""Sign people in at the page by a bearer token, keep the cookie that stands for it, and check whose a form is.

The value of the cookie is random. Redis has the token sealed under a key that follows from the cookie, below a digest
of it: a reader of Redis has no token, the owner of a cookie alone has none either, and signing out ends it
everywhere.

Browsers send a cookie to every port of its host, so a server of another account can read it. Where the kernel tells
whose process is at the other end, the cookie counts for the account alone whose browser signed in.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from redis.asyncio import Redis
from starlette.requests import Request
from starlette.responses import Response

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.identity.bearer import Authenticator
from engramq.gateway.identity.local_peer import CONNECTION, Account, LocalConnection
from engramq.gateway.limits import AttemptLimit, FailureLimit
from engramq.gateway.router import PAGE_PATH
from engramq.schemas.connection import CLIENT_ERRORS, run
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.keys import Keys
from engramq.schemas.redis_problems import refusal_of
from engramq.schemas.scripts import KEEP_PAGE_SESSION

LASTS_S: Final = 12 * 3600  # then the token is asked for again
PAGES_OF_ONE: Final = 20  # browsers in which a principal is signed in; with the next one, the oldest is signed out
COOKIE_BYTES: Final = 32
_NONCE_BYTES: Final = 12


def new_cookie() -> str:
    """Return the value of a new cookie."""
    return secrets.token_urlsafe(COOKIE_BYTES)


class SignedIn:
    """The tokens of those who have signed in."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis: Any = redis
        self._keys = keys

    async def keep(self, token: str, caller: Caller, account: int | None) -> str:
        """Keep a token that was found to be this caller's, and return the cookie for it; see `token_of` for errors.

        `account`: whose browser it is, None where that is not known.
        """
        cookie, nonce = new_cookie(), secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + AESGCM(_derived(cookie, "token")).encrypt(nonce, token.encode(), _bound_to(account))
        where = (self._keys.page_session(_name(cookie)), self._pages_of(caller))
        try:
            await run(self._redis, KEEP_PAGE_SESSION, self._keys, where, sealed, _name(cookie), LASTS_S, PAGES_OF_ONE)
        except CLIENT_ERRORS as problem:
            why = refusal_of(problem) or "Redis cannot be reached, so nobody can sign in."
            raise refuse(FaultCode.UNAVAILABLE, why) from problem
        return cookie

    async def token_of(self, cookie: str, account: int | None) -> str | None:
        """Return the token that this account's cookie stands for, None for none; raises EngramqError without Redis."""
        try:
            sealed: bytes | None = await self._redis.get(self._keys.page_session(_name(cookie)))
        except CLIENT_ERRORS as problem:
            raise refuse(FaultCode.UNAVAILABLE, "Redis cannot be reached, so nobody is known.") from problem
        if sealed is None:
            return None
        try:
            opener, nonce = AESGCM(_derived(cookie, "token")), sealed[:_NONCE_BYTES]
            return opener.decrypt(nonce, sealed[_NONCE_BYTES:], _bound_to(account)).decode()
        except InvalidTag:  # another account has the cookie, or somebody has written there
            return None

    async def forget(self, cookie: str, caller: Caller | None) -> None:
        """Let the cookie of this caller stand for nothing any more; see `token_of` for errors."""
        try:
            await self._redis.delete(self._keys.page_session(_name(cookie)))
            if caller is not None:
                await self._redis.zrem(self._pages_of(caller), _name(cookie))
        except CLIENT_ERRORS as problem:
            raise refuse(FaultCode.UNAVAILABLE, "Redis cannot be reached: you are still signed in.") from problem

    def _pages_of(self, caller: Caller) -> str:
        return self._keys.page_sessions(caller.namespace, caller.principal.identity)


def _name(cookie: str) -> str:
    """Return how Redis knows a cookie."""
    return _derived(cookie, "key").hex()


def _bound_to(account: int | None) -> bytes:
    return f"account {account}".encode()


def _derived(cookie: str, purpose: str) -> bytes:
    """Return 32 bytes that follow from a cookie; those for one purpose tell nothing of those for another."""
    return hmac.digest(cookie.encode("utf-8", "replace"), f"engramq page {purpose}".encode(), hashlib.sha256)


COOKIE: Final = "engramq_page"
SECURE_COOKIE: Final = f"__Host-{COOKIE}"  # under https: no sibling of this host can set it
FORM_FIELD: Final = "form_token"
FORM_HEADER: Final = "x-form-token"
_FORM: Final = re.compile("[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody at the page; `caller` is None until they sign in. `is_local`: known by their account."""

    cookie: str
    caller: Caller | None
    is_local: bool = False

    @property
    def form_token(self) -> str:
        """The token that every form of this visitor brings back: who cannot read the cookie cannot make it."""
        return _derived(self.cookie, "form").hex()


class SignIn:
    """Finds out who is at the page, lets people in by their token, and lets them go."""

    def __init__(
        self, signed_in: SignedIn, authenticator: Authenticator, owner: Account | None, *, public_url: str = ""
    ) -> None:
        """`owner`: None where a token is always needed."""
        self._signed_in = signed_in
        self._authenticator = authenticator
        self._owner = owner
        self._public_url = public_url
        self._failures = FailureLimit()
        self._sign_ins = AttemptLimit("This principal signs in too often.")

    async def visitor(self, request: Request) -> Visitor:
        """Return who is there; raises EngramqError when that cannot be found out now."""
        cookie = self._cookie_of(request)
        local = None if self._owner is None else self._owner.owner_of(request)
        if local is not None:
            return Visitor(cookie or new_cookie(), local, is_local=True)
        if not cookie:
            return Visitor(new_cookie(), None)
        token = await self._signed_in.token_of(cookie, _account_of(request))
        caller = None if token is None else await self._authenticator.caller_of(token, _nobody_waits)
        return Visitor(cookie, caller)

    async def let_in(self, request: Request, token: str) -> Visitor | None:
        """Return the visitor that a token makes, None when it is not good here.

        Raises EngramqError: `rate_limited` after too many failures from one address or sign-ins of one principal,
        `unavailable`.
        """
        address = request.client.host if request.client is not None else ""
        caller = await self._authenticator.caller_of(token, partial(self._failures.check, address)) if token else None
        if caller is None:
            self._failures.note(address)
            return None
        self._sign_ins.note((caller.namespace, caller.principal.identity))
        return Visitor(await self._signed_in.keep(token, caller, _account_of(request)), caller)

    async def let_go(self, visitor: Visitor) -> None:
        """Sign somebody out; raises EngramqError when that cannot be done."""
        await self._signed_in.forget(visitor.cookie, visitor.caller)

    def require_origin(self, request: Request) -> None:
        """Return if a page of ours sends a request; raises EngramqError. Nothing of the body is needed for that."""
        if not self._is_from_here(request):
            raise _not_our_form()

    def require_own(self, visitor: Visitor, given: str) -> None:
        """Return if this visitor was shown the form that a page of ours sends; raises EngramqError."""
        if not hmac.compare_digest(visitor.form_token.encode(), given.encode("utf-8", "replace")):
            raise _not_our_form()

    def remember(self, request: Request, response: Response, visitor: Visitor) -> None:
        """Give a visitor their cookie, unless the browser has it."""
        if self._cookie_of(request) != visitor.cookie:
            is_https = self._is_https(request)
            response.set_cookie(
                SECURE_COOKIE if is_https else COOKIE,
                visitor.cookie,
                max_age=LASTS_S,
                path="/" if is_https else PAGE_PATH,  # which browsers demand of the one
                secure=is_https,
                httponly=True,
                samesite="strict",
            )

    def _is_from_here(self, request: Request) -> bool:
        """Say whether the browser names this very server as the origin of a request, its port too.

        The guard before every route lets pages of other ports of this machine call; they have no cookie of ours, but
        browsers send them ours.
        """
        origin = request.headers.get("origin")
        if origin is None:
            return request.headers.get("sec-fetch-site") == "same-origin"
        if self._public_url and origin.lower() == self._public_url:
            return True
        return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()

    def _cookie_of(self, request: Request) -> str:
        """Return the cookie, "" for none and for one of another form, which anybody on this host may set."""
        value = request.cookies.get(SECURE_COOKIE if self._is_https(request) else COOKIE, "")
        return value if _FORM.fullmatch(value) else ""

    def _is_https(self, request: Request) -> bool:
        return request.url.scheme == "https" or self._public_url.startswith("https://")


def _not_our_form() -> EngramqError:
    return refuse(
        FaultCode.FORBIDDEN,
        "This form is not from a page that you were shown, or that page is too old.",
        recovery="Go back, load the page again, and repeat what you did.",
    )


def _account_of(request: Request) -> int | None:
    """Return the account whose process sends a request, None where it is on another machine or not known."""
    connection = request.scope.get(CONNECTION)
    return connection.owner() if isinstance(connection, LocalConnection) else None


def _nobody_waits() -> None:
    """Admit: the owner of a session has brought a good token before."""
