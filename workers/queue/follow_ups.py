"""Follow-ups that wait a moment for others of their sort: fewer jobs, each with the work of several.

They are in nobody's transaction: whoever asks for one to be gathered can do without it, since the sweep finds what a
crash took away.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Final

from redis.exceptions import RedisError

from engramq.schemas.codec import encode, encode_job
from engramq.schemas.commands import Command
from engramq.schemas.connection import pack_script
from engramq.schemas.jobs import FOLLOW_UP_BOUND
from engramq.schemas.keys import JOB_KEY, Keys
from engramq.schemas.scripts import ENQUEUE_READS
from engramq.workers.queue.background import Activity
from engramq.workers.queue.contract import FollowUp
from engramq.workers.queue.pipeline import ConnectionLost, Pipeline
from engramq.workers.queue.settlement import follow_up_envelope

log = logging.getLogger(__name__)

GATHER_S: Final = 0.1  # how long follow-ups wait for others
GATHER_MAX_S: Final = 1.0  # how long they may wait while somebody waits for this process
GATHERED_MAX: Final = 2_000  # commands, each of which may have been several; beyond, they are left to the sweep


async def send_follow_ups(pipeline: Pipeline, keys: Keys, follow_ups: Iterable[FollowUp]) -> None:
    """Enqueue follow-ups, a job each. Raises ConnectionLost, RedisError."""
    for follow_up in follow_ups:
        envelope, kind = follow_up_envelope(follow_up), follow_up.command.mailbox
        job = keys.job_id(envelope.id, 1)
        of = keys.of[kind]
        where = (of.mailbox, of.wakeups, of.depth, JOB_KEY + job, of.rate, *keys.guard)
        payload = encode_job([encode(envelope)], time.time_ns() // 1_000_000)
        await pipeline.call(pack_script(ENQUEUE_READS, where, (job, payload, FOLLOW_UP_BOUND // keys.lanes, 0, 0)))


class GatheredFollowUps:
    """Gathers the follow-ups of one worker. `run` sends them; `finish` sends what is left."""

    def __init__(self, keys: Keys, pipeline: Pipeline, activity: Activity) -> None:
        self._keys = keys
        self._pipeline = pipeline
        self._activity = activity
        self._gathered: dict[tuple[str, type[Command]], list[Command]] = {}
        self._arrived = asyncio.Event()
        self._stopping = asyncio.Event()

    def take(self, follow_up: FollowUp) -> None:
        """Keep a follow-up to be sent soon, as a part of one that is there if it can be."""
        command = follow_up.command
        several = self._gathered.setdefault((follow_up.namespace, type(command)), [])
        joined = several[-1].joined(command) if several else None
        if joined is not None:
            several[-1] = joined
        elif sum(map(len, self._gathered.values())) < GATHERED_MAX:
            several.append(command)
        self._arrived.set()

    async def run(self) -> None:
        """Send what comes until cancelled."""
        while True:
            await self._arrived.wait()
            await self._activity.pause(GATHER_S, GATHER_MAX_S, self._stopping)
            await self._send()

    async def finish(self) -> None:
        """Send what is left at once."""
        self._stopping.set()
        await self._send()

    async def _send(self) -> None:
        self._arrived.clear()
        gathered, self._gathered = self._gathered, {}
        follow_ups = [FollowUp(key[0], one) for key, several in gathered.items() for one in several]
        try:
            await send_follow_ups(self._pipeline, self._keys, follow_ups)
        except (ConnectionLost, RedisError) as problem:
            extra = {"count": len(follow_ups), "error": type(problem).__name__}
            log.warning("Follow-ups were lost; the sweep finds the work", extra=extra)
