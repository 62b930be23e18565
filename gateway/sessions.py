"""What a session remembers: the last memory stored, the last ones recalled, all that it touched.

It lives in Redis under (namespace, principal, session), so that gateways come, go and share it; the worker's half
writes it in the step that sends the reply.
"""

import re
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from engramq.schemas import limits
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import format_time
from engramq.schemas.keys import Keys
from engramq.schemas.scripts import BEGIN_SESSION, READ_SESSION, Script
from engramq.schemas.vocabulary import RECALLED_REFERENCE, STORED_REFERENCE

_RECALLED: Final = re.compile(re.escape(RECALLED_REFERENCE) + r"\[(0|[1-9][0-9]{0,5})\]")
_GAP_MS: Final = limits.SESSION_GAP_SECONDS * 1000


class SessionBreadcrumbs(msgspec.Struct, frozen=True, kw_only=True):
    """The breadcrumbs of a session. Times are RFC 3339; null when there are none.

    `last_recalled_ids` keeps the numbering of the search: an id that was erased since is null in its place.
    """

    last_stored_id: str | None = None
    last_recalled_ids: tuple[str | None, ...] = ()
    session_memory_ids: tuple[str, ...] = ()
    expires_at: str | None = None


class Breadcrumbs:
    """The client belongs to the caller. Every method raises EngramqError `unavailable` when Redis is away."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis: Any = redis
        self._keys = keys

    async def begin(self, namespace: str, principal: str, session: str) -> int:
        """Clear a session and return its new instance, a number that is never used twice."""
        name = self._keys.session(namespace, principal, session)
        arguments = (name, limits.BREADCRUMB_SECONDS, _GAP_MS)
        return int(await self._run(BEGIN_SESSION, (namespace, principal, session), *arguments))

    async def read(self, namespace: str, principal: str, session: str) -> SessionBreadcrumbs:
        """Return the breadcrumbs of a session."""
        found = await self._look(namespace, principal, session, touched=True)
        if not found:
            return SessionBreadcrumbs()
        stored, recalled, expires_ms, touched = found
        return SessionBreadcrumbs(
            last_stored_id=stored.decode() or None,
            last_recalled_ids=_recalled(recalled),
            session_memory_ids=tuple(memory_id.decode() for memory_id in touched),
            expires_at=format_time(datetime.fromtimestamp(expires_ms / 1000, UTC)),
        )

    async def resolve(self, ref: str, namespace: str, principal: str, session: str) -> str | None:
        """Return the id that `@stored` or `@recalled[N]` means in this session, None when it means nothing.

        Whatever begins otherwise is an id already and comes back as it is.
        """
        if not ref.startswith("@"):
            return ref
        place = _RECALLED.fullmatch(ref)
        if ref != STORED_REFERENCE and place is None:
            return None
        found = await self._look(namespace, principal, session, touched=False)
        if not found:
            return None
        if place is None:
            return found[0].decode() or None
        recalled, number = _recalled(found[1]), int(place[1])
        return recalled[number] if number < len(recalled) else None

    async def _look(self, namespace: str, principal: str, session: str, *, touched: bool) -> list[Any]:
        name = self._keys.session(namespace, principal, session)
        arguments = (name, limits.BREADCRUMB_SECONDS, _GAP_MS, int(touched))
        found: list[Any] = await self._run(READ_SESSION, (namespace, principal, session), *arguments)
        return found

    async def _run(self, script: Script, whose: tuple[str, str, str], *arguments: str | int) -> Any:
        keys = self._keys
        where = (keys.session_state(*whose), keys.touched(*whose), keys.sessions(whose[0]))
        try:
            # The text goes along each time: it is 2 KB on a local socket, and no NOSCRIPT has to be handled.
            return await self._redis.eval(script.text, len(where), *where, *arguments)
        except (RedisError, OSError) as problem:
            raise refuse(FaultCode.UNAVAILABLE, "The breadcrumbs cannot be reached.") from problem


def _recalled(data: bytes) -> tuple[str | None, ...]:
    return tuple(memory_id or None for memory_id in data.decode().split("\n")[:-1])
