"""What a value means that came in another form than its parameter's: the one place where arguments are coerced.

Half of the clients send null for what they leave out, and models write numbers, booleans, objects and dates as text.
What cannot be meant otherwise is taken as it is meant; everything else is left as it is, for the check to refuse.
Nothing inside an object is touched.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from engramq.schemas.ids import format_time

ABSENT: Final = object()  # what stands for a parameter that was given and means nothing

_NOTHING: Final = frozenset({"", "null"})
# Texts of any word, but nobody means this one: each names something, and all who send "null" would share it.
_NEVER_NULL: Final = frozenset(
    {
        *("session", "idempotency_key", "cursor", "external_id", "thread", "source_type", "project"),
        *("edge_id", "record_id", "target", "actor", "action", "created_by"),
    }
)
_UNTIL: Final = frozenset({"until", "valid_until", "expires_at"})  # a day stands for its end there
_AS_OF: Final = "as_of"  # a day stands for its beginning there, but today for now

_NUMBER: Final = re.compile(r"\s*(-?(?:0|[1-9]\d{0,30}|(?=\.))(\.\d{1,30})?([eE][+-]?\d{1,3})?)\s*", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NO_ZONE: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?", re.ASCII)
_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}


def meaning(name: str, schema: Mapping[str, Any], value: Any, *, required: bool) -> Any:
    """Return what a value means for the parameter of this name and schema; ABSENT when it means: not given."""
    if value is None:
        return value if required else ABSENT
    if not isinstance(value, str):
        return value
    if not required and value in _NOTHING and (value == "" or _is_no_word(name, schema)):
        return ABSENT
    read = _READERS.get(_kind(schema))
    return value if read is None else read(name, value)


def _is_no_word(name: str, schema: Mapping[str, Any]) -> bool:
    return name in _NEVER_NULL or "enum" in schema or _kind(schema) != "string"


def _kind(schema: Mapping[str, Any]) -> str:
    kind: str = schema["type"]
    return schema.get("format", kind) if kind == "string" else kind


def _number(_name: str, text: str) -> Any:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    return float(found[1]) if found[2] or found[3] else int(found[1])


def _boolean(_name: str, text: str) -> Any:
    return _BOOLEANS.get(text.strip().lower(), text)


def _object(_name: str, text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def _moment(name: str, text: str) -> Any:
    if _DATE.fullmatch(text):
        now = datetime.now(UTC)
        if name == _AS_OF and text == now.date().isoformat():
            return format_time(now)
        return f"{text}T23:59:59.999999Z" if name in _UNTIL else f"{text}T00:00:00Z"
    found = _NO_ZONE.fullmatch(text)
    return text if found is None else f"{found[1]}T{found[2]}{found[3] or ':00'}Z"


_READERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "integer": _number,
    "number": _number,
    "boolean": _boolean,
    "object": _object,
    "date-time": _moment,
}
