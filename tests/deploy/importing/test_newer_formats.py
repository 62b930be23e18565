"""What is read of Graphiti and Zep, Copilot's chat, Gemini's apps, claude-mem, OpenClaw, Hindsight and Supermemory."""

import contextlib
import json
import re
import sqlite3
import time
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest

from engramq.deploy.importing.fields import Choices
from engramq.deploy.importing.formats import format_of
from engramq.deploy.importing.records import UncheckedRow
from engramq.deploy.importing.rows import CheckedRow, check_rows
from engramq.schemas.packed_lines import UnusableFile
from engramq.schemas.vocabulary import ForeignFormat
from tests.deploy.importing import more_exports
from tests.deploy.importing.test_readers import edges, left_out, nodes, read, rejected, rows

pytestmark = pytest.mark.promise("SN-4")


def test_a_fact_of_graphiti_holds_from_when_to_when_it_says(tmp_path: Path) -> None:
    found = read(more_exports.WRITERS[ForeignFormat.GRAPHITI](tmp_path), ForeignFormat.GRAPHITI)
    was, holds, said = rows(found)
    assert was == {
        "content": "Ada lives in Bergen", "external_id": "graphiti:f1", "occurred_at": "2026-01-10T10:00:05Z",
        "valid_from": "2024-01-10T10:00:00Z", "valid_until": "2026-02-01T00:00:00Z", "tags": ["LIVES_IN"],
    }  # fmt: skip
    assert ("valid_from" in holds, "valid_until" in holds) == (True, False)
    assert (said["speaker"], said["thread"], said["source_type"]) == ("user", "graphiti:g1", "conversation")
    assert nodes(found) == [("Ada", "Person"), ("Bergen", "Entity"), ("Oslo", "Entity")]
    assert edges(found) == [("Ada", "LIVES_IN", "Oslo")]
    assert sorted(left_out(found).values()) == [1, 1]


def test_a_fact_that_was_over_when_it_was_said_has_its_end_alone(tmp_path: Path) -> None:
    fact = {"uuid_": "f", "fact": "Ada was in Rome", "source_node_uuid": "a", "name": "WAS_IN"}
    fact |= {"valid_at": "2024-01-01T00:00:00Z", "invalid_at": "2024-01-01T00:00:00Z"}
    file = tmp_path / "edges.json"
    file.write_text(json.dumps([fact]))
    assert format_of(file) is ForeignFormat.GRAPHITI
    (row,) = rows(read(file, ForeignFormat.GRAPHITI))
    assert (row.get("valid_from"), row["valid_until"]) == (None, "2024-01-01T00:00:00Z")


def test_a_chat_of_copilot_is_what_was_typed_and_answered(tmp_path: Path) -> None:
    found = read(more_exports.WRITERS[ForeignFormat.COPILOT_CHAT](tmp_path), ForeignFormat.COPILOT_CHAT)
    prompt, answer = rows(found)
    assert prompt == {
        "content": "Which port has the kettle?",
        "external_id": "copilot-chat:request_1",
        "thread": "copilot-chat:request_1",
        "position": 0,
        "speaker": "user",
        "occurred_at": "2026-03-02T10:00:00.250000Z",
        "source_type": "conversation",
    }
    assert (answer["content"], answer["speaker"]) == ("It is 8443, see `kettle.toml`.", "assistant")
    assert left_out(found) == {"parts of answers of tools and of the program": 2}


@pytest.mark.promise("SN-1")
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_chat_that_vs_code_keeps_as_a_log_of_changes_is_read_as_it_is_now(tmp_path: Path, is_folder: bool) -> None:
    """Newer versions write the chat once, then each change: a value, what is pushed to a list, what goes."""
    asked = {"requestId": "r1", "timestamp": 1_767_000_001_000, "message": {"text": "Make the kettle green"}}
    changes: list[dict[str, Any]] = [
        {"kind": 0, "v": {"version": 3, "sessionId": "s1", "requests": []}},
        {"kind": 2, "k": ["requests"], "v": [{**asked, "response": []}]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "Do"}]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "Done, it is"}, {"value": " green."}], "i": 0},
        {"kind": 1, "k": ["inputState"], "v": {"text": "a draft"}},
        {"kind": 3, "k": ["inputState"]},
        {"kind": 1, "k": ["requests", 1], "v": {**asked, "requestId": "r2", "message": {"text": "Boil it"}}},
    ]
    folder = tmp_path / "chatSessions"
    folder.mkdir()
    file = folder / "s1.jsonl"
    file.write_text("\n".join(map(json.dumps, changes)) + '\n{"kind": 1, "k": ["half')
    assert format_of(file) is ForeignFormat.COPILOT_CHAT
    found = rows(read(folder if is_folder else file, ForeignFormat.COPILOT_CHAT))
    said = [(row["content"], row["speaker"], row["position"]) for row in found]
    assert said == [
        ("Make the kettle green", "user", 0),
        ("Done, it is green.", "assistant", 1),
        ("Boil it", "user", 2),
    ]
    assert {row["thread"] for row in found} == {"copilot-chat:s1"}


COLOURS: Final = [{"id": "o1", "label": "Sky blue", "value": "b"}, {"id": "o2", "label": "Green", "value": "g"}]
WITHIN: Final[list[tuple[dict[str, Any], str]]] = [
    (
        {
            "kind": "questionCarousel", "resolveId": "q",
            "questions": [
                {"id": "1", "title": "Colour", "message": {"value": "Which colour?"}, "options": COLOURS},
                {"id": "2", "title": "Size"}, {"id": "3", "title": "Skipped"},
            ],
            "data": {"1": {"selectedValue": "b", "freeformValue": "but not navy"}, "2": "Two litres"},
        },
        "Which colour?\nSky blue, but not navy\nSize\nTwo litres",
    ),
    (
        {
            "kind": "questionCarousel", "questions": [{"id": "1", "title": "Colours", "options": COLOURS}],
            "data": {"1": {"selectedValues": ["b", "g"]}},
        },
        "Colours\nSky blue, Green",
    ),
    (
        {"kind": "planReview", "content": "Boil it.", "data": {"rejected": True, "feedback": "Never boil it dry."}},
        "Never boil it dry.",
    ),
    (
        {"kind": "elicitationSerialized", "message": "Name it", "acceptedResult": {"name": "Blue", "n": 2}},
        "Name it\nname: Blue\nn: 2",
    ),
]  # fmt: skip


@pytest.mark.promise("SN-1")
@pytest.mark.parametrize(("part", "words"), WITHIN)
def test_words_that_a_person_gives_to_vs_code_within_an_answer_come_in(
    tmp_path: Path, part: dict[str, Any], words: str
) -> None:
    response = [{"value": "Two things: "}, part, {**part, "data": None, "acceptedResult": None}, {"value": "done."}]
    request = {"requestId": "r", "message": {"text": "Brew"}, "response": response}
    chat = {"sessionId": "s", "requests": [request], "pendingRequests": [{"id": "p", "request": request}]}
    file = tmp_path / "s.json"
    file.write_text(json.dumps(chat))
    found = read(file, ForeignFormat.COPILOT_CHAT)
    assert [(row["content"], row["speaker"]) for row in rows(found)] == [
        ("Brew", "user"), (words, "user"), ("Two things: done.", "assistant")
    ]  # fmt: skip
    assert left_out(found) == {"parts of answers of tools and of the program": 1, "prompts that wait to be sent": 1}


@pytest.mark.promise("SN-1")
def test_a_form_in_vs_code_keeps_each_field_and_no_secret(tmp_path: Path) -> None:
    filled = {"a": True, "b": 1.5, "c": ["x", "y"], "pw": "hunter2", "d": None, "e": {"f": 1}, "g": 0}
    part = {"kind": "elicitationSerialized", "message": "Sign in", "acceptedResult": filled}
    request = {"requestId": "r", "message": {"text": "Brew"}, "response": [part]}
    file = tmp_path / "s.json"
    file.write_text(json.dumps({"sessionId": "s", "requests": [request]}))
    found = read(file, ForeignFormat.COPILOT_CHAT)
    said = rows(found)[1]
    assert said["content"] == "Sign in\na: true\nb: 1.5\nc: x, y\npw: hunter2\ng: 0"
    assert left_out(found) == {"fields of forms that cannot be read": 1}
    (row,) = check_rows([UncheckedRow(1, said)], "x", one_namespace=True, foreign=True)
    assert isinstance(row, CheckedRow)
    assert row.record.content.endswith("pw: [redacted: Secret Keyword]\ng: 0")


@pytest.mark.promise("RC-11")
def test_chats_of_vs_code_come_in_from_an_archive_too(tmp_path: Path) -> None:
    good = more_exports.WRITERS[ForeignFormat.COPILOT_CHAT](tmp_path)
    archive = tmp_path / "chats.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(good, "chatSessions/a.json")
        packed.writestr("chatSessions/b.json", "{")
    found = read(archive, ForeignFormat.COPILOT_CHAT)
    assert rows(found) == rows(read(good, ForeignFormat.COPILOT_CHAT))
    assert [(one.file, "cut off" in one.reason) for one in rejected(found)] == [("chatSessions/b.json", True)]


CHAT: Final = json.dumps({"kind": 0, "v": {"sessionId": "s1", "requests": []}})


@pytest.mark.parametrize(
    "change", [{"kind": 9}, {"kind": 1, "k": ["a", "b"]}, {"kind": 1}, {}, {"kind": 3, "k": ["sessionId", "x"]}]
)
def test_a_log_of_changes_of_another_form_is_refused_as_a_whole(tmp_path: Path, change: dict[str, Any]) -> None:
    file = tmp_path / "s1.jsonl"
    file.write_text(f"{CHAT}\n{json.dumps(change)}\n{CHAT}")
    with pytest.raises(UnusableFile, match="Line 2 is no change of a chat of a kind that is known"):
        read(file, ForeignFormat.COPILOT_CHAT)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("b.jsonl", "", "The file is empty."),
        ("b.jsonl", f'{CHAT}\n\n{{"kind": 1, "k": ["x}}\n{CHAT}', "The file is no JSON near line 3, character 22: "),
        ("b.jsonl", f"{CHAT}\n{CHAT}{CHAT}\n{CHAT}", "line 2, character 54: something stands behind the text."),
        ("b.jsonl", CHAT[:20], "The file ends too early: it is cut off"),
        ("t.jsonl", '{"role": "user"}\n{"role": "tool"}\n', "Line 1 is no change of a chat of a kind that is known."),
        ("t.jsonl", '{"role": "user"}\n', "It is no JSON object with requests."),
        ("b.json", '{\n "requests": [\n  {"a": tru}\n ]\n}\n', "The file is no JSON near line 3, character 9: "),
        ("b.json", "[]", "The file is no JSON object."),
    ],
)
def test_a_bad_chat_of_a_folder_is_a_rejection_that_says_why_and_the_others_come_in(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    good = more_exports.WRITERS[ForeignFormat.COPILOT_CHAT](tmp_path)
    (tmp_path / name).write_text(text)
    found = read(tmp_path, ForeignFormat.COPILOT_CHAT)
    (one,) = rejected(found)
    assert (one.line, one.file, reason in one.reason) == (0, name, True), one.reason
    assert rows(found) == rows(read(good, ForeignFormat.COPILOT_CHAT))
    with pytest.raises(UnusableFile, match=re.escape(reason)):
        read(tmp_path / name, ForeignFormat.COPILOT_CHAT)


@pytest.mark.parametrize("place", ["", "Takeout/My Activity/Gemini Apps"])
def test_prompts_to_geminis_apps_come_in_from_a_folder_an_archive_or_alone(tmp_path: Path, place: str) -> None:
    file = more_exports.WRITERS[ForeignFormat.GEMINI_APPS](tmp_path)
    archive = tmp_path / "takeout.zip"
    if place:
        (tmp_path / place).mkdir(parents=True)
        moved = tmp_path / place / "MyActivity.json"
        file.rename(moved)
        with zipfile.ZipFile(archive, "w") as packed:
            packed.write(moved, f"{place}/MyActivity.json")
        file = tmp_path / "Takeout"
    for path in [file, archive] if place else [file]:
        assert format_of(path) is ForeignFormat.GEMINI_APPS
        found = read(path, ForeignFormat.GEMINI_APPS)
        prompt, answer = rows(found)
        assert (prompt["content"], prompt["speaker"], prompt["occurred_at"]) == (
            "Which tea is green?", "user", "2026-03-02T10:00:02.250Z",
        )  # fmt: skip
        assert answer["content"] == "Sencha & matcha:\n- Sencha\n- Matcha"
        assert answer["thread"] == prompt["thread"]
        assert sorted(left_out(found).values()) == [1, 1]


def test_a_takeout_of_pages_says_what_to_choose(tmp_path: Path) -> None:
    (tmp_path / "Gemini Apps").mkdir()
    (tmp_path / "Gemini Apps" / "MyActivity.html").write_text("<html>")
    assert format_of(tmp_path) is ForeignFormat.GEMINI_APPS
    with pytest.raises(UnusableFile, match="its format JSON"):
        read(tmp_path, ForeignFormat.GEMINI_APPS)


@pytest.mark.promise("SN-3")
def test_what_goes_on_and_on_takes_no_longer_than_its_text(tmp_path: Path) -> None:
    title = f"Prompted tea{' ' * 50_000}x"
    (tmp_path / "MyActivity.json").write_text(json.dumps([{"header": "Gemini Apps", "title": title, "time": "x"}]))
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["\ue200" * 100_000]}}
    mapping: dict[str, Any] = {"a": {"id": "a", "parent": None, "children": [], "message": {"id": "a", **said}}}
    (tmp_path / "conversations.json").write_text(
        json.dumps([{"id": "c", "title": "Tea", "current_node": "a", "mapping": mapping}])
    )
    begun = time.process_time()
    for name, kind in (("MyActivity", ForeignFormat.GEMINI_APPS), ("conversations", ForeignFormat.CHATGPT)):
        assert rows(read(tmp_path / f"{name}.json", kind))
    assert time.process_time() - begun < 2


@pytest.mark.promise("SN-3")
def test_a_database_that_computes_its_columns_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "claude-mem.db"
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute(
            "create table observations (id integer primary key, title text,"
            " text text generated always as (hex(zeroblob(30000000))) virtual)"
        )
        database.execute("create table sdk_sessions (id integer primary key)")
        database.execute("insert into observations (title) values ('Tea')")
        database.commit()
    with pytest.raises(UnusableFile, match="observations computes columns"):
        read(tmp_path, ForeignFormat.CLAUDE_MEM)


@pytest.mark.promise("SN-3")
def test_a_folder_of_claude_mem_leads_nowhere_else(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "claude-mem"
    elsewhere.mkdir()
    folder.mkdir()
    (folder / "claude-mem.db").symlink_to(export_of_claude_mem(elsewhere))
    with pytest.raises(UnusableFile, match="symbolic link"):
        read(folder, ForeignFormat.CLAUDE_MEM)


def export_of_claude_mem(folder: Path) -> Path:
    tables = more_exports.CLAUDE_MEM
    file = folder / "export.json"
    names = ("sessions", "observations", "summaries", "prompts")
    several = ("sdk_sessions", "observations", "session_summaries", "user_prompts")
    file.write_text(json.dumps({name: tables[table] for name, table in zip(names, several, strict=True)}))
    return file


@pytest.mark.parametrize("form", ["folder", "database", "export"])
def test_what_claude_mem_noted_comes_in_with_facts_project_and_session(tmp_path: Path, form: str) -> None:
    folder = more_exports.claude_mem(tmp_path)
    path = {"folder": folder, "database": folder / "claude-mem.db"}.get(form) or export_of_claude_mem(tmp_path)
    assert format_of(path) is ForeignFormat.CLAUDE_MEM
    observed, by_hand, summed_up, prompt = rows(read(path, ForeignFormat.CLAUDE_MEM))
    assert observed == {
        "content": "Kettles are blue\n\nRed ones frighten guests.\n\n- No red one",
        "occurred_at": "2026-03-02T10:00:02.250Z",
        "thread": "m1",
        "tags": ["decision", "kettle"],
        "metadata": {"claude-mem": {"files_modified": ["kettle.toml"]}},
        "project": "shop",
        "source_type": "conversation",
    }
    assert by_hand["content"] == "The shop opens at nine"
    assert summed_up["content"] == "Choose kettles\n\nGuests fear red\n\nChosen"
    assert (prompt["content"], prompt["speaker"], prompt["project"]) == ("Choose the kettles.", "user", "tea")
    assert prompt["thread"] == observed["thread"]
    assert "source_type" not in rows(read(path, ForeignFormat.CLAUDE_MEM, Choices(trusted=True)))[0]


def test_notes_of_openclaw_are_of_their_day_and_its_instructions_stay_out(tmp_path: Path) -> None:
    workspace = more_exports.openclaw(tmp_path)
    for path in (workspace, workspace.parent):
        found = read(path, ForeignFormat.OPENCLAW)
        assert [(row["external_id"], row.get("occurred_at"), row["tags"]) for row in rows(found)] == [
            ("openclaw:MEMORY.md", None, ["memory"]),
            ("openclaw:SOUL.md", None, ["soul"]),
            ("openclaw:memory/2026-03-02.md", "2026-03-02", ["memory"]),
        ]
        assert left_out(found) == {"notes with instructions of the program": 1}


@pytest.mark.promise("SN-3")
@pytest.mark.parametrize(
    ("place", "owner"),
    [
        (".openclaw/workspace", ""),
        ("clawd", ""),
        ("clawd-shop", "/shop:"),
        ("workspace-shop", "/shop:"),
        (".openclaw/workspace-shop", "/shop:"),
        (".openclaw-shop/workspace", "shop/:"),
        (".openclaw-b/workspace-shop", "b/shop:"),
    ],
)
def test_the_memory_of_another_agent_or_profile_of_openclaw_is_another_one(
    tmp_path: Path, place: str, owner: str
) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    workspace = more_exports.openclaw(tmp_path).rename(tmp_path / place)
    first = rows(read(workspace, ForeignFormat.OPENCLAW))[0]
    assert first["external_id"] == f"openclaw:{owner}MEMORY.md"


ARCHIVED = {
    "id": "d1",
    "original_text": "x",
    "facts": [{"text": "Ada sells tea", "source_id": "h9", "fact_type": "world"}],
}


def test_facts_of_hindsight_come_in_from_its_list_and_its_archive(tmp_path: Path) -> None:
    holds, ended = rows(read(more_exports.WRITERS[ForeignFormat.HINDSIGHT](tmp_path), ForeignFormat.HINDSIGHT))
    assert holds == {
        "content": "Ada opens the shop at nine",
        "external_id": "hindsight:h1",
        "occurred_at": "2026-03-01",
        "thread": "d1",
        "tags": ["shop", "world"],
        "metadata": {"hindsight": {"context": "opening hours", "entities": "Ada, shop"}},
    }
    assert ended["valid_until"] == "2026-03-01T00:00:00Z"
    archive = tmp_path / "bank.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("documents/000000.json", json.dumps(ARCHIVED))
        packed.writestr("manifest.json", "{}")
        packed.writestr("mental_models.json", json.dumps([{"id": "m", "name": "Ada"}]))
        packed.writestr("observations.json", json.dumps([{"text": "Ada trades", "source_id": "o1", "sources": []}]))
    assert format_of(archive) is ForeignFormat.HINDSIGHT
    found = read(archive, ForeignFormat.HINDSIGHT)
    assert [(row["content"], row["external_id"]) for row in rows(found)] == [
        ("Ada sells tea", "hindsight:h9"),
        ("Ada trades", "hindsight:o1"),
    ]
    assert left_out(found) == {"mental models, which are made of facts": 1}


def test_of_supermemory_the_newest_version_comes_in_and_documents(tmp_path: Path) -> None:
    found = read(more_exports.WRITERS[ForeignFormat.SUPERMEMORY](tmp_path), ForeignFormat.SUPERMEMORY)
    assert rows(found) == [
        {
            "content": "Ada prefers green kettles",
            "external_id": "supermemory:s1",
            "occurred_at": "2026-03-02T08:00:00Z",
            "metadata": {"room": "kitchen", "supermemory": {"version": 2}},
        }
    ]
    assert sorted(left_out(found).values()) == [1, 1]
    document: dict[str, Any] = {
        "id": "d", "customId": "page-7", "title": "Kettles", "content": "Blue kettles.", "type": "text",
    }  # fmt: skip
    file = tmp_path / "documents.json"
    file.write_text(
        json.dumps({"documents": [document | {"containerTags": ["shop"], "createdAt": "2026-01-01T00:00:00Z"}]})
    )
    assert format_of(file) is ForeignFormat.SUPERMEMORY
    (row,) = rows(read(file, ForeignFormat.SUPERMEMORY))
    assert (row["content"], row["external_id"], row["tags"]) == ("Blue kettles.", "supermemory:page-7", ["shop"])


REWRITTEN = [
    '---\ntitle: "Tea"\ntags: ["tea"]\nengramq: "{\\"metadata\\": {\\"n\\": 1.10}}"\n---\n\nGreen tea\n',
    '---\ntitle: Tea\ntags:\n- tea\nengramq: \'{"metadata": {"n": 1.10}}\'\npermalink: main/tea\n---\n\nGreen tea\n',
]


@pytest.mark.promise("SN-5")
@pytest.mark.parametrize("kind", [ForeignFormat.MARKDOWN, ForeignFormat.BASIC_MEMORY])
@pytest.mark.parametrize("text", REWRITTEN, ids=["ours", "as basic-memory rewrites it"])
def test_a_note_of_ours_is_the_memory_that_it_was(tmp_path: Path, text: str, kind: ForeignFormat) -> None:
    (tmp_path / "Tea.md").write_text(text)
    assert rows(read(tmp_path, kind)) == [{"content": "Green tea", "tags": ["tea"], "metadata": {"n": 1.1}}]


@pytest.mark.parametrize("own", ['"[7]"', "7", '"{\\"thing\\": \\"x\\", \\"edges\\": [[1], 2]}"'])
def test_a_property_that_says_nothing_of_ours_costs_no_note(tmp_path: Path, own: str) -> None:
    (tmp_path / "Tea.md").write_text(f"---\ntitle: Tea\nengramq: {own}\n---\nGreen\n")
    found = read(tmp_path, ForeignFormat.MARKDOWN)
    name, label = ("x", "note") if "thing" in own else ("Tea", "Note")
    assert ([row["content"] for row in rows(found)], nodes(found)) == ([f"{name}\n\nGreen"], [(name, label)])
