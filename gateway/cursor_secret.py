"""The key that signs cursors: made once per installation, kept in Redis, so that every gateway honours every cursor."""

import asyncio
import secrets
from typing import Final

from gateway.line import LINE_ERRORS, Line, pack
from schemas.faults import FaultCode, refuse
from schemas.mailbox import Keys, UnsupportedServer

SECRET_BYTES: Final = 32


class CursorSecret:
    """Reads the key whenever it is needed (pages of lists only): one that was kept would outlive an emptied Redis."""

    def __init__(self, redis_url: str, keys: Keys) -> None:
        self._line = Line(redis_url)
        self._key = keys.cursor_secret
        self._lock = asyncio.Lock()

    async def cursor_secret(self) -> bytes:
        """Return the key, made if there is none; raises EngramqError `unavailable` when Redis cannot be reached."""
        fresh = secrets.token_bytes(SECRET_BYTES)
        async with self._lock:
            try:
                await self._line.open()
                # With NX and GET a key that is there stays and is returned; nil says that `fresh` is the key now.
                (kept,) = await self._line.exchange([pack("SET", self._key, fresh, "NX", "GET")])
            except (*LINE_ERRORS, UnsupportedServer):
                raise refuse(FaultCode.UNAVAILABLE, "The queue cannot be reached.") from None
        if isinstance(kept, Exception):
            raise refuse(FaultCode.UNAVAILABLE, "The queue does not answer.")
        return bytes(kept) if kept is not None else fresh

    async def close(self) -> None:
        """Close the connection."""
        await self._line.close()
