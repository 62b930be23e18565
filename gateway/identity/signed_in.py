"""Who has signed in at the page. A bearer token is given once, and a cookie stands for it from then on.

The cookie's value is random. Redis has the token sealed under a key that follows from the cookie, below a digest of it:
whoever reads all of Redis has no token, whoever has a cookie alone has none either, and signing out ends it everywhere.
"""

import hashlib
import hmac
import secrets
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from redis.asyncio import Redis

from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.keys import Keys
from engramq.schemas.servers import CLIENT_ERRORS

LASTS_S: Final = 12 * 3600  # then the token is asked for again
COOKIE_BYTES: Final = 32
_NONCE_BYTES: Final = 12


def new_cookie() -> str:
    """Return the value of a new cookie."""
    return secrets.token_urlsafe(COOKIE_BYTES)


def form_token(cookie: str) -> str:
    """Return what every form of this visitor has to bring back: who cannot read the cookie cannot make it."""
    return _derived(cookie, "form").hex()


def is_form_token(cookie: str, given: str) -> bool:
    """Say whether a form has brought back what was put into it."""
    return hmac.compare_digest(form_token(cookie).encode(), given.encode("utf-8", "replace"))


class SignedIn:
    """The tokens of those who have signed in."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis: Any = redis
        self._keys = keys

    async def keep(self, token: str) -> str:
        """Keep a token that was found good, and return the cookie that stands for it; see `token_of` for errors."""
        cookie, nonce = new_cookie(), secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + AESGCM(_derived(cookie, "token")).encrypt(nonce, token.encode(), None)
        try:
            await self._redis.set(self._key(cookie), sealed, ex=LASTS_S)
        except CLIENT_ERRORS as problem:
            raise refuse(FaultCode.UNAVAILABLE, "Redis cannot be reached, so nobody can sign in.") from problem
        return cookie

    async def token_of(self, cookie: str) -> str | None:
        """Return the token that a cookie stands for, None for none; raises EngramqError when Redis is away."""
        try:
            sealed: bytes | None = await self._redis.get(self._key(cookie))
        except CLIENT_ERRORS as problem:
            raise refuse(FaultCode.UNAVAILABLE, "Redis cannot be reached, so nobody is known.") from problem
        if sealed is None:
            return None
        try:
            return (
                AESGCM(_derived(cookie, "token")).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None).decode()
            )
        except InvalidTag:  # somebody has written there
            return None

    async def forget(self, cookie: str) -> None:
        """Let a cookie stand for nothing any more; see `token_of` for errors."""
        try:
            await self._redis.delete(self._key(cookie))
        except CLIENT_ERRORS as problem:
            raise refuse(FaultCode.UNAVAILABLE, "Redis cannot be reached: you are still signed in.") from problem

    def _key(self, cookie: str) -> str:
        return self._keys.page_session(_derived(cookie, "key").hex())


def _derived(cookie: str, purpose: str) -> bytes:
    """Return 32 bytes that follow from a cookie; those for one purpose tell nothing of those for another."""
    return hmac.digest(cookie.encode("utf-8", "replace"), f"engramq page {purpose}".encode(), hashlib.sha256)
