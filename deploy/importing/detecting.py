"""Which system an export is of, where its content leaves no doubt, and what reads it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from engramq.deploy.importing import conversations, notes, stores
from engramq.deploy.importing.exports import Reader, is_archive, members, opened
from engramq.deploy.importing.json_items import first_item, first_member
from engramq.deploy.importing.records import format_by_name
from engramq.schemas.packed_lines import UTF8_BOM, BrokenOff, Source, UnusableFile
from engramq.schemas.vocabulary import ForeignFormat

READERS: Final[Mapping[ForeignFormat, Reader]] = {
    ForeignFormat.MCP_MEMORY: stores.read_mcp_memory,
    ForeignFormat.MEM0: stores.read_mem0,
    ForeignFormat.OPENMEMORY: stores.read_openmemory,
    ForeignFormat.CLAUDE: conversations.read_claude,
    ForeignFormat.CHATGPT: conversations.read_chatgpt,
    ForeignFormat.BASIC_MEMORY: notes.read_basic_memory,
    ForeignFormat.OBSIDIAN: notes.read_obsidian,
}


_SAY_WHICH: Final = f"--format says what it is: {', '.join(ForeignFormat)}."
_VAULT: Final = ".obsidian"
_BACKUP: Final = re.compile(f"{stores.BACKUP_LINES.pattern}|{stores.BACKUP_DOCUMENT.pattern}")
_BACKUP_LINE: Final = frozenset({"id", "content", "state", "app", "categories"})
_BACKUP_DOCUMENT: Final = frozenset({"user", "apps"})


def format_of(path: Path) -> ForeignFormat | None:
    """Return the format of an export; None for a file of rows, which tells its own by itself.

    Raises UnusableFile for a folder, an archive or a JSON list of which nothing is certain.
    """
    if path.is_dir() or (path.is_file() and is_archive(path)):
        found = _of_folder(path)
        if found is None:
            what = "folder" if path.is_dir() else "archive"
            raise UnusableFile(f"What this {what} is cannot be told for sure. {_SAY_WHICH}")
        return found
    return _of_file(path) if path.is_file() else None


def _of_folder(path: Path) -> ForeignFormat | None:
    if path.is_dir() and (path / _VAULT).is_dir():
        return ForeignFormat.OBSIDIAN
    if members(path, _BACKUP):
        return ForeignFormat.OPENMEMORY
    for member in members(path, conversations.CHATGPT_FILE):  # which is how Claude names its file, too
        with opened(path, member) as stream:
            return _of_item(first_item(stream))
    return None


def _of_file(path: Path) -> ForeignFormat | None:
    try:
        with path.open("rb") as raw:
            first = next((line for line in Source(raw).lines() if line.strip()), b"").removeprefix(UTF8_BOM).strip()
    except (OSError, UnusableFile, BrokenOff):
        return None  # whoever reads it says why
    if first.startswith(b"{"):
        return _of_line(first) or _of_document(path)
    if first.startswith(b"[") and format_by_name(path) is None:
        with opened(path, "") as stream:
            found = _of_item(first_item(stream))
        if found is None:
            raise UnusableFile(f"The file is a JSON list, and whose cannot be told for sure. {_SAY_WHICH}")
        return found
    return None


def _of_line(line: bytes) -> ForeignFormat | None:
    try:
        said = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if said.get("type") == stores.ENTITY and "observations" in said:
        return ForeignFormat.MCP_MEMORY
    if said.get("type") == stores.RELATION and "relationType" in said:
        return ForeignFormat.MCP_MEMORY
    return ForeignFormat.OPENMEMORY if said.keys() >= _BACKUP_LINE else None


def _of_document(path: Path) -> ForeignFormat | None:
    """Return the format of a JSON object; None for one that is the first of several rows."""
    try:
        with opened(path, "") as stream:
            keys, item = first_member(stream, *stores.MEM0_LISTS)
    except UnusableFile:
        return None
    if keys >= _BACKUP_DOCUMENT:
        return ForeignFormat.OPENMEMORY
    return _of_item(item)


def _of_item(item: Any) -> ForeignFormat | None:
    if not isinstance(item, dict):
        return None
    if conversations.MAPPING in item and conversations.CURRENT in item:
        return ForeignFormat.CHATGPT
    if conversations.MESSAGES in item and "uuid" in item:
        return ForeignFormat.CLAUDE
    return ForeignFormat.MEM0 if isinstance(item.get("memory"), str) and "id" in item else None
