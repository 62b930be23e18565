"""One job that this worker holds: its commands run side by side, each answer leaves as soon as it is ready."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from engramq.schemas.codec import DecodeError, decode_envelope, decode_job, encode
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.ids import uuid7
from engramq.schemas.jobs import COMMANDS_PER_JOB, FOLLOW_UP_BOUND
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import ALL_SCOPES, SYSTEM_PRINCIPAL, WorkerKind
from engramq.workers.queue.background import BackgroundTasks
from engramq.workers.queue.contract import FollowUp, LeaseLost, SessionState, SessionUse
from engramq.workers.queue.dead_letters import DeadLetter, encode_letter
from engramq.workers.queue.dispatcher import MAX_TRIES, Dispatcher, Finished
from engramq.workers.queue.lease import HeldLease
from engramq.workers.queue.pipeline import ConnectionLost, Pipeline
from engramq.workers.queue.settlement import Session, Settlement, session_of

log = logging.getLogger(__name__)

UNBOUNDED: Final = 2**53  # for commands that were in the mailbox already
SETTLE_AGAIN_S: Final = 0.1
SYSTEM: Final = Principal(name=SYSTEM_PRINCIPAL, scopes=ALL_SCOPES)


@dataclass(frozen=True, slots=True)
class JobContext:
    """What the jobs of one mailbox share."""

    mailbox: WorkerKind
    keys: Keys
    pipeline: Pipeline
    dispatcher: Dispatcher
    background: BackgroundTasks
    sessions_used: Callable[[Sequence[SessionUse]], Awaitable[None]] | None = None


@dataclass(slots=True, eq=False)
class ClaimedJob:
    """A claimed job. `tries`: how often it has been claimed without an orderly end, this time included."""

    job_id: str
    payload: bytes
    tries: int
    lease: HeldLease
    context: JobContext
    ending: bool = False  # its end is being written, or has been
    open: dict[str, bytes] = field(default_factory=dict)  # commands not settled yet: id -> encoded envelope
    _finished: list[Finished] = field(default_factory=list)
    _letters: list[DeadLetter] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Carry the job out and end it. Returns early, with nothing ended, when the lease is lost."""
        envelopes = self._read()
        if self.tries > 1 and len(self.open) > 1:
            # Its last worker died with it. Alone, each command can only take itself along.
            await self._put_back(apart=True)
            return
        now = time.time()
        waiting = [envelope for envelope in envelopes if not _too_late(envelope, now)]
        self.open = {envelope.id: self.open[envelope.id] for envelope in waiting}
        if self.tries > MAX_TRIES:
            for envelope in waiting:
                self._note(self._deadly(envelope))
            waiting = []
        try:
            if len(waiting) == 1:
                await self._carry_out(waiting[0])
            elif waiting:
                await self._carry_out_all(waiting)
            await self._settle(last=True)
        except* LeaseLost:
            log.warning("A lease was lost", extra={"job_id": self.job_id})

    async def hand_back(self) -> None:
        """Give up what has not been carried out, for others to take at once; call it when `run` was cancelled."""
        await self._put_back(apart=False)

    async def _carry_out_all(self, envelopes: list[Envelope]) -> None:
        async with asyncio.TaskGroup() as group:
            for envelope in envelopes:
                group.create_task(self._carry_out(envelope))
            left = len(envelopes)
            while left:
                await self._news.wait()
                await asyncio.sleep(0)  # what ends in the same tick goes in the same write
                self._news.clear()
                left = len(self.open) - len(self._finished)
                if left and self._finished:
                    await self._settle(last=False)

    async def _carry_out(self, envelope: Envelope) -> None:
        tries = envelope.attempt + self.tries - 1
        raw = self.open[envelope.id]
        self._note(await self.context.dispatcher.run(envelope, raw, self.lease, tries))

    def _note(self, finished: Finished) -> None:
        self._finished.append(finished)
        self._news.set()

    def _deadly(self, envelope: Envelope) -> Finished:
        return self.context.dispatcher.give_up(
            envelope,
            self.open[envelope.id],
            self.tries - 1,
            "WorkerDied",
            "The worker that carried it out died or stalled, every time.",
        )

    def _read(self) -> list[Envelope]:
        """Decode the job; whatever cannot be read becomes a dead letter."""
        try:
            parts = decode_job(self.payload)
        except DecodeError as problem:
            self._letters.append(self._unreadable(self.job_id, self.payload, problem, whole_job=True))
            return []
        envelopes = []
        for place, part in enumerate(parts):
            try:
                envelope = decode_envelope(part)
            except DecodeError as problem:
                self._letters.append(self._unreadable(f"{self.job_id}#{place}", part, problem, whole_job=False))
                continue
            if envelope.id not in self.open:
                self.open[envelope.id] = part
                envelopes.append(envelope)
        return envelopes

    def _unreadable(self, letter_id: str, raw: bytes, problem: Exception, *, whole_job: bool) -> DeadLetter:
        error = type(problem).__name__
        log.error("Unreadable bytes set aside", extra={"letter_id": letter_id, "error": error})
        return DeadLetter(
            id=letter_id,
            mailbox=self.context.mailbox,
            raw=raw,
            error=error,
            message="These bytes are no job." if whole_job else "These bytes are no command of this version.",
            attempts=self.tries,
            died_at=time.time(),
            whole_job=whole_job,
        )

    async def _settle(self, *, last: bool) -> None:
        """Write what has been finished so far, the end of the job too when it is the last time."""
        finished, letters = list(self._finished), list(self._letters)
        settlement = Settlement(self.context.keys)
        if last:
            self.ending = True
            settlement.end(self.context.mailbox, self.job_id)
        self._add_finished(settlement, finished)
        for letter in letters:
            settlement.dead(letter.mailbox, letter.id, encode_letter(letter))
        uses = await self._write(settlement)
        del self._finished[: len(finished)], self._letters[: len(letters)]
        for done in finished:
            self.open.pop(done.envelope.id, None)
            if done.outcome is not None and done.outcome.after_reply is not None:
                use = uses.get(session_of(done.envelope))
                self.context.background.start(partial(done.outcome.after_reply, use), done.envelope.id)

    def _add_finished(self, settlement: Settlement, finished: list[Finished]) -> None:
        mailbox, now_ms = self.context.mailbox, time.time_ns() // 1_000_000
        answers: dict[str, list[bytes]] = {}
        follow_ups: dict[WorkerKind, list[tuple[str, bytes]]] = {}
        for done in finished:
            if done.answer is not None and done.envelope.reply_to:
                answers.setdefault(done.envelope.reply_to, []).append(done.answer)
            if done.again is not None:
                again, delay_ms = [(done.again.id, encode(done.again))], round(done.delay_s * 1000)
                settlement.job(mailbox, again, bound=UNBOUNDED, at_ms=now_ms, delay_ms=delay_ms)
            if done.letter is not None:
                settlement.dead(mailbox, done.letter.id, encode_letter(done.letter))
            if done.outcome is not None:
                for follow_up in done.outcome.follow_ups:
                    sent = follow_up_envelope(follow_up)
                    follow_ups.setdefault(follow_up.command.mailbox, []).append((sent.id, encode(sent)))
        for reply_list, encoded in answers.items():
            settlement.reply(reply_list, encoded)
        settlement.sessions((done.envelope, _session_state(done)) for done in finished if done.again is None)
        add_jobs(settlement, follow_ups, now_ms)

    async def _put_back(self, *, apart: bool) -> None:
        """End the job and put its open commands back: as one job that is due at once, or each as a job of its own.

        Whether they were begun an odd number of times stays counted; being handed back in order does not count.
        """
        finished = list(self._finished)
        for done in finished:
            self.open.pop(done.envelope.id, None)
        mailbox, now_ms, settlement = self.context.mailbox, time.time_ns() // 1_000_000, Settlement(self.context.keys)
        self.ending = True
        settlement.end(mailbox, self.job_id)
        self._add_finished(settlement, finished)
        for letter in self._letters:
            settlement.dead(letter.mailbox, letter.id, encode_letter(letter))
        entries = list(self.open.items())
        size = 1 if apart else COMMANDS_PER_JOB
        for start in range(0, len(entries), size):
            several = entries[start : start + size]
            settlement.job(mailbox, several, bound=UNBOUNDED, at_ms=now_ms, tries=self.tries - 1)
        try:
            await self._write(settlement)
        except LeaseLost:
            log.warning("A lease was lost", extra={"job_id": self.job_id})

    async def _write(self, settlement: Settlement) -> dict[Session, SessionUse]:
        """Write the settlement, again and again while Redis is away; repeating is harmless. Raises LeaseLost.

        Returns how sessions were used, which is unknown when the answer to the first attempt was lost.
        """
        packed = settlement.pack(self.job_id, self.lease.token)
        repeated = False
        while True:
            try:
                written = await self.context.pipeline.call(packed)
            except ConnectionLost:
                self.lease.require()
                repeated = True
                await asyncio.sleep(SETTLE_AGAIN_S)
                continue
            if not written and not repeated:
                self.lease.lost = True
                raise LeaseLost
            uses = settlement.uses(written)
            if uses and self.context.sessions_used is not None:
                self.context.background.start(partial(self.context.sessions_used, tuple(uses.values())), self.job_id)
            return uses


def follow_up_envelope(follow_up: FollowUp) -> Envelope:
    """Return the envelope of a command that a command or a schedule caused; nobody waits for it."""
    return Envelope(
        id=uuid7(),
        namespace=follow_up.namespace,
        principal=SYSTEM,
        command=follow_up.command,  # type: ignore[arg-type]  # each Command is one of the union
        issued_at=time.time(),
    )


def add_jobs(settlement: Settlement, commands: dict[WorkerKind, list[tuple[str, bytes]]], now_ms: int) -> None:
    """Enqueue follow-ups; where a mailbox is full beyond reason they are dropped, and the sweep finds the work."""
    for mailbox, envelopes in commands.items():
        for start in range(0, len(envelopes), COMMANDS_PER_JOB):
            settlement.job(mailbox, envelopes[start : start + COMMANDS_PER_JOB], bound=FOLLOW_UP_BOUND, at_ms=now_ms)


def _session_state(done: Finished) -> SessionState | None:
    outcome = done.outcome
    return None if outcome is None or outcome.replayed else outcome.session_state


def _too_late(envelope: Envelope, now: float) -> bool:
    """Say whether nobody waits for this read any more; a write is carried out however late."""
    return not envelope.command.write and 0 < envelope.deadline < now
