"""Read what agents and their memory servers keep: Claude Code's notes, Hermes' entries, Letta's agents, a backup.

A model has written most of it, but people read and correct the notes of Claude Code and Hermes: these come in as other
notes do. Blocks and messages of Letta are kept apart, as conversations are.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing.conversations import UNTIL, USER, WHEN, source_of
from engramq.deploy.importing.exports import (
    Choices,
    Entry,
    ExportedNode,
    LeftOut,
    NoList,
    items,
    moment,
    opened,
    own_id,
    tags,
    without_nothing,
)
from engramq.deploy.importing.notes import LABEL, MarkdownNote, edges_of, notes, read_note
from engramq.deploy.importing.records import Given, Rejection

INDEX: Final = "MEMORY.md"
_MEMORY: Final = "memory"
_INDEXES: Final = LeftOut("indexes of notes", "index of notes")
_POINTS: Final = re.compile(r"(?:#.*|(?:[-*] ?)?\[[^\]\n]*\]\([^)\n]*\).*|[-*] ?\[\[[^\]\n]*\]\].*)?")
RULES: Final = ("CLAUDE.md", "CLAUDE.local.md")


def read_claude_code_memory(path: Path, _choices: Choices) -> Iterator[Entry]:
    """Yield the notes of a memory's folder, or of CLAUDE.md and rules, and the links between them."""
    folder = path.resolve() if path.is_dir() else path.resolve().parent
    for note in notes(path) if path.is_dir() else [read_note(path.parent, path)]:
        if not isinstance(note, MarkdownNote):
            yield note
            continue
        if note.path.name == INDEX and all(_POINTS.fullmatch(line.strip()) for line in note.text.splitlines()):
            yield _INDEXES
            continue
        own, place = note.properties, _place(folder / note.path)
        kept = own["metadata"] if isinstance(own.get("metadata"), dict) else own
        name, about = own.get("name"), own.get("description")
        title = name if isinstance(name, str) and name else note.path.stem
        text = _without_comments(note.text).strip()
        if not text and not about:
            yield LeftOut("notes without text", "note without text")
            continue
        yield ExportedNode(title, LABEL, 1, note.file)
        values = {
            "content": "\n\n".join(filter(None, (title, about if isinstance(about, str) else "", text))),
            "external_id": own_id("claude-code-memory", place),
            WHEN: moment(kept.get("modified")),
            "tags": tags(kept.get("type", own.get("type")), kept.get("tags"), own.get("tags")),
            "metadata": without_nothing({"file": place, "session": kept.get("originSessionId")}),
        }
        yield note.row(note.first, values)
        yield from edges_of(note, title)


def _place(file: Path) -> str:
    """Return by what a note is known, whichever folder above it is imported.

    The client names the folder around a memory after a whole path; rules are known by their last folders.
    """
    parts = file.parts
    at = max((number for number, part in enumerate(parts) if part == _MEMORY), default=0)
    return "/".join((parts[at - 1], *parts[at + 1 :]) if at > 1 else parts[-4:])


def _without_comments(text: str) -> str:
    """Return a text without comments on lines of their own, which the client does not show to its model."""
    lines = text.splitlines(keepends=True)
    last = max((number for number, line in enumerate(lines) if line.rstrip().endswith("-->")), default=-1)
    kept: list[str] = []
    is_within = False
    for number, line in enumerate(lines):
        is_within = is_within or (line.lstrip().startswith("<!--") and number <= last)
        if not is_within:
            kept.append(line)
        is_within = is_within and not line.rstrip().endswith("-->")
    return "".join(kept)


HERMES_FILES: Final = (INDEX, "USER.md")
HERMES_SEPARATOR: Final = "\n\N{SECTION SIGN}\n"  # or with the line ends of Windows


def read_hermes(path: Path, _choices: Choices) -> Iterator[Entry]:
    """Yield the entries of MEMORY.md and USER.md, which have a line with a section sign between them."""
    files = [path / name for name in HERMES_FILES if path.is_dir()] or [path]
    for file in files:
        if not file.is_file() and not file.is_symlink():
            continue
        note = read_note(file.parent, file, properties=False)
        if isinstance(note, Rejection):
            yield note
            continue
        line = 1
        for entry in note.text.replace("\r\n", "\n").split(HERMES_SEPARATOR):
            if entry.strip():
                yield Given(line, {"content": entry.strip(), "tags": [file.stem.lower()]}, file.name)
            line += entry.count("\n") + 2


LETTA_LIST: Final = "agents"
_OF_LETTA: Final = LeftOut("messages of the system and of tools", "message of the system or of a tool")


def read_letta(path: Path, choices: Choices) -> Iterator[Entry]:
    """Yield the blocks of memory, then what was said to each agent and what it answered."""
    source = source_of(choices)
    with opened(path, "") as stream, contextlib.suppress(NoList):  # an agent without memory has messages, too
        for item in items(stream, "blocks"):
            if isinstance(item, Rejection):
                yield item
                continue
            label, value = item.values.get("label"), item.values.get("value")
            known = own_id("letta", path.stem, "block", item.values.get("id"), label)
            values = {"content": value, "external_id": known, "tags": tags(label), "source_type": source}
            is_text = isinstance(value, str) and value.strip()
            yield Given(item.line, values) if is_text else LeftOut("blocks without text", "block without text")
    with opened(path, "") as stream:
        for item in items(stream, LETTA_LIST):
            if isinstance(item, Rejection):
                yield item
                continue
            thread = own_id("letta", path.stem, item.values.get("name") or item.values.get("id"))
            messages = item.values.get("messages")
            for position, message in enumerate(messages if isinstance(messages, list) else ()):
                yield _letta_message(item.line, thread, position, message, source)


def _letta_message(line: int, thread: str, position: int, message: Any, source: str | None) -> Entry:
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        return _OF_LETTA
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    text = "\n\n".join(each for each in texts if isinstance(each, str))
    text = _unpacked(text) if message["role"] == USER else text
    if not text.strip():
        return _OF_LETTA
    values = {
        "content": text, "external_id": own_id(thread, message.get("id") or position), "thread": thread,
        "position": position, "speaker": message["role"], "source_type": source,
        WHEN: moment(message.get("created_at")),
    }  # fmt: skip
    return Given(line, without_nothing(values))


def _unpacked(text: str) -> str:
    """Return the words of a user's message, which the program packs into JSON; "" for one of its own."""
    try:
        packed = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        packed = None
    if not isinstance(packed, dict) or not isinstance(packed.get("message"), str) or "type" not in packed:
        return text
    return packed["message"] if packed.get("type") == "user_message" else ""


SERVICE_HEAD: Final = "export_metadata"
SERVICE_LIST: Final = "memories"
OF_SERVICE: Final = frozenset({"content", "memory_type"})  # each of its memories has both
_UNTAGGED: Final = "untagged"


def read_memory_service(path: Path, _choices: Choices) -> Iterator[Entry]:
    """Yield the memories of a backup of mcp-memory-service; one that another has replaced held until that one came."""
    with opened(path, "") as stream:
        made = {
            str(item.values.get("content_hash")): item.values.get("created_at")
            for item in items(stream, SERVICE_LIST)
            if isinstance(item, Given)
        }
    with opened(path, "") as stream:
        for item in items(stream, SERVICE_LIST):
            yield item if isinstance(item, Rejection) else Given(item.line, _service_memory(item.values, made))


def _service_memory(row: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    kept = row.get("metadata")
    metadata: dict[str, Any] = dict(kept) if isinstance(kept, dict) else {}
    successor = metadata.get("superseded_by")
    words = [word for word in tags(row.get("tags"), row.get("memory_type")) if word != _UNTAGGED]
    return without_nothing(
        {
            "content": row.get("content"),
            "external_id": own_id("mcp-memory-service", row["content_hash"]) if row.get("content_hash") else None,
            "tags": words,
            WHEN: moment(row.get("created_at_iso") or row.get("created_at")),
            UNTIL: moment(made.get(str(successor)) or row.get("updated_at")) if successor else None,
            "metadata": metadata,
        }
    )
