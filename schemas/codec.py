"""The only encoder and decoder of what goes through Redis: msgpack, each type with one decoder built once."""

import hashlib
from typing import Any, Final

import msgspec

from schemas.commands import Command, Reply
from schemas.envelope import Answer, Envelope

_encoder: Final = msgspec.msgpack.Encoder()
_sorted_encoder: Final = msgspec.json.Encoder(order="deterministic")
_envelope_decoder: Final = msgspec.msgpack.Decoder(Envelope)
_answer_decoder: Final = msgspec.msgpack.Decoder(Answer)

DecodeError = msgspec.DecodeError  # what decoding raises; ValidationError is a kind of it


def encode(message: Envelope | Answer) -> bytes:
    """Return the bytes of an envelope or an answer."""
    return _encoder.encode(message)


def decode_envelope(data: bytes) -> Envelope:
    """Return the envelope in `data`; raises DecodeError when it is none that this version knows."""
    return _envelope_decoder.decode(data)


def decode_answer(data: bytes) -> Answer:
    """Return the answer in `data`; raises DecodeError when it is none that this version knows."""
    return _answer_decoder.decode(data)


def fingerprint(command: Command) -> str:
    """Return a digest that is equal for equal commands with equal arguments, whatever the order of their keys."""
    return hashlib.blake2b(_sorted_encoder.encode(command), digest_size=16).hexdigest()


def reply_body(reply: Reply) -> dict[str, Any]:
    """Return a reply as the plain values that a client reads (the wire's own tag left out)."""
    body: dict[str, Any] = msgspec.to_builtins(reply)
    body.pop("type", None)
    return body
