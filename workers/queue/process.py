"""Run a worker process: the workers of several kinds in every lane, periodic work and signals, in one task group.

Every worker of a kind has the schedule of its periodic work; a Redis key decides which of them runs it.
"""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from redis.exceptions import RedisError

from engramq.schemas.clocks import Presence
from engramq.schemas.connection import CONNECTION_ERRORS, Lanes, RedisConnection, lanes_of, pack, pack_script
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import Keys, lane_of
from engramq.schemas.limits import ALIVE_S
from engramq.schemas.redis_problems import RefusalLog, doubt_of
from engramq.schemas.scripts import ENQUEUE_READS, KEEP_SCHEDULE, REGISTER
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.telemetry.spans import process_name
from engramq.workers.queue.contract import FollowUp, Periodic, WorkerSpec
from engramq.workers.queue.erasures import Erasures
from engramq.workers.queue.pipeline import BACKOFF_S, ConnectionLost, Pipeline
from engramq.workers.queue.settlement import send_follow_ups
from engramq.workers.queue.worker import MailboxWorker, PoisonSlot

log = logging.getLogger(__name__)

GRACE_S: Final = 8.0  # for what runs when the process is asked to stop
FAREWELL_S: Final = 1.0  # for what a process that ends says of it, once its workers have ended
FORGOTTEN_S: Final = 60.0  # after which a silent worker is forgotten
FIRST_TURN_S: Final = 60.0  # after a start, at most: a stack that is stopped every ten minutes has its turns too
RENEW_KEY_S: Final = 1.5  # how often the key of periodic work that takes long is renewed
SHORTEST_TTL_MS: Final = 5_000  # of that key while the work runs


class Polling:
    """Whether the workers of a process take commands: not before they have begun, nor while Redis is away."""

    def __init__(self) -> None:
        self._workers: Sequence[MailboxWorker] = ()

    def begin(self, workers: Sequence[MailboxWorker]) -> None:
        """Look at these workers from now on."""
        self._workers = workers

    def is_under_way(self) -> bool:
        """Say whether they do."""
        return bool(self._workers) and all(worker.polls for worker in self._workers)


class _LaneWorkers:
    """The content of a process's lanes: workers of each kind, a pipeline, and the signs of life of both."""

    def __init__(
        self,
        specs: Sequence[WorkerSpec],
        lanes: Lanes,
        stop: asyncio.Event,
        *,
        grace_s: float,
        forget: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self._specs = specs
        self._lanes = lanes
        self._stop = stop
        self._worker_id = uuid7()
        self.pipelines = [
            Pipeline(lanes.server, (KEEP_SCHEDULE, ENQUEUE_READS, REGISTER), key=keys.prefix) for keys in lanes.all
        ]
        self._erasures = [
            None if forget is None else Erasures(keys, pipeline, forget)
            for keys, pipeline in zip(lanes.all, self.pipelines, strict=True)
        ]
        slot = PoisonSlot()
        permits = {spec.kind: asyncio.Semaphore(spec.concurrency) for spec in specs}
        self.workers = [
            MailboxWorker(spec, lanes.server, keys, grace_s=grace_s, slot=slot, permits=permits[spec.kind])
            for keys in lanes.all
            for spec in specs
        ]

    async def send(self, follow_ups: Sequence[FollowUp]) -> None:
        """Enqueue follow-ups, each in the lane of its namespace. Raises ConnectionLost, RedisError."""
        for follow_up in follow_ups:
            number = lane_of(follow_up.namespace, len(self.pipelines))
            await send_follow_ups(self.pipelines[number], self._lanes.all[number], [follow_up])

    async def report_alive(self) -> None:
        """Write until `stop` which workers live, so that a mailbox that nobody serves shows; then take them out.

        Each time look also at what was erased, here or elsewhere.
        """
        await asyncio.gather(*map(self._report_alive, self._lanes.all, self.pipelines, self._erasures))

    async def _report_alive(self, keys: Keys, pipeline: Pipeline, erasures: Erasures | None) -> None:
        alive = [keys.of[spec.kind].alive for spec in self._specs]
        presence = Presence(keys, process_name("worker"), forgotten_s=FORGOTTEN_S, fresh_s=3 * ALIVE_S)
        while not self._stop.is_set():
            with contextlib.suppress(ConnectionLost, RedisError):
                for key in alive:
                    presence.answered(await pipeline.call(presence.packed(key, self._worker_id)))
            if erasures is not None:
                await erasures.look()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), ALIVE_S)
        with contextlib.suppress(ConnectionLost, RedisError):
            for key in alive:
                await pipeline.call(pack("ZREM", key, self._worker_id))


class Schedule:
    """One Periodic of one kind. `run` is its task; what the work returns goes out by `send`."""

    def __init__(
        self,
        kind: WorkerKind,
        periodic: Periodic,
        keys: Keys,
        pipeline: Pipeline,
        send: Callable[[Sequence[FollowUp]], Awaitable[None]],
    ) -> None:
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
            result = await self._periodic.run()
            if isinstance(result, tuple):
                await self._send([item for item in result if isinstance(item, FollowUp)])
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


async def serve(
    specs: Sequence[WorkerSpec],
    settings: Settings,
    *,
    lanes: Lanes | None = None,
    grace_s: float = GRACE_S,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
    polling: Polling | None = None,
    handle_signals: bool = True,
    forget: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Carry out the commands of these kinds until SIGTERM, SIGINT or `stop`.

    Waits for Redis when it is away. Sets `ready` when the workers listen; `polling` looks at them. `forget` takes what
    other processes erased out of what this one remembers. Raises UnsupportedServer when Redis is too old, or used with
    another number of lanes. `settings.redis_url` must name a server; `lanes` are those of the settings, shared with
    others who ask there.
    """
    stop = stop or asyncio.Event()
    lanes = lanes or lanes_of(settings)
    if handle_signals:
        for signum in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    if not await _reach(lanes, stop):
        return
    async with asyncio.TaskGroup() as group:
        served = _LaneWorkers(specs, lanes, stop, grace_s=grace_s, forget=forget)
        working = [group.create_task(worker.run()) for worker in served.workers]
        reporting = group.create_task(served.report_alive())
        piping = [group.create_task(pipeline.run()) for pipeline in served.pipelines]
        if polling is not None:
            polling.begin(served.workers)
        first, keys = served.pipelines[0], lanes.first
        schedules = [
            Schedule(spec.kind, periodic, keys, first, served.send) for spec in specs for periodic in spec.schedule
        ]
        scheduled = [group.create_task(schedule.run()) for schedule in schedules]
        log.info("Workers serve", extra={"kinds": [str(spec.kind) for spec in specs], "lanes": len(lanes.all)})
        if ready is not None:
            ready.set()
        await stop.wait()
        log.info("Workers stop", extra={"jobs": sum(len(worker.running) for worker in served.workers)})
        for worker in served.workers:
            worker.stop()
        await asyncio.wait(working)
        await asyncio.wait([reporting], timeout=FAREWELL_S)
        giving_back = (reporting, *scheduled)
        for task in giving_back:
            task.cancel()
        await asyncio.wait(giving_back, timeout=FAREWELL_S)  # the schedules give their keys back by the first pipeline
        for task in piping:
            task.cancel()


async def _reach(lanes: Lanes, stop: asyncio.Event) -> bool:
    """Wait until Redis answers for some lane and is new enough; False when `stop` came first."""
    connections = [RedisConnection(lanes.server, key=keys.prefix) for keys in lanes.all]
    failures, refusals = 0, RefusalLog(log)
    try:
        while not stop.is_set():
            for keys, connection in zip(lanes.all, connections, strict=True):
                try:
                    await connection.open()
                    await lanes.require_number()
                    if missing := await connection.missing_rights(keys):
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
