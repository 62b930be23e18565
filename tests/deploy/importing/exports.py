"""Exports of other systems in small, written after the description of each format. Each has something to be left out,
where its format has that."""

import gzip
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from engramq.schemas.vocabulary import ForeignFormat
from tests.deploy.importing import more_exports

MCP_MEMORY: Final = [
    {
        "type": "entity",
        "name": "Ana Silva",
        "entityType": "person",
        "observations": ["Speaks fluent Spanish", "Leads the Lisbon office"],
    },
    {"type": "entity", "name": "Lisbon office", "entityType": "place", "observations": []},
    {"type": "relation", "from": "Ana Silva", "to": "Lisbon office", "relationType": "works_at"},
]

MEM0: Final = {
    "results": [
        {
            "id": "0d9c4a5e-1111-4b6e-9d0a-000000000001", "memory": "Prefers tea in the morning", "hash": "2f3c",
            "metadata": {"source": "onboarding"}, "categories": ["preferences", "food"],
            "created_at": "2025-03-01T08:00:00-07:00", "updated_at": None, "user_id": "ana", "run_id": "onboarding-7",
        },
        {
            "id": "0d9c4a5e-1111-4b6e-9d0a-000000000002", "memory": "Is allergic to walnuts", "metadata": None,
            "categories": None, "created_at": "2025-03-02T09:30:00Z", "user_id": "ana",
        },
    ],
}  # fmt: skip

OPENMEMORY_LINES: Final = [
    {
        "id": "5a1e0000-0000-4000-8000-000000000001", "content": "The staging cluster runs in Frankfurt",
        "metadata": {"ticket": "OPS-7"}, "created_at": "2025-06-01T10:00:00+00:00",
        "updated_at": "2025-06-01T10:00:00+00:00", "state": "active", "app": "cursor", "categories": ["infrastructure"],
    },
    {
        "id": "5a1e0000-0000-4000-8000-000000000002", "content": "The staging cluster runs in Paris", "metadata": {},
        "created_at": "2025-05-01T10:00:00+00:00", "updated_at": "2025-06-01T10:00:00+00:00", "state": "deleted",
        "app": "cursor", "categories": [],
    },
]  # fmt: skip
OPENMEMORY_DOCUMENT: Final = {
    "user": {"id": "u1", "user_id": "ana", "name": None},
    "apps": [{"id": "a1", "name": "cursor"}],
    "categories": [{"id": "c1", "name": "infrastructure", "description": None}],
    "memories": [
        {
            "id": line["id"],
            "user_id": "u1",
            "app_id": "a1",
            "content": line["content"],
            "metadata": line["metadata"],
            "state": line["state"],
            "created_at": line["created_at"],
            "category_ids": ["c1"] if line["categories"] else [],
        }
        for line in OPENMEMORY_LINES
    ],
    "memory_categories": [{"memory_id": OPENMEMORY_LINES[0]["id"], "category_id": "c1"}],
    "export_meta": {"version": "1"},
}

CLAUDE: Final[list[dict[str, Any]]] = [
    {
        "uuid": "c0000000-0000-4000-8000-000000000001", "name": "Planning the garden",
        "created_at": "2025-04-01T09:00:00.000000Z",
        "chat_messages": [
            {
                "uuid": "m0000000-0000-4000-8000-000000000001", "text": "When do I plant garlic?",
                "content": [{"type": "text", "text": "When do I plant garlic?"}], "sender": "human",
                "created_at": "2025-04-01T09:00:01.000000Z",
            },
            {
                "uuid": "m0000000-0000-4000-8000-000000000002", "text": "",
                "content": [
                    {"type": "thinking", "thinking": "Season matters."},
                    {"type": "tool_use", "name": "web_search", "input": {"query": "garlic"}},
                    {"type": "tool_result", "content": [{"type": "text", "text": "A page about garlic"}]},
                    {"type": "text", "text": "In autumn, some weeks before the frost."},
                ],
                "sender": "assistant", "created_at": "2025-04-01T09:00:09.000000Z",
            },
            {
                "uuid": "m0000000-0000-4000-8000-000000000003", "text": "", "content": [], "sender": "human",
                "created_at": "2025-04-01T09:01:00.000000Z",
            },
        ],
    },
]  # fmt: skip


def message_of_chatgpt(name: str, role: str, text: str, at: float | None, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "author": {"role": role},
        "create_time": at,
        "content": {"content_type": "text", "parts": [text]},
        "metadata": {},
        "recipient": "all",
        **more,
    }


CHATGPT: Final[list[dict[str, Any]]] = [
    {
        "conversation_id": "g0000000-0000-4000-8000-000000000001",
        "title": "Bread",
        "create_time": 1735725600.0,
        "current_node": "n6",
        "mapping": {
            "n0": {"id": "n0", "message": None, "parent": None, "children": ["n1"]},
            "n1": {
                "id": "n1",
                "message": message_of_chatgpt(
                    "n1", "system", "You are helpful.", None, metadata={"is_visually_hidden_from_conversation": True}
                ),
                "parent": "n0",
                "children": ["n2"],
            },
            "n2": {
                "id": "n2",
                "message": message_of_chatgpt("n2", "user", "How hot for sourdough?", 1735725601.5),
                "parent": "n1",
                "children": ["n3", "n4"],
            },
            # An answer that was made anew: what was shown last is the other branch.
            "n3": {
                "id": "n3",
                "message": message_of_chatgpt("n3", "assistant", "At 180 degrees.", 1735725610.0),
                "parent": "n2",
                "children": [],
            },
            "n4": {
                "id": "n4",
                "message": message_of_chatgpt("n4", "assistant", 'search("sourdough")', 1735725611.0, recipient="web"),
                "parent": "n2",
                "children": ["n5"],
            },
            "n5": {
                "id": "n5",
                "message": message_of_chatgpt("n5", "tool", "A page about ovens", 1735725612.0),
                "parent": "n4",
                "children": ["n6"],
            },
            "n6": {
                "id": "n6",
                "message": message_of_chatgpt(
                    "n6", "assistant", "At 240 degrees.\ue200cite\ue202turn0\ue201", 1735725613.0
                ),
                "parent": "n5",
                "children": [],
            },
        },
    }
]

COFFEE: Final = """---
title: Coffee Brewing
type: guide
tags: [coffee, brewing]
permalink: guides/coffee-brewing
created: 2025-02-03
---
# Coffee Brewing

Grind late, pour slowly.

## Observations
- [method] Pour over is clearer than French press #filter (own tests)
- [ ] buy filters
- [link](https://example.org) is none

## Relations
- pairs_with [[Chocolate Tasting]]
- [[Water]]

```
- [method] not this one
```
"""
CHOCOLATE: Final = (
    "---\ntitle: Chocolate Tasting\ntype: note\npermalink: chocolate\n---\n- [rule] Begin with the mildest\n"
)

KICKOFF: Final = """---
created: 2025-01-15T09:30:00Z
tags:
  - work/alpha
  - kickoff
status: done
---
We begin in March, see [[Budget|the budget]] and [[People/Ana Silva#Role]]. #planning

`#notatag [[nor a link]]`
"""
BUDGET: Final = "Forty thousand for the first phase. #money"


def mcp_memory(folder: Path) -> Path:
    file = folder / "memory.jsonl"
    file.write_text("".join(json.dumps(item) + "\n" for item in MCP_MEMORY))
    return file


def _document(file: Path, content: object) -> Path:
    file.write_text(json.dumps(content, indent=2))
    return file


def mem0(folder: Path) -> Path:
    return _document(folder / "mem0.json", MEM0)


def openmemory(folder: Path) -> Path:
    file = folder / "memories_export_ana.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("memories.json", json.dumps(OPENMEMORY_DOCUMENT, indent=2))
        archive.writestr("memories.jsonl.gz", gzip.compress(_lines(OPENMEMORY_LINES)))
    return file


def claude(folder: Path) -> Path:
    file = folder / "data-2025-04-02.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("users.json", "[]")
        archive.writestr("conversations.json", json.dumps(CLAUDE))
    return file


def chatgpt(folder: Path) -> Path:
    file = folder / "conversations.json"
    file.write_text(json.dumps(CHATGPT))
    return file


def basic_memory(folder: Path) -> Path:
    notes = folder / "knowledge"
    (notes / "guides").mkdir(parents=True)
    (notes / "guides" / "Coffee Brewing.md").write_text(COFFEE)
    (notes / "Chocolate.md").write_text(CHOCOLATE)
    return notes


def obsidian(folder: Path) -> Path:
    vault = folder / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    (vault / ".obsidian" / "app.md").write_text("no note")
    (vault / "Projects").mkdir()
    (vault / "Projects" / "Kickoff.md").write_text(KICKOFF)
    (vault / "Budget.md").write_text(BUDGET)
    (vault / "Empty.md").write_text("---\ntags: x\n---\n")
    return vault


MINT: Final = """---
name: mint-tea
description: Ada likes mint tea
metadata:
  node_type: memory
  type: user
  originSessionId: 00000000-0000-4000-8000-000000000001
  modified: 2026-11-28T19:52:26.179Z
---

Fresh leaves, never from a bag. See [[kettle]] and [the shop](shop.md).
"""
LETTA: Final[dict[str, Any]] = {
    "agents": [
        {
            "id": "agent-0",
            "name": "tea",
            "block_ids": ["block-0"],
            "messages": [
                {"id": "message-0", "role": "system", "content": [{"type": "text", "text": "You are a shop."}]},
                {
                    "id": "message-1",
                    "role": "user",
                    "created_at": "2026-01-01T10:00:00Z",
                    "content": [
                        {"type": "text", "text": json.dumps({"type": "user_message", "message": "I like mint tea."})}
                    ],
                },
                {"id": "message-2", "role": "user", "content": json.dumps({"type": "heartbeat", "message": "Go on."})},
                {"id": "message-3", "role": "assistant", "content": [{"type": "text", "text": "Mint it is."}]},
            ],
        }
    ],
    "blocks": [{"id": "block-0", "label": "human", "value": "Name: Ada\nLikes tea", "limit": 5000}],
    "metadata": {},
}
SERVICE: Final[dict[str, Any]] = {
    "export_metadata": {"source_machine": "shop", "total_memories": 2},
    "memories": [
        {
            "content": "Port is 8080", "content_hash": "f838", "tags": ["net"], "created_at": 1795895334.5,
            "memory_type": "note", "metadata": {},
        },
        {
            "content": "Port is 80", "content_hash": "7f31", "tags": ["untagged"], "created_at": 1795890000.5,
            "memory_type": "note", "metadata": {"superseded_by": "f838"},
        },
    ],
}  # fmt: skip


def markdown(folder: Path) -> Path:
    notes = folder / "Export"
    (notes / "Shop").mkdir(parents=True)
    (notes / f"Tea {'0a' * 16}.md").write_text(f"# Tea\n\nSee [Kettles](Shop/Kettles%20{'1b' * 16}.md).\n")
    (notes / "Shop" / f"Kettles {'1b' * 16}.md").write_text("# Kettles\n\nBlue ones, never red.\n")
    return notes


def claude_code_memory(folder: Path) -> Path:
    notes = folder / "-home-ada-shop" / "memory"
    notes.mkdir(parents=True)
    (notes / "MEMORY.md").write_text("# Memory\n\n- [Mint](mint-tea.md): what Ada drinks\n")
    (notes / "mint-tea.md").write_text(MINT)
    (notes / "shop.md").write_text("<!-- for people -->\nThe shop opens at nine.\n")
    return notes


def hermes(folder: Path) -> Path:
    notes = folder / "memories"
    notes.mkdir()
    (notes / "MEMORY.md").write_text("Kettle is green\n\nIt whistles\n\N{SECTION SIGN}\nThe shop has two floors")
    (notes / "USER.md").write_text("Ada likes mint tea")
    return notes


def letta(folder: Path) -> Path:
    return _document(folder / "tea.af", LETTA)


def mcp_memory_service(folder: Path) -> Path:
    return _document(folder / "backup.json", SERVICE)


def _lines(several: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(item) + "\n" for item in several).encode()


EXPORTS: Final[Mapping[ForeignFormat, Callable[[Path], Path]]] = {
    ForeignFormat.MCP_MEMORY: mcp_memory, ForeignFormat.MEM0: mem0, ForeignFormat.OPENMEMORY: openmemory,
    ForeignFormat.CLAUDE: claude, ForeignFormat.CHATGPT: chatgpt, ForeignFormat.BASIC_MEMORY: basic_memory,
    ForeignFormat.OBSIDIAN: obsidian, ForeignFormat.MARKDOWN: markdown,
    ForeignFormat.CLAUDE_CODE_MEMORY: claude_code_memory, ForeignFormat.HERMES: hermes, ForeignFormat.LETTA: letta,
    ForeignFormat.MCP_MEMORY_SERVICE: mcp_memory_service, **more_exports.WRITERS,
}  # fmt: skip
NAMED: Final = (ForeignFormat.BASIC_MEMORY, ForeignFormat.MARKDOWN)  # any folder of Markdown may be one
# What each brings in: memories, nodes, edges.
BROUGHT: Final[Mapping[ForeignFormat, tuple[int, int, int]]] = {
    ForeignFormat.MCP_MEMORY: (2, 2, 1), ForeignFormat.MEM0: (2, 0, 0), ForeignFormat.OPENMEMORY: (1, 0, 0),
    ForeignFormat.CLAUDE: (2, 0, 0), ForeignFormat.CHATGPT: (3, 0, 0), ForeignFormat.BASIC_MEMORY: (3, 2, 2),
    ForeignFormat.OBSIDIAN: (2, 3, 2), ForeignFormat.MARKDOWN: (2, 2, 1), ForeignFormat.CLAUDE_CODE_MEMORY: (2, 2, 2),
    ForeignFormat.HERMES: (3, 0, 0), ForeignFormat.LETTA: (3, 0, 0), ForeignFormat.MCP_MEMORY_SERVICE: (2, 0, 0),
    ForeignFormat.GRAPHITI: (3, 3, 1), ForeignFormat.COPILOT_CHAT: (2, 0, 0), ForeignFormat.GEMINI_APPS: (2, 0, 0),
    ForeignFormat.CLAUDE_MEM: (4, 0, 0), ForeignFormat.OPENCLAW: (3, 0, 0), ForeignFormat.HINDSIGHT: (2, 0, 0),
    ForeignFormat.SUPERMEMORY: (1, 0, 0),
}  # fmt: skip
