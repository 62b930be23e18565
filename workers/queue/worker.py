"""Claim the jobs of one mailbox, on arq's queue, and run each under a lease.

Queue, payload, lease and try counter stand where arq keeps them, so that arq's own tools read them; the loop is our
own, since arq's Worker polls and takes ten round trips a job. It waits on a wake-up list, with a claim behind the wait
that the server runs as soon as the wait ends, so that one answer brings the jobs themselves. It holds each job under a
lease that it renews (arq holds it for the longest job's time), and ends a job, its answers included, in one step that
only the holder of the lease can take.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Collection
from typing import Any, Final

from arq.constants import in_progress_key_prefix, job_key_prefix, retry_key_prefix
from redis.exceptions import NoScriptError, RedisError

from engramq.schemas.clocks import clock
from engramq.schemas.connection import CONNECTION_ERRORS, EXCHANGE_S, RedisConnection, Server, pack, pack_script
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import Keys
from engramq.schemas.limits import BULK
from engramq.schemas.redis_problems import RefusalLog
from engramq.schemas.scripts import CLAIM, ENQUEUE_READS, POISON_TRIES, RELEASE, RENEW, SETTLE, WAKE
from engramq.workers.queue.background import BackgroundTasks
from engramq.workers.queue.contract import LEASE_S, Lease, WorkerSpec
from engramq.workers.queue.job import GONE, LOST, ClaimedJob, JobResources
from engramq.workers.queue.pipeline import BACKOFF_S, ConnectionLost, Pipeline
from engramq.workers.queue.settlement import GatheredFollowUps

log = logging.getLogger(__name__)

RENEW_S: Final = 1.5  # three renewals may fail before a lease runs out
POLL_S: Final = 5.0  # how long to wait for a wake-up that may have been lost
HAND_BACK_S: Final = 2.0
INTERRUPT_S: Final = 60  # how long an interruption that nobody waited for is kept
STALE_CLAIM_S: Final = 0.5  # a claim that was sent so long ago is renewed before its jobs start
LOOK_BEYOND: Final = 32  # jobs more than there is room for that a claim looks at: some may have to be left
_LEASE_MS: Final = round(LEASE_S * 1000)


class PoisonSlot:
    """The right to run a poison job: a process runs one at a time, whatever its mailbox.

    A command that kills its process takes along what runs beside it, each time. A job that was begun a few times and
    never ended is therefore run apart from other such jobs: the innocent ones end, and only the guilty one uses its
    tries up. A worker takes the slot before it claims such a job, since claiming counts as a try.
    """

    def __init__(self) -> None:
        self.taken = False
        self._waiting: set[Callable[[], None]] = set()

    def take(self) -> bool:
        """Take the slot; False when it is taken."""
        taken, self.taken = self.taken, True
        return not taken

    def call_when_free(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, when the slot that is taken now is given back."""
        self._waiting.add(wake)

    def give_back(self) -> None:
        """Free the slot."""
        self.taken = False
        waiting, self._waiting = self._waiting, set()
        for wake in waiting:
            wake()


class MailboxWorker:
    """Carries out the commands of one mailbox. `run` serves until `stop` has been called and the rest is done."""

    def __init__(
        self,
        spec: WorkerSpec,
        redis: str | Server,
        keys: Keys,
        *,
        grace_s: float,
        slot: PoisonSlot,
        permits: asyncio.Semaphore | None = None,
    ) -> None:
        """`keys` are those of a lane at `redis`; `permits` bound the commands of the kind that run, in all lanes."""
        of = keys.of[spec.kind]
        self._mailbox_key, self._wakeups_key, self._depth_key = of.mailbox, of.wakeups, of.depth
        self._turns = (of.waiting, of.turns) if spec.kind in BULK else ()
        self.spec = spec
        self._grace_s = grace_s
        self._slot = slot
        self._guard = keys.guard
        self._concurrency = -(-spec.concurrency // keys.lanes)  # commands under way, at most
        self._has_room = asyncio.Event()
        worker_id = uuid7()
        self._claiming = RedisConnection(redis, (CLAIM,), key=keys.prefix)
        self._wait_s = 0.0  # how long the next claim waits for a wake-up at most
        self._interrupt_key = keys.interrupt(spec.kind, worker_id)
        self._pipeline = Pipeline(redis, (RENEW, RELEASE, WAKE, SETTLE, ENQUEUE_READS), key=keys.prefix)
        self._background = BackgroundTasks()
        self._follow_ups = GatheredFollowUps(keys, self._pipeline, spec.activity)
        permits = permits or asyncio.Semaphore(spec.concurrency)
        self._resources = JobResources(spec, keys, self._pipeline, self._background, permits, self._follow_ups)
        # By task, not by id: a job whose lease was lost may be claimed again here while its first run still ends.
        self.running: dict[asyncio.Task[None], ClaimedJob] = {}
        self._tokens = map(f"{worker_id}:{{}}".format, itertools.count())
        self._refusals = RefusalLog(log)
        self._unsure: str | None = None  # the token of a claim that is on its way, or whose answer was lost
        self._poison_left = False  # the last claim left a poison job in the mailbox
        self._poison_job: ClaimedJob | None = None  # the one that this worker holds the slot for
        self._waking: asyncio.Task[None] | None = None
        self._picking: asyncio.Task[None] | None = None
        self._interrupting: asyncio.Task[None] | None = None
        self._busy = asyncio.Event()
        self._stopping = False
        self.polls = False  # Redis answers its claims

    async def run(self) -> None:
        """Serve the mailbox; returns in order after `stop`. Redis may come and go meanwhile."""
        self._picking = asyncio.create_task(self._pick_jobs())
        endless = (self._pipeline.run(), self._renew_forever(), self._follow_ups.run())
        tasks = [*map(asyncio.create_task, endless), self._picking]
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()  # a defect, unless cancelled: better no process than one that serves nothing
            await self._finish()
        finally:
            tasks += self.running
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._interrupting is not None:
                self._interrupting.cancel()
            await self._claiming.close()

    def stop(self) -> None:
        """Claim nothing more; `run` returns when what runs has ended or been handed back."""
        self._stopping = True
        if self._picking is None:
            return
        if self._unsure is None:
            self._picking.cancel()  # it waits for room
        elif self._interrupting is None:
            self._interrupting = asyncio.create_task(self._interrupt(self._picking))

    async def _interrupt(self, picking: asyncio.Task[None]) -> None:
        """End the wait for a wake-up, so that the claim behind it runs and answers; cut it off if Redis does not."""
        with contextlib.suppress(ConnectionLost, TimeoutError):
            async with asyncio.timeout(HAND_BACK_S):
                push, expire = pack("RPUSH", self._interrupt_key, "1"), pack("EXPIRE", self._interrupt_key, INTERRUPT_S)
                await asyncio.gather(self._pipeline.call(push), self._pipeline.call(expire))
                await asyncio.wait([picking])
        picking.cancel()

    async def _pick_jobs(self) -> None:
        """Claim what is ready or becomes ready, whenever there is room for it, and start it."""
        failures = 0
        while not self._stopping:
            try:
                if self._unsure is not None:
                    await self._release_unsure()
                    self._wait_s = 0.0
                room = self._concurrency - sum(len(job.open) or 1 for job in self.running.values())
                if room > 0:
                    for job in await self._claim(room):
                        task = asyncio.create_task(job.run())
                        self.running[task] = job
                        task.add_done_callback(self._end_run)
                        self._busy.set()
                    await asyncio.sleep(0)  # the jobs start before time is spent on the next claim
                else:
                    self._has_room.clear()
                    await self._has_room.wait()
                    self._wait_s = 0.0
            except Exception as problem:  # noqa: BLE001 - a worker that stops serving is worse than one that tries again
                self.polls = False
                refused = self._refusals.note(problem)
                if not refused and not isinstance(problem, (ConnectionLost, *CONNECTION_ERRORS)):
                    extra = {"mailbox": self.spec.kind, "error": type(problem).__name__}
                    log.error("Picking jobs failed", extra=extra)
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1
            else:
                failures, self.polls = 0, True

    async def _claim(self, room: int) -> list[ClaimedJob]:
        """Return claimed jobs; `_wait_s` says afterwards how long the next claim may wait for a wake-up.

        How much is claimed is fixed when this begins; what ends meanwhile makes room for the next claim.
        """
        token, sent_at = next(self._tokens), clock()
        takes_poison = self._poison_left and self._slot.take()
        where = (self._mailbox_key, self._wakeups_key, self._depth_key, *self._guard)
        prefixes = (job_key_prefix, in_progress_key_prefix, retry_key_prefix)
        arguments = (token, _LEASE_MS, room, room + LOOK_BEYOND, *prefixes, int(takes_poison), *self._turns)
        self._unsure = token
        try:
            more, due_ms, left, now_ms, *found = await self._exchange(pack_script(CLAIM, where, arguments))
            redis_ahead_s = now_ms / 1000 - clock()
            if self._stopping:
                await self._release_unsure()
                return []
            jobs = [
                ClaimedJob(job_id.decode(), payload, tries, Lease(token, sent_at), self._resources, redis_ahead_s)
                for job_id, payload, tries in zip(found[0::3], found[1::3], found[2::3], strict=True)
            ]
            if jobs and clock() - sent_at > STALE_CLAIM_S:
                # When the claim ran is not known, and this process may have been paused since: a lease that counts
                # from the sending may seem to have run out already.
                jobs = await self._renew(jobs)
            self._unsure = None
            poison_jobs = [job for job in jobs if job.tries > POISON_TRIES]
            if poison_jobs:
                self._poison_job, takes_poison = poison_jobs[0], False
        finally:
            if takes_poison:
                self._slot.give_back()
        self._poison_left = bool(left)
        if left and self._slot.taken:
            self._slot.call_when_free(self._look_again)
        elif left:
            more = True  # the next claim takes the slot
        self._wait_s = 0.0 if more else POLL_S if due_ms < 0 else min(POLL_S, due_ms / 1000)
        return jobs

    async def _exchange(self, claim: bytes) -> list[Any]:
        """Return the answer to a claim, which waits for a wake-up first if this is a time to wait."""
        await self._claiming.open()
        commands, wait_s = [claim], self._wait_s
        if wait_s:
            # The server holds what comes behind a blocking command back until that has ended, and runs it then.
            wait = pack("BLPOP", self._interrupt_key, self._wakeups_key, round(wait_s, 3))
            commands = [wait, claim]
        replies = await self._claiming.exchange(commands, wait_s + EXCHANGE_S)
        for reply in replies:
            if isinstance(reply, NoScriptError):
                await self._claiming.close()  # opening it again loads the script
            if isinstance(reply, RedisError):
                raise reply
        claimed: list[Any] = replies[-1]
        return claimed

    async def _renew(self, jobs: Collection[ClaimedJob]) -> list[ClaimedJob]:
        """Renew the leases of these jobs, and return those that are still held."""
        sent_at = clock()
        tokens = [part for job in jobs for part in (job.job_id, job.lease.token)]
        renew = pack_script(RENEW, (self._mailbox_key, *self._guard), (_LEASE_MS, in_progress_key_prefix, *tokens))
        held = []
        for job, granted in zip(jobs, await self._pipeline.call(renew), strict=True):
            if granted in (LOST, GONE):
                job.lease.abandoned = granted == GONE
            else:
                job.lease.sent_at = sent_at
                held.append(job)
        return held

    async def _release_unsure(self) -> None:
        """Give back at once what a claim took whose answer was lost, instead of letting its lease run out."""
        if self._unsure is not None:
            arguments = (self._unsure, _LEASE_MS, in_progress_key_prefix, retry_key_prefix)
            where = (self._mailbox_key, self._wakeups_key, *self._guard)
            await self._pipeline.call(pack_script(RELEASE, where, arguments))
            self._unsure = None

    def _look_again(self) -> None:
        """Wake this worker or another one, to take a poison job that was left."""
        self._waking = asyncio.create_task(self._wake())

    async def _wake(self) -> None:
        with contextlib.suppress(ConnectionLost):
            await self._pipeline.call(pack_script(WAKE, (self._wakeups_key, *self._guard), ()))

    def _end_run(self, task: asyncio.Task[None]) -> None:
        job = self.running.pop(task)
        if job is self._poison_job:
            self._poison_job = None
            self._slot.give_back()
        if not self.running:
            self._busy.clear()
        self._has_room.set()

    async def _renew_forever(self) -> None:
        while True:
            await self._busy.wait()
            await asyncio.sleep(RENEW_S)
            held = {task: job for task, job in self.running.items() if not job.lease.lost}
            if not held:
                continue
            try:
                renewed = await self._renew(held.values())
            except ConnectionLost:
                continue
            for task, job in held.items():
                if job not in renewed and not (task.done() or job.ending):
                    # Another worker holds it, or its callers have gone. A job that writes its end has just ended, or
                    # learns of the loss itself.
                    job.tell_lost()
                    job.lease.lost = True
                    task.cancel()

    async def _finish(self) -> None:
        """Wait for what runs within the grace period, hand the rest back, and wake other workers."""
        if self.running:
            await asyncio.wait(self.running, timeout=self._grace_s)
        held = dict(self.running)
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        with contextlib.suppress(ConnectionLost, TimeoutError):
            async with asyncio.timeout(HAND_BACK_S):
                await asyncio.gather(*(job.hand_back() for job in held.values() if not job.lease.lost))
                await self._release_unsure()
                await self._follow_ups.finish()
                await self._wake()
        await self._background.finish(HAND_BACK_S)
