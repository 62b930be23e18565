"""Changes one table in a TOML text and leaves the rest as it is, comments too."""

from __future__ import annotations

import tomllib
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable


class NotToml(ValueError):
    """The text is no TOML, or has something else where a table is needed."""


def read(text: str) -> dict[str, Any]:
    """Return what a text holds; raises NotToml."""
    return _parsed(text).unwrap()


def with_table(text: str, path: tuple[str, str], values: dict[str, Any]) -> str:
    """Return the text with these values as the table of two names, its other values gone; raises NotToml."""
    document = _parsed(text)
    outer, name = path
    if outer not in document:
        document[outer] = tomlkit.table(is_super_table=True)
    tables = document[outer]
    if not isinstance(tables, dict):
        raise NotToml(f"{outer} is no table")
    if name in tables and _plain(tables[name]) == values:
        return text
    # In a table on one line everything is on one line.
    table = tomlkit.inline_table() if isinstance(tables, InlineTable) else tomlkit.table()
    for key, value in values.items():
        table[key] = value
    tables[name] = table
    return _as_meant(text, document, path, values)


def without_table(text: str, path: tuple[str, str]) -> str:
    """Return the text without the table of two names, and without the outer one if nothing else is in it."""
    document = _parsed(text)
    outer, name = path
    tables = document.get(outer)
    if not isinstance(tables, dict) or name not in tables:
        return text
    del tables[name]
    if not tables:
        del document[outer]
    return _as_meant(text, document, path, None)


def _as_meant(before: str, document: tomlkit.TOMLDocument, path: tuple[str, str], values: dict[str, Any] | None) -> str:
    """Return the document as text; raises NotToml when that reads as any other change than the one that was meant.

    tomlkit writes a table after the first of several dotted keys, so that the ones behind it become the table's.
    """
    outer, name = path
    meant = tomllib.loads(before)
    tables = meant.setdefault(outer, {})
    tables.pop(name, None)
    if values is not None:
        tables[name] = values
    if not tables:
        del meant[outer]
    after = tomlkit.dumps(document)
    if tomllib.loads(after) != meant:
        raise NotToml(f"{outer} is written in a way that cannot be changed here: make it a table, [{outer}.NAME]")
    return after


def _parsed(text: str) -> tomlkit.TOMLDocument:
    try:
        tomllib.loads(text)  # clients are no more lenient
        return tomlkit.parse(text)
    except (TOMLKitError, tomllib.TOMLDecodeError) as problem:
        raise NotToml(f"it is no TOML: {problem}") from None


def _plain(table: Any) -> Any:
    return table.unwrap() if hasattr(table, "unwrap") else table
