"""Read exports of other memory systems: MCP's reference memory server, mem0 and OpenMemory.

Of the memory server's file each line is an entity or a relation: an observation becomes a memory that names its entity,
an entity a node and a relation an edge of the knowledge graph. mem0 exports a JSON list, alone or within an object.
OpenMemory's backup is an archive, or either file of it, memories.jsonl.gz or memories.json."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing.exports import (
    Choices,
    Entry,
    ExportedEdge,
    ExportedNode,
    LeftOut,
    all_items,
    is_archive,
    items,
    members,
    moment,
    opened,
    own_id,
    tags,
    without_nothing,
)
from engramq.deploy.importing.records import Given, Rejection, read_records
from engramq.schemas import limits
from engramq.schemas.packed_lines import Source, UnusableFile
from engramq.schemas.vocabulary import RowFormat

ENTITY: Final = "entity"
RELATION: Final = "relation"
_OBSERVATIONS: Final = "observations"


def read_mcp_memory(path: Path, _choices: Choices) -> Iterator[Entry]:
    """Yield the nodes, memories and edges."""
    with path.open("rb") as raw:
        for row in read_records(Source(raw).lines(), RowFormat.JSONL):
            if isinstance(row, Rejection):
                yield row
            elif row.values.get("type") == ENTITY:
                yield from _read_entity(row)
            elif row.values.get("type") == RELATION:
                yield _read_relation(row)
            else:
                yield Rejection(row.line, "type", f"type is neither {ENTITY} nor {RELATION}.")


def _read_relation(row: Given) -> Entry:
    for name in ("from", "to", "relationType"):
        if not isinstance(row.values.get(name), str):
            return Rejection(row.line, name, f"{name} is no text.")
    return ExportedEdge(row.values["from"], row.values["to"], row.values["relationType"], row.line)


def _read_entity(row: Given) -> Iterator[Entry]:
    name, kind = row.values.get("name"), row.values.get("entityType")
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
        if not isinstance(observation, str):
            yield Rejection(row.line, _OBSERVATIONS, "An observation is no text.")
        elif not observation.strip():
            yield LeftOut("blank observations", "blank observation")
        else:
            about = {"entity": name, "entity_type": kind}
            values = {"content": f"{name}: {observation}", "tags": tags([kind]), "metadata": about}
            yield Given(row.line, without_nothing(values))


MEM0_LISTS: Final = ("results", "memories")
_FILE: Final = re.compile(r".*\.json")
_OWNERS: Final = ("user_id", "agent_id", "app_id", "run_id", "actor_id")


def read_mem0(path: Path, _choices: Choices) -> Iterator[Entry]:
    """Yield the memories."""
    for item in all_items(path, _FILE, "JSON file", *MEM0_LISTS):
        yield item if isinstance(item, Rejection) else Given(item.line, _read_mem0_item(item.values))


def _read_mem0_item(item: dict[str, Any]) -> dict[str, Any]:
    """Return what a memory of mem0 says, as fields of ours.

    Whose it was stays in the metadata, and a run is the thread; one of which mem0 has said when it ends expires then.
    """
    metadata = item.get("metadata")
    owners = without_nothing({name: item.get(name) for name in _OWNERS})
    kept = metadata if isinstance(metadata, dict) else {}
    return without_nothing(
        {
            "content": item.get("memory"),
            "external_id": own_id("mem0", item["id"]) if item.get("id") else None,
            "speaker": item.get("role") if isinstance(item.get("role"), str) else None,
            "occurred_at": moment(item.get("created_at")),
            "expires_at": moment(item.get("expiration_date")),
            "thread": item.get("run_id"),
            "tags": tags(item.get("categories")),
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
        for item in read_records(Source(stream).lines(), RowFormat.JSONL) if are_lines else items(stream, "memories"):
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
