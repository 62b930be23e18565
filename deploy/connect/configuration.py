"""The entry of engramq in one client's file: shown, looked for, written, taken out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engramq.deploy.connect import jsonc, toml_table
from engramq.deploy.connect.catalogue import Client, Surroundings
from engramq.deploy.connect.files import read_text, replace_text, split_bom
from engramq.deploy.connect.launch import Launch
from engramq.schemas.command_line import CommandFailed


@dataclass(frozen=True, slots=True)
class Done:
    """What was done to a file: whether it is another one now, and where the one before is kept."""

    path: Path
    changed: bool
    backup: Path | None = None


def file_of(client: Client, at: Surroundings, *, project: bool) -> Path:
    """Return where a client's entry belongs; raises CommandFailed when projects have no file for it."""
    if not project:
        return client.user(at)
    if client.project is None:
        raise CommandFailed(f"{client.title} has no configuration of a project. Leave out --project.")
    return client.project(at)


def snippet(client: Client, launch: Launch) -> str:
    """Return the text that a file with nothing but the entry would have."""
    return _with_entry("", client, client.entry(launch))


def entry_in(path: Path, client: Client) -> Any:
    """Return the entry that a file has, None when it has none; raises CommandFailed when it cannot be read."""
    _, text = split_bom(read_text(path))
    try:
        found: Any = (toml_table.read(text) if client.is_toml else jsonc.read(text)) if text.strip() else {}
    except (jsonc.NotJson, toml_table.NotToml) as problem:
        raise _unreadable(path, client, problem) from None
    for name in client.path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def connect(path: Path, client: Client, launch: Launch) -> Done:
    """Write the entry into a file, in the place of an older one.

    Raises CommandFailed, with nothing written, when the file is not what the client would read.
    """
    return _rewrite(path, client, client.entry(launch))


def disconnect(path: Path, client: Client) -> Done:
    """Take the entry out of a file; raises CommandFailed as `connect` does."""
    return _rewrite(path, client, None)


def _rewrite(path: Path, client: Client, entry: dict[str, Any] | None) -> Done:
    found = read_text(path)
    mark, text = split_bom(found)
    try:
        after = mark + (_without_entry(text, client) if entry is None else _with_entry(text, client, entry))
    except (jsonc.NotJson, toml_table.NotToml) as problem:
        raise _unreadable(path, client, problem) from None
    if after == found:
        return Done(path, changed=False)
    return Done(path, changed=True, backup=replace_text(path, after))


def _with_entry(text: str, client: Client, entry: dict[str, Any]) -> str:
    if client.is_toml:
        return toml_table.with_table(text, _two(client.path), entry)
    return jsonc.with_value(text, client.path, entry) if text.strip() else _new(client.path, entry)


def _without_entry(text: str, client: Client) -> str:
    if client.is_toml:
        return toml_table.without_table(text, _two(client.path))
    return jsonc.without(text, client.path) if text.strip() else text


def _new(path: tuple[str, ...], value: Any) -> str:
    for name in reversed(path):
        value = {name: value}
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _two(path: tuple[str, ...]) -> tuple[str, str]:
    outer, name = path
    return outer, name


def _unreadable(path: Path, client: Client, problem: ValueError) -> CommandFailed:
    return CommandFailed(
        f"{path}: {problem}. Nothing was written. Mend it so that {client.title} can read it, then again."
    )
