"""JWTs of an identity provider: signature, issuer, audience and times are checked, claims say who is calling."""

import binascii
import logging
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any, Final

import jwt
import msgspec

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.identity.keys import FileKey, IssuerKeys, PublishedKeys
from engramq.gateway.mcp.parameters import problem_in
from engramq.schemas import limits
from engramq.schemas.envelope import Principal
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import SYSTEM_NAMESPACE, SYSTEM_PRINCIPAL, Scope

log = logging.getLogger(__name__)

TOKEN_CHARS: Final = 8_192
_SCOPES_ELSEWHERE: Final = "scp"
_REQUIRED: Final = ["exp", "iss", "aud", "sub"]


class _Header(msgspec.Struct):
    """What of a token's header matters before anything in it is believed."""

    alg: str
    kid: str | None = None


class JwtAuthenticator:
    """Returns the caller that a JWT describes; a JWT that breaks any rule is refused."""

    def __init__(self, settings: Settings, keys: IssuerKeys) -> None:
        self._settings = settings
        self._keys = keys

    async def caller_of(self, token: str, _admit: Callable[[], None]) -> Caller | None:
        """Return the caller that the token describes, None when the token is not valid here.

        Raises EngramqError with `unavailable` when the issuer's keys cannot be fetched.
        """
        try:
            return await self._caller_of(token)
        except _Unfit as problem:
            log.info("A JWT was refused", extra={"reason": str(problem)})
            return None

    async def _caller_of(self, token: str) -> Caller:
        header = _header(token)
        if header.alg not in self._settings.jwt_algorithms:
            raise _Unfit("its algorithm is not allowed")
        key = await self._keys.find(header.kid, header.alg)
        if key is None:
            raise _Unfit("no key of the issuer's fits it")
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[header.alg],
                issuer=self._settings.jwt_issuer,
                audience=self._settings.jwt_audience,
                leeway=self._settings.jwt_leeway_s,
                options={"require": _REQUIRED},
            )
        except jwt.PyJWTError as problem:
            raise _Unfit(type(problem).__name__) from None
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise _Unfit("it cannot be read") from None
        return self._caller_in(claims)

    def _caller_in(self, claims: dict[str, Any]) -> Caller:
        settings = self._settings
        namespace, name = claims.get(settings.jwt_namespace_claim), claims["sub"]
        if not isinstance(namespace, str) or not _is_name(namespace) or namespace == SYSTEM_NAMESPACE:
            raise _Unfit("it names no namespace")
        if not _is_name(name) or name == SYSTEM_PRINCIPAL:
            raise _Unfit("it names no principal")
        untrusted = claims.get(settings.jwt_untrusted_claim, False)
        if not isinstance(untrusted, bool):
            raise _Unfit("whether to trust it is neither true nor false")
        said = claims.get(settings.jwt_scope_claim, claims.get(_SCOPES_ELSEWHERE, ""))
        return Caller(namespace, Principal(name=name, scopes=_scopes(said), untrusted=untrusted))


def jwt_authenticator(settings: Settings) -> JwtAuthenticator:
    """Return one with the keys that the settings name; raises SettingsError when their file cannot be used."""
    file = settings.jwt_key_file
    return JwtAuthenticator(settings, PublishedKeys(settings.jwt_jwks_url) if file is None else FileKey(file))


class _Unfit(Exception):
    """A token is not valid here. The text is for the log, and never says what stood in the token."""


def _header(token: str) -> _Header:
    if len(token) > TOKEN_CHARS:
        raise _Unfit("it is too long")
    head = token.partition(".")[0]
    try:
        return msgspec.json.decode(urlsafe_b64decode(head + "=" * (-len(head) % 4)), type=_Header)
    except (msgspec.DecodeError, binascii.Error, ValueError, RecursionError):
        raise _Unfit("it has no header") from None


def _is_name(text: str) -> bool:
    return bool(text.strip()) and len(text) <= limits.NAME_CHARS and problem_in(text) is None


def _scopes(said: object) -> tuple[Scope, ...]:
    """Return those of our scopes that a claim names, as one text with spaces or as a list."""
    words = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
    return tuple(scope for scope in Scope if scope in words)
