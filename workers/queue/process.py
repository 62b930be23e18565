"""A worker process: the workers of several kinds, their schedules and the signals, in one task group."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Sequence
from typing import Final

from engramq.schemas.connection import CONNECTION_ERRORS, RedisConnection, RefusalLog, doubt_of
from engramq.schemas.lanes import Lanes, lanes_of
from engramq.schemas.settings import Settings
from engramq.workers.queue.contract import Actor
from engramq.workers.queue.lanes import ServedLanes
from engramq.workers.queue.periodic import Schedule
from engramq.workers.queue.pipeline import BACKOFF_S

log = logging.getLogger(__name__)

GRACE_S: Final = 8.0  # for what runs when the process is asked to stop
FAREWELL_S: Final = 1.0  # for what a process that ends says of it, once its workers have ended


class Polling:
    """Whether the workers of a process take commands: not before they have begun, nor while Redis is away."""

    def __init__(self) -> None:
        self._lanes: ServedLanes | None = None

    def begin(self, lanes: ServedLanes) -> None:
        """Look at these workers from now on."""
        self._lanes = lanes

    def is_under_way(self) -> bool:
        """Say whether they do."""
        return self._lanes is not None and self._lanes.polls


async def serve(
    actors: Sequence[Actor],
    settings: Settings,
    *,
    lanes: Lanes | None = None,
    grace_s: float = GRACE_S,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
    polling: Polling | None = None,
    handle_signals: bool = True,
) -> None:
    """Carry out the commands of these kinds until SIGTERM, SIGINT or `stop`.

    Waits for Redis when it is away. Sets `ready` when the workers listen; `polling` is told of them. Raises
    UnsupportedServer when Redis is too old. `settings.redis_url` must name a server; `lanes` are those of the settings,
    shared with others who ask there.
    """
    stop = stop or asyncio.Event()
    lanes = lanes or lanes_of(settings)
    if handle_signals:
        for signum in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    if not await _reach(lanes, stop):
        return
    async with asyncio.TaskGroup() as group:
        served = ServedLanes(actors, lanes, group, stop, grace_s=grace_s)
        if polling is not None:
            polling.begin(served)
        first, keys = served.pipelines[0], lanes.first.keys
        schedules = [
            Schedule(actor.kind, periodic, keys, first, served.send) for actor in actors for periodic in actor.schedule
        ]
        scheduled = [group.create_task(schedule.run()) for schedule in schedules]
        log.info("Workers serve", extra={"kinds": [str(actor.kind) for actor in actors], "lanes": len(lanes.all)})
        if ready is not None:
            ready.set()
        await stop.wait()
        log.info("Workers stop", extra={"jobs": sum(len(worker.running) for worker in served.workers)})
        for worker in served.workers:
            worker.stop()
        await asyncio.wait(served.running)
        await asyncio.wait(served.reporting, timeout=FAREWELL_S)
        giving_back = (*served.reporting, *scheduled)
        for task in giving_back:
            task.cancel()
        await asyncio.wait(giving_back, timeout=FAREWELL_S)  # the schedules give their keys back by the first pipeline
        for task in served.endless:
            task.cancel()


async def _reach(lanes: Lanes, stop: asyncio.Event) -> bool:
    """Wait until Redis answers for some lane and is new enough; False when `stop` came first."""
    connections, failures, refusals = [RedisConnection(lane.redis) for lane in lanes.all], 0, RefusalLog(log)
    try:
        while not stop.is_set():
            for lane, connection in zip(lanes.all, connections, strict=True):
                try:
                    await connection.open()
                    if missing := await connection.missing_rights(lane.keys):
                        log.error("Redis refuses", extra={"error": missing})
                except CONNECTION_ERRORS as problem:
                    if not refusals.note(problem) and not failures:
                        error = doubt_of(problem) or type(problem).__name__
                        log.warning("Redis is not there yet", extra={"error": error})
                    failures += 1
                else:
                    return True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), BACKOFF_S[min(failures, len(BACKOFF_S)) - 1])
        return False
    finally:
        for connection in connections:
            await connection.close()
