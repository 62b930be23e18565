"""What a bearer token looks like, and the digest by which it is known. The token itself is kept nowhere."""

import hashlib
import secrets
from typing import Final

TOKEN_PREFIX: Final = "engramq_"  # noqa: S105 - lets people and scanners of leaked secrets know a token as ours
TOKEN_BYTES: Final = 32  # random ones, so nothing slower than SHA-256 is needed against guessing


def new_token() -> str:
    """Return a new token: the prefix and 43 characters of base64url."""
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def token_digest(token: str) -> str:
    """Return the SHA-256 of a whole token in hexadecimal, whatever characters it has."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
