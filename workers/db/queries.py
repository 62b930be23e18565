"""Read the named queries from the .sql files of all slices, once.

A file holds `-- name: insert_memory` (a query) or `-- fragment: memory_columns` (a part of others), each with a
comment that says what it is for, and the SQL. `{memory_columns}` includes one. `{each detail: $name = %($name)s}`
stands for that part once for each column of a list, with commas between: columns come by name and type from the Structs
that declare them, so that no query lists the fields of a memory by hand. `{dimensions}` and `{model}` are filled in by
`sized_sql`, since a vector's length is part of its type and of its index, and an index is of one model. Parameters are
written `%(name)s`, and a percent sign twice.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, inspect

from engramq.schemas.commands import NewMemory
from engramq.schemas.commands.changes import DETAILS
from engramq.schemas.contents import contents_of
from engramq.schemas.exports import RECORDS, MemoryRecord, type_of
from engramq.schemas.records import Memory

_FOLDER: Final = Path(__file__).parents[1]
_HEADING: Final = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_INCLUDED: Final = re.compile(r"\{(\w+)\}")
_DIMENSIONS: Final = "dimensions"
_MODEL: Final = "model"
_PARAMETER: Final = re.compile(rb"%\((\w+)\)s|%%")
_TRANSLATED_MAX: Final = 2_000  # many times the number of queries there are
_names: Final[dict[bytes, str]] = {}  # by text, for who tells which query it was
_EACH: Final = re.compile(r"\{each (\w+): ([^{}]+)\}")
Query: TypeAlias = str | bytes  # its name, or its text where that is made for a length of vectors
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
_NAMED: Final = frozenset({"external_id", "tags", "evidence"})  # contents that are no plain columns of its row
_SHOWN_OTHERWISE: Final = frozenset({"id", "external_id", "state", "valid_until", "usefulness", "accessed_at"})


class Library:
    """All queries and fragments below a folder; the schema and its migrations are no queries."""

    def __init__(self, folder: Path) -> None:
        self.queries: dict[str, str] = {}
        self.fragments: dict[str, str] = {}
        for path in sorted(folder.rglob("*.sql")):
            if path.parent.name != "migrations" and path.name != "schema.sql":
                self._read(path)

    def _read(self, path: Path) -> None:
        parts = _HEADING.split(path.read_text(encoding="utf-8"))
        for kind, name, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            if name in self.queries or name in self.fragments:
                raise ValueError(f"{path.name}: {name} is there twice")
            lines = body.strip().splitlines()
            if not lines or not lines[0].startswith("-- "):
                raise ValueError(f"{path.name}: {name} has no description")
            text = "\n".join(line for line in lines if not line.lstrip().startswith("--")).rstrip(";\n")
            (self.queries if kind == "name" else self.fragments)[name] = with_columns(text)

    def whole_queries(self) -> dict[str, str]:
        """Return the text of each query by its name."""
        return {name: self.whole(text) for name, text in self.queries.items()}

    def whole(self, text: str) -> str:
        """Return the text with its fragments, and theirs, put in."""

        def include(found: re.Match[str]) -> str:
            name = found[1]
            return found[0] if name in {_DIMENSIONS, _MODEL} else self.whole(self.fragments[name])

        return _INCLUDED.sub(include, text)


@functools.cache
def _library() -> Mapping[str, str]:
    return MappingProxyType(Library(_FOLDER).whole_queries())


def names() -> tuple[str, ...]:
    """Return the names of all queries."""
    return tuple(_library())


def sql(name: str) -> bytes:
    """Return a query's text; raises KeyError for an unknown name."""
    text = _library()[name]
    if f"{{{_DIMENSIONS}}}" in text:
        raise KeyError(f"{name} depends on the length of vectors: use sized_sql")
    return _text_of(name, text)


@functools.cache
def sized_sql(name: str, dimensions: int, model_id: int | None = None) -> bytes:
    """Return the text of a query on vectors of this length, of one model; None: it is a parameter."""
    model = "%(model_id)s" if model_id is None else str(int(model_id))
    text = _library()[name].replace(f"{{{_DIMENSIONS}}}", str(int(dimensions)))
    return _text_of(name, text.replace(f"{{{_MODEL}}}", model))


def _text_of(name: str, text: str) -> bytes:
    """Return a query's text, and remember whose it is."""
    query = text.encode()
    _names[query] = name
    return query


def name_of(query: Query) -> str:
    """Return the name of a query, by its text as it is here or as PostgreSQL takes it."""
    return query if isinstance(query, str) else _names.get(query, "unnamed")


class Native(NamedTuple):
    """A query as PostgreSQL takes it: `parameters` are the names of $1, $2 and so on."""

    text: bytes
    parameters: tuple[str, ...]


@functools.lru_cache(_TRANSLATED_MAX)
def native(query: Query) -> Native:
    """Return a query with its parameters numbered; raises KeyError for an unknown name.

    The driver would do so itself, but remembers 128 texts and none above 4,096 bytes: that of a search took it a
    millisecond each time.
    """
    numbers: dict[str, int] = {}

    def number(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            return b"%"
        return b"$%d" % numbers.setdefault(found[1].decode(), len(numbers) + 1)

    text = _PARAMETER.sub(number, sql(query) if isinstance(query, str) else query)
    _names.setdefault(text, name_of(query))
    return Native(text, tuple(numbers))


class TypedColumn(NamedTuple):
    """A column and its type in PostgreSQL."""

    name: str
    type: str


def columns_of(kind: type[msgspec.Struct]) -> Iterator[TypedColumn]:
    """Give a column for each field of a Struct."""
    shape = inspect.type_info(kind)
    assert isinstance(shape, inspect.StructType)
    for field in shape.fields:
        yield TypedColumn(field.encode_name, _type(field.type))


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


def _lists() -> dict[str, tuple[TypedColumn, ...]]:
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

    def write_out(part: re.Match[str]) -> str:
        columns = LISTS[part[1]]
        return ", ".join(part[2].replace("$name", name).replace("$type", kind) for name, kind in columns)

    return _EACH.sub(write_out, text)
