"""Bytes that any version has sent decode today, and mean what they meant."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from engramq.schemas.codec import DecodeError, decode_answer, decode_envelope
from engramq.schemas.envelope import Answer, Envelope
from tests.schemas.samples import GOLDEN, messages

FILES = sorted(GOLDEN.glob("*.msgpack"))


# What a command said once and the gateway says elsewhere now: a reply's budget is kept by the gateway.
MOVED = frozenset({".command.max_chars"})


def decoded(path: Path) -> Envelope | Answer:
    data = path.read_bytes()
    return decode_envelope(data) if path.name.startswith("command.") else decode_answer(data)


def lost(sent: Any, understood: Any, place: str = "") -> list[str]:
    """Return what was sent and is not understood, by place."""
    if isinstance(sent, dict) and isinstance(understood, dict):
        return [
            problem
            for key, value in sent.items()
            if f"{place}.{key}" not in MOVED
            for problem in (
                lost(value, understood[key], f"{place}.{key}") if key in understood else [f"{place}.{key} is gone"]
            )
        ]
    if isinstance(sent, list) and isinstance(understood, list) and len(sent) == len(understood):
        return [
            problem
            for number, pair in enumerate(zip(sent, understood, strict=True))
            for problem in lost(*pair, f"{place}[{number}]")
        ]
    return [] if sent == understood else [f"{place}: {sent!r} became {understood!r}"]


@pytest.mark.promise("QP-1")
def test_every_command_and_reply_has_its_golden_files() -> None:
    missing = {name for name, _ in messages()} - {path.name.removesuffix(".msgpack") for path in FILES}
    assert not missing, "run python -m tests.schemas.samples and commit what it writes"


@pytest.mark.promise("QP-1")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_golden_file_decodes_and_keeps_every_value(path: Path) -> None:
    sent = msgspec.msgpack.decode(path.read_bytes())
    understood = msgspec.msgpack.decode(msgspec.msgpack.encode(_with_defaults(decoded(path))))
    assert lost(sent, understood) == []


@pytest.mark.promise("QP-1")
@pytest.mark.parametrize("path", [path for path in FILES if ".least." in path.name], ids=lambda path: path.name)
def test_older_bytes_with_fewer_fields_get_todays_defaults(path: Path) -> None:
    message = decoded(path)
    names = {field.name for field in msgspec.structs.fields(type(message))}
    assert set(msgspec.msgpack.decode(path.read_bytes())) < names
    assert message.version == 1


@pytest.mark.promise("QP-1")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_field_of_a_later_version_does_no_harm(path: Path) -> None:
    sent = msgspec.msgpack.decode(path.read_bytes())
    later = msgspec.msgpack.encode({**sent, "field_of_the_future": {"x": 1}})
    decode = decode_envelope if path.name.startswith("command.") else decode_answer
    assert decode(later) == decoded(path)


def test_a_command_of_a_later_version_is_refused_as_undecodable() -> None:
    sent = msgspec.msgpack.decode((GOLDEN / "command.ping.full.msgpack").read_bytes())
    sent["command"]["type"] = "command_of_the_future"
    with pytest.raises(DecodeError):
        decode_envelope(msgspec.msgpack.encode(sent))


def _with_defaults(value: Any) -> Any:
    """Return plain values with every field, those at their defaults too (the wire leaves some out)."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        if config.array_like:
            return [_with_defaults(getattr(value, name)) for name in value.__struct_fields__]
        tag = {config.tag_field: config.tag} if config.tag_field else {}
        fields = {name: _with_defaults(getattr(value, name)) for name in value.__struct_fields__}
        return tag | {name: field for name, field in fields.items() if field is not msgspec.UNSET}
    if isinstance(value, list | tuple):
        return [_with_defaults(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_defaults(item) for key, item in value.items()}
    return value
