"""The key that signs cursors: made once per installation, kept in Redis, so that every gateway honours every cursor."""

import secrets
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.keys import Keys

SECRET_BYTES: Final = 32


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
        except (RedisError, OSError):
            raise refuse(FaultCode.UNAVAILABLE, "The key of the cursors cannot be reached.") from None
        return fresh if kept is None else bytes(kept)
