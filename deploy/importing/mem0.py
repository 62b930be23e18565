"""What mem0 returns for all memories, or has exported: a JSON list, alone or within an object."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing.exported import opened_all
from engramq.deploy.importing.found import Choices, Found
from engramq.deploy.importing.json_items import items
from engramq.deploy.importing.records import Given, Rejection
from engramq.deploy.importing.values import moment, own_id, tags, without_nothing

LISTS: Final = ("results", "memories")
_FILE: Final = re.compile(r".*\.json")
_OWNERS: Final = ("user_id", "agent_id", "app_id", "run_id", "actor_id")


def read(path: Path, _choices: Choices) -> Iterator[Found]:
    """Yield the memories."""
    for _, stream in opened_all(path, _FILE, "JSON file"):
        for item in items(stream, *LISTS):
            yield item if isinstance(item, Rejection) else Given(item.line, values_of(item.values))


def values_of(item: dict[str, Any]) -> dict[str, Any]:
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
