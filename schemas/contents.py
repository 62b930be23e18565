"""Tell which fields hold text that somebody wrote, by the fields' marks.

It decides which texts are blanked in the ledger, withheld from callers without the scope read, and cut by a budget. So
does the preview: the beginning of a content, to know a memory by.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, inspect

from engramq.schemas import records
from engramq.schemas.vocabulary import LIKELY

CONTENTS: Final = "contents"
KEY: Final = "key"
_HOLDS: Final = "holds"
_NO_TEXT: Final = object()

T = TypeVar("T")
Contents = Annotated[T, Meta(extra={_HOLDS: CONTENTS})]  # of a reply, where text is engramq's unless it is marked


@cache
def contents_of(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    """Return the fields of a Struct that hold what somebody wrote, each with what stands there when that is left out.

    In a record every text without a mark counts, so that a forgotten mark hides too much, never too little. In any
    other Struct the texts marked with Contents count.
    """
    is_record = any(base.__module__ == records.__name__ for base in kind.__mro__)
    return {
        field.name: blank
        for field, shape in _fields(kind)
        if (blank := _blank(field, shape.type)) is not _NO_TEXT
        and ((mark := _mark(shape.type)) in (CONTENTS, KEY) or (mark is None and is_record))
    }


def fields_holding(kind: type[msgspec.Struct], mark: str) -> Iterator[str]:
    """Give the names of the fields of a Struct with this mark."""
    return (field.name for field, shape in _fields(kind) if _mark(shape.type) == mark)


def _fields(kind: type[msgspec.Struct]) -> Iterator[tuple[msgspec.structs.FieldInfo, inspect.Field]]:
    shape = inspect.type_info(kind)
    assert isinstance(shape, inspect.StructType)
    return zip(msgspec.structs.fields(kind), shape.fields, strict=True)


def _parts(kind: inspect.Type) -> Iterator[inspect.Type]:
    """Give a type and those that it is made of: of a union, of marks, of the items of a list or an object."""
    yield kind
    match kind:
        case inspect.UnionType(types=types):
            for part in types:
                yield from _parts(part)
        case inspect.Metadata(type=part) | inspect.ListType(item_type=part) | inspect.DictType(value_type=part):
            yield from _parts(part)


def _mark(kind: inspect.Type) -> str | None:
    extra = (part.extra or {} for part in _parts(kind) if isinstance(part, inspect.Metadata))
    return next((str(marks[_HOLDS]) for marks in extra if _HOLDS in marks), None)


def _blank(field: msgspec.structs.FieldInfo, kind: inspect.Type) -> Any:
    """Return what stands in a field of text, texts or a JSON object that is left out; _NO_TEXT for any other field."""
    parts = list(_parts(kind))
    if not any(isinstance(part, inspect.StrType | inspect.AnyType) for part in parts):
        return _NO_TEXT
    if inspect.NoneType() in parts:
        return None
    if field.default is UNSET:
        return UNSET
    outermost = next((part for part in parts if isinstance(part, inspect.DictType | inspect.ListType)), None)
    return {} if isinstance(outermost, inspect.DictType) else "" if outermost is None else []


def change_contents(node: T, change: Callable[[Any], Any]) -> T:
    """Return a value with what `change` makes of each Struct in it that holds contents; None leaves its list."""
    result: Any = node
    if isinstance(node, msgspec.Struct):
        new = {name: change_contents(getattr(node, name), change) for name in _leading_to_contents(type(node))}
        result = msgspec.structs.replace(node, **new) if new else node
        return cast(T, change(result)) if contents_of(type(node)) else cast(T, result)
    if isinstance(node, list):
        result = [new for item in node if (new := change_contents(item, change)) is not None]
    elif isinstance(node, dict):
        result = {name: change_contents(value, change) for name, value in node.items()}
    return cast(T, result)


@cache
def _leading_to_contents(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields of a Struct in which others stand, at whatever depth, that hold contents."""
    leading = (name for name, part in _structs_in(kind) if contents_of(part) or _leading_to_contents(part))
    return tuple(dict.fromkeys(leading))


@cache
def may_hold(kind: type[msgspec.Struct], *wanted: type[msgspec.Struct]) -> bool:
    """Say whether a Struct of one of these kinds may stand in one of this kind, at whatever depth."""
    return any(issubclass(part, wanted) or may_hold(part, *wanted) for _, part in _structs_in(kind))


def _structs_in(kind: type[msgspec.Struct]) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    for field, shape in _fields(kind):
        for part in _parts(shape.type):
            if isinstance(part, inspect.StructType):
                yield field.name, part.cls


CUT: Final = "…"


def preview_of(text: str, limit: int) -> str:
    """Return a text on one line, at most `limit` characters of it, cut at a word and then with `…` at its end.

    White space counts as one space. A word that fills more than half of the line is cut within.
    """
    line = " ".join(text.split(None, limit))  # more words than that do not fit
    if len(line) <= limit:
        return line
    room = limit - len(CUT)
    end = room if line[room] == " " else line.rfind(" ", 0, room)
    return line[: end if end > room // 2 else room].rstrip() + CUT


def split_by_relevance(hits: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the likely hits of a search's reply and the less likely ones, both in the order in which they came."""
    likely: list[dict[str, Any]] = []
    unlikely: list[dict[str, Any]] = []
    for hit in hits:
        (likely if hit.get("relevance", 0.0) >= LIKELY else unlikely).append(hit)
    return likely, unlikely
