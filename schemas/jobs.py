"""What both halves of the queue agree on besides keys: the form of a queued job, sizes and times.

A job carries 1 to COMMANDS_PER_JOB commands, each encoded by itself, so that one that cannot be decoded harms no other.
A job's id ends with the number of its commands.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from engramq.schemas.codec import decoded
from engramq.schemas.vocabulary import WorkerKind

JOB_FUNCTION: Final = "carry_out"  # arq's name for the one function that every mailbox runs
COMMANDS_PER_JOB: Final = 16
JOB_BYTES: Final = 1024 * 1024  # a job takes no further command beyond this size
FOLLOW_UP_BOUND: Final = 100_000  # commands in one mailbox beyond which follow-ups are left to the sweep
RETRY_AFTER_S: Final = 1.0  # what a refused caller is told to wait

REPLY_TTL_S: Final = 60  # of a reply list: how long a gateway that went away leaves its replies behind
NOTE_TTL_S: Final = 7 * 24 * 3600  # as long as an idempotency key is kept
REGISTER_S: Final = 30.0  # how often a gateway says that its reply list is in use
REPLY_LIST_MAX_AGE_S: Final = 3600.0  # after which a silent gateway's list is forgotten


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a command went whose caller was told `pending`: what get_command knows before the ledger does."""

    job_id: str
    mailbox: WorkerKind
    namespace: str
    principal: str


class _QueuedJob(msgspec.Struct, frozen=True):
    """A job as arq writes it: try, function, arguments, keyword arguments, time of enqueueing in milliseconds."""

    t: int | None
    f: str
    a: tuple[list[bytes]]
    k: dict[str, Any]
    et: int


_job_decoder: Final = msgspec.msgpack.Decoder(_QueuedJob)
_note_decoder: Final = msgspec.msgpack.Decoder(Note)


def job_id(first_command_id: str, count: int) -> str:
    """Return the id of the job that begins with this command and has so many of them."""
    return f"{first_command_id}.{count}"


def encode_job(envelopes: Sequence[bytes], at_ms: int) -> bytes:
    """Return the payload of a job that carries these encoded envelopes."""
    return msgspec.msgpack.encode({"t": None, "f": JOB_FUNCTION, "a": [list(envelopes)], "k": {}, "et": at_ms})


def decode_job(payload: bytes) -> list[bytes]:
    """Return the encoded envelopes of a job; raises DecodeError for any other bytes."""
    return decoded(_job_decoder, payload).a[0]


def encode_note(note: Note) -> bytes:
    """Return the bytes of a note."""
    return msgspec.msgpack.encode(note)


def decode_note(data: bytes) -> Note:
    """Return the note in `data`; raises DecodeError for any other bytes."""
    return decoded(_note_decoder, data)
