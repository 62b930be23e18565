"""Read the notes that agents keep in files: Claude Code's, Hermes' and OpenClaw's.

A model has written most of them, but people read and correct them: they come in as other notes do.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engramq.deploy.importing import exports, fields
from engramq.deploy.importing.notes import LABEL, NO_NOTE_TEXT, MarkdownNote, edges_of, notes, read_note
from engramq.deploy.importing.plain_files import read_plain
from engramq.deploy.importing.records import Rejection, UncheckedRow
from engramq.schemas import evidence, limits

INDEX: Final = "MEMORY.md"
_MEMORY: Final = "memory"
_INDEXES: Final = exports.LeftOut("indexes of notes", "index of notes")
_POINTS: Final = re.compile(r"(?:#.*|(?:[-*] ?)?\[[^\]\n]*\]\([^)\n]*\).*|[-*] ?\[\[[^\]\n]*\]\].*)?")
RULES: Final = ("CLAUDE.md", "CLAUDE.local.md")


def read_claude_code_memory(path: Path, _choices: fields.Choices) -> Iterator[exports.Entry]:
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
            yield NO_NOTE_TEXT
            continue
        yield exports.ExportedNode(title, LABEL, 1, note.file)
        values = {
            "content": "\n\n".join(filter(None, (title, about if isinstance(about, str) else "", text))),
            "external_id": exports.own_id("claude-code-memory", place),
            fields.WHEN: exports.moment(kept.get("modified")),
            "tags": exports.tags(kept.get("type", own.get("type")), kept.get("tags"), own.get("tags")),
            "metadata": exports.without_nothing({"file": place, "session": kept.get("originSessionId")}),
            "evidence": _evidence(folder / note.path, place),
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


def _evidence(file: Path, place: str) -> list[dict[str, str]]:
    """Return what a note is cited by: its path from the root of its repository, else its place, and its hash."""
    root = next((above for above in file.parents if (above / ".git").exists()), None)
    path = place if root is None else file.relative_to(root).as_posix()
    if len(path) > evidence.PATH_CHARS:
        return []
    data = read_plain(str(file), limits.BODY_BYTES).replace(b"\r\n", b"\n")
    return [{"path": path, "sha256": hashlib.sha256(data).hexdigest()}]


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


def read_hermes(path: Path, _choices: fields.Choices) -> Iterator[exports.Entry]:
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
                yield UncheckedRow(line, {"content": entry.strip(), "tags": [file.stem.lower()]}, file.name)
            line += entry.count("\n") + 2


SOUL: Final = ("SOUL.md", "IDENTITY.md")  # of whom its program writes one in each workspace
_WORKSPACE: Final = "workspace"
# How a workspace's folder ends, with the names of a profile and of an agent; that of the first agent has neither.
_OWNER: Final = rf"(?:/\.openclaw-([^/]+))?/(?:{_WORKSPACE}|clawd)(?:-([^/]+))?\Z"
_OF_PERSON: Final = (INDEX, "USER.md", *SOUL)
_DAYS: Final = re.compile(rf"{_MEMORY}/(?:(\d{{4}}-\d\d-\d\d)[\w.-]*|.+)\.md")
_INSTRUCTIONS: Final = exports.LeftOut(
    "notes with instructions of the program", "note with instructions of the program"
)


def workspace_in(folder: Path) -> Path | None:
    """Return the workspace of OpenClaw that a folder is or has; None for another folder."""
    several = (folder, folder / _WORKSPACE)
    return next((place for place in several if any((place / name).is_file() for name in SOUL)), None)


def read_openclaw(path: Path, _choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield the notes on the person, on the agent, and of each day, from a workspace; its instructions are left out."""
    workspace = workspace_in(path) or path
    own = re.search(_OWNER, workspace.resolve().as_posix())
    owner = f"{own[1] or ''}/{own[2] or ''}" if own and (own[1] or own[2]) else ""
    for note in notes(workspace):
        if not isinstance(note, MarkdownNote):
            yield note
            continue
        day = _DAYS.fullmatch(note.file)
        if note.file not in _OF_PERSON and not day:
            yield _INSTRUCTIONS
        elif not note.text.strip():
            yield NO_NOTE_TEXT
        else:
            values = {
                "content": note.title_of(note.text.strip()),
                "external_id": exports.own_id("openclaw", *filter(None, (owner, note.file))),
                fields.WHEN: exports.moment(day and day[1]),
                "tags": [_MEMORY if day else note.path.stem.lower()],
            }
            yield note.row(note.first, values)
