"""The public keys that JWTs are signed with: one in a file, or those that an identity provider publishes."""

import asyncio
import logging
import time
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

from engramq.gateway.identity.shared import Shared
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.settings import SettingsError

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
class Key:
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
            raise SettingsError(f"ENGRAMQ_JWT_KEY_FILE: {path} cannot be read: {problem.strerror}.") from None
        except (ValueError, UnsupportedAlgorithm):
            raise SettingsError(f"ENGRAMQ_JWT_KEY_FILE: {path} holds no public key in PEM form.") from None
        usable = usable_key(key)
        if usable is None:
            raise SettingsError(
                f"ENGRAMQ_JWT_KEY_FILE: {path} must hold an RSA key of at least {RSA_BITS} bits, one on the curve "
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
        self._keys: tuple[Key, ...] = ()
        self._fetched_at = self._tried_at = -BELIEVED_S
        self._failing = False
        self._fetches: Shared[None] = Shared(1)

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


def keys_in(document: bytes) -> tuple[Key, ...]:
    """Return the usable keys of a JWKS document; what is meant for something else is left out.

    Raises ValueError or msgspec.DecodeError when the document is not a JWKS or holds no usable key.
    """
    document_type = dict[str, Any]
    listed = msgspec.json.decode(document, type=document_type).get("keys")
    if not isinstance(listed, list):
        raise ValueError("no keys")
    keys = tuple(key for one in listed[:KEYS_MAX] if isinstance(one, dict) and (key := _key_of(one)) is not None)
    if not keys:
        raise ValueError("no usable key")
    return keys


def usable_key(key: object, kid: str | None = None, only: str | None = None) -> Key | None:
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
    allowed = frozenset(one for one in algorithms if only in (None, one))
    return Key(key, allowed, kid) if allowed else None


def _key_of(described: dict[str, Any]) -> Key | None:
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


def _pick(keys: tuple[Key, ...], kid: str | None, algorithm: str) -> PublicKey | None:
    """Return the one key that a token can mean; a token that names none must leave no choice."""
    fitting = [key.key for key in keys if algorithm in key.algorithms and kid in (None, key.kid)]
    return fitting[0] if len(fitting) == 1 else None
