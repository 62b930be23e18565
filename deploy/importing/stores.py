"""Read exports of other memory systems: MCP's reference memory server, mem0 and OpenMemory.

Of the memory server's file each line is an entity or a relation: an observation becomes a memory that names its entity,
an entity a node and a relation an edge of the knowledge graph. mem0 exports a JSON list, alone or within an object.
OpenMemory's backup is an archive, or either file of it, memories.jsonl.gz or memories.json."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing.conversations import TURN
from engramq.deploy.importing.exports import (
    Choices,
    Entry,
    ExportedEdge,
    ExportedNode,
    LeftOut,
    NoList,
    all_items,
    is_archive,
    items,
    look_at,
    members,
    moment,
    opened,
    own_id,
    tags,
    without_nothing,
)
from engramq.deploy.importing.records import Given, Rejection, read_json_lines
from engramq.schemas import limits
from engramq.schemas.packed_lines import Source, UnusableFile

ENTITY: Final = "entity"
RELATION: Final = "relation"
_OBSERVATIONS: Final = "observations"


GRAPH_LISTS: Final = ("entities", "relations")
OF_GRAPH: Final = frozenset({_OBSERVATIONS, "relationType"})  # each of its lines has one of them
NAMED: Final = frozenset({"name", "from", "from_entity"})  # and one of these
_KINDS: Final = {"entities": ENTITY, "relations": RELATION}


def read_mcp_memory(path: Path, _choices: Choices) -> Iterator[Entry]:
    """Yield the nodes, memories and edges, of lines or of one document with both lists; each observation once."""
    passed = set[int]()
    for kind, row in _graph_rows(path):
        if isinstance(row, Rejection):
            yield row
        elif kind == ENTITY:
            yield from _read_entity(row, passed)
        elif kind == RELATION:
            yield _read_relation(row)
        else:
            yield Rejection(row.line, "type", f"type is neither {ENTITY} nor {RELATION}.")


def _graph_rows(path: Path) -> Iterator[tuple[object, Given | Rejection]]:
    with opened(path, "") as stream:
        begins = look_at(stream, *GRAPH_LISTS)
    if begins.name == "":
        with opened(path, "") as stream:
            for row in items(stream):
                yield None if isinstance(row, Rejection) else graph_kind(row.values), row
        return
    if begins.name is None:
        with path.open("rb") as raw:
            for row in read_json_lines(Source(raw).lines()):
                yield None if isinstance(row, Rejection) else graph_kind(row.values), row
        return
    for name in GRAPH_LISTS:
        with opened(path, "") as stream, contextlib.suppress(NoList):  # either list alone is a graph, too
            for row in items(stream, name):
                yield _KINDS[name], row


def graph_kind(row: dict[str, Any]) -> object:
    """Return what a line of a graph is: as it says, by one of the names that forks use, else as its members tell."""
    kind = row.get("type", row.get("_type"))
    if kind in (ENTITY, RELATION) or "type" in row:
        return kind
    return ENTITY if _OBSERVATIONS in row else RELATION if "relationType" in row else kind


def _first_of(row: dict[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _read_relation(row: Given) -> Entry:
    ends = [
        _first_of(row.values, *names)
        for names in (("from", "from_entity"), ("to", "to_entity"), ("relationType", "relation_type"))
    ]
    for name, value in zip(("from", "to", "relationType"), ends, strict=True):
        if not isinstance(value, str):
            return Rejection(row.line, name, f"{name} is no text.")
    return ExportedEdge(ends[0], ends[1], ends[2], row.line)


def _read_entity(row: Given, passed: set[int]) -> Iterator[Entry]:
    name, kind = row.values.get("name"), _first_of(row.values, "entityType", "entity_type")
    if not isinstance(name, str) or not isinstance(kind, str):
        field = "entityType" if isinstance(name, str) else "name"
        yield Rejection(row.line, field, f"{field} is no text.")
        return
    yield ExportedNode(name, kind, row.line)
    observations = row.values.get(_OBSERVATIONS)
    if not isinstance(observations, list):
        yield Rejection(row.line, _OBSERVATIONS, f"{_OBSERVATIONS} is no list.")
        return
    if not 0 < len(name) <= limits.NAME_CHARS:
        return  # the node is rejected for it
    for observation in observations:
        said = observation if isinstance(observation, dict) else {}
        text = _first_of(said, "text", "content", "observation") if said else observation
        if not isinstance(text, str):
            yield Rejection(row.line, _OBSERVATIONS, "An observation is no text.")
        elif not text.strip():
            yield LeftOut("blank observations", "blank observation")
        elif (mark := hash((name, kind, text))) in passed:
            yield LeftOut("observations that are there twice", "observation that is there twice")
        else:
            passed.add(mark)
            values = {
                "content": f"{name}: {text}",
                "tags": tags([kind]),
                "occurred_at": moment(_first_of(said, "timestamp", "createdAt", "created_at")),
                "metadata": {"entity": name, "entity_type": kind},
            }
            yield Given(row.line, without_nothing(values))


MEM0_LISTS: Final = ("results", "memories")
_FILE: Final = re.compile(r".*\.json")
_OWNERS: Final = ("user_id", "agent_id", "app_id", "run_id", "actor_id")


def read_mem0(path: Path, _choices: Choices) -> Iterator[Entry]:
    """Yield the memories."""
    for item in all_items(path, _FILE, "JSON file", "memory", *MEM0_LISTS):
        yield item if isinstance(item, Rejection) else Given(item.line, _read_mem0_item(item.values))


def _read_mem0_item(item: dict[str, Any]) -> dict[str, Any]:
    """Return what a memory of mem0 says, as fields of ours.

    Whose it was stays in the metadata, and a run is the thread; one of which mem0 has said when it ends expires then.
    What a model has said is kept apart, as nobody has looked through it.
    """
    metadata, role = item.get("metadata"), item.get("role")
    created, updated = moment(item.get("created_at")), moment(item.get("updated_at"))
    owners = without_nothing({name: item.get(name) for name in _OWNERS})
    if updated and updated != created:  # the text is of then
        owners = without_nothing({**owners, "created_at": created})
    kept = metadata if isinstance(metadata, dict) else {}
    return without_nothing(
        {
            "content": item.get("memory"),
            "external_id": own_id("mem0", item["id"]) if item.get("id") else None,
            "speaker": role if isinstance(role, str) else None,
            "source_type": TURN if isinstance(role, str) and role not in ("", "user") else None,
            "occurred_at": updated or created,
            "expires_at": moment(item.get("expiration_date")),
            "thread": item.get("run_id"),
            "tags": tags(item.get("categories"), kept.get("tags")),
            "metadata": {**kept, "mem0": owners} if owners else kept,
        }
    )


# The lines hold the names of categories, the document only their ids: the lines are read where both are there.
BACKUP_LINES: Final = re.compile(r"memories\.jsonl\.gz")
BACKUP_DOCUMENT: Final = re.compile(r"memories\.json")
_GONE: Final = ("archived", "deleted")


def read_openmemory(path: Path, _choices: Choices) -> Iterator[Entry]:
    """Yield the memories, without those that were archived or deleted there."""
    if path.is_dir() or is_archive(path):
        packed = members(path, BACKUP_LINES)
        several, are_lines = packed or members(path, BACKUP_DOCUMENT), bool(packed)
        if not several:
            raise UnusableFile("There is neither memories.jsonl.gz nor memories.json in it.")
        member = several[0]
    else:
        # The document is an object with keys of its own before its memories, over several lines.
        with path.open("rb") as raw:
            first = next((line for line in Source(raw).lines() if line.strip()), b"")
        member, are_lines = "", b'"content"' in first
    categories: dict[str, str] = {}
    if not are_lines:
        with opened(path, member) as stream:
            rows = [item.values for item in items(stream, "categories") if isinstance(item, Given)]
        categories = {str(row.get("id")): str(row.get("name")) for row in rows}
    with opened(path, member) as stream:
        for item in read_json_lines(Source(stream).lines()) if are_lines else items(stream, "memories"):
            yield item if isinstance(item, Rejection) else _read_openmemory_item(item, categories)


def _read_openmemory_item(item: Given, categories: dict[str, str]) -> Entry:
    row = item.values
    if row.get("state") in _GONE:
        return LeftOut("memories that were archived or deleted there", "memory that was archived or deleted there")
    kept, ids = row.get("metadata"), row.get("category_ids")
    metadata: dict[str, Any] = kept if isinstance(kept, dict) else {}
    named = [categories[key] for key in map(str, ids) if key in categories] if isinstance(ids, list) else []
    app = row.get("app") if isinstance(row.get("app"), str) else None
    values = {
        "content": row.get("content"),
        "external_id": own_id("openmemory", row["id"]) if row.get("id") else None,
        "occurred_at": moment(row.get("created_at")),
        "tags": tags(row.get("categories"), named),
        "metadata": {**metadata, "openmemory": {"app": app}} if app else metadata,
    }
    return Given(item.line, without_nothing(values))
