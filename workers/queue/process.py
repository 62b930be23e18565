"""A worker process: the workers of several kinds, their schedules and the signals, in one task group."""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Sequence
from typing import Final

from redis.exceptions import RedisError

from engramq.schemas.connection import CONNECTION_ERRORS, RedisConnection, pack
from engramq.schemas.ids import uuid7
from engramq.schemas.jobs import ALIVE_S
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings
from engramq.workers.queue.contract import Actor
from engramq.workers.queue.lease import PoisonSlot
from engramq.workers.queue.periodic import SCRIPTS, Schedule
from engramq.workers.queue.pipeline import BACKOFF_S, ConnectionLost, Pipeline
from engramq.workers.queue.worker import MailboxWorker

log = logging.getLogger(__name__)

GRACE_S: Final = 8.0  # for what runs when the process is asked to stop
FAREWELL_S: Final = 1.0  # for what a process that ends says of it, once its workers have ended
FORGOTTEN_S: Final = 60.0  # after which a silent worker is forgotten


async def serve(
    actors: Sequence[Actor],
    settings: Settings,
    *,
    grace_s: float = GRACE_S,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
    handle_signals: bool = True,
) -> None:
    """Carry out the commands of these kinds until SIGTERM, SIGINT or `stop`.

    Waits for Redis when it is away. Sets `ready` when the workers listen. Raises UnsupportedServer when Redis is too
    old. `settings.redis_url` must name a server.
    """
    stop = stop or asyncio.Event()
    keys = Keys(settings.key_prefix)
    if handle_signals:
        for signum in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    if not await _reach(settings.redis_url, stop):
        return
    slot = PoisonSlot()
    workers = [MailboxWorker(actor, settings.redis_url, keys, grace_s=grace_s, slot=slot) for actor in actors]
    pipeline = Pipeline(settings.redis_url, SCRIPTS)
    schedules = [Schedule(actor.kind, periodic, keys, pipeline) for actor in actors for periodic in actor.schedule]
    endless = [pipeline.run(), *(schedule.run() for schedule in schedules)]
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(worker.async_run()) for worker in workers]
        others = [group.create_task(coroutine) for coroutine in endless]
        reporting = group.create_task(_report_alive(actors, keys, pipeline, stop))
        log.info("Workers serve", extra={"kinds": [str(actor.kind) for actor in actors]})
        if ready is not None:
            ready.set()
        await stop.wait()
        log.info("Workers stop", extra={"jobs": sum(len(worker.running) for worker in workers)})
        for worker in workers:
            worker.stop()
        await asyncio.wait(running)
        await asyncio.wait([reporting], timeout=FAREWELL_S)
        for task in (reporting, *others):
            task.cancel()


async def _reach(redis_url: str, stop: asyncio.Event) -> bool:
    """Wait until Redis answers and is new enough; False when `stop` came first."""
    connection, failures = RedisConnection(redis_url), 0
    try:
        while not stop.is_set():
            try:
                await connection.open()
            except CONNECTION_ERRORS as problem:
                if not failures:
                    log.warning("Redis is not there yet", extra={"error": type(problem).__name__})
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1
            else:
                return True
        return False
    finally:
        await connection.close()


async def _report_alive(actors: Sequence[Actor], keys: Keys, pipeline: Pipeline, stop: asyncio.Event) -> None:
    """Write until `stop` which workers live, so that a mailbox that nobody serves can be told of; then take it back."""
    worker_id = uuid7()
    while not stop.is_set():
        now = time.time()
        with contextlib.suppress(ConnectionLost, RedisError):
            for actor in actors:
                alive = keys.of[actor.kind].alive
                await pipeline.call(pack("ZADD", alive, now, worker_id))
                await pipeline.call(pack("ZREMRANGEBYSCORE", alive, "-inf", now - FORGOTTEN_S))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), ALIVE_S)
    with contextlib.suppress(ConnectionLost, RedisError):
        for actor in actors:
            await pipeline.call(pack("ZREM", keys.of[actor.kind].alive, worker_id))
