"""Read values that clients send in another form than the parameter's. It asks for no more than the date.

Half of the clients send null for what they leave out. Models write numbers, booleans, objects and dates as text, and
quotes around an id. A value with one possible meaning is taken as that; every other value stays as it is, and the check
refuses it. Nothing inside an object is touched but ids in the items of a list, such as evidence and edges.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final

import msgspec

from engramq.schemas.fields import OPAQUE
from engramq.schemas.ids import format_time, parse_uuid

ABSENT: Final = object()  # what stands for a parameter that was given and means nothing

_NOTHING: Final = frozenset({"", "null"})
# Texts of any word, but nobody means this one: each names something, and all who send "null" would share it.
_NEVER_NULL: Final = frozenset(
    {
        *("session", "idempotency_key", "external_id", "thread", "source_type", "project"),
        *("actor", "action", "created_by"),
    }
)
_LIST: Final = "array"
OBJECT: Final = "object"
_UNTIL: Final = frozenset({"until", "valid_until", "expires_at"})  # a day stands for its end there
_AS_OF: Final = "as_of"  # a day stands for its beginning there, but today for now

_NUMBER: Final = re.compile(r"\s*(-?(?:0|[1-9]\d{0,30}|(?=\.))(\.\d{1,30})?([eE][+-]?\d{1,3})?)\s*", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?(?: ?([Zz]|UTC|[+-]\d\d:?\d\d))?", re.ASCII
)
_NO_ITEM: Final = re.compile(r"\s*(\[\s*['\"\[{]|\Z)")  # blank, or a list that is none in JSON: ['a', 'b']
_AROUND_COPIES: Final = " \t\r\n\u00a0\u200b\ufeff'\"`*<>()“”‘’«»,;:."  # nothing that is copied has them at its ends
_BETWEEN: Final = re.compile(r"[\s,;]+")
_BRACKETS: Final = re.compile(r"\s*\[(.*)\]\s*", re.DOTALL)
_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}
_COPY: Final = {"format": OPAQUE}


def value_meant(name: str, schema: Mapping[str, Any], value: Any, *, required: bool, zone: tzinfo = UTC) -> Any:
    """Return what a value means for the parameter of this name and schema; ABSENT when it means: not given."""
    if value is None:
        return value if required else ABSENT
    is_list = schema["type"] == _LIST
    if not isinstance(value, str):
        return _items_of(schema, value) if is_list else value
    if not required and value in _NOTHING and (value == "" or _is_no_word(name, schema)):
        return ABSENT
    if is_list:
        return _items_of(schema, value)
    read = _READERS.get("enum" if "enum" in schema else schema.get("format", schema["type"]))
    return value if read is None else read(name, value, zone)


def _is_no_word(name: str, schema: Mapping[str, Any]) -> bool:
    return name in _NEVER_NULL or "enum" in schema or schema.get("format", schema["type"]) != "string"


def _number(_name: str, text: str, _zone: tzinfo) -> Any:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    return float(found[1]) if found[2] or found[3] else int(found[1])


def _object(_name: str, text: str, _zone: tzinfo) -> Any:
    return _decode(text, "{")


def _copy(_name: str, text: str, _zone: tzinfo) -> Any:
    """Return an id or the like without the blanks, quotes and stops that a model puts around it."""
    return text.strip(_AROUND_COPIES) or text


def _decode(text: str, begins: str) -> Any:
    """Return what JSON holds that begins so, else the text."""
    if not text.lstrip().startswith(begins):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def _items_of(schema: Mapping[str, Any], value: Any) -> Any:
    """Return the list that a value means: JSON text is decoded, and a single item stands for a list of it.

    For example `'["a", "b"]'` and `"a"` for tags, `'[{"path": "a.py"}]'` and `{"path": "a.py"}` for evidence, and
    `"episodic, semantic"` for sectors, whose words have no comma.
    """
    items = schema["items"]
    if isinstance(value, str):
        value = _list_in(items, value)
    if isinstance(value, dict) and items.get("type") == OBJECT:
        value = [value]
    if not isinstance(value, list) or len(value) > schema["maxItems"]:  # the check refuses a longer one
        return value
    return [_item_meant(items, item) for item in value]


def _list_in(items: Mapping[str, Any], text: str) -> Any:
    """Return the list, or its single item that is an object, that a text means, else the text.

    Ids and words of an enumeration may come as `a, b` or `['a', 'b']`. No sentence is cut into words: in "a, not b" an
    id is named that nobody means.
    """
    found = _decode(text, "[")
    if found is not text or items.get("type") == OBJECT:
        return _decode(text, "{") if found is text else found
    if _is_copied(items):
        inside = _BRACKETS.fullmatch(text)
        words = [word for part in _BETWEEN.split(inside[1] if inside else text) if (word := part.strip(_AROUND_COPIES))]
        if words and all(word in items["enum"] if "enum" in items else _is_id(word) for word in words):
            return words
        if len(words) > 1:
            return text
    return text if _NO_ITEM.match(text) else [text]


def _is_id(word: str) -> bool:
    return word.startswith("@") or parse_uuid(word) is not None


def _is_copied(schema: Mapping[str, Any]) -> bool:
    return "enum" in schema or schema.get("format") == OPAQUE


def _item_meant(schema: Mapping[str, Any], item: Any) -> Any:
    """Return an item of a list; ids in it, and words of an enumeration, lose the quotes around them."""
    if isinstance(item, str):
        if _is_copied(schema):
            return _copy("", item, UTC)
        item = _decode(item, "{") if schema.get("type") == OBJECT else item
    if not isinstance(item, dict):
        return item
    copied = {name for name, field in schema.get("properties", {}).items() if field.get("format") == OPAQUE}
    return item | {name: _item_meant(_COPY, item[name]) for name in copied & item.keys()}


def _moment(name: str, text: str, zone: tzinfo) -> Any:
    given, text = text, text.strip(_AROUND_COPIES)
    if _DATE.fullmatch(text):
        now = datetime.now(zone)
        if name == _AS_OF and text == now.date().isoformat():
            return format_time(now)
        text = f"{text}T23:59:59.999999" if name in _UNTIL else f"{text}T00:00:00"
    elif (found := _TIME.fullmatch(text)) is None:
        return given
    else:
        text = f"{found[1]}T{found[2]}{found[3] or ':00'}"
        if found[4]:
            return f"{text}{found[4].replace('UTC', 'Z')}"
    try:
        moment = datetime.fromisoformat(text).replace(tzinfo=zone)
        # Before standard time came zones had seconds in their offset, which a written time cannot have.
        minutes = round((moment.utcoffset() or timedelta()) / timedelta(minutes=1))
        return moment.replace(tzinfo=timezone(timedelta(minutes=minutes))).isoformat()
    except (ValueError, OverflowError):  # the check says what is wrong with it
        return given


_READERS: Final[Mapping[str, Callable[[str, str, tzinfo], Any]]] = {
    "integer": _number,
    "number": _number,
    "boolean": lambda _name, text, _zone: _BOOLEANS.get(text.strip().lower(), text),
    "object": _object,
    "date-time": _moment,
    OPAQUE: _copy,
    "enum": _copy,
}
