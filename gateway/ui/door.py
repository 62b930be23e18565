"""Who is at the page, and whether a form is theirs."""

import re
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.identity.bearer import Authenticator
from engramq.gateway.identity.signed_in import LASTS_S, SignedIn, form_token, is_form_token, new_cookie
from engramq.gateway.limits import FailureLimit
from engramq.schemas.faults import FaultCode, refuse

COOKIE: Final = "engramq_page"
PATH: Final = "/ui"
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
        """What this visitor's forms bring back."""
        return form_token(self.cookie)


class KnowsOwner(Protocol):
    """Tells the caller of a request by the account whose process sent it."""

    def owner_of(self, request: Request) -> Caller | None:
        """Return the caller, None where the account is another's or cannot be known."""


class Door:
    """Finds out who is at the page, lets people in by their token, and lets them go."""

    def __init__(
        self, signed_in: SignedIn, authenticator: Authenticator, owner: KnowsOwner | None, *, public_url: str = ""
    ) -> None:
        """`owner`: None where a token is always needed."""
        self._signed_in = signed_in
        self._authenticator = authenticator
        self._owner = owner
        self._public_url = public_url
        self._failures = FailureLimit()

    async def visitor(self, request: Request) -> Visitor:
        """Return who is there; raises EngramqError when that cannot be found out now."""
        cookie = _cookie_of(request)
        local = None if self._owner is None else self._owner.owner_of(request)
        if local is not None:
            return Visitor(cookie or new_cookie(), local, is_local=True)
        if not cookie:
            return Visitor(new_cookie(), None)
        token = await self._signed_in.token_of(cookie)
        caller = None if token is None else await self._authenticator.caller_of(token, _nobody_waits)
        return Visitor(cookie, caller)

    async def let_in(self, request: Request, token: str) -> Visitor | None:
        """Return the visitor that a token makes, None when it is not good here.

        Raises EngramqError: `rate_limited` after too many failures from one address, `unavailable`.
        """
        address = request.client.host if request.client is not None else ""
        caller = await self._authenticator.caller_of(token, partial(self._failures.check, address)) if token else None
        if caller is None:
            self._failures.note(address)
            return None
        return Visitor(await self._signed_in.keep(token), caller)

    async def let_go(self, visitor: Visitor) -> None:
        """Sign somebody out; raises EngramqError when that cannot be done."""
        await self._signed_in.forget(visitor.cookie)

    def require_own(self, request: Request, visitor: Visitor, given: str) -> None:
        """Return if a form was sent by a page of ours that this visitor was shown; raises EngramqError."""
        if not self._is_from_here(request) or not is_form_token(visitor.cookie, given):
            raise refuse(
                FaultCode.FORBIDDEN,
                "This form is not from a page that you were shown, or that page is too old.",
                recovery="Go back, load the page again, and repeat what you did.",
            )

    def remember(self, request: Request, response: Response, visitor: Visitor) -> None:
        """Give a visitor their cookie, unless the browser has it."""
        if _cookie_of(request) != visitor.cookie:
            response.set_cookie(
                COOKIE,
                visitor.cookie,
                max_age=LASTS_S,
                path=PATH,
                secure=self._is_https(request),
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

    def _is_https(self, request: Request) -> bool:
        return request.url.scheme == "https" or self._public_url.startswith("https://")


def _cookie_of(request: Request) -> str:
    """Return the cookie of the page, "" for none and for one of another form, which anybody on this host may set."""
    value = request.cookies.get(COOKIE, "")
    return value if _FORM.fullmatch(value) else ""


def _nobody_waits() -> None:
    """Admit: whoever has a session has brought a good token before."""
