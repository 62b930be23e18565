"""A backup of OpenMemory: its archive, or either file of it, memories.jsonl.gz or memories.json."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from engramq.deploy.importing.exported import is_archive, members, opened
from engramq.deploy.importing.found import Choices, Found, LeftOut
from engramq.deploy.importing.json_items import items
from engramq.deploy.importing.records import Given, Rejection, read_records
from engramq.deploy.importing.values import moment, own_id, tags, without_nothing
from engramq.schemas.packed_lines import Source, UnusableFile
from engramq.schemas.vocabulary import RowFormat

# The lines hold the names of categories, the document only their ids: the lines are read where both are there.
LINES: Final = re.compile(r"memories\.jsonl\.gz")
DOCUMENT: Final = re.compile(r"memories\.json")
_CATEGORIES: Final = ("categories",)
_MEMORIES: Final = ("memories",)
_GONE: Final = ("archived", "deleted")


def read(path: Path, _choices: Choices) -> Iterator[Found]:
    """Yield the memories, without those that were archived or deleted there."""
    if path.is_dir() or is_archive(path):
        found = [(one, True) for one in members(path, LINES)] or [(one, False) for one in members(path, DOCUMENT)]
        if not found:
            raise UnusableFile("There is neither memories.jsonl.gz nor memories.json in it.")
        member, are_lines = found[0]
    else:
        member, are_lines = "", not _is_document(path)
    categories = {} if are_lines else _categories(path, member)
    with opened(path, member) as stream:
        for item in _rows(stream) if are_lines else items(stream, *_MEMORIES):
            yield item if isinstance(item, Rejection) else _memory(item, categories)


def _is_document(path: Path) -> bool:
    """Say whether a file is the document: an object with keys of its own before its memories, over several lines."""
    with path.open("rb") as raw:
        first = next((line for line in Source(raw).lines() if line.strip()), b"")
    return b'"content"' not in first


def _rows(stream: IO[bytes]) -> Iterator[Given | Rejection]:
    return read_records(Source(stream).lines(), RowFormat.JSONL)


def _categories(path: Path, member: str) -> dict[str, str]:
    with opened(path, member) as stream:
        return {
            str(one.values.get("id")): str(one.values.get("name"))
            for one in items(stream, *_CATEGORIES)
            if isinstance(one, Given)
        }


def _memory(item: Given, categories: dict[str, str]) -> Found:
    said = item.values
    if said.get("state") in _GONE:
        return LeftOut("memories that were archived or deleted there", "memory that was archived or deleted there")
    kept = said.get("metadata")
    metadata: dict[str, Any] = kept if isinstance(kept, dict) else {}
    ids = said.get("category_ids")
    of_ids = [categories[one] for one in map(str, ids) if one in categories] if isinstance(ids, list) else []
    app = said.get("app") if isinstance(said.get("app"), str) else None
    return Given(
        item.line,
        without_nothing(
            {
                "content": said.get("content"),
                "external_id": own_id("openmemory", said["id"]) if said.get("id") else None,
                "occurred_at": moment(said.get("created_at")),
                "tags": tags(said.get("categories"), of_ids),
                "metadata": {**metadata, "openmemory": {"app": app}} if app else metadata,
            }
        ),
    )
