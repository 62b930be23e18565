"""Run the commands of one claimed job side by side, and send each answer as soon as it is ready.

A command that fails is refused, tried again, or set aside as a dead letter. With worker.py this is the only module that
catches every exception: a handler's defect must not take the worker with it. No content of a command is logged.
"""

import asyncio
import logging
import math
import random
import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET

from engramq.schemas.clocks import clock
from engramq.schemas.codec import DecodeError, count_stop, decode_envelope, decode_job, encode, word_of
from engramq.schemas.commands import FORMER_TOOLS, WriteReply
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import NOT_APPLIED, EngramqError, Fault, FaultCode, refuse
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import WorkerKind
from engramq.telemetry.spans import SpanKind, about, past, trace, trace_id_of
from engramq.workers.queue.background import BackgroundTasks
from engramq.workers.queue.contract import (
    Assignment,
    CommandTry,
    Lease,
    LeaseLost,
    ResultUnknown,
    SessionUse,
    WorkerSpec,
)
from engramq.workers.queue.dead_letters import DeadLetter
from engramq.workers.queue.pipeline import ConnectionLost, Pipeline
from engramq.workers.queue.settlement import GatheredFollowUps, Result, SessionKey, Settlement, session_of

log = logging.getLogger(__name__)

SETTLE_AGAIN_S: Final = 0.1
# Answers of the scripts about a lease: another worker has it, or nobody waits for its job any more.
LOST: Final = 0
GONE: Final = -1
MAX_TRIES: Final = 5
RETRY_FIRST_S: Final = 0.2
RETRY_MAX_S: Final = 5.0

DONE: Final = "done"
RETRIED: Final = "retried"
SET_ASIDE: Final = "set_aside"
ABANDONED: Final = "abandoned"  # its callers have gone


@dataclass(frozen=True, slots=True)
class JobResources:
    """The objects that the jobs of one mailbox share."""

    spec: WorkerSpec
    keys: Keys
    pipeline: Pipeline
    background: BackgroundTasks
    permits: asyncio.Semaphore  # bounds those that run at a time, in all lanes
    follow_ups: GatheredFollowUps


@dataclass(slots=True, eq=False)
class ClaimedJob:
    """A claimed job. `tries`: how often it has been claimed without an orderly end, this time included.

    `redis_ahead_s`: what added to `clock` makes the time of Redis, by which the gateway counts too.
    """

    job_id: str
    payload: bytes
    tries: int
    lease: Lease
    resources: JobResources
    redis_ahead_s: float
    ending: bool = False  # its end is being written, or has been
    open: dict[str, bytes] = field(default_factory=dict)  # commands not settled yet: id -> encoded envelope
    _begun: set[str] = field(default_factory=set)  # writes that may have been applied
    _namespace: str = ""  # of its commands, where namespaces take turns; else of one of them
    _served: int = 0  # commands that were settled for good
    _results: list[Result] = field(default_factory=list)  # not settled yet
    _letters: list[DeadLetter] = field(default_factory=list)  # of what could not be read, not settled yet
    _new_result: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Carry the job out and end it. With nothing ended its lease runs out, or another worker holds it already."""
        try:
            envelopes = self._read()
            if self.tries > 1 and len(envelopes) > 1:
                pass  # Its last worker died with it. Put back apart, each command can only take itself along.
            elif self.tries > MAX_TRIES:
                message = "The worker that carried it out died or stalled, every time."
                self._results += (
                    self._given_up(envelope, self.tries - 1, "WorkerDied", message) for envelope in envelopes
                )
            elif len(envelopes) == 1:
                await self._carry_out(envelopes[0])
            elif envelopes:
                await self._carry_out_all(envelopes)
            await self._settle(last=True)
        except* LeaseLost:
            self.tell_lost()
        except* Exception as problems:  # noqa: BLE001 - whatever goes wrong, the worker lives
            error = type(problems.exceptions[0]).__name__
            log.error("A job could not be ended", extra={"job_id": self.job_id, "error": error})

    async def hand_back(self) -> None:
        """End the job with what has been carried out and put the rest back; call it when `run` was cancelled."""
        if not (self.open or self._letters):
            return  # not even read: its lease runs out
        try:
            await self._settle(last=True)
        except LeaseLost:
            self.tell_lost()

    def tell_lost(self) -> None:
        """Log that the lease was lost, which is no trouble where the callers of its reads have gone."""
        extra = {"job_id": self.job_id, "command_ids": list(self.open)}
        if self.lease.abandoned:
            log.info("Nobody waits for a job any more", extra=extra)
        else:
            log.warning("A lease was lost", extra=extra)

    def _read(self) -> list[Envelope]:
        """Decode the job. An unreadable job becomes a dead letter; a read that nobody waits for any more is dropped.

        A write is carried out however late.
        """
        try:
            parts = decode_job(self.payload)
        except DecodeError as problem:
            self._bury(self.job_id, self.payload, problem, whole_job=True)
            return []
        envelopes, now = [], clock() + self.redis_ahead_s
        for place, part in enumerate(parts):
            try:
                envelope = decode_envelope(part)
            except DecodeError as problem:
                self._bury(f"{self.job_id}#{place}", part, problem, whole_job=False)
                continue
            too_late = not envelope.command.write and 0 < envelope.deadline < now
            self._namespace = envelope.namespace
            if envelope.id not in self.open and not too_late:
                self.open[envelope.id] = part
                envelopes.append(envelope)
        return envelopes

    def _bury(self, letter_id: str, raw: bytes, problem: DecodeError, *, whole_job: bool) -> None:
        """Make a dead letter of bytes that are no job (`whole_job`) or no command of this version."""
        error = type(problem).__name__
        log.error("Unreadable bytes set aside", extra={"letter_id": letter_id, "error": error})
        letter = DeadLetter(
            id=letter_id,
            mailbox=self.resources.spec.kind,
            raw=raw,
            error=error,
            message="These bytes are no job." if whole_job else _say_unreadable(raw),
            attempts=self.tries,
            died_at=time.time(),
            whole_job=whole_job,
        )
        self._letters.append(letter)

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
        """Run the handler of a command, keep the result, and report both. Only cancellation comes through."""
        spec, name, now = self.resources.spec, type(envelope.command).__name__, clock()
        # Old commands do not say when they came.
        came = min(now, envelope.issued_at - self.redis_ahead_s) if envelope.issued_at else now
        began, word = 0.0, RETRIED  # if its end is not seen, as when it is cancelled: it is handed back
        attributes = {
            "engramq.command_id": envelope.id,
            "engramq.mailbox": spec.kind.value,
            "engramq.attempt": envelope.attempt,
        }
        with trace(name, SpanKind.CONSUMER, envelope.traceparent, attributes, envelope.id) as subject:
            try:
                async with self.resources.permits:
                    began = clock()
                    if envelope.command.write:
                        self._begun.add(envelope.id)
                    if subject.span is not None:
                        past("queue wait", SpanKind.CONSUMER, envelope.traceparent, time.time() - (began - came))
                    result, word = await self._result_of(envelope, began)
                self._results.append(result)
            finally:
                word = ABANDONED if self.lease.abandoned else word
                if subject.span is not None:
                    subject.span.tell("engramq.outcome", word)
                if spec.observe is not None:
                    ended = clock()
                    began = began or ended
                    spec.observe(CommandTry(spec.kind, name, word, began - came, ended - began))
        self._new_result.set()

    async def _result_of(self, envelope: Envelope, began: float) -> tuple[Result, str]:
        """Return what came of a command, and the word for it: DONE, RETRIED, SET_ASIDE, or the code of its refusal."""
        # Each claim of the job is an attempt. Only those count as tries that no stop of a worker ended.
        spec, attempt = self.resources.spec, envelope.attempt + self.tries - 1
        tries = attempt - envelope.stops
        runner = spec.runners.get(type(envelope.command))
        if runner is None:
            error, message = "UnknownCommand", "This worker has no handler for the command."
            return self._given_up(envelope, tries, error, message), SET_ASIDE
        # A worker that takes over from a dead one learns that this is another try.
        tried = envelope if attempt == envelope.attempt else msgspec.structs.replace(envelope, attempt=attempt)
        waited_for = spec.activity.serving() if envelope.reply_to else nullcontext()
        counted = spec.activity.loading() if envelope.command.mailbox is WorkerKind.IMPORTS else waited_for
        patience_s = envelope.deadline - began - self.redis_ahead_s if envelope.deadline else math.inf
        try:
            with counted:
                completion = await runner(Assignment(tried, self.lease, patience_s))
            if isinstance(completion.reply, WriteReply) and not completion.reply.command_id:
                completion.reply.command_id = envelope.id
            answer = Answer(id=envelope.id, reply=completion.reply, replayed=completion.replayed)
            return Result(envelope, answer=encode(answer), completion=completion), DONE
        except EngramqError as refusal:
            fault = refusal.fault
            if fault.code not in NOT_APPLIED or not (envelope.command.write and envelope.reply_to):
                return _refuse(envelope, fault), fault.code
            return self._not_applied(envelope, tries, fault), fault.code
        except (ResultUnknown, LeaseLost) as problem:
            return _retry(envelope, tries, type(problem).__name__), RETRIED
        except Exception as problem:  # noqa: BLE001 - whatever a handler does, the worker lives and the command ends
            error = type(problem).__name__
            if tries < MAX_TRIES:
                return _retry(envelope, tries, error), RETRIED
            message = "The command failed unexpectedly at every try."
            return self._given_up(envelope, tries, error, message), SET_ASIDE

    def _not_applied(self, envelope: Envelope, tries: int, fault: Fault) -> Result:
        """Refuse a write as not applied, which is true of its first try alone: an earlier one may have been applied.

        Its caller may have been answered `pending`, which the settlement knows: then it is tried again.
        """
        if tries + envelope.stops > 1:
            return _retry(envelope, tries, fault.code)
        return replace(_another_try(envelope, tries), answer=_refuse(envelope, fault).answer, if_heard=True)

    def _given_up(self, envelope: Envelope, tries: int, error: str, message: str) -> Result:
        """Make a dead letter of a command; its caller learns that it failed."""
        log.error("Command set aside", extra=_log_fields(envelope, tries, error))
        fault = refuse(FaultCode.INTERNAL, "The command failed and was set aside.").fault
        fault = msgspec.structs.replace(fault, command_id=envelope.id)
        letter = DeadLetter(
            id=envelope.id,
            mailbox=self.resources.spec.kind,
            raw=self.open[envelope.id],
            error=error,
            message=message,
            attempts=tries,
            died_at=time.time(),
            issued_at=envelope.issued_at,
            fault=fault,
        )
        return _refuse(envelope, fault, letter)

    async def _settle(self, *, last: bool) -> None:
        """Write the results so far; the last time the job ends, and commands without a result are put back.

        Each becomes a job of its own, due at once: a job is named after its first command, and get_command looks for
        any other one under its own name. Orderly put back, they have not used up a try: a write that had begun is known
        to have been stopped.
        """
        results, letters = list(self._results), list(self._letters)
        settlement = Settlement(self.resources.keys, self.resources.spec.kind)
        settlement.add(results)
        for letter in letters:
            settlement.bury(letter)
        if last:
            self.ending = True
            with_result = {result.envelope.id for result in results}
            for command_id, raw in self.open.items():
                if command_id not in with_result:
                    left = count_stop(raw) if command_id in self._begun else raw
                    settlement.put_back(self._namespace, command_id, left, self.tries - 1)
        served = self._served + settlement.ended
        uses = await self._write(settlement, settlement.pack(self.job_id, self.lease.token, served if last else None))
        for follow_up in settlement.gathered:
            self.resources.follow_ups.take(follow_up)
        self._served = served
        del self._results[: len(results)], self._letters[: len(letters)]
        for result in results:
            envelope = result.envelope
            self.open.pop(envelope.id, None)
            if result.completion is not None and result.completion.after_reply is not None:
                with about(envelope.traceparent, envelope.id):
                    use = uses.get(session_of(envelope))
                    self.resources.background.start(partial(result.completion.after_reply, use), envelope.id)

    async def _write(self, settlement: Settlement, packed: bytes) -> dict[SessionKey, SessionUse]:
        """Write the settlement, `packed`, again and again while Redis is away; repeating is harmless. Raises LeaseLost.

        Returns how sessions were used, which is unknown when the answer to the first attempt was lost.
        """
        is_uncertain = False
        while True:
            try:
                written = await self.resources.pipeline.call(packed)
            except ConnectionLost:
                self.lease.require()
                is_uncertain = True
                await asyncio.sleep(SETTLE_AGAIN_S)
                continue
            if written in (LOST, GONE) and not is_uncertain:
                self.lease.lost, self.lease.abandoned = True, written == GONE
                raise LeaseLost
            if not isinstance(written, list):
                return {}
            uses, sessions_used = settlement.uses(written), self.resources.spec.sessions_used
            if sessions_used is not None:
                self.resources.background.start(partial(sessions_used, tuple(uses.values())), self.job_id)
            return uses


def _refuse(envelope: Envelope, fault: Fault, letter: DeadLetter | None = None) -> Result:
    """Answer a command with a fault; no further try would help."""
    if fault.command_id is UNSET:
        fault = msgspec.structs.replace(fault, command_id=envelope.id)
    return Result(envelope, answer=encode(Answer(id=envelope.id, fault=fault)), letter=letter)


def _retry(envelope: Envelope, tries: int, error: str) -> Result:
    """Try a command again, later after each try; nobody is answered yet."""
    log.warning("Command will be tried again", extra=_log_fields(envelope, tries, error))
    return _another_try(envelope, tries)


def _another_try(envelope: Envelope, tries: int) -> Result:
    delay_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2.0 ** min(tries - 1, 10))
    retry = msgspec.structs.replace(envelope, attempt=tries + envelope.stops + 1)
    return Result(envelope, retry=retry, delay_s=delay_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter


def _say_unreadable(envelope: bytes) -> str:
    """Say that this version does not know a command, and what took its place if an earlier one had it."""
    unknown = "These bytes are no command of this version."
    word = word_of(envelope)
    return f"{unknown} {word} went: {instead}" if (instead := FORMER_TOOLS.get(word)) else unknown


def _log_fields(envelope: Envelope, tries: int, error: str) -> dict[str, object]:
    command = type(envelope.command).__name__
    trace_id = trace_id_of(envelope.traceparent)
    return {"command_id": envelope.id, "trace_id": trace_id, "command": command, "tries": tries, "error": error}
