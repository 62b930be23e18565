"""A small whole export, written by hand."""

import base64
import json
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from engramq.workers.db.readiness import packaged

AT = "2026-01-02T03:04:05.678901+00:00"
LATER = "2026-02-03T04:05:06+00:00"
SCHEMA = packaged().version
LINK_TIMES = {"created_at": AT, "updated_at": AT, "created_by": "ada", "updated_by": None}


def an_id(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012x}"


def head(**changes: Any) -> dict[str, Any]:
    return {
        "type": "engramq.export", "version": 1, "engramq": "1.2.3", "schema": SCHEMA, "namespace": "acme",
        "exported_at": AT, "active_hours": 12.5, "audit": True, "embeddings": True, **changes,
    }  # fmt: skip


def memory(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "type": "memory", "id": an_id(number), "external_id": f"m-{number}", "partition": "trusted",
        "content": f"Memory {number}", "confidence": 0.5, "source": "extracted", "source_type": "research",
        "speaker": "Ada", "occurred_at": AT, "thread": "talk", "position": number, "sector": "semantic",
        "sector_source": "auto", "sector_confidence": 0.25, "verification": "verified", "state": "active",
        "supersedes": None, "superseded_by": None, "superseded_at": None, "promoted_at": AT, "promoted_by": "eve",
        "tags": ["a", "b"], "project": "x", "valid_from": AT, "valid_until": LATER, "expires_at": LATER,
        "superseded_from": None, "metadata": {"a": [1.5]}, "links_made_at": AT, "active_hours": 1.25,
        "created_by": "ada", "created_at": AT, "updated_at": AT,
        "usage": {
            "access_count": 1, "accessed_at": AT, "helped": 1.5, "hindered": 0.5, "last_active_hours": 2.5,
        },
        "embedding": base64.b64encode(struct.pack(">3e", 0.5, -1, 0)).decode(),
        "embedding_model": {"name": "hash", "sha256": "", "dimensions": 3}, **changes,
    }  # fmt: skip


def node(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "type": "node", "id": an_id(number), "label": "Entity", "name": f"Node {number}", "external_id": f"n-{number}",
        "properties": {"since": 1831}, **LINK_TIMES, **changes,
    }  # fmt: skip


def edge(number: int, kind: str, source: int, target: int, **changes: Any) -> dict[str, Any]:
    return {
        "type": kind, "id": an_id(number), "source_id": an_id(source), "target_id": an_id(target),
        "relation": "knows", "weight": 0.5, "origin": "agent", "reinforcement_count": 2, "note": "why",
        "declared_from": an_id(source), "last_active_hours": 1.5, "decayed_active_hours": 0.5,
        "memory_sector": "semantic", "sector_source": "manual", "properties": {}, "valid_from": AT,
        "valid_until": LATER, **LINK_TIMES, **changes,
    }  # fmt: skip


def records() -> list[dict[str, Any]]:
    """Return two memories, two nodes and at least one record of every other type."""
    return [
        memory(1, superseded_by=an_id(2), superseded_at=AT, superseded_from=AT),
        memory(2, supersedes=an_id(1)),
        memory(3),
        node(11),
        node(12),
        edge(21, "edge", 11, 12),
        edge(22, "edge", 12, 11),
        edge(31, "link", 1, 2),
        edge(32, "link", 2, 3),
        {
            "type": "deferred_link", "id": an_id(41), "source_id": an_id(1), "target_id": an_id(3),
            "request": {"relation": "supports"}, "principal": {"name": "ada", "scopes": ["write"]},
            "command_id": an_id(90), "item": 0, "created_at": AT,
        },
        {"type": "tombstone", "low_id": an_id(1), "high_id": an_id(3), "created_at": AT},
        {
            "type": "proposal", "id": an_id(51), "action": "reclassify", "target_id": an_id(21), "covers": [an_id(21)],
            "new_sector": "episodic", "change": None, "proposed_by": "ada", "reason": "because", "created_at": AT,
            "expires_at": LATER, "rejected_at": AT, "used_at": AT,
            "approvals": [{"principal": "ada", "approved_at": AT}],
        },
        {
            "type": "proposal", "id": an_id(52), "action": "change", "target_id": an_id(21), "covers": [an_id(21)],
            "new_sector": None, "change": {"weight": 0.25}, "proposed_by": "ada", "reason": None, "created_at": AT,
            "expires_at": LATER, "rejected_at": None, "used_at": None, "approvals": [],
        },
        {"type": "imported_row", "digest": "0a" * 16, "memory_id": an_id(1), "trusted": True},
        {
            "type": "audit", "id": 5, "at": AT, "actor": "ada", "action": "update", "target_id": an_id(1),
            "old": {"weight": 0.5}, "new": {"weight": 1}, "reason": "so", "command_id": an_id(90),
        },
    ]  # fmt: skip


def whole(said: Iterable[Mapping[str, Any]], first: Mapping[str, Any] | None = None, **counts: int) -> list[bytes]:
    """Return the lines of an export with these records, and an end that tells how many they are."""
    found = list(said)
    end = {"type": "end", "counts": {**Counter(str(item.get("type")) for item in found), **counts}}
    return [json.dumps(item).encode() + b"\n" for item in (head() if first is None else first, *found, end)]
