"""Pipeline calls over one connection to Redis: those that come while a write is on its way go in the next one."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from redis.exceptions import NoScriptError, ResponseError

from engramq.schemas.connection import CONNECTION_ERRORS, RedisConnection, Server, UnsupportedServer
from engramq.schemas.redis_problems import RefusalLog
from engramq.schemas.scripts import Script

log = logging.getLogger(__name__)

BACKOFF_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.5)  # between attempts to reach a Redis that is away


class ConnectionLost(Exception):
    """Redis could not be reached, did not answer, or refused: whether the call had an effect is unknown."""


class Pipeline:
    """Owns one connection. Anybody may `call`; `run` is the task that sends the calls that had to wait."""

    def __init__(self, redis: str | Server, scripts: Sequence[Script], *, key: str = "") -> None:
        self._connection = RedisConnection(redis, scripts, key=key)
        self._calls: list[tuple[bytes, asyncio.Future[Any]]] = []
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()
        self._closed = asyncio.Event()
        self._reached = True
        self._refusals = RefusalLog(log)

    async def call(self, packed: bytes) -> Any:
        """Return the reply to a packed command; raises ConnectionLost."""
        if self._closed.is_set():
            raise ConnectionLost("this worker is closing")
        if not self._calls and not self._turn.locked():
            # Nothing is on its way: sending the call here, not in `run`, saves two turns of the event loop.
            async with self._turn:
                own: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                try:
                    await self._send([(packed, own)])
                finally:
                    if own.done():
                        own.exception()  # retrieved, even when this call is cancelled
                    if self._closed.is_set():
                        await self._connection.close()  # this call may have opened it again after `run` had closed it
                return own.result()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls.append((packed, answer))
        self._wake.set()
        return await answer

    async def run(self) -> None:
        """Send calls until cancelled; connect again whenever Redis comes back."""
        failures = 0
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._calls:
                    async with self._turn:
                        calls, self._calls = self._calls, []
                        answered = await self._send(calls)
                    if answered:
                        failures = 0
                        continue
                    await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                    failures += 1
        finally:
            self._closed.set()
            for _, answer in self._calls:
                _fail(answer, "this worker is closing")
            await self._connection.close()

    async def _send(self, calls: list[tuple[bytes, asyncio.Future[Any]]]) -> bool:
        replies: list[Any] = []
        try:
            await self._connection.open()
            replies = await self._connection.exchange([packed for packed, _ in calls])
        except (*CONNECTION_ERRORS, UnsupportedServer) as problem:
            if not self._refusals.note(problem) and self._reached:
                log.warning("Redis cannot be reached", extra={"error": type(problem).__name__})
        finally:
            for _, answer in calls[len(replies) :]:
                _fail(answer, "no answer")
        for (_, answer), reply in zip(calls, replies, strict=False):
            if isinstance(reply, NoScriptError):
                await self._connection.close()  # opening it again loads the scripts
            if isinstance(reply, ResponseError):
                _fail(answer, self._refusals.note(reply) or type(reply).__name__)
            elif not answer.done():
                answer.set_result(reply)
        self._reached = bool(replies)
        return self._reached


def _fail(answer: asyncio.Future[Any], reason: str) -> None:
    if not answer.done():
        answer.set_exception(ConnectionLost(reason))
