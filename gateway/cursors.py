"""Sign and check the cursors of lists: each is a position, valid for the same namespace and filters only.

The key that signs them is made once per installation and kept in Redis, so that every gateway honours every cursor.
"""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import UNSET
from redis.asyncio import Redis

from engramq.schemas.commands import Command
from engramq.schemas.connection import CLIENT_ERRORS
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import EngramqError, FaultCode, invalid, refuse
from engramq.schemas.keys import Keys
from engramq.schemas.redis_problems import refusal_of

CURSOR: Final = "cursor"
NEXT_CURSOR: Final = "next_cursor"
SECRET_BYTES: Final = 32
_TAG_BYTES: Final = 16
_AS_OF: Final = "as_of"
_UNBOUND: Final = frozenset({CURSOR, "limit"})  # pages of one list may differ in length


def seal_cursor(position: str, secret: bytes, envelope: Envelope) -> str:
    """Return the cursor that stands for a position in the list that was asked for."""
    body = position.encode()
    return base64.urlsafe_b64encode(_tag(body, secret, envelope) + body).decode()


def unseal_cursor(envelope: Envelope, secret: bytes) -> Command:
    """Return the command with the position in place of its cursor.

    Raises EngramqError naming `cursor` unless it was sealed for this very list.
    """
    cursor: str = getattr(envelope.command, CURSOR)
    try:
        sealed = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _bad() from None
    tag, body = sealed[:_TAG_BYTES], sealed[_TAG_BYTES:]
    canonical = base64.urlsafe_b64encode(sealed).decode() == cursor  # spare bits must not make a second spelling
    if not canonical or not hmac.compare_digest(tag, _tag(body, secret, envelope)):
        raise _bad()
    return msgspec.structs.replace(envelope.command, **{CURSOR: body.decode()})


def _tag(body: bytes, secret: bytes, envelope: Envelope) -> bytes:
    bound = json.dumps([envelope.namespace, _filters(envelope.command_in_project())], sort_keys=True).encode()
    return hmac.digest(secret, len(bound).to_bytes(4) + bound + body, hashlib.sha256)[:_TAG_BYTES]


def _filters(command: Command) -> dict[str, Any]:
    """Return the parameters that choose what is listed, defaults included; the order of names in one means nothing."""
    chosen = {
        name: getattr(command, name)
        for name in command.__struct_fields__
        if name not in _UNBOUND and getattr(command, name) is not UNSET
    }
    filters: dict[str, Any] = msgspec.to_builtins(chosen)
    if isinstance(moment := chosen.get(_AS_OF), datetime):  # today stands for now, which is later on the next page
        filters[_AS_OF] = moment.astimezone(UTC).date().isoformat()
    sorted_filters = {
        name: sorted(value) if isinstance(value, list | tuple) else value for name, value in filters.items()
    }
    return {"list": type(command).__name__, **sorted_filters}


def _bad() -> EngramqError:
    return invalid(
        CURSOR,
        "cursor was not given out for this list.",
        "Give next_cursor of the last page with the same filters, or leave cursor out to start again.",
    )


class CursorSecret:
    """Reads the key whenever it is needed (pages of lists only): one that was kept would outlive an emptied Redis."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis: Any = redis
        self._key = keys.cursor_secret

    async def cursor_secret(self) -> bytes:
        """Return the key, made if there is none; raises EngramqError `unavailable` when Redis cannot be reached."""
        fresh = secrets.token_bytes(SECRET_BYTES)
        try:
            # With NX and GET a key that is there stays and is returned; nil says that `fresh` is the key now.
            kept = await self._redis.set(self._key, fresh, nx=True, get=True)
        except CLIENT_ERRORS as problem:
            why = refusal_of(problem) or "The key of the cursors cannot be reached."
            raise refuse(FaultCode.UNAVAILABLE, why) from None
        return fresh if kept is None else bytes(kept)
