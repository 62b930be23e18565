"""One job that this worker holds: its commands run side by side, each answer leaves as soon as it is ready.

With worker.py this is the only module that catches every exception: a handler's defect must not take the worker with
it. No content of a command is logged.
"""

import asyncio
import logging
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from engramq.schemas.codec import DecodeError, decode_envelope, decode_job, encode
from engramq.schemas.commands import WriteReply
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import EngramqError
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.background import Activity, BackgroundTasks
from engramq.workers.queue.contract import Actor, Job, LeaseLost, OutcomeUnknown, SessionUse
from engramq.workers.queue.dead_letters import DeadLetter
from engramq.workers.queue.failures import MAX_TRIES, given_up, refused, retried, unreadable
from engramq.workers.queue.follow_ups import GatheredFollowUps
from engramq.workers.queue.lease import HeldLease
from engramq.workers.queue.pipeline import ConnectionLost, Pipeline
from engramq.workers.queue.settlement import Result, Session, Settlement, session_of
from engramq.workers.queue.watching import DONE, SET_ASIDE, Watched, subject_of

log = logging.getLogger(__name__)

SETTLE_AGAIN_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Mailbox:
    """What the jobs of one mailbox share."""

    actor: Actor
    keys: Keys
    pipeline: Pipeline
    background: BackgroundTasks
    handlers: asyncio.Semaphore  # bounds those that run at a time, in all lanes
    follow_ups: GatheredFollowUps


@dataclass(slots=True, eq=False)
class ClaimedJob:
    """A claimed job. `tries`: how often it has been claimed without an orderly end, this time included."""

    job_id: str
    payload: bytes
    tries: int
    lease: HeldLease
    mailbox: Mailbox
    ending: bool = False  # its end is being written, or has been
    open: dict[str, bytes] = field(default_factory=dict)  # commands not settled yet: id -> encoded envelope
    _served: int = 0  # commands that were settled for good
    _results: list[Result] = field(default_factory=list)  # not settled yet
    _letters: list[DeadLetter] = field(default_factory=list)  # of what could not be read, not settled yet
    _new_result: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Carry the job out and end it. Returns early, with nothing ended, when the lease is lost."""
        envelopes = self._read()
        try:
            if self.tries > 1 and len(envelopes) > 1:
                pass  # Its last worker died with it. Put back apart, each command can only take itself along.
            elif self.tries > MAX_TRIES:
                self._give_up(envelopes)
            elif len(envelopes) == 1:
                await self._carry_out(envelopes[0])
            elif envelopes:
                await self._carry_out_all(envelopes)
            await self._settle(last=True)
        except* LeaseLost:
            log.warning("A lease was lost", extra={"job_id": self.job_id, "command_ids": list(self.open)})

    async def hand_back(self) -> None:
        """End the job with what has been carried out and put the rest back; call it when `run` was cancelled."""
        if not (self.open or self._letters):
            return  # not even read: its lease runs out
        try:
            await self._settle(last=True)
        except LeaseLost:
            log.warning("A lease was lost", extra={"job_id": self.job_id, "command_ids": list(self.open)})

    def _read(self) -> list[Envelope]:
        """Decode the job. What cannot be read becomes a dead letter; a read that nobody waits for any more is dropped.

        A write is carried out however late.
        """
        failed = partial(unreadable, self.mailbox.actor.kind, tries=self.tries)
        try:
            parts = decode_job(self.payload)
        except DecodeError as problem:
            self._letters.append(failed(self.job_id, self.payload, error=type(problem).__name__, whole_job=True))
            return []
        envelopes, now = [], time.time()
        for place, part in enumerate(parts):
            try:
                envelope = decode_envelope(part)
            except DecodeError as problem:
                letter_id = f"{self.job_id}#{place}"
                self._letters.append(failed(letter_id, part, error=type(problem).__name__, whole_job=False))
                continue
            too_late = not envelope.command.write and 0 < envelope.deadline < now
            if envelope.id not in self.open and not too_late:
                self.open[envelope.id] = part
                envelopes.append(envelope)
        return envelopes

    async def _carry_out_all(self, envelopes: list[Envelope]) -> None:
        async with asyncio.TaskGroup() as group:
            for envelope in envelopes:
                group.create_task(self._carry_out(envelope))
            left = len(envelopes)
            while left:
                await self._new_result.wait()
                await asyncio.sleep(0)  # what ends in the same tick goes in the same write
                self._new_result.clear()
                left = len(self.open) - len(self._results)
                if left and self._results:
                    await self._settle(last=False)

    async def _carry_out(self, envelope: Envelope) -> None:
        """Run the handler of a command and keep the result. Only cancellation comes through as an exception."""
        actor = self.mailbox.actor
        with Watched(envelope, actor.kind, actor.observe) as watch:
            self._results.append(await self._result_of(envelope, watch))
        self._new_result.set()

    async def _result_of(self, envelope: Envelope, watch: Watched) -> Result:
        actor, tries = self.mailbox.actor, envelope.attempt + self.tries - 1
        failed = partial(given_up, actor.kind, envelope, self.open[envelope.id], tries=tries)
        handler = actor.handlers.get(type(envelope.command))
        if handler is None:
            watch.outcome = SET_ASIDE
            return failed(error="UnknownCommand", message="This worker has no handler for the command.")
        # Whoever takes over from a worker that died learns that this is another try.
        tried = envelope if tries == envelope.attempt else msgspec.structs.replace(envelope, attempt=tries)
        try:
            async with self.mailbox.handlers:
                watch.begin()
                with _counted(actor.activity, envelope):
                    outcome = await handler(Job(tried, self.lease))
            if isinstance(outcome.reply, WriteReply) and not outcome.reply.command_id:
                outcome.reply.command_id = envelope.id
            answer = Answer(id=envelope.id, reply=outcome.reply, replayed=outcome.replayed)
            result = Result(envelope, answer=encode(answer), outcome=outcome)
        except EngramqError as refusal:
            watch.outcome = refusal.fault.code
            return refused(envelope, refusal.fault)
        except (OutcomeUnknown, LeaseLost) as problem:
            return retried(envelope, tries, type(problem).__name__)
        except Exception as problem:  # noqa: BLE001 - whatever a handler does, the worker lives and the command ends
            error = type(problem).__name__
            if tries < MAX_TRIES:
                return retried(envelope, tries, error)
            watch.outcome = SET_ASIDE
            return failed(error=error, message="The command failed unexpectedly at every try.")
        watch.outcome = DONE
        return result

    def _give_up(self, envelopes: list[Envelope]) -> None:
        self._results += (
            given_up(
                self.mailbox.actor.kind,
                envelope,
                self.open[envelope.id],
                tries=self.tries - 1,
                error="WorkerDied",
                message="The worker that carried it out died or stalled, every time.",
            )
            for envelope in envelopes
        )

    async def _settle(self, *, last: bool) -> None:
        """Write the results so far; the last time the job ends, and commands without a result are put back.

        Each becomes a job of its own, due at once: a job is named after its first command, and get_command looks for
        any other one under its own name. Orderly put back, they have not used up a try.
        """
        results, letters = list(self._results), list(self._letters)
        served = sum(result.retry is None for result in results)
        kind = self.mailbox.actor.kind
        settlement = Settlement(self.mailbox.keys, kind)
        if last:
            self.ending = True
            settlement.end(self.job_id, self._served + served)
        settlement.add(results)
        for letter in letters:
            settlement.bury(letter)
        if last:
            with_result = {result.envelope.id for result in results}
            for command_id, raw in self.open.items():
                if command_id not in with_result:
                    settlement.enqueue(kind, [(command_id, raw)], tries=self.tries - 1)
        uses = await self._write(settlement)
        for follow_up in settlement.gathered:
            self.mailbox.follow_ups.take(follow_up)
        self._served += served
        del self._results[: len(results)], self._letters[: len(letters)]
        for result in results:
            self.open.pop(result.envelope.id, None)
            if result.outcome is not None and result.outcome.after_reply is not None:
                use = uses.get(session_of(result.envelope))
                with subject_of(result.envelope):
                    self.mailbox.background.start(partial(result.outcome.after_reply, use), result.envelope.id)

    async def _write(self, settlement: Settlement) -> dict[Session, SessionUse]:
        """Write the settlement, again and again while Redis is away; repeating is harmless. Raises LeaseLost.

        Returns how sessions were used, which is unknown when the answer to the first attempt was lost.
        """
        packed = settlement.pack(self.job_id, self.lease.token)
        repeated = False
        while True:
            try:
                written = await self.mailbox.pipeline.call(packed)
            except ConnectionLost:
                self.lease.require()
                repeated = True
                await asyncio.sleep(SETTLE_AGAIN_S)
                continue
            if not written and not repeated:
                self.lease.lost = True
                raise LeaseLost
            uses, sessions_used = settlement.uses(written), self.mailbox.actor.sessions_used
            if uses and sessions_used is not None:
                self.mailbox.background.start(partial(sessions_used, tuple(uses.values())), self.job_id)
            return uses


def _counted(activity: Activity, envelope: Envelope) -> AbstractContextManager[None]:
    """Return what counts a command as a part of a bulk load, or as one that somebody waits for, or not at all."""
    if envelope.command.mailbox is WorkerKind.IMPORTS:
        return activity.loading()
    return activity.serving() if envelope.reply_to else nullcontext()
