"""Check JWTs of an identity provider: signature, issuer, audience and times; claims say who is calling.

The public keys come from a file, or from the address where the provider publishes them.
"""

import asyncio
import binascii
import logging
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import anyio.to_thread
import httpx
import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.limits import SharedWork
from engramq.gateway.mcp.arguments import problem_in
from engramq.schemas import limits
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.fields import NOT_IN_NAMES
from engramq.schemas.settings import Settings, SettingsError
from engramq.schemas.vocabulary import SYSTEM_NAMESPACE, SYSTEM_PRINCIPAL, Scope

log = logging.getLogger(__name__)

REFRESH_S: Final = 600.0  # age at which keys are fetched again, while the old ones go on
REFETCH_S: Final = 10.0  # least time between two fetches because of an unknown key
RETRY_S: Final = 2.0  # least time between two fetches while the key server is away
BELIEVED_S: Final = 86_400.0  # how long keys are believed that cannot be fetched again
FETCH_S: Final = 5.0
KEYS_BYTES: Final = 256 * 1024
KEYS_MAX: Final = 100
RSA_BITS: Final = 2048

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key, and the algorithms that a signature by it may have: its kind decides, never the token."""

    key: PublicKey
    algorithms: frozenset[str]
    kid: str | None = None


class IssuerKeys(Protocol):
    """Where the key that a token names comes from."""

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """Return the key, None for an unknown one; raises EngramqError when the keys cannot be fetched."""


class FileKey:
    """One key in a file, read at once."""

    def __init__(self, path: Path) -> None:
        """Raise SettingsError when the file holds no public key that can be used."""
        try:
            key = load_pem_public_key(path.read_bytes())
        except OSError as problem:
            raise SettingsError(f"ENGRAMQ_JWT: {path} cannot be read: {problem.strerror}.") from None
        except (ValueError, UnsupportedAlgorithm):
            raise SettingsError(f"ENGRAMQ_JWT: {path} holds no public key in PEM form.") from None
        usable = usable_key(key)
        if usable is None:
            raise SettingsError(
                f"ENGRAMQ_JWT: {path} must hold an RSA key of at least {RSA_BITS} bits, one on the curve "
                "P-256, P-384 or P-521, or an Ed25519 one."
            )
        self._key = usable

    async def find(self, _kid: str | None, algorithm: str) -> PublicKey | None:
        """Return the key if signatures by it may have that algorithm."""
        return self._key.key if algorithm in self._key.algorithms else None


class PublishedKeys:
    """The keys behind a JWKS address, fetched when they are needed and kept.

    While the key server is away, tokens signed with a known key are still accepted, and others cannot be checked.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._clock = clock
        self._keys: tuple[VerificationKey, ...] = ()
        self._fetched_at = self._tried_at = -BELIEVED_S
        self._failing = False
        self._fetches: SharedWork[None] = SharedWork(1)

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """Return the key; fetch the keys when it is unknown and the last fetch is not too recent."""
        age = self._clock() - self._fetched_at
        if age >= BELIEVED_S:
            self._keys = ()
        found = _pick(self._keys, kid, algorithm)
        if found is None:
            if self._may_fetch():
                await self._fetches.run(self._url, self._fetch)
                found = _pick(self._keys, kid, algorithm)
            if found is None and self._failing:
                raise refuse(FaultCode.UNAVAILABLE, "The issuer's keys cannot be fetched.")
        elif age >= REFRESH_S and self._may_fetch():
            self._fetches.begin(self._url, self._fetch)
        return found

    def _may_fetch(self) -> bool:
        return self._clock() - self._tried_at >= (RETRY_S if self._failing else REFETCH_S)

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(FETCH_S):
                keys = keys_in(await self._download())
        except (httpx.HTTPError, msgspec.DecodeError, OSError, ValueError, RecursionError) as problem:
            log.warning("The issuer's keys cannot be fetched", extra={"error": type(problem).__name__})
            self._failing = True
        else:
            self._keys, self._failing, self._fetched_at = keys, False, self._clock()
        finally:
            self._tried_at = self._clock()

    async def _download(self) -> bytes:
        trusted = await anyio.to_thread.run_sync(httpx.create_ssl_context)  # reads some 200 certificates
        async with (
            httpx.AsyncClient(verify=trusted, timeout=FETCH_S, follow_redirects=False) as client,
            client.stream("GET", self._url, headers={"accept": "application/json"}) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise ValueError(f"status {response.status_code}")
            body = b""
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > KEYS_BYTES:
                    raise ValueError("too large")
        return body


def keys_in(document: bytes) -> tuple[VerificationKey, ...]:
    """Return the usable keys of a JWKS document; what is meant for something else is left out.

    Raises ValueError or msgspec.DecodeError when the document is not a JWKS or holds no usable key.
    """
    document_type = dict[str, Any]
    listed = msgspec.json.decode(document, type=document_type).get("keys")
    if not isinstance(listed, list):
        raise ValueError("no keys")
    keys = tuple(
        key
        for described in listed[:KEYS_MAX]
        if isinstance(described, dict) and (key := _key_of(described)) is not None
    )
    if not keys:
        raise ValueError("no usable key")
    return keys


def usable_key(key: object, kid: str | None = None, only: str | None = None) -> VerificationKey | None:
    """Return a public key with the algorithms that its kind has (`only`: that one alone); None for any other object."""
    algorithms: Iterable[str] = ()
    if isinstance(key, RSAPublicKey):
        algorithms = _RSA if key.key_size >= RSA_BITS else ()
    elif isinstance(key, EllipticCurvePublicKey):
        algorithms = {_CURVES[key.curve.name]} if key.curve.name in _CURVES else ()
    elif isinstance(key, Ed25519PublicKey):
        algorithms = {"EdDSA"}
    else:
        return None
    allowed = frozenset(algorithm for algorithm in algorithms if only in (None, algorithm))
    return VerificationKey(key, allowed, kid) if allowed else None


def _key_of(described: dict[str, Any]) -> VerificationKey | None:
    kid, only = described.get("kid"), described.get("alg")
    use, operations = described.get("use", "sig"), described.get("key_ops", ["verify"])
    if use != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return None
    if not isinstance(kid, str | None) or not isinstance(only, str | None):
        return None
    try:
        key = jwt.PyJWK({name: value for name, value in described.items() if name != "alg"}).key
    except (jwt.PyJWTError, UnsupportedAlgorithm, ValueError, TypeError):
        return None
    return usable_key(key, kid, only)


def _pick(keys: tuple[VerificationKey, ...], kid: str | None, algorithm: str) -> PublicKey | None:
    """Return the one key that a token can mean; a token that names none must leave no choice."""
    fitting = [key.key for key in keys if algorithm in key.algorithms and kid in (None, key.kid)]
    return fitting[0] if len(fitting) == 1 else None


TOKEN_CHARS: Final = 8_192
LEEWAY_S: Final = 30.0  # by which the issuer's clock may differ from ours
# Asymmetric signatures only: with a shared secret every verifier of tokens could also issue them.
ALGORITHMS: Final = _RSA | {*_CURVES.values(), "EdDSA"}
_SCOPES_ELSEWHERE: Final = "scp"
_REQUIRED: Final = ["exp", "iss", "aud", "sub"]


class _TokenHeader(msgspec.Struct):
    """The fields of a token's header that are read before the signature is checked."""

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
        if header.alg not in ALGORITHMS:
            raise _Unfit("its algorithm is not allowed")
        key = await self._keys.find(header.kid, header.alg)
        if key is None:
            raise _Unfit("no key of the issuer's fits it")
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[header.alg],
                issuer=self._settings.jwt.issuer,
                audience=self._settings.jwt.audience,
                leeway=LEEWAY_S,
                options={"require": _REQUIRED},
            )
        except jwt.PyJWTError as problem:
            raise _Unfit(type(problem).__name__) from None
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise _Unfit("it cannot be read") from None
        return self._caller_in(claims)

    def _caller_in(self, claims: dict[str, Any]) -> Caller:
        called = self._settings.jwt
        namespace, name = claims.get(called.namespace), claims["sub"]
        if not isinstance(namespace, str) or not _is_name(namespace) or namespace == SYSTEM_NAMESPACE:
            raise _Unfit("it names no namespace")
        if not _is_name(name) or name == SYSTEM_PRINCIPAL:
            raise _Unfit("it names no principal")
        untrusted = claims.get(called.untrusted, False)
        if not isinstance(untrusted, bool):
            raise _Unfit("whether to trust it is neither true nor false")
        said = claims.get(called.scope, claims.get(_SCOPES_ELSEWHERE, ""))
        return Caller(namespace, Principal(name=name, scopes=_scopes(said), untrusted=untrusted))


def jwt_authenticator(settings: Settings) -> JwtAuthenticator:
    """Return one with the keys that the settings name; raises SettingsError when their file cannot be used."""
    keys = settings.jwt.keys
    assert keys is not None  # read_settings refuses jwt without any
    return JwtAuthenticator(settings, PublishedKeys(keys) if isinstance(keys, str) else FileKey(keys))


class _Unfit(Exception):
    """A token is not valid here. The text is for the log, and never says what stood in the token."""


def _header(token: str) -> _TokenHeader:
    if len(token) > TOKEN_CHARS:
        raise _Unfit("it is too long")
    head = token.partition(".")[0]
    try:
        return msgspec.json.decode(urlsafe_b64decode(head + "=" * (-len(head) % 4)), type=_TokenHeader)
    except (msgspec.DecodeError, binascii.Error, ValueError, RecursionError):
        raise _Unfit("it has no header") from None


def _is_name(text: str) -> bool:
    is_shown_as_it_is = NOT_IN_NAMES.search(text) is None and problem_in(text) is None
    return bool(text.strip()) and len(text) <= limits.NAME_CHARS and is_shown_as_it_is


def _scopes(said: object) -> tuple[Scope, ...]:
    """Return those of our scopes that a claim names, as one text with spaces or as a list."""
    words = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
    return tuple(scope for scope in Scope if scope in words)
