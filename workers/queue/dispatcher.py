"""One command: find its handler, run it, and turn whatever comes of it into a Finished.

With worker.py this is the only place that catches every exception: a handler's defect must not take
the worker with it. Nothing of a command's content is logged.
"""

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import UNSET

from engramq.schemas.codec import encode
from engramq.schemas.commands import Command, WriteReply
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import EngramqError, Fault, FaultCode, refuse
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Handler, Job, Lease, LeaseLost, Outcome, OutcomeUnknown
from engramq.workers.queue.dead_letters import DeadLetter

log = logging.getLogger(__name__)

MAX_TRIES: Final = 5
BACKOFF_FIRST_S: Final = 0.2
BACKOFF_MAX_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of one try: an encoded answer (with the outcome behind it), another try, or a dead letter."""

    envelope: Envelope
    answer: bytes | None = None
    outcome: Outcome | None = None
    again: Envelope | None = None
    delay_s: float = 0.0
    letter: DeadLetter | None = None


class Dispatcher:
    """Runs the commands of one mailbox, at most `concurrency` at a time."""

    def __init__(self, mailbox: WorkerKind, handlers: Mapping[type[Command], Handler], concurrency: int) -> None:
        self._mailbox = mailbox
        self._handlers = handlers
        self._room = asyncio.Semaphore(concurrency)

    async def run(self, envelope: Envelope, raw: bytes, lease: Lease, tries: int) -> Finished:
        """Carry a command out; `tries` counts this one, from 1. Only cancellation comes through as an exception."""
        handler = self._handlers.get(type(envelope.command))
        if handler is None:
            return self.give_up(envelope, raw, tries, "UnknownCommand", "This worker has no handler for the command.")
        try:
            async with self._room:
                outcome = await handler(Job(envelope, lease))
            return _answered(envelope, outcome)
        except EngramqError as refusal:
            return Finished(envelope, answer=_refusal(refusal.fault, envelope.id))
        except (OutcomeUnknown, LeaseLost) as problem:
            return _retry(envelope, tries, type(problem).__name__)
        except Exception as problem:  # noqa: BLE001 - whatever a handler does, the worker lives and the command ends
            error = type(problem).__name__
            if tries < MAX_TRIES:
                return _retry(envelope, tries, error)
            return self.give_up(envelope, raw, tries, error, "The command failed unexpectedly at every try.")

    def give_up(self, envelope: Envelope, raw: bytes, tries: int, error: str, message: str) -> Finished:
        """Set a command aside; its caller learns that it failed."""
        fault = _named(refuse(FaultCode.INTERNAL, "The command failed and was set aside.").fault, envelope.id)
        letter = DeadLetter(
            id=envelope.id,
            mailbox=self._mailbox,
            raw=raw,
            error=error,
            message=message,
            attempts=tries,
            died_at=time.time(),
            issued_at=envelope.issued_at,
            fault=fault,
        )
        log.error("Command set aside", extra=_facts(envelope, tries, error))
        return Finished(envelope, answer=_refusal(fault, envelope.id), letter=letter)


def _answered(envelope: Envelope, outcome: Outcome) -> Finished:
    if isinstance(outcome.reply, WriteReply) and not outcome.reply.command_id:
        outcome.reply.command_id = envelope.id
    answer = Answer(id=envelope.id, reply=outcome.reply, replayed=outcome.replayed)  # type: ignore[arg-type]
    return Finished(envelope, answer=encode(answer), outcome=outcome)


def _refusal(fault: Fault, command_id: str) -> bytes:
    return encode(Answer(id=command_id, fault=_named(fault, command_id)))


def _retry(envelope: Envelope, tries: int, error: str) -> Finished:
    delay_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(tries - 1, 10))
    log.warning("Command will be tried again", extra=_facts(envelope, tries, error))
    again = msgspec.structs.replace(envelope, attempt=tries + 1)
    return Finished(envelope, again=again, delay_s=delay_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter


def _named(fault: Fault, command_id: str) -> Fault:
    return fault if fault.command_id is not UNSET else msgspec.structs.replace(fault, command_id=command_id)


def _facts(envelope: Envelope, tries: int, error: str) -> dict[str, object]:
    command = type(envelope.command).__name__
    return {"command_id": envelope.id, "command": command, "tries": tries, "error": error}
