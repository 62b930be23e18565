"""Take a long answer in parts, as a worker sends them, and keep how far one is; see schemas/parts.py."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

import anyio
import msgspec
from redis.asyncio import Redis

from engramq.schemas.envelope import PrincipalId
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import Keys
from engramq.schemas.parts import AHEAD, KEPT_S, STALLED_S, Part, decode_part

AT_ONCE: Final = 2  # of one gateway: each holds a connection to Redis
_WAIT_S: Final = 1  # for a part at a time: a refusal is looked for in between
_ENDING_S: Final = 2.0
_TOLD_S: Final = 600


class AnswerBrokenOff(Exception):
    """The rest of the parts will not come."""


class AnswerProgress(msgspec.Struct, frozen=True):
    """How far a long answer is. `state`: running, whole, broken, or large: broken off since its form holds too much.

    `total`: 0 where nobody knows. `left_out` counts what the form of the file cannot hold, by name.
    """

    state: str
    records: int = 0
    total: int = 0
    size: int = 0  # bytes
    left_out: dict[str, int] = {}


class PartTaker:
    """Takes parts for the callers of one gateway."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis: Any = redis
        self._keys = keys
        self._under_way = 0

    async def parts(self, ask: Callable[[str], Awaitable[None]]) -> AsyncGenerator[Part, None]:
        """Yield the parts that a command sends; `ask` sends it, with the channel, and raises what it is refused by.

        Closed before the end, it cancels `ask`. Raises EngramqError, BrokenOff, CLIENT_ERRORS.
        """
        if self._under_way >= AT_ONCE:
            raise refuse(FaultCode.OVERLOADED, "Others are under way. Begin this one when they have ended.")
        self._under_way += 1
        channel = uuid7()
        asking = asyncio.ensure_future(ask(channel))
        try:
            await self._make_room(channel, AHEAD)
            number, is_last = 0, False
            while not is_last:
                part = await self._next(channel, asking)
                if part.number != number:
                    raise AnswerBrokenOff("A part was lost, or another worker has begun anew.")
                if part.is_last:
                    await asyncio.wait([asking], timeout=_ENDING_S)  # nobody goes on after the last part
                yield part
                number, is_last = number + 1, part.is_last
                await self._make_room(channel, 1)
        finally:
            self._under_way -= 1
            asking.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.gather(asking, return_exceptions=True)

    async def _make_room(self, channel: str, parts: int) -> None:
        async with self._redis.pipeline(transaction=False) as batch:
            batch.rpush(self._keys.room(channel), *["1"] * parts)
            batch.expire(self._keys.room(channel), KEPT_S)
            await batch.execute()

    async def _next(self, channel: str, asking: asyncio.Future[None]) -> Part:
        for _ in range(STALLED_S // _WAIT_S):
            taken = await self._redis.blpop([self._keys.parts(channel)], _WAIT_S)
            if taken is not None:
                return decode_part(taken[1])
            if asking.done():
                asking.result()
        raise AnswerBrokenOff("No part has come.")

    async def tell(self, namespace: str, principal: PrincipalId, name: str, progress: AnswerProgress) -> None:
        """Keep how far what this principal knows by a name is; raises CLIENT_ERRORS, as `progress` does."""
        key = self._keys.page_export(namespace, principal, name)
        await self._redis.set(key, msgspec.json.encode(progress), ex=_TOLD_S)

    async def progress(self, namespace: str, principal: PrincipalId, name: str) -> AnswerProgress | None:
        """Return how far it is, None where there is none."""
        found = await self._redis.get(self._keys.page_export(namespace, principal, name))
        return None if found is None else msgspec.json.decode(found, type=AnswerProgress)
