"""What comes of a command that fails: a refusal, another try, or a dead letter. No content of a command is logged."""

import logging
import random
import time
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import UNSET

from engramq.schemas.codec import encode
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import Fault, FaultCode, refuse
from engramq.schemas.vocabulary import WorkerKind
from engramq.telemetry.spans import trace_id_of
from engramq.workers.queue.dead_letters import DeadLetter
from engramq.workers.queue.settlement import Result

log = logging.getLogger(__name__)

MAX_TRIES: Final = 5
BACKOFF_FIRST_S: Final = 0.2
BACKOFF_MAX_S: Final = 5.0


def refused(envelope: Envelope, fault: Fault) -> Result:
    """Answer a command with a fault; no further try would help."""
    if fault.command_id is UNSET:
        fault = msgspec.structs.replace(fault, command_id=envelope.id)
    return Result(envelope, answer=encode(Answer(id=envelope.id, fault=fault)))


def retried(envelope: Envelope, tries: int, error: str) -> Result:
    """Try a command again, later after each try; nobody is answered yet."""
    log.warning("Command will be tried again", extra=_fields(envelope, tries, error))
    delay_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(tries - 1, 10))
    retry = msgspec.structs.replace(envelope, attempt=tries + 1)
    return Result(envelope, retry=retry, delay_s=delay_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter


def given_up(mailbox: WorkerKind, envelope: Envelope, raw: bytes, *, tries: int, error: str, message: str) -> Result:
    """Make a dead letter of a command; its caller learns that it failed."""
    log.error("Command set aside", extra=_fields(envelope, tries, error))
    fault = refuse(FaultCode.INTERNAL, "The command failed and was set aside.").fault
    fault = msgspec.structs.replace(fault, command_id=envelope.id)
    letter = DeadLetter(
        id=envelope.id,
        mailbox=mailbox,
        raw=raw,
        error=error,
        message=message,
        attempts=tries,
        died_at=time.time(),
        issued_at=envelope.issued_at,
        fault=fault,
    )
    return replace(refused(envelope, fault), letter=letter)


def unreadable(
    mailbox: WorkerKind, letter_id: str, raw: bytes, *, tries: int, error: str, whole_job: bool
) -> DeadLetter:
    """Return the dead letter of bytes that are no job (`whole_job`) or no command of this version."""
    log.error("Unreadable bytes set aside", extra={"letter_id": letter_id, "error": error})
    return DeadLetter(
        id=letter_id,
        mailbox=mailbox,
        raw=raw,
        error=error,
        message="These bytes are no job." if whole_job else "These bytes are no command of this version.",
        attempts=tries,
        died_at=time.time(),
        whole_job=whole_job,
    )


def _fields(envelope: Envelope, tries: int, error: str) -> dict[str, object]:
    command = type(envelope.command).__name__
    trace_id = trace_id_of(envelope.traceparent)
    return {"command_id": envelope.id, "trace_id": trace_id, "command": command, "tries": tries, "error": error}
