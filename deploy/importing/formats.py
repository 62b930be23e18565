"""Declare what other programs export or keep in files: by what each form is known, and how it is read."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from engramq.deploy.importing import agents, chatgpt, chats, claude, graphs, letta, notes, stores
from engramq.deploy.importing.exports import Beginning, is_archive, members, open_document, own_name, read_beginning
from engramq.deploy.importing.fields import Reader
from engramq.deploy.importing.plain_files import ForeignDatabase, is_database
from engramq.deploy.importing.records import format_by_name
from engramq.schemas.codec import DecodeError, decode_json
from engramq.schemas.packed_lines import UTF8_BOM, BrokenOff, PackedSource, UnusableFile
from engramq.schemas.vocabulary import ForeignFormat, RowFormat, TranscriptFormat


@dataclass(frozen=True, slots=True)
class ForeignReader:
    """How a format is read and known.

    `lists`: under which names its documents have lists. `knows` says whether a document is its, by the members before
    such a list, the list's name (None without one), and its first item, or the document itself. `files`: how its
    documents are called in a folder or archive. `are_turns`: its rows are what was said, and kept apart.
    """

    read: Reader
    knows: Callable[[Beginning, dict[str, Any]], bool] = lambda *_: False
    lists: tuple[str, ...] = ()
    files: str = ""
    are_turns: bool = False


def _has(*names: str, of: tuple[str, ...] = ()) -> Callable[[Beginning, dict[str, Any]], bool]:
    """Return a check whether an item has all of the names, and one of the others where there are such."""
    return lambda _, item: item.keys() >= set(names) and (not of or bool(item.keys() & set(of)))


# The first that knows a document has it: what is more certain stands before what is less so.
FORMATS: Final[Mapping[ForeignFormat, ForeignReader]] = {
    ForeignFormat.LETTA: ForeignReader(
        letta.read_letta,
        lambda begin, item: (begin.name == "agents" and "block_ids" in item)
        or begin.members.keys() >= {letta.BLOCKS, "agent_type"},
        ("agents",),
        are_turns=True,
    ),
    ForeignFormat.MCP_MEMORY_SERVICE: ForeignReader(
        stores.read_memory_service,
        lambda begin, item: stores.SERVICE_HEAD in begin.members or item.keys() >= stores.OF_SERVICE,
        ("memories",),
    ),
    ForeignFormat.COPILOT_CHAT: ForeignReader(
        chats.read_copilot_chat,
        lambda begin, item: (
            bool(begin.members.keys() & chats.COPILOT_MARKS)
            or "requestId" in item
            or chats.is_log_of_chat(begin.members)
        ),
        (chats.COPILOT_LIST,), are_turns=True,
    ),
    ForeignFormat.CHATGPT: ForeignReader(
        chatgpt.read_chatgpt,
        lambda _, item: isinstance(item.get("mapping"), dict) and bool(item.keys() & {"title", "current_node"}),
        files=chatgpt.FILE.pattern, are_turns=True,
    ),
    ForeignFormat.CLAUDE: ForeignReader(
        claude.read_claude,
        lambda _, item: claude.REMEMBERED in item
        or ("uuid" in item and bool(item.keys() & {claude.MESSAGES, "prompt_template"})),
        files=claude.MEMORIES.pattern, are_turns=True,
    ),
    ForeignFormat.GEMINI_APPS: ForeignReader(
        chats.read_gemini_apps, lambda _, item: "title" in item and chats.is_gemini_activity(item), are_turns=True
    ),
    ForeignFormat.GRAPHITI: ForeignReader(
        graphs.read_graphiti,
        lambda _, item: any(item.keys() >= marks for marks in (graphs.OF_FACT, graphs.OF_NODE, *graphs.OF_EPISODE)),
        graphs.ZEP_LISTS, are_turns=True,
    ),
    ForeignFormat.MCP_MEMORY: ForeignReader(
        graphs.read_mcp_memory,
        lambda begin, item: begin.name in graphs.GRAPH_LISTS or graphs.is_of_graph(item),
        graphs.GRAPH_LISTS,
    ),
    ForeignFormat.OPENMEMORY: ForeignReader(
        stores.read_openmemory,
        lambda begin, item: begin.members.keys() >= {"user", "apps"}
        or item.keys() >= {"id", "content", "state", "app", "categories"},
        files=rf"{stores.BACKUP_LINES.pattern}|{stores.BACKUP_DOCUMENT.pattern}",
    ),
    ForeignFormat.CLAUDE_MEM: ForeignReader(
        stores.read_claude_mem, _has(of=("memory_session_id", "content_session_id")),
        ("sessions", *stores.CLAUDE_MEM_LISTS), are_turns=True,
    ),
    ForeignFormat.HINDSIGHT: ForeignReader(
        stores.read_hindsight, _has("text", of=("fact_type", "mentioned_at", "occurred_start")),
        stores.HINDSIGHT_LISTS, stores.HINDSIGHT_FILES.pattern,
    ),
    ForeignFormat.SUPERMEMORY: ForeignReader(
        stores.read_supermemory,
        _has("id", of=("isLatest", "is_latest", "containerTags", "container_tags", "customId", "system")),
        stores.SUPERMEMORY_LISTS,
    ),
    ForeignFormat.MEM0: ForeignReader(
        stores.read_mem0, lambda _, item: isinstance(item.get("memory"), str) and "id" in item, stores.MEM0_LISTS
    ),
    ForeignFormat.OBSIDIAN: ForeignReader(notes.read_obsidian),
    ForeignFormat.BASIC_MEMORY: ForeignReader(notes.read_basic_memory),
    ForeignFormat.MARKDOWN: ForeignReader(notes.read_markdown),
    ForeignFormat.CLAUDE_CODE_MEMORY: ForeignReader(agents.read_claude_code_memory),
    ForeignFormat.HERMES: ForeignReader(agents.read_hermes),
    ForeignFormat.OPENCLAW: ForeignReader(agents.read_openclaw),
}  # fmt: skip
_LISTS: Final = tuple(dict.fromkeys(name for each in FORMATS.values() for name in each.lists))
_FILES: Final = re.compile("|".join(each.files for each in FORMATS.values() if each.files))
_SAY_WHICH: Final = f"--format says what it is: {', '.join(ForeignFormat)}."
_OF_FOLDERS: Final = f"Plain notes (.md) are markdown. Past sessions are {', '.join(TranscriptFormat)}."


def choose_format(path: Path | None, named: str | None) -> tuple[ForeignFormat | None, RowFormat | None]:
    """Return whose a file or folder is, None for rows, and how its rows are written, None where the content says it.

    `named`: the format that the user names, if any. Raises UnusableFile as `format_of` does.
    """
    if named in set(RowFormat):
        return None, RowFormat(str(named))
    if named is not None:
        return ForeignFormat(named), format_by_name(path)
    return None if path is None else format_of(path), format_by_name(path)


def format_of(path: Path) -> ForeignFormat | None:
    """Return the format of an export; None for a file of rows, which tells its own by itself.

    Raises UnusableFile for a folder, an archive or a JSON list of which nothing is certain.
    """
    if path.is_dir() or (path.is_file() and is_archive(path)):
        if (of_folder := _format_of_folder(path)) is None:
            what, says = ("folder", f"{_SAY_WHICH} {_OF_FOLDERS}") if path.is_dir() else ("archive", _SAY_WHICH)
            raise UnusableFile(f"The format of this {what} is not certain. {says}")
        return of_folder
    return _format_of_file(path) if path.is_file() else None


def _format_of_folder(path: Path) -> ForeignFormat | None:
    if path.is_dir() and (path / ".obsidian").is_dir():
        return ForeignFormat.OBSIDIAN
    if path.is_dir() and (of_notes := _format_of_notes(path)) is not None:
        return of_notes
    for member in members(path, _FILES):
        if stores.BACKUP_LINES.fullmatch(own_name(member)):
            return ForeignFormat.OPENMEMORY
        with open_document(path, member) as stream:
            if (of_document := _format_of_document(stream)) is not None:
                return of_document
    return ForeignFormat.GEMINI_APPS if chats.activity_files(path) else None


def _format_of_notes(folder: Path) -> ForeignFormat | None:
    """Return whose notes are in a folder: the agents that write them say it by their files."""
    if (folder / stores.CLAUDE_MEM_FILE).is_file():
        return ForeignFormat.CLAUDE_MEM
    if agents.workspace_in(folder) is not None:
        return ForeignFormat.OPENCLAW
    if any(_is_of_hermes(folder / name) for name in agents.HERMES_FILES):
        return ForeignFormat.HERMES
    is_memory = (folder / agents.INDEX).is_file() and folder.name == "memory"
    return ForeignFormat.CLAUDE_CODE_MEMORY if is_memory else None


def _is_of_hermes(file: Path) -> bool:
    if not file.is_file():
        return False
    note = notes.read_note(file.parent, file, properties=False)  # links and what is too large it refuses
    return isinstance(note, notes.MarkdownNote) and agents.HERMES_SEPARATOR in note.text.replace("\r\n", "\n")


def _format_of_file(path: Path) -> ForeignFormat | None:
    if path.name in agents.RULES:
        return ForeignFormat.CLAUDE_CODE_MEMORY
    if path.name in agents.HERMES_FILES:
        is_memory = path.name == agents.INDEX and path.absolute().parent.name == "memory"
        return ForeignFormat.HERMES if _is_of_hermes(path) else ForeignFormat.CLAUDE_CODE_MEMORY if is_memory else None
    try:
        if is_database(path):
            with ForeignDatabase(str(path.resolve())) as database:
                is_known = database.has("observations", "sdk_sessions") or path.name == stores.CLAUDE_MEM_FILE
            return ForeignFormat.CLAUDE_MEM if is_known else None
        with path.open("rb") as raw:
            first = (
                next((line for line in PackedSource(raw).lines() if line.strip()), b"").removeprefix(UTF8_BOM).strip()
            )
    except (OSError, UnusableFile, BrokenOff):
        return None  # its reader says why
    if not first.startswith((b"{", b"[", b'"')) or (first.startswith(b"[") and format_by_name(path) is not None):
        return None
    try:
        with open_document(path, "") as stream:
            of_document = _format_of_document(stream)
    except UnusableFile:
        return _format_of_line(first)
    if of_document is None and first.startswith(b"["):
        raise UnusableFile(f"The file is a JSON list, and its format is not certain. {_SAY_WHICH}")
    return of_document


def _format_of_line(line: bytes) -> ForeignFormat | None:
    try:
        return _recognise(Beginning({}, "", decode_json(line)))
    except (DecodeError, ValueError, RecursionError):
        return None


def _format_of_document(stream: IO[bytes]) -> ForeignFormat | None:
    """Return the format of a JSON list by its first item, or of an object by its keys or that of its list."""
    return _recognise(read_beginning(stream, *_LISTS))


def _recognise(begin: Beginning) -> ForeignFormat | None:
    """Return whose an item is, else whose a document is with these members."""
    for item in (begin.item, begin.members):
        for name, reader in FORMATS.items():
            if isinstance(item, dict) and reader.knows(begin, item):
                return name
    return None
