"""Named queries from the .sql files of all slices, read once.

A file holds `-- name: insert_memory` (a query) or `-- fragment: memory_columns` (a part of others), each followed by a
comment that says what it is for, and the SQL. `{memory_columns}` includes a fragment; `{each detail: m.$name}` repeats
a part for each of some columns (columns.py); `{dimensions}` is filled in by `sized_sql`, since a vector's length is
part of its type and of its index. Parameters are written `%(name)s`, and a percent sign twice.
"""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from engramq.workers.db.columns import with_columns

_FOLDER: Final = Path(__file__).parents[1]
_HEADING: Final = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_INCLUDED: Final = re.compile(r"\{(\w+)\}")
_DIMENSIONS: Final = "dimensions"
_PARAMETER: Final = re.compile(rb"%\((\w+)\)s|%%")
_TRANSLATED_MAX: Final = 2_000  # many times the number of queries there are
_names: Final[dict[bytes, str]] = {}  # by text, for who tells which query it was


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
            return found[0] if name == _DIMENSIONS else self.whole(self.fragments[name])

        return _INCLUDED.sub(include, text)


@functools.cache
def _library() -> Mapping[str, str]:
    return MappingProxyType(Library(_FOLDER).whole_queries())


def names() -> tuple[str, ...]:
    """Return the names of all queries."""
    return tuple(_library())


def sql(name: str) -> bytes:
    """Return a query's text; raises KeyError for an unknown name, so ask when a module is loaded."""
    text = _library()[name]
    if f"{{{_DIMENSIONS}}}" in text:
        raise KeyError(f"{name} depends on the length of vectors: use sized_sql")
    return _named(name, text)


@functools.cache
def sized_sql(name: str, dimensions: int) -> bytes:
    """Return the text of a query on vectors of this length."""
    return _named(name, _library()[name].replace(f"{{{_DIMENSIONS}}}", str(int(dimensions))))


def _named(name: str, text: str) -> bytes:
    """Return a query's text, and remember whose it is."""
    query = text.encode()
    _names[query] = name
    return query


def name_of(query: bytes) -> str:
    """Return the name of a query, by its text as it is here or as PostgreSQL takes it."""
    return _names.get(query, "unnamed")


class Native(NamedTuple):
    """A query as PostgreSQL takes it: `parameters` are the names of $1, $2 and so on."""

    text: bytes
    parameters: tuple[str, ...]


@functools.lru_cache(_TRANSLATED_MAX)
def native(query: bytes) -> Native:
    """Return a query with its parameters numbered.

    The driver would do so itself, but remembers 128 texts and none above 4,096 bytes: that of a search took it a
    millisecond each time.
    """
    numbers: dict[str, int] = {}

    def numbered(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            return b"%"
        return b"$%d" % numbers.setdefault(found[1].decode(), len(numbers) + 1)

    text = _PARAMETER.sub(numbered, query)
    _names.setdefault(text, name_of(query))
    return Native(text, tuple(numbers))
