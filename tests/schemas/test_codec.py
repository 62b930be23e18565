"""What is encoded comes back equal, and no bytes whatever do more than raise DecodeError."""

import pickle
from datetime import UTC, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.codec import (
    DecodeError,
    decode_answer,
    decode_envelope,
    decode_job,
    decode_note,
    encode,
    encode_job,
    fingerprint,
    reply_body,
)
from engramq.schemas.commands import COMMANDS, Ping, Pong, StoreMemory, UpdateMemory
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.vocabulary import Scope
from tests.schemas.samples import messages

text = st.text(st.characters(codec="utf-8"))
filled = text.filter(lambda value: value.strip() != "" and len(value) > 0).map(lambda value: "x" + value)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=10,
)
principals = st.builds(
    Principal, name=text, scopes=st.lists(st.sampled_from(Scope)).map(tuple), untrusted=st.booleans()
)
commands = st.one_of(
    st.builds(Ping, payload=st.binary(max_size=300)),
    st.builds(
        StoreMemory,
        content=filled,
        confidence=st.floats(0, 1),
        speaker=filled,
        occurred_at=st.datetimes(timezones=st.sampled_from((UTC, timezone(timedelta(hours=-9, minutes=-30))))),
        metadata=st.dictionaries(text, json_values, max_size=3),
    ),
    st.builds(UpdateMemory, memory_id=filled, metadata=st.dictionaries(text, json_values, max_size=3)),
)
envelopes = st.builds(
    Envelope,
    id=text,
    namespace=text,
    principal=principals,
    command=commands,
    session=text,
    issued_at=st.floats(0, 2**40),
    deadline=st.floats(0, 2**40),
    attempt=st.integers(1, 1000),
    reply_to=text,
    idempotency_key=st.none() | text,
    fingerprint=text,
    traceparent=st.none() | text,
)


@pytest.mark.promise("QP-1")
@given(envelopes)
def test_an_envelope_comes_back_as_it_went(envelope: Envelope) -> None:
    assert decode_envelope(encode(envelope)) == envelope


@pytest.mark.promise("QP-1")
def test_every_message_comes_back_as_it_went() -> None:
    for name, message in messages():
        decode = decode_envelope if isinstance(message, Envelope) else decode_answer
        sent = encode(message)
        assert decode(sent) == message, name
        later = msgspec.msgpack.encode({**msgspec.msgpack.decode(sent), "field_of_a_later_release": {"x": 1}})
        assert decode(later) == message, name


def test_a_command_of_a_later_release_is_refused_as_undecodable() -> None:
    sent = msgspec.msgpack.decode(encode(dict(messages())["command.ping.full"]))
    sent["command"]["type"] = "command_of_a_later_release"
    with pytest.raises(DecodeError):
        decode_envelope(msgspec.msgpack.encode(sent))


@pytest.mark.promise("QP-1")
def test_every_command_is_a_tagged_struct_with_a_mailbox() -> None:
    tags = [command.__struct_config__.tag for command in COMMANDS]
    assert len(set(tags)) == len(tags)
    assert all(command.mailbox for command in COMMANDS)
    assert all(command.__struct_config__.frozen for command in COMMANDS)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_raise_decode_error(data: bytes) -> None:
    for decode in (decode_envelope, decode_answer, decode_job):
        with pytest.raises(DecodeError):
            decode(data)


@given(envelopes, st.data())
def test_a_damaged_message_is_read_or_refused_and_nothing_else(envelope: Envelope, data: st.DataObject) -> None:
    encoded = bytearray(encode(envelope))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] = data.draw(st.integers(0, 255))
    try:
        found: Any = decode_envelope(bytes(encoded))
    except DecodeError:
        return
    assert isinstance(found, Envelope)


@pytest.mark.parametrize("damaged", [b"\x91" * 100_000, b"\xa1\xff", b"\x81\xa2id\xa1\xff", b"\xd6\xff" + b"\xff" * 4])
def test_broken_text_and_bottomless_nesting_raise_decode_error(damaged: bytes) -> None:
    for decode in (decode_envelope, decode_answer, decode_job, decode_note):
        with pytest.raises(DecodeError):
            decode(damaged)


def test_a_pickle_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_job(pickle.dumps({"t": None, "f": "carry_out", "a": ([b"x"],), "k": {}, "et": 0}))


@given(st.lists(st.binary(max_size=100), max_size=20), st.integers(0, 2**60))
def test_a_job_gives_its_envelopes_back(parts: list[bytes], at_ms: int) -> None:
    assert decode_job(encode_job(parts, at_ms)) == parts


@given(st.dictionaries(text, json_values, max_size=5))
def test_a_fingerprint_does_not_depend_on_the_order_of_keys(metadata: dict[str, Any]) -> None:
    turned = dict(reversed(metadata.items()))
    one, other = (UpdateMemory(memory_id="m", metadata=value) for value in (metadata, turned))
    assert fingerprint(one) == fingerprint(other)


def test_a_fingerprint_does_not_tell_a_default_that_was_given_from_one_left_out() -> None:
    given = msgspec.convert({"type": "store_memory", "content": "x", "confidence": float("1.0")}, StoreMemory)
    assert fingerprint(given) == fingerprint(StoreMemory(content="x"))


def test_a_fingerprint_tells_commands_and_arguments_apart() -> None:
    prints = [fingerprint(command) for command in (Ping(), Ping(payload=b"x"), StoreMemory(content="x"))]
    assert len(set(prints)) == 3


def test_a_replys_body_has_no_tag() -> None:
    assert reply_body(Pong(payload=b"x")) == {
        "payload": "eA==",
        "status": "success",
        "refused": "",
        "reads": True,
        "checks": [],
    }


def test_a_session_that_an_older_gateway_left_out_is_its_own_and_none_is_said() -> None:
    least = Envelope(id="i", namespace="n", principal=Principal(name="p"), command=Ping(), session="")
    sent = msgspec.msgpack.decode(encode(least))
    assert decode_envelope(encode(least)).session == sent.pop("session") == ""
    assert decode_envelope(msgspec.msgpack.encode(sent)).session == "default"
