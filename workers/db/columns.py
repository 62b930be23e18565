"""Columns by name and type, from the Structs that declare them, so that no query lists the fields of a memory by hand.

`{each detail: $name = %($name)s}` in a .sql file stands for that part once for each column, with commas between.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, inspect

from engramq.schemas.commands import NewMemory
from engramq.schemas.commands.changes import DETAILS
from engramq.schemas.contents import contents_of
from engramq.schemas.exports import RECORDS, MemoryRecord, type_of
from engramq.schemas.records import Memory

_EACH: Final = re.compile(r"\{each (\w+): ([^{}]+)\}")
_INTEGER_MAX: Final = 2**31 - 1
_TYPES: Final[Mapping[type[inspect.Type], str]] = {
    inspect.BoolType: "boolean",
    inspect.BytesType: "text",
    inspect.DateTimeType: "timestamptz",
    inspect.DictType: "jsonb",
    inspect.EnumType: "text",
    inspect.FloatType: "double precision",
    inspect.StrType: "text",
    inspect.StructType: "jsonb",
    inspect.UUIDType: "uuid",
}
# A memory's own row has these in another form: the id and external_id of its node, counters in a table of their own.
_BESIDE_ITS_ROW: Final = frozenset({"id", "external_id", "usage", "state"})
_VECTOR: Final = frozenset({"embedding", "embedding_model"})  # comes beside the line
# What a memory shows in another form than the column of its name, or that is in no column of its own row.
_NAMED: Final = frozenset({"external_id", "tags"})  # contents that are no plain columns of its row
_SHOWN_OTHERWISE: Final = frozenset({"id", "external_id", "state", "valid_until", "usefulness", "accessed_at"})


class Column(NamedTuple):
    """A column and its type in PostgreSQL."""

    name: str
    type: str


def columns_of(kind: type[msgspec.Struct]) -> Iterator[Column]:
    """Give a column for each field of a Struct."""
    shape = inspect.type_info(kind)
    assert isinstance(shape, inspect.StructType)
    for field in shape.fields:
        yield Column(field.encode_name, _type(field.type))


def _type(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(type=inner):
            return _type(inner)
        case inspect.UnionType(types=types):
            (only,) = (some for some in types if not isinstance(some, inspect.NoneType))
            return _type(only)
        case inspect.IntType(le=int(most)) if most <= _INTEGER_MAX:
            return "integer"
        case inspect.IntType():
            return "bigint"
        case inspect.VarTupleType(item_type=inspect.StructType()):
            return "jsonb"
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return f"{_type(item)}[]"
        case _:
            return _TYPES[type(kind)]


def _lists() -> dict[str, tuple[Column, ...]]:
    """Return the lists of columns that queries may repeat a part for, by name."""
    given = {column.name: column for column in columns_of(NewMemory)}
    always = {field.name for field in msgspec.structs.fields(Memory) if field.default is not UNSET}
    written = contents_of(Memory).keys() - _NAMED
    lists = {type_of(record): tuple(columns_of(record)) for record in RECORDS}
    memory = tuple(column for column in lists[type_of(MemoryRecord)] if column.name not in _VECTOR)
    return lists | {
        "detail": tuple(given[name] for name in DETAILS),
        "shown_column": tuple(column for column in columns_of(Memory) if column.name in always - _SHOWN_OTHERWISE),
        "contents": tuple(column for column in columns_of(Memory) if column.name in written),
        "memory": memory,
        "memory_column": tuple(column for column in memory if column.name not in _BESIDE_ITS_ROW),
    }


LISTS: Final = MappingProxyType(_lists())


def with_columns(text: str) -> str:
    """Return the text of a query with each repeated part written out."""

    def repeated(part: re.Match[str]) -> str:
        columns = LISTS[part[1]]
        return ", ".join(part[2].replace("$name", name).replace("$type", kind) for name, kind in columns)

    return _EACH.sub(repeated, text)
