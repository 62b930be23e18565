"""Exports of Graphiti, Copilot's chat, Gemini's apps, claude-mem, OpenClaw, Hindsight and Supermemory in small.

The forms are those that their released programs and clients write; what they say is our own.
"""

import contextlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from engramq.schemas.vocabulary import ForeignFormat

_DOCUMENTS: Final[dict[str, Any]] = {
    # Graphiti 0.31.2 and Zep's client 4.0.1: a fact that was contradicted stays, with its end.
    "graphiti": {
        "nodes": [
            {"uuid": "n1", "name": "Ada", "group_id": "", "labels": ["Entity", "Person"], "summary": "Ada lives."},
            {"uuid": "n2", "name": "Bergen", "group_id": "", "labels": ["Entity"], "summary": ""},
            {"uuid": "n3", "name": "Oslo", "group_id": "", "labels": ["Entity"], "summary": ""},
        ],
        "edges": [
            {
                "uuid": "f1", "name": "LIVES_IN", "fact": "Ada lives in Bergen", "source_node_uuid": "n1",
                "target_node_uuid": "n2", "episodes": ["e1"], "created_at": "2026-01-10T10:00:05Z",
                "valid_at": "2024-01-10T10:00:00Z", "invalid_at": "2026-02-01T00:00:00Z",
                "expired_at": "2026-02-02T09:00:00Z",
            },
            {
                "uuid": "f2", "name": "LIVES_IN", "fact": "Ada lives in Oslo", "source_node_uuid": "n1",
                "target_node_uuid": "n3", "episodes": ["e2"], "created_at": "2026-02-02T09:00:00Z",
                "valid_at": "2026-02-01T00:00:00Z", "invalid_at": None, "expired_at": None,
            },
        ],
        "episodes": [
            {
                "uuid": "e2", "name": "chat", "content": "ada: I have moved to Oslo", "source": "message",
                "source_description": "support chat", "valid_at": "2026-02-02T08:59:00Z", "group_id": "g1",
            }
        ],
    },
    # VS Code's "Chat: Export Chat", by its public source: parts of an answer without a kind are Markdown.
    "copilot-chat": {
        "responderUsername": "GitHub Copilot",
        "initialLocation": "panel",
        "requests": [
            {
                "requestId": "request_1", "timestamp": 1772445600250,
                "message": {"text": "Which port has the kettle?", "parts": []},
                "variableData": {"variables": []},
                "response": [
                    {"kind": "thinking", "value": "Look at the file."},
                    {"kind": "toolInvocationSerialized", "toolId": "copilot_readFile"},
                    {"value": "It is 8443, see ", "supportHtml": False},
                    {"kind": "inlineReference", "inlineReference": {"path": "/home/ada/shop/kettle.toml"}},
                    {"value": "."},
                ],
                "result": {"metadata": {}},
            }
        ],
    },
    # Takeout, My Activity, Gemini Apps, as JSON: no ids, the newest first, actions between prompts.
    "gemini-apps": [
        {
            "header": "Gemini Apps", "title": "Prompted Which tea is green?", "time": "2026-03-02T10:00:02.250Z",
            "products": ["Gemini Apps"],
            "safeHtmlItem": [{"html": "<p>Sencha &amp; matcha:</p><ul><li>Sencha</li><li>Matcha</li></ul>"}],
        },
        {
            "header": "Gemini Apps", "title": "Used an Assistant feature", "time": "2026-03-02T10:00:01Z",
            "products": ["Gemini Apps"],
        },
        {"header": "Search", "title": "Searched for kettles", "time": "2026-03-02T10:00:00Z", "products": ["Search"]},
    ],
    # Hindsight's client 1.1.0, what its bank lists.
    "hindsight": {
        "items": [
            {
                "id": "h1", "text": "Ada opens the shop at nine", "context": "opening hours", "date": "2026-03-01",
                "fact_type": "world", "document_id": "d1", "entities": "Ada, shop", "tags": ["shop"],
                "state": "valid",
            },
            {
                "id": "h2", "text": "Ada opens the shop at eight", "fact_type": "world", "state": "invalidated",
                "mentioned_at": "2026-01-01T08:00:00Z", "invalidated_at": "2026-03-01T00:00:00Z", "tags": [],
            },
        ],
        "total": 2,
    },
    # Supermemory's clients 4 and 5.
    "supermemory": {
        "memories": [
            {
                "id": "s1", "memory": "Ada prefers green kettles", "metadata": {"room": "kitchen"}, "version": 2,
                "isLatest": True, "isForgotten": False,
                "system": {"createdAt": "2026-03-01T08:00:00Z", "updatedAt": "2026-03-02T08:00:00Z"},
            },
            {"id": "s0", "memory": "Ada prefers red kettles", "metadata": {}, "isLatest": False, "isForgotten": False},
            {"id": "s2", "memory": "Ada has a cat", "metadata": {}, "isLatest": True, "isForgotten": True},
        ],
        "pagination": {"currentPage": 1},
    },
}  # fmt: skip


def _written(kind: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        file = folder / f"{kind}.json"
        file.write_text(json.dumps(_DOCUMENTS[kind], indent=2))
        return file

    return write


CLAUDE_MEM: Final[Mapping[str, list[dict[str, Any]]]] = {
    "observations": [
        {
            "id": 1, "memory_session_id": "m1", "project": "tea", "merged_into_project": "shop", "text": None,
            "type": "decision", "title": "Kettles are blue", "subtitle": "Colours", "facts": '["No red one"]',
            "narrative": "Red ones frighten guests.", "concepts": '["kettle"]', "files_read": "[]",
            "files_modified": '["kettle.toml"]', "prompt_number": 1, "created_at": "2026-03-02T10:00:02.250Z",
            "created_at_epoch": 1772445602250, "content_hash": "c1",
        },
        {
            "id": 2, "memory_session_id": "manual-shop-claude", "project": "shop", "merged_into_project": None,
            "text": None, "type": "discovery", "title": "The shop opens at nine", "subtitle": "Manual memory",
            "facts": "[]", "narrative": "The shop opens at nine", "concepts": "[]", "files_read": "[]",
            "files_modified": "[]", "prompt_number": None, "created_at": "2026-03-02T10:00:05.250Z",
            "created_at_epoch": 1772445605250, "content_hash": None,
        },
    ],
    "session_summaries": [
        {
            "id": 1, "memory_session_id": "m1", "project": "shop", "request": "Choose kettles", "investigated": None,
            "learned": "Guests fear red", "completed": "Chosen", "next_steps": None, "notes": None,
            "created_at": "2026-03-02T10:00:03.250Z", "created_at_epoch": 1772445603250, "merged_into_project": None,
        }
    ],
    "user_prompts": [
        {
            "id": 1, "content_session_id": "c1", "prompt_number": 1, "prompt_text": "Choose the kettles.",
            "created_at": "2026-03-02T10:00:01.250Z", "created_at_epoch": 1772445601250,
        }
    ],
    "sdk_sessions": [{"id": 1, "content_session_id": "c1", "memory_session_id": "m1", "project": "tea"}],
}  # fmt: skip


def claude_mem(folder: Path) -> Path:
    """Write the database of claude-mem 13.25.3."""
    path = folder / ".claude-mem"
    path.mkdir()
    with contextlib.closing(sqlite3.connect(path / "claude-mem.db")) as database:
        for table, several in CLAUDE_MEM.items():
            database.execute(f"create table {table} ({', '.join(several[0])})")
            for row in several:
                database.execute(f"insert into {table} values ({', '.join('?' * len(row))})", [*row.values()])
        database.commit()
    return path


def openclaw(folder: Path) -> Path:
    """Write a workspace of OpenClaw 2026.9.6."""
    place = folder / "workspace"
    (place / "memory").mkdir(parents=True)
    (place / "AGENTS.md").write_text("# How to work\n")
    (place / "SOUL.md").write_text("# Who you are\n\nKind, and brief.\n")
    (place / "MEMORY.md").write_text("# Memory\n\n- Ada likes mint tea\n")
    (place / "memory" / "2026-03-02.md").write_text("Bought a green kettle.\n")
    return place


WRITERS: Final[Mapping[ForeignFormat, Callable[[Path], Path]]] = {
    ForeignFormat.CLAUDE_MEM: claude_mem,
    ForeignFormat.OPENCLAW: openclaw,
    **{ForeignFormat(kind): _written(kind) for kind in _DOCUMENTS},
}
