"""Read exports of memory systems whose items are memories: the places of their fields are declared."""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing import exports, fields
from engramq.deploy.importing.plain_files import ForeignDatabase, is_database, require_no_link
from engramq.deploy.importing.records import Rejection, UncheckedRow, read_json_lines
from engramq.schemas.packed_lines import PackedSource, UnusableFile

_MEMORIES: Final = "memories"
_RELATIONS: Final = "relations"  # of a memory that keeps a graph beside
MEM0_LISTS: Final = ("results", _MEMORIES)
_MEM0: Final = fields.ItemFields(
    "mem0",
    content=("memory",),
    when=("updated_at", "created_at"),  # the text is of the last change
    ends=("expiration_date",),
    thread=("run_id",),
    tags=("categories", "metadata.tags"),
    kept=("user_id", "agent_id", "app_id", "run_id", "actor_id"),
)
_REWORDED: Final = replace(_MEM0, kept=(*_MEM0.kept, "created_at"))


def read_mem0(path: Path, _choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield the memories and relations; what a model has said is kept apart, as nobody has looked through it."""
    return exports.read_each(exports.all_items(path, "memory", *MEM0_LISTS, _RELATIONS), _mem0)


def _mem0(item: UncheckedRow) -> Iterator[exports.Entry]:
    if "relationship" in item.values:
        ends = (item.values.get("source"), fields.first_at(item.values, ("target", "destination")))
        yield exports.ExportedEdge(*ends, item.values["relationship"], item.line)
        return
    role, changed = item.values.get("role"), item.values.get("updated_at")
    speaker = role if isinstance(role, str) and role else None
    form = _REWORDED if changed and changed != item.values.get("created_at") else _MEM0
    yield form.entry(item, speaker=speaker, source_type=fields.TURN if speaker not in (None, fields.USER) else None)


# The lines hold the names of categories, the document only their ids: the lines are read where both are there.
BACKUP_LINES: Final = re.compile(r"memories\.jsonl\.gz")
BACKUP_DOCUMENT: Final = re.compile(r"memories\.json")
_OPENMEMORY: Final = fields.ItemFields(
    "openmemory", content=("content",), when=("created_at",), tags=("categories", "named"), kept=("app",)
)
_GONE: Final = ("archived", "deleted")
_LEFT_THERE: Final = exports.LeftOut(
    "memories that were archived or deleted there", "memory that was archived or deleted there"
)


def read_openmemory(path: Path, _choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield the memories, without those that were archived or deleted there."""
    if path.is_dir() or exports.is_archive(path):
        packed = exports.members(path, BACKUP_LINES)
        several, are_lines = packed or exports.members(path, BACKUP_DOCUMENT), bool(packed)
        if not several:
            raise UnusableFile("There is neither memories.jsonl.gz nor memories.json in it.")
        member = several[0]
    else:
        # The document is an object with keys of its own before its memories, over several lines.
        with path.open("rb") as raw:
            first = next((line for line in PackedSource(raw).lines() if line.strip()), b"")
        member, are_lines = "", b'"content"' in first
    categories: dict[str, str] = {}
    if not are_lines:
        with exports.open_document(path, member) as stream:
            rows = [item.values for item in exports.items(stream, "categories") if isinstance(item, UncheckedRow)]
        categories = {str(row.get("id")): str(row.get("name")) for row in rows}

    def read(item: UncheckedRow) -> Iterator[exports.Entry]:
        named = [categories[key] for key in map(str, fields.list_at(item.values, "category_ids")) if key in categories]
        is_gone = item.values.get("state") in _GONE
        yield _LEFT_THERE if is_gone else _OPENMEMORY.entry(replace(item, values={**item.values, "named": named}))

    with exports.open_document(path, member) as stream:
        yield from exports.read_each(
            read_json_lines(PackedSource(stream).lines()) if are_lines else exports.items(stream, _MEMORIES), read
        )


SERVICE_HEAD: Final = "export_metadata"
OF_SERVICE: Final = frozenset({"content", "memory_type"})  # each of its memories has both
_SERVICE: Final = fields.ItemFields(
    "mcp-memory-service",
    content=("content",),
    identifier=("content_hash",),
    when=("created_at_iso", "created_at"),
    tags=("tags", "memory_type"),
)
_UNTAGGED: Final = "untagged"


def read_memory_service(path: Path, _choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield the memories of a backup of mcp-memory-service; one that another has replaced held until that one came."""
    several = (item.values for item in exports.all_items(path, "content", _MEMORIES) if isinstance(item, UncheckedRow))
    made = {str(values.get("content_hash")): values.get("created_at") for values in several}

    def read(item: UncheckedRow) -> Iterator[exports.Entry]:
        row = _SERVICE.entry(item)
        row.values["tags"] = [word for word in row.values.get("tags", ()) if word != _UNTAGGED]
        if successor := fields.value_at(item.values, "metadata.superseded_by"):
            row.values[fields.UNTIL] = exports.moment(made.get(str(successor)) or item.values.get("updated_at"))
        yield row

    return exports.read_each(exports.all_items(path, "content", _MEMORIES), read)


HINDSIGHT_LISTS: Final = ("facts", "items", "results", _MEMORIES)
HINDSIGHT_FILES: Final = re.compile(r"\d{6}\.json|(?:observations|mental_models)\.json")  # of its archive
_HINDSIGHT: Final = fields.ItemFields(
    "hindsight",
    content=("text",),
    identifier=("id", "source_id"),
    when=("occurred_start", "date", "mentioned_at", "event_date"),
    until=("invalidated_at",),
    thread=("document_id",),
    tags=("tags", "fact_type", "type"),
    kept=("context", "entities", "occurred_end"),
)
_MODELS: Final = exports.LeftOut("mental models, which are made of facts", "mental model, which is made of facts")


def read_hindsight(path: Path, _choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield the facts of an archive or a list; one that was found invalid held until then."""
    name = HINDSIGHT_FILES if path.is_dir() or exports.is_archive(path) else exports.ANY_DOCUMENT
    several = exports.all_items(path, "text", *HINDSIGHT_LISTS, name=name)
    return exports.read_each(several, lambda item: [_HINDSIGHT.entry(item) if "text" in item.values else _MODELS])


SUPERMEMORY_LISTS: Final = (_MEMORIES, "documents", "memoryEntries", "results")
_SUPERMEMORY: Final = fields.ItemFields(
    "supermemory",
    content=("memory", "content", "summary", "title"),
    identifier=("customId", "id"),
    when=("system.updatedAt", "updatedAt", "updated_at", "system.createdAt", "createdAt", "created_at"),
    ends=("forgetAfter",),
    tags=("containerTags", "container_tags", "spaceContainerTag"),
    kept=("title", "type", "url", "version"),
)
_OLDER: Final = exports.LeftOut(
    "versions of memories that a newer one has replaced", "version of a memory that was replaced"
)


def read_supermemory(path: Path, _choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield the newest version of each memory and the documents, without those that were forgotten there."""
    return exports.read_each(exports.all_items(path, "id", *SUPERMEMORY_LISTS), _supermemory)


def _supermemory(item: UncheckedRow) -> Iterator[exports.Entry]:
    if item.values.get("isForgotten", item.values.get("is_forgotten")):
        yield _LEFT_THERE
    else:
        is_newest = item.values.get("isLatest", item.values.get("is_latest", True))
        yield _SUPERMEMORY.entry(item) if is_newest else _OLDER


CLAUDE_MEM_LISTS: Final = ("observations", "summaries", "prompts")
CLAUDE_MEM_FILE: Final = "claude-mem.db"
_PARTS: Final = {
    "observations": ("title", "text", "narrative"),
    "summaries": ("request", "investigated", "learned", "completed", "next_steps", "notes"),
    "prompts": ("prompt_text",),
}
_TABLES: Final = {
    "observations": ("observations",),
    "summaries": ("session_summaries",),
    "prompts": ("user_prompts", "sdk_sessions"),
}
_LISTS_AS_TEXT: Final = ("facts", "concepts", "files_read", "files_modified")
_CLAUDE_MEM: Final = fields.ItemFields(
    "claude-mem",
    content=("words",),
    identifier=(),  # ids are numbers of one machine
    when=("created_at", "created_at_epoch"),
    thread=("memory_session_id", "content_session_id"),
    tags=("type", "concepts"),
    kept=("files_read", "files_modified"),
)


def read_claude_mem(path: Path, choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield observations, summaries and prompts of its database, folder or export; a model has written most."""
    file = path / CLAUDE_MEM_FILE if path.is_dir() else path
    if path.is_dir():
        require_no_link(str(file))
    if is_database(file):
        with ForeignDatabase(str(file)) as database:
            for name, tables in _TABLES.items():
                rows = database.records(f"claude_mem_{name}") if database.has(*tables) else ()  # older ones have less
                yield from (_claude_mem(name, UncheckedRow(0, row), choices) for row in rows)
        return
    sessions: dict[str, dict[str, Any]] = {}  # which a prompt names by the client's id; they stand first
    for name, item in exports.read_lists(file, "observations", *CLAUDE_MEM_LISTS, "sessions"):
        if isinstance(item, Rejection):
            yield item
            continue
        session = str(item.values.get("content_session_id"))
        if name == "sessions":
            sessions[session] = {key: item.values.get(key) for key in ("memory_session_id", "project")}
        else:
            yield _claude_mem(name, replace(item, values=sessions.get(session, {}) | item.values), choices)


def _claude_mem(table: str, item: UncheckedRow, choices: fields.Choices) -> exports.Entry:
    values = item.values | {name: _list_in(item.values.get(name)) for name in _LISTS_AS_TEXT}
    given = [text.strip() for name in _PARTS[table] if isinstance(text := values.get(name), str) and text.strip()]
    if len(given) > 1 and given[1].startswith(given[0]):  # a memory by hand has no title of its own
        del given[0]
    facts = [f"- {fact}" for fact in values["facts"] if isinstance(fact, str)]
    if not (given or facts):
        return exports.LeftOut("observations and prompts without text", "observation or prompt without text")
    values["words"] = "\n\n".join([*given, "\n".join(facts)]).strip()
    project = fields.first_at(values, ("merged_into_project", "project"))
    return _CLAUDE_MEM.entry(
        replace(item, values=values),
        project=project if isinstance(project, str) else None,
        source_type=fields.source_of(choices),
        speaker=fields.USER if table == "prompts" else None,
    )


def _list_in(value: object) -> list[Any]:
    """Return a list, which a column holds as JSON."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value)
    return value if isinstance(value, list) else []
