"""Forms that lie on disks beside those that programs write today: the text comes in, what stays out is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.importing.formats import format_of
from engramq.deploy.importing.records import Rejection, UncheckedRow, read_records
from engramq.deploy.importing.sessions import Projects
from engramq.deploy.local.home import Home
from engramq.schemas.packed_lines import UnusableFile
from engramq.schemas.vocabulary import ForeignFormat
from tests.deploy.importing import exports
from tests.deploy.importing.test_foreign_forms import CHATGPT, CLAUDE, MEM0, left_out, note, read, written
from tests.deploy.importing.test_readers import edges, rows

pytestmark = pytest.mark.promise("SN-3")

LETTA = ForeignFormat.LETTA


def texts(path: Path, kind: ForeignFormat) -> list[str]:
    assert format_of(path) is kind
    return [row["content"] for row in rows(read(path, kind))]


@pytest.mark.parametrize(
    ("change", "contents", "lost"),
    [
        ({"current_node": None}, ["How hot for sourdough?", "At 180 degrees.", "At 240 degrees."], 0),
        ({"current_node": "gone"}, ["How hot for sourdough?", "At 180 degrees.", "At 240 degrees."], 0),
        ({"mapping": {"n6": {**exports.CHATGPT[0]["mapping"]["n6"], "parent": "gone"}}}, ["At 240 degrees."], 1),
        ({"mapping": {"n6": {**exports.CHATGPT[0]["mapping"]["n6"], "parent": "n6"}}}, ["At 240 degrees."], 1),
        ({"mapping": {"n6": {**exports.CHATGPT[0]["mapping"]["n6"], "parent": 7}}}, ["At 240 degrees."], 1),
    ],
)
def test_a_conversation_whose_messages_lead_nowhere_comes_in_as_far_as_they_do(
    tmp_path: Path, change: dict[str, Any], contents: list[str], lost: int
) -> None:
    path = written(tmp_path / "conversations.json", [{**exports.CHATGPT[0], **change}])
    assert texts(path, CHATGPT) == contents
    assert left_out(read(path, CHATGPT)).count("lost beginnings of conversations") == lost


def test_what_was_said_in_other_branches_of_chatgpt_comes_in_once_and_is_marked(tmp_path: Path) -> None:
    document = json.loads(json.dumps(exports.CHATGPT[0]))
    nodes, at = document["mapping"], 1735725700.0

    def say(node: str, speaker: str, text: str, parent: object, after_s: float) -> None:
        spoken = exports.message_of_chatgpt(node, speaker, text, at + after_s)
        nodes[node] = {"id": node, "message": spoken, "parent": parent, "children": []}

    say("e1", "user", "How hot for rye?", "n1", 0)  # edited: another question in the place of n2
    say("e2", "assistant", "At 220 degrees.", "e1", 1)
    say("e3", "assistant", "At 200 degrees.", "e1", 2)  # made anew
    say("lost", "user", "And for cake?", "gone", 3)
    say("odd", "user", "And for pie?", ["n1"], 4)
    say("c1", "user", "Round", "c2", 5)
    say("c2", "assistant", "and round", "c1", 6)
    found = read(written(tmp_path / "conversations.json", [document]), CHATGPT)
    conversation = f"chatgpt:{document['conversation_id']}"
    turns = [
        (row["content"], row["thread"].removeprefix(conversation), row["position"], row.get("tags"))
        for row in rows(found)
    ]
    other = ["other-branch"]
    assert turns == [
        ("How hot for sourdough?", "", 1, None),
        ("At 180 degrees.", "", 2, other),
        ("At 240 degrees.", "#n4", 4, None),
        ("How hot for rye?", "#e1", 1, other),
        ("At 220 degrees.", "#e1", 2, other),
        ("At 200 degrees.", "#e3", 2, other),
        ("And for cake?", "#lost", 0, other),
        ("And for pie?", "#odd", 0, other),
        ("Round", "#c1", 0, other),
        ("and round", "#c1", 1, other),
    ]
    assert left_out(found).count("lost beginnings of conversations") == 3
    placed = {row["external_id"]: (row["thread"], row["position"]) for row in rows(found)}
    assert len(placed) == len(turns)
    say("e4", "user", "And for spelt?", "e2", 7)
    say("e5", "user", "And for oats?", "e3", 8)
    say("n9", "user", "Thanks!", "n3", 9)
    document["current_node"] = "e4"
    again = rows(read(written(tmp_path / "conversations.json", [document]), CHATGPT))
    later = {row["external_id"]: (row["thread"], row["position"]) for row in again}
    assert placed.items() <= later.items(), "a later export adds to the same threads, whatever was shown last"
    added = {row["content"]: row["thread"].removeprefix(conversation) for row in again[::-1]}
    assert (added["And for spelt?"], added["And for oats?"], added["Thanks!"]) == ("#e1", "#e3", "")
    assert len(set(later.values())) == len(later) == len(turns) + 3
    assert [row["content"] for row in again if "tags" not in row] == [
        "How hot for rye?", "At 220 degrees.", "And for spelt?",
    ]  # fmt: skip


@pytest.mark.parametrize("own", [None, "", 7, ["n2"]])
def test_a_message_of_chatgpt_without_an_id_is_known_by_its_node(tmp_path: Path, own: object) -> None:
    document = json.loads(json.dumps(exports.CHATGPT[0]))
    named = rows(read(written(tmp_path / "conversations.json", [document]), CHATGPT))
    for node in document["mapping"].values():
        if node["message"] is not None:
            node["message"]["id"] = own
    assert rows(read(written(tmp_path / "conversations.json", [document]), CHATGPT)) == named


def test_entries_of_chatgpts_memory_come_in_with_their_day_once(tmp_path: Path) -> None:
    document = json.loads(json.dumps(exports.CHATGPT[0]))
    kept = "1. [2025-05-02]. Likes mint tea.\n\n2. [2025-06-01]. Runs a shop."
    document["mapping"]["n1"]["message"]["content"] = {
        "content_type": "model_editable_context", "model_set_context": kept
    }  # fmt: skip
    later = json.loads(json.dumps({**document, "conversation_id": "g2"}))
    later["mapping"]["n1"]["message"]["content"]["model_set_context"] = f"{kept}\n\n3. [2025-07-01]. Drinks no milk."
    found = rows(read(written(tmp_path / "conversations.json", [document, later]), CHATGPT))
    assert [(row["content"], row["occurred_at"]) for row in found if "thread" not in row] == [
        ("Likes mint tea.", "2025-05-02"),
        ("Runs a shop.", "2025-06-01"),
        ("Drinks no milk.", "2025-07-01"),
    ]


@pytest.mark.parametrize(
    ("kept", "entries"),
    [
        (
            "1. [2025-05-02]. Likes:\n- mint tea\n- green tea\n\n2. [2025-06-01]. Runs a shop.\nIn Kiel.\n3. Undated.",
            [
                ("Likes:\n- mint tea\n- green tea", "2025-05-02"),
                ("Runs a shop.\nIn Kiel.", "2025-06-01"),
                ("Undated.", None),
            ],
        ),
        ("Her notes:\n1. [2025-05-02].\nTea.", [("Her notes:", None), ("Tea.", "2025-05-02")]),
        ("1. Tea.\n2. Milk.", [("Tea.", None), ("Milk.", None)]),
        (
            "1. [2025-05-02]. Brews so:\n1. Boil\n2. Pour\n2. [2025-06-01]. Drinks.",
            [("Brews so:\n1. Boil\n2. Pour", "2025-05-02"), ("Drinks.", "2025-06-01")],
        ),
        ("Born in 1990.", [("Born in 1990.", None)]),
        (f"{'9' * 5000}. Tea", [(f"{'9' * 5000}. Tea", None)]),
    ],
)
def test_an_entry_of_chatgpts_memory_goes_on_to_the_next_number(
    tmp_path: Path, kept: str, entries: list[tuple[str, str | None]]
) -> None:
    document = json.loads(json.dumps(exports.CHATGPT[0]))
    document["mapping"]["n1"]["message"]["content"] = {
        "content_type": "model_editable_context", "model_set_context": kept
    }  # fmt: skip
    found = rows(read(written(tmp_path / "conversations.json", [document]), CHATGPT))
    assert [(row["content"], row.get("occurred_at")) for row in found if "thread" not in row] == entries


@pytest.mark.parametrize(
    ("name", "is_pasted"),
    [
        *((name, True) for name in ("", "paste.txt", "Paste.txt", "paste-2.txt", "paste 2.txt", "paste (1).txt")),
        *((name, True) for name in ("pasted-text.txt", "Pasted Text 2026-01-02-10-11-12.txt")),
        *((name, False) for name in ("pasteboard-design.txt", "paste-recipe.txt", "my-paste.txt", "paste.pdf")),
    ],
)
def test_a_text_is_pasted_that_has_the_name_of_such(tmp_path: Path, name: str, *, is_pasted: bool) -> None:
    document = json.loads(json.dumps(exports.CLAUDE[0]))
    document["chat_messages"][0]["attachments"] = [{"file_name": name, "extracted_content": "The kettle is blue."}]
    found = read(written(tmp_path / "conversations.json", [document]), CLAUDE)
    assert ("The kettle is blue." in [row["content"] for row in rows(found)]) == is_pasted
    assert left_out(found).count("attached files") == (not is_pasted)


def test_a_text_that_was_pasted_comes_in_and_other_files_are_named(tmp_path: Path) -> None:
    document = json.loads(json.dumps(exports.CLAUDE[0]))
    document["chat_messages"][0] |= {
        "attachments": [
            {"file_name": "paste.txt", "file_type": "txt", "extracted_content": "The kettle must be blue."},
            {"file_name": "menu.pdf", "file_type": "pdf", "extracted_content": "Mint, 3 EUR"},
        ],
        "files": [{"file_name": "pot.png"}],
    }
    found = read(written(tmp_path / "conversations.json", [document]), CLAUDE)
    (pasted,) = (row for row in rows(found) if row["content"] == "The kettle must be blue.")
    assert (pasted["speaker"], pasted["source_type"]) == ("user", "conversation")
    assert left_out(found).count("attached files") == 2


def test_what_claude_remembers_is_read_as_one_object_too(tmp_path: Path) -> None:
    memory = {"conversations_memory": "Ada runs a tea shop.", "project_memories": {"p": "Mint."}, "account_uuid": "x"}
    assert texts(written(tmp_path / "memories.json", memory), CLAUDE) == ["Ada runs a tea shop.", "Mint."]
    project = {"uuid": "p", "name": "Shop", "prompt_template": "Use litres.", "docs": []}
    assert texts(written(tmp_path / "project.json", project), CLAUDE) == ["Use litres."]


def test_relations_of_mem0_become_edges(tmp_path: Path) -> None:
    memory = {"id": "1", "memory": "Likes mint", "created_at": "2025-01-01T00:00:00Z"}
    related = [{"source": "ada", "relationship": "likes", end: "mint"} for end in ("target", "destination")]
    found = read(written(tmp_path / "mem0.json", {"results": [memory], "relations": related}), MEM0)
    assert [row["content"] for row in rows(found)] == ["Likes mint"]
    assert edges(found) == [("ada", "likes", "mint")] * 2


def sends(text: str) -> dict[str, Any]:
    return {"function": {"name": "send_message", "arguments": json.dumps({"message": text})}}


def pack(**values: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": json.dumps({**values, "time": "2026-01-01 10:00:00 AM UTC+0000"}, indent=2)}]


MESSAGES = [
    {"id": "m0", "role": "user", "content": pack(type="login", last_login="Never (first login)")},
    {"id": "m1", "role": "user", "content": pack(type="user_message", message="I like mint tea.")},
    {"id": "m2", "role": "assistant", "content": [{"type": "text", "text": "A guest!"}], "tool_calls": [sends("Hi.")]},
    {"id": "m3", "role": "assistant", "content": [], "tool_calls": [sends("Mint it is.")]},
    {"id": "m4", "role": "user", "content": pack(type="heartbeat", reason="Go on.")},
    {"id": "m5", "role": "user", "content": [{"type": "text", "text": '{"my": "own"}'}]},
    {"id": "m7", "role": "user", "content": [{"type": "text", "text": '{"type": "order", "time": 5}'}]},
    {"id": "m8", "role": "user", "content": [{"type": "text", "text": '{"type": "order", "message": "Tea"}'}]},
    {"id": "m6", "role": "user", "content": [{"type": "text", "text": "<system-reminder>\nx\n</system-reminder>"}]},
]  # fmt: skip


@pytest.mark.parametrize("form", ["document", "text", "one agent"])
def test_an_agent_of_letta_speaks_by_its_tool_and_its_program_in_the_users_place(tmp_path: Path, form: str) -> None:
    block = {"label": "human", "value": "Name: Ada"}
    now = {"agents": [{"id": "agent-0", "name": "tea", "block_ids": ["b"], "messages": MESSAGES}], "blocks": [block]}
    before = {"agent_type": "memgpt_agent", "core_memory": [block], "messages": MESSAGES, "name": "tea", "tools": []}
    document = {"document": now, "text": json.dumps(now), "one agent": before}[form]
    said = ["I like mint tea.", "Hi.", "Mint it is.", '{"my": "own"}', "Name: Ada"]
    said += ['{"type": "order", "time": 5}', '{"type": "order", "message": "Tea"}']
    assert sorted(texts(written(tmp_path / "tea.af", document), LETTA)) == sorted(said)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_an_export_that_a_shell_has_encoded_anew_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps([{"id": "1", "memory": "Likes mint"}], indent=1), encoding=encoding)
    assert texts(path, MEM0) == ["Likes mint"]


@pytest.mark.parametrize("encode", [json.dumps, lambda several: json.dumps({"results": several})])
def test_documents_behind_each_other_in_one_file_are_all_read(tmp_path: Path, encode: Callable[[Any], str]) -> None:
    path = tmp_path / "mem0.json"
    path.write_text("\n".join(encode([{"id": str(number), "memory": f"Tea {number}"}]) for number in range(3)))
    assert texts(path, MEM0) == ["Tea 0", "Tea 1", "Tea 2"]


@pytest.mark.parametrize("behind", ['"[]"', "7", "x"])
def test_a_text_in_json_with_more_behind_it_is_refused(tmp_path: Path, behind: str) -> None:
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps(json.dumps([{"id": "1", "memory": "Likes mint"}])) + f"\n{behind}\n")
    with pytest.raises(UnusableFile, match="something stands behind the text"):
        read(path, MEM0)


def test_a_picture_in_a_note_is_no_note(tmp_path: Path) -> None:
    found = note(tmp_path, "![[pot.png]] and [[menu.PDF|the menu]], [[Tea 2.0]], [[board.canvas]]")
    assert edges(found) == [("Kettle", "links_to", "Tea 2.0")]


@pytest.mark.parametrize("head", ["sep=\t\r\ncontent\ttags\r\nblue kettle\ttea", "content,tags,\nblue kettle,tea,"])
def test_a_table_is_read_with_a_tab_named_or_an_empty_column_behind(head: str) -> None:
    (row,) = read_records(f"{head}\n".encode().splitlines(keepends=True), None)
    assert isinstance(row, UncheckedRow)
    assert row.values == {"content": "blue kettle", "tags": ["tea"]}


def test_a_cell_below_no_name_is_rejected() -> None:
    given = list(read_records([b"content,tags,\n", b"blue kettle,tea,7\n", b"red kettle,tea,\n"], None))
    assert [type(each) for each in given] == [Rejection, UncheckedRow]


def test_a_blank_cell_below_no_name_says_nothing_and_a_blank_name_is_refused() -> None:
    (row,) = read_records([b"content,tags,\n", b"blue kettle,tea, \n"], None)
    assert isinstance(row, UncheckedRow)
    assert row.values == {"content": "blue kettle", "tags": ["tea"]}
    with pytest.raises(UnusableFile, match="no memory has a field ' '"):
        list(read_records([b"content, \n", b"blue kettle,7\n"], None))


@pytest.mark.parametrize(
    "folder",
    ["C:\\Users\\ada\\shop", "d:\\shop\\", "\\\\wsl$\\Ubuntu\\home\\ada\\shop", "C:/Users/ada/shop", "/gone/shop/"],
)
def test_a_session_of_another_disk_is_of_the_project_that_its_folder_names(tmp_path: Path, folder: str) -> None:
    projects = Projects(Home(tmp_path), "default", note=False)
    assert projects.of(folder) == "shop"
    assert projects.gone == {folder}


def test_a_prompt_to_copilot_without_words_is_named_and_its_answer_comes_in(tmp_path: Path) -> None:
    request = {"requestId": "r", "message": {"text": "", "parts": []}, "response": [{"value": "Mint it is."}]}
    found = read(
        written(tmp_path / "chat.json", {"responderUsername": "x", "requests": [request]}), ForeignFormat.COPILOT_CHAT
    )
    assert [row["content"] for row in rows(found)] == ["Mint it is."]
    assert left_out(found) == ["messages without text"]
