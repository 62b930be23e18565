"""Show, look for, write and take out the entry of engramq in one client's file, JSON or TOML."""

import json
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from engramq.deploy.connect import jsonc
from engramq.deploy.connect.catalogue import PLAIN, Client, UserPlaces
from engramq.deploy.connect.files import Rewrite, Unchangeable, read_text, require_inside, rewrite, split_bom
from engramq.deploy.connect.hook_entries import HookClient
from engramq.schemas.command_line import CommandFailed


def file_of(client: Client | HookClient, at: UserPlaces, *, project: bool) -> Path:
    """Return where a client's entry, or its hooks, belong.

    Raises CommandFailed when projects have no file for it, or it leads elsewhere.
    """
    if not project:
        return client.user(at)
    if client.project is None:
        raise CommandFailed(f"{client.title} has no configuration of a project. Leave out --project.")
    path = client.project(at)
    require_inside(at.project, path)
    return path


def snippet(client: Client, entry: dict[str, Any]) -> str:
    """Return the text that a file with nothing but the entry would have."""
    return _set_entry(client, entry, "")


def entry_in(path: Path, client: Client) -> Any:
    """Return the entry that a file has, None when it has none; raises Unchangeable, CommandFailed."""
    _, text = split_bom(read_text(path))
    value: Any = (_parse(text).unwrap() if client.is_toml else jsonc.read(text)) if text.strip() else {}
    for name in client.path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def add_entry(path: Path, client: Client, entry: dict[str, Any]) -> Rewrite:
    """Write the entry into a file, in the place of an older one.

    Raises CommandFailed, with nothing written, when the file is not what the client would read.
    """
    return rewrite(path, partial(_set_entry, client, entry), _mend(client))


def remove_entry(path: Path, client: Client) -> Rewrite:
    """Take the entry out of a file; raises CommandFailed as `add_entry` does."""
    return rewrite(path, partial(_without_entry, client), _mend(client))


def _mend(client: Client) -> str:
    return f"Mend it so that {client.title} can read it, then again."


def _set_entry(client: Client, entry: dict[str, Any], text: str) -> str:
    if client.is_toml:
        return set_table(text, client.path, entry)
    if client.name in PLAIN:
        jsonc.require_plain(text, comments=PLAIN[client.name])
    if text.strip():
        return jsonc.set_value(text, client.path, entry)
    outer, name = client.path
    return json.dumps({outer: {name: entry}}, indent=2, ensure_ascii=False) + "\n"


def _without_entry(client: Client, text: str) -> str:
    if client.is_toml:
        return without_table(text, client.path)
    return jsonc.remove_value(text, client.path) if text.strip() else text


def set_table(text: str, path: tuple[str, str], values: dict[str, Any]) -> str:
    """Return the text with these values as the table of two names, its other values gone; raises Unchangeable."""
    document = _parse(text)
    outer, name = path
    if outer not in document:
        document[outer] = tomlkit.table(is_super_table=True)
    tables = document[outer]
    if not isinstance(tables, dict):
        raise Unchangeable(f"{outer} is no table")
    if name in tables and getattr(tables[name], "unwrap", lambda: None)() == values:
        return text
    # In a table on one line everything is on one line.
    table = tomlkit.inline_table() if isinstance(tables, InlineTable) else tomlkit.table()
    for key, value in values.items():
        table[key] = value
    tables[name] = table
    return _as_meant(text, document, path, values)


def without_table(text: str, path: tuple[str, str]) -> str:
    """Return the text without the table of two names, and without the outer one if nothing else is in it."""
    document = _parse(text)
    outer, name = path
    tables = document.get(outer)
    if not isinstance(tables, dict) or name not in tables:
        return text
    del tables[name]
    if not tables:
        del document[outer]
    return _as_meant(text, document, path, None)


def _as_meant(before: str, document: tomlkit.TOMLDocument, path: tuple[str, str], values: dict[str, Any] | None) -> str:
    """Return the document as text; raises Unchangeable when that reads as any other change than the one that was meant.

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
        raise Unchangeable(f"{outer} is written in a way that cannot be changed here: make it a table, [{outer}.NAME]")
    return after


def _parse(text: str) -> tomlkit.TOMLDocument:
    try:
        tomllib.loads(text)  # clients are no more lenient
        return tomlkit.parse(text)
    except (TOMLKitError, tomllib.TOMLDecodeError) as problem:
        raise Unchangeable(f"it is no TOML: {problem}") from None
