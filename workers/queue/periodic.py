"""Periodic work: every worker of a kind has the schedule, a Redis key decides which of them runs it."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from engramq.schemas.connection import pack, pack_script
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import Keys
from engramq.schemas.scripts import ENQUEUE_READS, KEEP_SCHEDULE
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import FollowUp, Periodic
from engramq.workers.queue.pipeline import ConnectionLost, Pipeline

log = logging.getLogger(__name__)

FIRST_TURN_S: Final = 60.0  # after a start, at most: a stack that is stopped every ten minutes has its turns too
RENEW_KEY_S: Final = 1.5  # how often the key of work that takes long is renewed
SHORTEST_TTL_MS: Final = 5_000  # of the key while the work runs

SCRIPTS: Final = (KEEP_SCHEDULE, ENQUEUE_READS)


Send = Callable[[Sequence[FollowUp]], Awaitable[None]]


class Schedule:
    """One Periodic of one kind. `run` is its task; what the work returns goes out by `send`."""

    def __init__(self, kind: WorkerKind, periodic: Periodic, keys: Keys, pipeline: Pipeline, send: Send) -> None:
        self._periodic = periodic
        self._guard = keys.guard
        self._send = send
        self._key = keys.schedule(kind, periodic.name)
        self._pipeline = pipeline
        self._token = uuid7()

    async def run(self) -> None:
        """Run the work whenever it is due and no other worker has its key; until cancelled."""
        await asyncio.sleep(min(self._periodic.every_s, FIRST_TURN_S))
        while True:
            with contextlib.suppress(ConnectionLost):
                if await self._pipeline.call(pack("SET", self._key, self._token, "NX", "PX", self._ttl_ms())):
                    await self._run_once()
            await asyncio.sleep(self._periodic.every_s)

    async def _run_once(self) -> None:
        began = time.monotonic()
        renewing = asyncio.create_task(self._renew_key())
        try:
            found = await self._periodic.run()
            if isinstance(found, tuple):
                await self._send([item for item in found if isinstance(item, FollowUp)])
        except ConnectionLost:
            raise
        except Exception as problem:  # noqa: BLE001 - the next time may go well
            extra = {"schedule": self._periodic.name, "error": type(problem).__name__}
            log.error("Periodic work failed", extra=extra)
        finally:
            renewing.cancel()
            # A little less than the period, so that this worker does not miss its own next turn.
            left_s = self._periodic.every_s * 0.9 - (time.monotonic() - began)
            left = (self._token, max(1, round(left_s * 1000)))
            with contextlib.suppress(ConnectionLost):  # at a stop it would take the place of the cancellation
                await self._pipeline.call(pack_script(KEEP_SCHEDULE, (self._key, *self._guard), left))

    async def _renew_key(self) -> None:
        while True:
            await asyncio.sleep(RENEW_KEY_S)
            with contextlib.suppress(ConnectionLost):
                await self._pipeline.call(
                    pack_script(KEEP_SCHEDULE, (self._key, *self._guard), (self._token, self._ttl_ms()))
                )

    def _ttl_ms(self) -> int:
        return max(SHORTEST_TTL_MS, round(self._periodic.every_s * 900))
