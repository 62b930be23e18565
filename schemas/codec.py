"""Encode and decode all that goes through Redis: msgpack, each type with one decoder built once. JSON of callers, too.

A job carries 1 to COMMANDS_PER_JOB commands, each encoded by itself, so that one that cannot be decoded harms no other.
A job's id ends with the number of its commands.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Self, TypeVar

import msgspec
from msgspec import UNSET

from engramq.schemas.commands import Command, Reply
from engramq.schemas.envelope import Answer, Envelope, PrincipalId
from engramq.schemas.faults import Fault
from engramq.schemas.vocabulary import WorkerKind

JOB_FUNCTION: Final = "carry_out"  # arq's name for the one function that every mailbox runs

_encoder: Final = msgspec.json.Encoder()
_sorted_encoder: Final = msgspec.json.Encoder(order="deterministic")

Message = TypeVar("Message")

DecodeError = msgspec.DecodeError  # what decoding raises; ValidationError is a kind of it


def decoded(decoder: msgspec.msgpack.Decoder[Message], data: bytes) -> Message:
    """Return the decoded message; raises DecodeError for bytes that are malformed in any way."""
    try:
        return decoder.decode(data)
    except (UnicodeDecodeError, RecursionError, OverflowError) as problem:  # msgspec lets these through
        raise DecodeError(type(problem).__name__) from None


def decode_json(text: bytes | str) -> Any:
    """Return what JSON of a caller holds, half a surrogate pair included: a check names the field that has it.

    Python and JavaScript write such halves of a text that is cut within an emoji. NaN, Infinity and 1e999 are read too:
    floats that checks refuse. Raises DecodeError for what is no JSON, ValueError for bytes that are no UTF-8, and
    RecursionError for what is nested too deeply.
    """
    try:
        return msgspec.json.decode(text)
    except DecodeError as problem:
        try:
            return json.loads(text if isinstance(text, str) else text.decode())
        except ValueError:
            raise problem from None


# Returns the bytes of an envelope or an answer.
encode: Final[Callable[[Envelope | Answer], bytes]] = msgspec.msgpack.Encoder().encode

# Return the message in some bytes; raise DecodeError when this version does not know it.
decode_envelope: Final[Callable[[bytes], Envelope]] = partial(decoded, msgspec.msgpack.Decoder(Envelope))
decode_answer: Final[Callable[[bytes], Answer]] = partial(decoded, msgspec.msgpack.Decoder(Answer))


def count_stop(envelope: bytes) -> bytes:
    """Return an encoded envelope that a stop interrupted once more; what a newer version has written in it stays."""
    fields = msgspec.msgpack.decode(envelope)
    return msgspec.msgpack.encode(
        {**fields, "attempt": fields.get("attempt", 1) + 1, "stops": fields.get("stops", 0) + 1}
    )


class _CommandWord(msgspec.Struct):
    type: str


class _Outline(msgspec.Struct):
    command: _CommandWord


_outline_decoder: Final = msgspec.msgpack.Decoder(_Outline)


def word_of(envelope: bytes) -> str:
    """Return the word of the command in an envelope that this version cannot read; "" where there is none."""
    try:
        return decoded(_outline_decoder, envelope).command.type
    except DecodeError:
        return ""


def fingerprint(command: Command) -> str:
    """Return a digest that is equal for equal commands with equal arguments.

    Neither the order of keys nor whether a default was given or left out makes a difference.
    """
    arguments = {name: value for name in command.__struct_fields__ if (value := getattr(command, name)) is not UNSET}
    body = _sorted_encoder.encode([type(command).__name__, arguments])
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def fault_body(fault: Fault) -> dict[str, Any]:
    """Return a refusal as the plain values that a client reads."""
    return {"status": fault.status.value, **msgspec.to_builtins(fault)}


def reply_body(reply: Reply) -> dict[str, Any]:
    """Return a reply as the plain values that a client reads (the wire's own tag left out)."""
    body: dict[str, Any] = msgspec.to_builtins(reply)
    body.pop("type", None)
    return body


def text_of(body: Any) -> str:
    """Return the JSON text of what a client reads."""
    return _encoder.encode(body).decode()


class PendingNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The way of a command whose caller was answered `pending`: get_command reads it before the ledger has a row."""

    job_id: str
    mailbox: WorkerKind
    namespace: str
    principal: str
    untrusted: bool = False

    @classmethod
    def of(cls, envelope: Envelope, job_id: str) -> Self:
        """Return the note of a command that went there."""
        whose = envelope.principal.identity
        return cls(
            job_id=job_id,
            mailbox=envelope.command.mailbox,
            namespace=envelope.namespace,
            principal=whose.name,
            untrusted=whose.untrusted,
        )

    @property
    def owner(self) -> tuple[str, PrincipalId]:
        """The namespace and the principal that a command belongs to."""
        return self.namespace, PrincipalId(self.principal, self.untrusted)


class _QueuedJob(msgspec.Struct, frozen=True):
    """A job as arq writes it: try, function, arguments, keyword arguments, time of enqueueing in milliseconds."""

    t: int | None
    f: str
    a: tuple[list[bytes]]
    k: dict[str, Any]
    et: int


_job_decoder: Final = msgspec.msgpack.Decoder(_QueuedJob)


def encode_job(envelopes: Sequence[bytes], at_ms: int) -> bytes:
    """Return the payload of a job that carries these encoded envelopes."""
    return msgspec.msgpack.encode({"t": None, "f": JOB_FUNCTION, "a": [list(envelopes)], "k": {}, "et": at_ms})


def decode_job(payload: bytes) -> list[bytes]:
    """Return the encoded envelopes of a job; raises DecodeError for any other bytes."""
    return decoded(_job_decoder, payload).a[0]


# Returns the bytes of a note.
encode_note: Final[Callable[[PendingNote], bytes]] = msgspec.msgpack.Encoder().encode

# Returns the note in some bytes; raises DecodeError for any other bytes.
decode_note: Final[Callable[[bytes], PendingNote]] = partial(decoded, msgspec.msgpack.Decoder(PendingNote))
