"""arq's Worker, made fast and safe for one mailbox.

What differs from arq: it waits on a wakeups instead of polling, claims in one round trip, holds each job under a lease
that it renews (arq holds it for the longest job's time), and ends a job, its answers included, in one step that only
the holder of the lease can take. Queue, payload, lease and try counter stay where arq keeps them.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec
from arq.utils import poll
from arq.worker import Worker, func
from redis.exceptions import RedisError

from engramq.schemas.codec import JOB_FUNCTION
from engramq.schemas.connection import CONNECTION_ERRORS, EXCHANGE_S, RedisConnection, pack, pack_script
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, TRIES_KEY, Keys
from engramq.schemas.scripts import CLAIM, POISON_TRIES, RELEASE, RENEW, SETTLE, WAKE
from engramq.workers.queue.background import BackgroundTasks
from engramq.workers.queue.contract import Actor
from engramq.workers.queue.dispatcher import MAX_TRIES, Dispatcher
from engramq.workers.queue.job import ClaimedJob, JobContext
from engramq.workers.queue.lease import LEASE_S, RENEW_S, HeldLease, clock
from engramq.workers.queue.pipeline import BACKOFF_S, ConnectionLost, Pipeline
from engramq.workers.queue.poison import PoisonSlot

log = logging.getLogger(__name__)

POLL_S: Final = 5.0  # how long to wait for a wake-up that may have been lost
HAND_BACK_S: Final = 2.0
LOOK_BEYOND: Final = 32  # jobs more than there is room for that a claim looks at: some may have to be left
_LEASE_MS: Final = round(LEASE_S * 1000)


class MailboxWorker(Worker):
    """Carries out the commands of one mailbox. `async_run` serves until `stop` has been called and the rest is done."""

    def __init__(self, actor: Actor, redis_url: str, keys: Keys, *, grace_s: float, slot: PoisonSlot) -> None:
        super().__init__(
            functions=[func(self.carry_out, name=JOB_FUNCTION)],
            queue_name=keys.of[actor.kind].mailbox,
            handle_signals=False,
            max_jobs=actor.concurrency,
            keep_result=0,
            poll_delay=0,
            max_tries=MAX_TRIES,
            allow_abort_jobs=False,
            job_serializer=msgspec.msgpack.encode,
            job_deserializer=msgspec.msgpack.decode,
        )
        self.actor = actor
        self._keys = keys
        self._grace_s = grace_s
        self._slot = slot
        self._wakeups = RedisConnection(redis_url)
        self._pipeline = Pipeline(redis_url, (CLAIM, RENEW, RELEASE, WAKE, SETTLE))
        self._background = BackgroundTasks()
        dispatcher = Dispatcher(actor.kind, actor.handlers, actor.concurrency)
        self._context = JobContext(actor.kind, keys, self._pipeline, dispatcher, self._background, actor.sessions_used)
        self._jobs: dict[str, ClaimedJob] = {}
        self._tokens = (f"{uuid7()}:{count}" for count in itertools.count())
        self._unsure: str | None = None  # the token of a claim whose answer was lost
        self._poison_job = ""  # the id of the job that this worker took the slot for
        self._waking: asyncio.Task[None] | None = None
        self._picking: asyncio.Task[None] | None = None
        self._listening = False
        self._room = asyncio.Event()
        self._busy = asyncio.Event()

    async def main(self) -> None:
        """Serve the mailbox; returns in order after `stop`. Redis may come and go meanwhile."""
        carrying = asyncio.create_task(self._pipeline.run())
        renewing = asyncio.create_task(self._renew_forever())
        self._picking = asyncio.create_task(self._pick_jobs())
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({self._picking, carrying, renewing}, return_when=asyncio.FIRST_COMPLETED)
                for task in (carrying, renewing, self._picking):
                    if task.done():
                        task.result()  # a defect, unless cancelled: better no process than one that serves nothing
            await self._finish()
        finally:
            for task in (renewing, carrying, self._picking, *self.tasks.values()):
                task.cancel()
            await asyncio.gather(renewing, carrying, self._picking, *self.tasks.values(), return_exceptions=True)
            await self.close()

    def stop(self) -> None:
        """Claim nothing more; `async_run` returns when what runs has ended or been handed back."""
        self.allow_pick_jobs = False
        if self._listening and self._picking is not None:
            self._picking.cancel()

    async def close(self) -> None:
        """Close the connections that this worker opened itself."""
        await self._wakeups.close()

    async def carry_out(self, ctx: dict[Any, Any], envelopes: list[bytes]) -> None:
        """Give arq a function of the job's name; `run_job` runs jobs without it."""
        raise NotImplementedError(f"{len(envelopes)} commands for {ctx.get('job_id')} did not come through run_job")

    async def _pick_jobs(self) -> None:
        failures = 0
        async for _ in poll(self.poll_delay_s):
            if not self.allow_pick_jobs:
                return
            try:
                await self._poll_iteration()
                failures = 0
            except (ConnectionLost, *CONNECTION_ERRORS):
                await self._pause(failures)
                failures += 1
            except Exception as problem:  # noqa: BLE001 - a worker that stops serving is worse than one that tries again
                log.error("Picking jobs failed", extra={"mailbox": self.actor.kind, "error": type(problem).__name__})
                await self._pause(failures)
                failures += 1

    async def _pause(self, failures: int) -> None:
        with self._interruptible():
            await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])

    async def _poll_iteration(self) -> None:
        """Claim what is ready and start it; then wait until there is room, or a wake-up, or something is due."""
        room = self.max_jobs - sum(len(job.open) or 1 for job in self._jobs.values())
        if room <= 0:
            self._room.clear()
            with self._interruptible():
                await self._room.wait()
            return
        claimed, more, wait_s = await self._claim(room)
        await self.start_jobs(claimed)
        await asyncio.sleep(0)  # the jobs have started before time is spent on listening
        if not more and self.allow_pick_jobs:
            await self._listen(wait_s)

    async def _claim(self, room: int) -> tuple[list[bytes], bool, float]:
        """Return the ids of claimed jobs, whether more is ready, and how long to wait for a wake-up at most."""
        keys, kind = self._keys, self.actor.kind
        mailbox, wakeups = keys.of[kind].mailbox, keys.of[kind].wakeups
        await self._release_unsure()
        token = next(self._tokens)
        slot = self._slot.take()
        arguments = (token, _LEASE_MS, room, room + LOOK_BEYOND, JOB_KEY, LEASE_KEY, TRIES_KEY, int(slot))
        claim = pack_script(CLAIM, (mailbox, wakeups, keys.of[kind].depth), arguments)
        self._unsure, sent_at = token, clock()
        try:
            more, due_ms, left, *found = await self._pipeline.call(claim)
            jobs = [
                ClaimedJob(job_id.decode(), payload, tries, HeldLease(token, sent_at), self._context)
                for job_id, payload, tries in zip(found[0::3], found[1::3], found[2::3], strict=True)
            ]
            self._unsure = None
            poison_jobs = [job.job_id for job in jobs if job.tries > POISON_TRIES]
            if poison_jobs:
                slot, (self._poison_job,) = False, poison_jobs
        finally:
            if slot:
                self._slot.give_back()
        if left:
            self._slot.tell_when_free(self._look_again)
        self._jobs.update((job.job_id, job) for job in jobs)
        return found[0::3], bool(more), POLL_S if due_ms < 0 else min(POLL_S, due_ms / 1000)

    def _look_again(self) -> None:
        """Wake this worker or another one, to take a poison job that was left."""
        self._waking = asyncio.create_task(self._wake())

    async def _wake(self) -> None:
        with contextlib.suppress(ConnectionLost):
            await self._pipeline.call(pack_script(WAKE, (self._keys.of[self.actor.kind].wakeups,), ()))

    async def _release_unsure(self) -> None:
        """Give back at once what a claim took whose answer was lost, instead of letting its lease run out."""
        if self._unsure is not None:
            where = (self._keys.of[self.actor.kind].mailbox, self._keys.of[self.actor.kind].wakeups)
            arguments = (self._unsure, _LEASE_MS, LEASE_KEY, TRIES_KEY)
            await self._pipeline.call(pack_script(RELEASE, where, arguments))
            self._unsure = None

    async def _listen(self, wait_s: float) -> None:
        wakeups = self._keys.of[self.actor.kind].wakeups
        with self._interruptible():
            await self._wakeups.open()
            (rung,) = await self._wakeups.exchange([pack("BLPOP", wakeups, round(wait_s, 3))], wait_s + EXCHANGE_S)
        if isinstance(rung, RedisError):
            raise rung

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Mark a wait that `stop` may cut short."""
        self._listening = True
        try:
            yield
        finally:
            self._listening = False

    async def start_jobs(self, job_ids: list[bytes]) -> None:
        """Start the jobs that have been claimed."""
        for job_id in job_ids:
            name = job_id.decode()
            self.job_counter += 1
            self._busy.set()
            task = asyncio.create_task(self.run_job(name, 0))
            self.tasks[name] = task
            task.add_done_callback(partial(self._ended, name))

    def _ended(self, job_id: str, _: asyncio.Task[None]) -> None:
        self.job_counter -= 1
        self.tasks.pop(job_id, None)
        self._jobs.pop(job_id, None)
        if job_id == self._poison_job:
            self._poison_job = ""
            self._slot.give_back()
        if not self._jobs:
            self._busy.clear()
        self._room.set()

    async def run_job(self, job_id: str, score: int) -> None:  # noqa: ARG002 - arq's signature
        """Carry a claimed job out; whatever goes wrong, the worker lives and the lease runs out."""
        try:
            await self._jobs[job_id].run()
            self.jobs_complete += 1
        except Exception as problem:  # noqa: BLE001 - see above
            self.jobs_failed += 1
            log.error("A job could not be ended", extra={"job_id": job_id, "error": type(problem).__name__})

    async def _renew_forever(self) -> None:
        mailbox = self._keys.of[self.actor.kind].mailbox
        while True:
            await self._busy.wait()
            await asyncio.sleep(RENEW_S)
            jobs = [job for job in self._jobs.values() if job.job_id in self.tasks]
            if not jobs:
                continue
            held = [part for job in jobs for part in (job.job_id, job.lease.token)]
            sent_at = clock()
            try:
                alive = await self._pipeline.call(pack_script(RENEW, (mailbox,), (_LEASE_MS, LEASE_KEY, *held)))
            except ConnectionLost:
                continue
            for job, renewed in zip(jobs, alive, strict=True):
                if renewed:
                    job.lease.renewed(sent_at)
                else:
                    self._drop(job)

    def _drop(self, job: ClaimedJob) -> None:
        """Stop a job that another worker holds by now.

        One that is writing its end has just ended, or learns of the loss itself.
        """
        task = self.tasks.get(job.job_id)
        if task is not None and self._jobs.get(job.job_id) is job and not job.ending:
            log.warning("A lease was lost", extra={"job_id": job.job_id})
            job.lease.lost = True
            task.cancel()

    async def _finish(self) -> None:
        """Wait for what runs within the grace period, hand the rest back, ring for whoever serves now."""
        if self.tasks:
            await asyncio.wait(list(self.tasks.values()), timeout=self._grace_s)
        held = [self._jobs[job_id] for job_id in self.tasks]
        running = list(self.tasks.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        with contextlib.suppress(ConnectionLost, TimeoutError):
            async with asyncio.timeout(HAND_BACK_S):
                await asyncio.gather(*(job.hand_back() for job in held))
                await self._release_unsure()
                await self._wake()
        await self._background.finish(HAND_BACK_S)
