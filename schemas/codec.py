"""The only encoder and decoder of what goes through Redis: msgpack, each type with one decoder built once."""

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET

from engramq.schemas.commands import Command, Reply
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import Fault

_sorted_encoder: Final = msgspec.json.Encoder(order="deterministic")

Message = TypeVar("Message")

DecodeError = msgspec.DecodeError  # what decoding raises; ValidationError is a kind of it


def decoded(decoder: msgspec.msgpack.Decoder[Message], data: bytes) -> Message:
    """Return the decoded message; raises DecodeError for bytes that are malformed in any way."""
    try:
        return decoder.decode(data)
    except (UnicodeDecodeError, RecursionError, OverflowError) as problem:  # msgspec lets these through
        raise DecodeError(type(problem).__name__) from None


# Returns the bytes of an envelope or an answer.
encode: Final[Callable[[Envelope | Answer], bytes]] = msgspec.msgpack.Encoder().encode

# Return the message in some bytes; raise DecodeError when this version does not know it.
decode_envelope: Final[Callable[[bytes], Envelope]] = partial(decoded, msgspec.msgpack.Decoder(Envelope))
decode_answer: Final[Callable[[bytes], Answer]] = partial(decoded, msgspec.msgpack.Decoder(Answer))


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
