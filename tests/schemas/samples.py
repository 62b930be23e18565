"""Sample messages, built from the types themselves: with every field set, and with the required ones only."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import msgspec

from engramq.schemas.commands import COMMANDS, REPLIES, Command
from engramq.schemas.envelope import Answer, Envelope, Principal
from engramq.schemas.faults import Fault, FaultCode
from engramq.schemas.vocabulary import Scope

MOMENT: Final = datetime(2026, 1, 31, 9, 0, 0, 123456, UTC)
COMMAND_ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"

# Texts of the fields that take no other form.
MATCHING: Final = {"lines": "3-9", "commit": "01890a5", "sha256": 64 * "0", "url": "https://engramq.example/a"}


def sample(kind: Any, *, full: bool) -> Any:
    """Return an instance of a message type: every field set, or the required ones only."""
    values = {field.name: _value(info, field.name, full) for field, info in _fields_of(kind) if full or field.required}
    return msgspec.convert(msgspec.to_builtins(kind(**values)), kind)


@cache
def _fields_of(kind: Any) -> list[tuple[msgspec.structs.FieldInfo, msgspec.inspect.Type]]:
    """Return the fields of a message type, and what each takes: the scripted workers make thousands of samples."""
    return [(field, msgspec.inspect.type_info(field.type)) for field in msgspec.structs.fields(kind)]


def _value(info: Any, name: str, full: bool) -> Any:  # noqa: C901 - one case for each sort of type
    match info:
        case msgspec.inspect.Metadata(type=inner):
            return _value(inner, name, full)
        case msgspec.inspect.StrType():
            return MATCHING.get(name, f"{name} é"[: info.max_length])
        case msgspec.inspect.NoneType():
            return None
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.IntType():
            return info.ge or 1
        case msgspec.inspect.FloatType():
            return 0.25
        case msgspec.inspect.BytesType():
            return b"\x00\xff" * max(1, (info.min_length or 0) // 2)
        case msgspec.inspect.DateTimeType():
            return MOMENT
        case msgspec.inspect.AnyType():
            return {"nested": [1, None, "é"]}
        case msgspec.inspect.EnumType(cls=cls):
            return list(cls)[-1]
        case msgspec.inspect.LiteralType(values=values):
            return values[0]
        case msgspec.inspect.StructType(cls=cls):
            return sample(cls, full=full)
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            return {_value(key, "key", full): _value(value, name, full)}
        case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.VarTupleType(item_type=item):
            return [_value(item, name, full)]
        case msgspec.inspect.UnionType(types=types):
            solid = [kind for kind in types if not isinstance(kind, msgspec.inspect.NoneType)]
            return _value(solid[0], name, full)
    raise TypeError(f"no sample for {info}")


def messages() -> Iterator[tuple[str, Envelope | Answer]]:
    """Yield (name, message) for every command, every reply and a fault, full and least."""
    for full in (True, False):
        form = "full" if full else "least"
        for command in COMMANDS:
            yield f"command.{_tag(command)}.{form}", _envelope(sample(command, full=full), full)
        for reply in REPLIES:
            yield f"reply.{_tag(reply)}.{form}", _answer(reply=sample(reply, full=full), full=full)
        fault = sample(Fault, full=True) if full else Fault(code=FaultCode.SELF_LOOP, error="e", recovery="r")
        yield f"fault.{form}", _answer(fault=fault, full=full)


def _envelope(command: Command, full: bool) -> Envelope:
    least = {"id": COMMAND_ID, "namespace": "tenant", "principal": Principal(name="ada"), "command": command}
    if not full:
        return Envelope(**least)  # type: ignore[arg-type]
    return Envelope(
        **{
            **least,
            "principal": Principal(name="ada", scopes=(Scope.READ, Scope.WRITE), untrusted=True),
            "session": "s",
            "references": {"@stored": COMMAND_ID},
            "issued_at": 1769850000.5,
            "deadline": 1769850010.5,
            "attempt": 2,
            "reply_to": "engramq:replies:x",
            "idempotency_key": "k",
            "fingerprint": "0123",
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        }  # type: ignore[arg-type]
    )


def _answer(*, reply: Any = None, fault: Fault | None = None, full: bool) -> Answer:
    return Answer(id=COMMAND_ID, reply=reply, fault=fault, replayed=full)


def _tag(kind: type[msgspec.Struct]) -> str:
    return str(kind.__struct_config__.tag)
