"""The workers of one process in every lane: those of the settings, and former ones that have something in them."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from redis.exceptions import RedisError

from engramq.schemas.connection import CONNECTION_ERRORS, RedisConnection, pack, pack_script
from engramq.schemas.ids import uuid7
from engramq.schemas.jobs import ALIVE_S
from engramq.schemas.keys import Keys
from engramq.schemas.lanes import Lane, Lanes, lane_of
from engramq.schemas.scripts import RAISE_LANES
from engramq.schemas.servers import UnsupportedServer
from engramq.workers.queue.contract import Actor, FollowUp
from engramq.workers.queue.follow_ups import send_follow_ups
from engramq.workers.queue.lease import PoisonSlot
from engramq.workers.queue.periodic import SCRIPTS
from engramq.workers.queue.pipeline import ConnectionLost, Pipeline
from engramq.workers.queue.room import Room
from engramq.workers.queue.worker import MailboxWorker

log = logging.getLogger(__name__)

FORGOTTEN_S: Final = 60.0  # after which a silent worker is forgotten
QUIET_S: Final = 60.0  # that nothing was in a lane of other settings, after which it is served no more


@dataclass(slots=True)
class _Served:
    """What serves one lane. `running` end in order once their workers have been stopped, `reporting` at `stop`."""

    keys: Keys
    pipeline: Pipeline
    workers: list[MailboxWorker]
    running: list[asyncio.Task[None]]
    reporting: asyncio.Task[None]
    piping: asyncio.Task[None]  # to be cancelled
    used_at: float = field(default_factory=time.monotonic)


class ServedLanes:
    """What a process runs in its lanes, as tasks of `group`, until `stop`."""

    def __init__(
        self, actors: Sequence[Actor], lanes: Lanes, group: asyncio.TaskGroup, stop: asyncio.Event, *, grace_s: float
    ) -> None:
        self._actors = actors
        self._lanes = lanes
        self._group = group
        self._stop = stop
        self._grace_s = grace_s
        self._slot = PoisonSlot()
        self._rooms = {actor.kind: Room(actor.concurrency) for actor in actors}
        self._worker_id = uuid7()
        self._served: dict[str, _Served] = {}  # by the lane's prefix
        self.pipelines = [self._begin(lane) for lane in lanes.all]
        self._of_settings = tuple(self.workers)
        self._finding = group.create_task(self._find_former())

    @property
    def workers(self) -> list[MailboxWorker]:
        """The workers of all lanes."""
        return [worker for one in self._served.values() for worker in one.workers]

    @property
    def running(self) -> list[asyncio.Task[None]]:
        """Tasks each of which ends in order once its worker has been stopped."""
        return [task for one in self._served.values() for task in one.running]

    @property
    def reporting(self) -> list[asyncio.Task[None]]:
        """Tasks that end in order at `stop`."""
        return [one.reporting for one in self._served.values()]

    @property
    def endless(self) -> list[asyncio.Task[None]]:
        """Tasks that have to be cancelled."""
        return [self._finding, *(one.piping for one in self._served.values())]

    @property
    def polls(self) -> bool:
        """Whether all lanes of the settings are polled; former ones may be away for good."""
        return all(worker.polls for worker in self._of_settings)

    async def send(self, follow_ups: Iterable[FollowUp]) -> None:
        """Enqueue follow-ups, each in the lane of its namespace. Raises ConnectionLost, RedisError."""
        for follow_up in follow_ups:
            number = lane_of(follow_up.namespace, len(self.pipelines))
            await send_follow_ups(self.pipelines[number], self._lanes.all[number].keys, [follow_up])

    def _begin(self, lane: Lane) -> Pipeline:
        """Serve a lane."""
        pipeline, spawn = Pipeline(lane.redis, (*SCRIPTS, RAISE_LANES)), self._group.create_task
        workers = [
            MailboxWorker(
                actor, lane.redis, lane.keys, grace_s=self._grace_s, slot=self._slot, room=self._rooms[actor.kind]
            )
            for actor in self._actors
        ]
        self._served[lane.keys.prefix] = _Served(
            lane.keys,
            pipeline,
            workers,
            running=[spawn(worker.async_run()) for worker in workers],
            reporting=spawn(self._report_alive(lane.keys, pipeline)),
            piping=spawn(pipeline.run()),
        )
        return pipeline

    async def _end(self, prefix: str) -> None:
        """Serve a lane no more: what it still carries out ends, and its connections are closed."""
        one = self._served[prefix]
        for worker in one.workers:
            worker.stop()
        await asyncio.wait(one.running)
        one.reporting.cancel()
        await self._tell_gone(one.keys, one.pipeline)
        one.piping.cancel()
        del self._served[prefix]
        log.info("A lane of other settings is served no more", extra={"lane": prefix})

    async def _report_alive(self, keys: Keys, pipeline: Pipeline) -> None:
        """Write until `stop` which workers live, so that a mailbox that nobody serves can be told of; then undo it."""
        while not self._stop.is_set():
            now = time.time()
            with contextlib.suppress(ConnectionLost, RedisError):
                for actor in self._actors:
                    alive = keys.of[actor.kind].alive
                    await pipeline.call(pack("ZADD", alive, now, self._worker_id))
                    await pipeline.call(pack("ZREMRANGEBYSCORE", alive, "-inf", now - FORGOTTEN_S))
            await self._pause()
        await self._tell_gone(keys, pipeline)

    async def _tell_gone(self, keys: Keys, pipeline: Pipeline) -> None:
        with contextlib.suppress(ConnectionLost, RedisError):
            for actor in self._actors:
                await pipeline.call(pack("ZREM", keys.of[actor.kind].alive, self._worker_id))

    async def _find_former(self) -> None:
        """Serve, until `stop`, each lane of other settings as soon as something is in it, until nothing is.

        Other settings are those of before, and those of gateways that have been started anew before their workers.
        """
        connections: dict[str, RedisConnection] = {}
        try:
            while not self._stop.is_set():
                with contextlib.suppress(ConnectionLost, RedisError):
                    for prefix, lane in self._lanes.former(await self._most()).items():
                        connection = connections.setdefault(prefix, RedisConnection(lane.redis))
                        await self._look_at(lane, await _is_used(connection, lane.keys))
                await self._pause()
        finally:
            for connection in connections.values():
                await connection.close()

    async def _look_at(self, lane: Lane, is_used: bool | None) -> None:
        """Begin to serve a lane of other settings that is used, end one that has not been for a while."""
        prefix, now = lane.keys.prefix, time.monotonic()
        served = self._served.get(prefix)
        if self._stop.is_set():
            return
        if served is None:
            if is_used:
                log.info("A lane of other settings is served", extra={"lane": prefix})
                self._begin(lane)
        elif is_used is not False or any(worker.running for worker in served.workers):
            served.used_at = now
        elif now - served.used_at > QUIET_S:
            await self._end(prefix)

    async def _most(self) -> int:
        """Return how many lanes there have ever been; note how many there are."""
        if not self._lanes.tagged:
            return int(await self.pipelines[0].call(pack("GET", self._lanes.mark)) or 0)
        raised = pack_script(RAISE_LANES, self._lanes.mark_keys, (len(self._lanes.all),))
        return int(await self.pipelines[0].call(raised))

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), ALIVE_S)


async def _is_used(connection: RedisConnection, keys: Keys) -> bool | None:
    """Say whether a lane has jobs, dead letters or a gateway; None when its server does not."""
    names = [name for of in keys.of.values() for name in (of.mailbox, of.dead)]
    try:
        await connection.open()
        found: list[Any] = await connection.exchange([pack("EXISTS", keys.reply_lists, *names)])
    except (*CONNECTION_ERRORS, UnsupportedServer):
        return None  # looked at again soon
    return None if isinstance(found[0], RedisError) else found[0] != 0
