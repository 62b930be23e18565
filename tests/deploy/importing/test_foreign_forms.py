"""Forms in which others really write: the text comes in, what cannot be read is named, other documents are refused."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.importing import agents
from engramq.deploy.importing.exports import Entry, ExportedNode, LeftOut
from engramq.deploy.importing.fields import Choices
from engramq.deploy.importing.formats import FORMATS, format_of
from engramq.deploy.importing.records import Rejection, UncheckedRow, read_records
from engramq.deploy.importing.rows import CheckedRow, check_rows
from engramq.deploy.importing.transcripts import transcript_format
from engramq.schemas.packed_lines import UnusableFile
from engramq.schemas.vocabulary import ForeignFormat
from tests.deploy.importing import exports
from tests.deploy.importing.test_readers import edges, rows

pytestmark = pytest.mark.promise("SN-3")

OBSIDIAN, BASIC, CLAUDE, CHATGPT, MEM0, GRAPH = (
    ForeignFormat.OBSIDIAN, ForeignFormat.BASIC_MEMORY, ForeignFormat.CLAUDE, ForeignFormat.CHATGPT,
    ForeignFormat.MEM0, ForeignFormat.MCP_MEMORY,
)  # fmt: skip


def read(path: Path, kind: ForeignFormat, choices: Choices = Choices()) -> list[Entry]:  # noqa: B008 - frozen
    found = list(FORMATS[kind].read(path, choices))
    assert not [item for item in found if isinstance(item, Rejection)]
    return found


def left_out(found: list[Entry]) -> list[str]:
    return [item.what for item in found if isinstance(item, LeftOut)]


def written(path: Path, document: Any, *, lines: bool = False, indent: int | None = None) -> Path:
    several = document if lines else [document]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each, indent=indent) + "\n" for each in several))
    return path


def note(folder: Path, text: str, name: str = "Kettle.md") -> list[Entry]:
    vault = folder / "vault"
    (vault / ".obsidian").mkdir(parents=True, exist_ok=True)
    (vault / name).write_text(text)
    return read(vault, OBSIDIAN)


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        ("status: Kettle: a history", {"status": "Kettle: a history"}),
        ("author: @someone", {"author": "@someone"}),
        ("maker: {{who}}", {"maker": "{{who}}"}),
        ("up:\n\t- Tea\n\t- Pots", {"up": ["Tea", "Pots"]}),
        ("kind:[[Tool]]", {"kind": "[[Tool]]"}),
        ("note: *x\nstatus: done", {"note": "*x", "status": "done"}),
        ("list: [a, b\nstatus: done", {"list": "a, b", "status": "done"}),
        ("status: done\nodd: %\n  more: here", {"status": "done", "odd": "%"}),
    ],
)
def test_properties_that_are_no_yaml_cost_no_text(tmp_path: Path, properties: str, kept: dict[str, Any]) -> None:
    found = note(tmp_path, f"---\n{properties}\n---\nThe kettle is blue.")
    (row,) = rows(found)
    assert row["content"] == "Kettle\n\nThe kettle is blue."
    assert row["metadata"] == kept
    assert left_out(found) == ["lines of properties that cannot be read (their notes are in)"] * properties.count("mor")


@pytest.mark.parametrize(
    "text",
    ["---\nThe kettle is blue.\n\n---\nIt whistles.", "---\n- a\n- b\n---\ntext", "---\nKettle", "---\n\n# Tea\n---\n"],
)
def test_a_rule_at_the_top_begins_no_properties(tmp_path: Path, text: str) -> None:
    (row,) = rows(note(tmp_path, text))
    assert row["content"].endswith(text.strip())


DATES = [
    "March 5, 2024", '"[[2024-03-05]]"', "2024/03/05", "05-03-2024", "2024-03", "2024", "2024-03-05T14:30+01:0",
    '"{{date}}"', "some day",
]  # fmt: skip


@pytest.mark.parametrize("date", DATES)
def test_a_date_that_cannot_be_read_costs_no_row_and_is_told(tmp_path: Path, date: str) -> None:
    found = note(tmp_path, f"---\ncreated: {date}\n---\nThe kettle is blue.")
    told = list(
        check_rows((each for each in found if isinstance(each, UncheckedRow)), "x", one_namespace=True, foreign=True)
    )
    assert [each.what for each in told if isinstance(each, LeftOut)] == [
        "dates that cannot be read (their rows are in)"
    ]
    (row,) = (each for each in told if isinstance(each, CheckedRow))
    assert row.record.content == "Kettle\n\nThe kettle is blue."


@pytest.mark.parametrize("field", ["occurred_at", "tags", "metadata"])
def test_a_row_of_others_comes_in_without_what_cannot_be_taken(field: str) -> None:
    given = [UncheckedRow(1, {"content": "The kettle is blue.", field: 7.5, "speaker": "Ada"})]
    told = list(check_rows(given, "x", one_namespace=True, foreign=True))
    assert [type(each) for each in told] == [LeftOut, CheckedRow]
    given = [UncheckedRow(1, {"content": "The kettle is blue.", "confidence": 7})]
    assert [type(each) for each in check_rows(given, "x", one_namespace=True, foreign=True)] == [Rejection]


def test_times_of_conversations_and_memories_that_cannot_be_read_cost_no_row(tmp_path: Path) -> None:
    claude = json.loads(json.dumps(exports.CLAUDE))
    claude[0]["chat_messages"][0]["created_at"] = "March 5"
    chatgpt = json.loads(json.dumps(exports.CHATGPT))
    chatgpt[0]["mapping"]["n2"]["message"]["create_time"] = "then"
    mem0 = json.loads(json.dumps(exports.MEM0))
    mem0["results"][0]["created_at"] = "2024"
    for kind, document in ((CLAUDE, claude), (CHATGPT, chatgpt), (MEM0, mem0)):
        found = read(written(tmp_path / f"{kind}" / "conversations.json", document), kind)
        given = (each for each in found if isinstance(each, UncheckedRow))
        told = list(check_rows(given, "x", one_namespace=True, foreign=True))
        assert [type(each) for each in told] == [LeftOut, *[CheckedRow] * (3 if kind is CHATGPT else 2)]


def test_a_note_may_be_its_properties_alone_and_link_by_them(tmp_path: Path) -> None:
    found = note(tmp_path, '---\nauthor: Ada Example\nup: "[[Tea|teas]]"\nsee: [[Pots]]\n---\n')
    (row,) = rows(found)
    assert row["content"].startswith("Kettle\n\nauthor: Ada Example\nup: [[Tea|teas]]")
    assert edges(found) == [("Kettle", "up", "Tea"), ("Kettle", "see", "Pots")]


@pytest.mark.parametrize(
    ("line", "edge"),
    [
        ("author:: [[Ada Example]]", ("Kettle", "author", "Ada Example")),
        ("- made by:: [[Ada Example]]", ("Kettle", "made by", "Ada Example")),
        ("It is [author:: [[Ada Example]]] who wrote.", ("Kettle", "author", "Ada Example")),
        ("| a | [[Ada Example\\|she]] |", ("Kettle", "links_to", "Ada Example")),
        ("C++ has std::[[Ada Example]]", ("Kettle", "links_to", "Ada Example")),
    ],
)
def test_links_have_the_name_of_their_field_and_of_their_note(
    tmp_path: Path, line: str, edge: tuple[str, str, str]
) -> None:
    assert edges(note(tmp_path, line)) == [edge]


@pytest.mark.parametrize(
    ("line", "tags"),
    [
        ("[x](#house-rules)", []),
        ("[[#House rules]] and [[Tea#Green]]", []),
        ("`#c0ffee`", []),
        ('<b style="color:#c0ffee">x</b>', []),
        (r"\#notatag", []),
        ("%% #secret %% #open", ["open"]),
        ("#sprout🌱 and #tea/green, #2024 #y2024.", ["sprout🌱", "tea/green", "y2024"]),
        ("(#kettle) #très-bien", ["kettle", "très-bien"]),
    ],
)
def test_tags_are_those_that_a_reader_sees(tmp_path: Path, line: str, tags: list[str]) -> None:
    (row,) = rows(note(tmp_path, f"The kettle. {line}"))
    assert row.get("tags", []) == tags


def test_a_comment_of_several_lines_has_no_tags(tmp_path: Path) -> None:
    (row,) = rows(note(tmp_path, "%%\n#secret\n%%\n#open"))
    assert row["tags"] == ["open"]


MEMORIES = [
    {
        "conversations_memory": "Ada Example runs a tea shop.",
        "project_memories": {"p1": "Mint green."},
        "account_uuid": "x",
    }
]


def test_what_claude_remembers_comes_in_beside_its_conversations(tmp_path: Path) -> None:
    written(tmp_path / "conversations.json", exports.CLAUDE)
    written(tmp_path / "memories.json", MEMORIES)
    project = {"uuid": "p1", "name": "Shop", "description": "The shop", "prompt_template": "Be brief.", "docs": [{}]}
    written(tmp_path / "projects.json", [project])
    assert format_of(tmp_path) is CLAUDE
    found = read(tmp_path, CLAUDE)
    assert [row["content"] for row in rows(found)][:3] == [
        "Ada Example runs a tea shop.",
        "Mint green.",
        "The shop\n\nBe brief.",
    ]
    assert len(rows(found)) == 5
    assert {row["source_type"] for row in rows(found)} == {"conversation"}
    assert "documents of projects" in left_out(found)
    (tmp_path / "conversations.json").unlink()
    assert format_of(tmp_path) is CLAUDE
    assert format_of(tmp_path / "memories.json") is CLAUDE
    assert len(rows(read(tmp_path / "memories.json", CLAUDE))) == 2


WHOLE: list[tuple[str, Callable[[Path], Path], ForeignFormat, int]] = [
    ("one conversation of Claude", lambda at: written(at / "c.json", exports.CLAUDE[0], indent=1), CLAUDE, 2),
    ("on one line", lambda at: written(at / "c.json", exports.CLAUDE[0]), CLAUDE, 2),
    ("one conversation of ChatGPT", lambda at: written(at / "c.json", exports.CHATGPT[0], indent=1), CHATGPT, 3),
    ("one memory of mem0", lambda at: written(at / "m.json", exports.MEM0["results"][0], indent=1), MEM0, 1),
    ("lines of mem0", lambda at: written(at / "m.jsonl", exports.MEM0["results"], lines=True), MEM0, 2),
    ("a list of mem0", lambda at: written(at / "m.json", exports.MEM0["results"]), MEM0, 2),
]


@pytest.mark.parametrize(("write", "kind", "count"), [each[1:] for each in WHOLE], ids=[each[0] for each in WHOLE])
def test_one_object_and_lines_are_read_as_lists_are(
    tmp_path: Path, write: Callable[[Path], Path], kind: ForeignFormat, count: int
) -> None:
    path = write(tmp_path)
    assert format_of(path) is kind
    assert len(rows(read(path, kind))) == count


ENTITY = {"name": "Ada Example", "entityType": "person", "observations": ["Likes mint tea", "Likes mint tea"]}
RELATION = {"from": "Ada Example", "to": "Kettle", "relationType": "owns"}
FORK = [
    {"_type": "entity", "name": "Ada Example", "entityType": "person", "createdAt": "2025-01-01T00:00:00Z",
     "observations": [{"text": "Likes mint tea", "timestamp": "2025-01-02T00:00:00Z"}]},
    {"_type": "relation", "from_entity": "Ada Example", "to_entity": "Kettle", "relationType": "owns"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "options"),
    [
        ({"entities": [ENTITY], "relations": [RELATION]}, {}),
        ({"entities": [ENTITY], "relations": [RELATION]}, {"indent": 2}),
        ({"relations": [RELATION], "entities": [ENTITY]}, {}),
        ([{"type": "entity", **ENTITY}, {"type": "relation", **RELATION}], {"lines": True}),
        ([ENTITY, RELATION], {"lines": True}),
        (FORK, {"lines": True}),
        ([{"type": "entity", **ENTITY}, {"type": "relation", **RELATION}], {}),
    ],
)
def test_a_graph_is_read_in_each_form_that_servers_write(
    tmp_path: Path, document: Any, options: dict[str, Any]
) -> None:
    path = written(tmp_path / "memory.json", document, **options)
    assert format_of(path) is GRAPH
    found = read(path, GRAPH)
    assert [row["content"] for row in rows(found)] == ["Ada Example: Likes mint tea"]
    assert edges(found) == [("Ada Example", "owns", "Kettle")]
    assert [item.name for item in found if isinstance(item, ExportedNode)] == ["Ada Example"]
    if document is FORK:
        assert rows(found)[0]["occurred_at"] == "2025-01-02T00:00:00Z"


def test_of_chatgpt_the_branch_of_the_newest_message_was_shown_last_where_none_is_named(tmp_path: Path) -> None:
    document = {name: value for name, value in exports.CHATGPT[0].items() if name != "current_node"}
    path = written(tmp_path / "conversations.json", [document])
    assert format_of(path) is CHATGPT
    shown = [row["content"] for row in rows(read(path, CHATGPT)) if "tags" not in row]
    assert shown == ["How hot for sourdough?", "At 240 degrees."]


def test_what_chatgpt_remembers_comes_in(tmp_path: Path) -> None:
    document = json.loads(json.dumps(exports.CHATGPT[0]))
    nodes = document["mapping"]
    nodes["n1"]["message"]["content"] = {
        "content_type": "user_editable_context", "user_profile": "Ada Example, tea.", "user_instructions": "Be brief.",
    }  # fmt: skip
    nodes["n4"]["message"] |= {"recipient": "bio"}
    path = written(tmp_path / "conversations.json", [document, {**document, "conversation_id": "g2"}])
    found = rows(read(path, CHATGPT))
    contents = [row["content"] for row in found]
    assert contents.count("Ada Example, tea.\n\nBe brief.") == 1, "it stands in every conversation"
    assert 'search("sourdough")' in contents
    assert {row["source_type"] for row in found} == {"conversation"}


@pytest.mark.parametrize(
    "data",
    [
        b'{\n "memories": [\n{"content":"inner row"}\n ]\n}',
        b'{"memories": [{"content": "inner row"}]}\n',
        b'{"a": {"b": 1}}',
        b'[{"content": "inner row"}]',
        b"SQLite format 3\0" + b"\0" * 200 + b"\n\n{}",
        b"Ada likes mint tea\n\xc2\xa7\nThe kettle is green\n",
        b'{"type": "user", "uuid": "u"}\n{"type": "assistant", "uuid": "v"}\n',
    ],
)
def test_a_document_that_is_none_of_rows_is_refused_as_a_whole(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(UnusableFile, match="--format"):
        list(read_records(data.splitlines(keepends=True), None))


@pytest.mark.parametrize("head", ["Content,Tags", "sep=;\ncontent;tags", "sep=,\r\nCONTENT,tags", "tags\tContent"])
def test_a_table_of_a_spreadsheet_is_read(head: str) -> None:
    delimiter = next(each for each in ";\t," if each in head.splitlines()[-1])
    cells = (
        ["blue kettle", "tea"] if head.lower().rfind("content") < head.lower().rfind("tags") else ["tea", "blue kettle"]
    )
    data = f"{head}\n{delimiter.join(cells)}\n".encode()
    (row,) = read_records(data.splitlines(keepends=True), None)
    assert isinstance(row, UncheckedRow)
    assert row.values == {"content": "blue kettle", "tags": ["tea"]}


def test_a_memory_of_mem0_is_of_when_it_was_worded_and_a_models_is_kept_apart(tmp_path: Path) -> None:
    memory = {
        "id": "1", "memory": "Moved to Lisbon", "created_at": "2025-01-01T00:00:00Z", "role": "assistant",
        "updated_at": "2025-06-01T00:00:00Z", "metadata": {"tags": ["home"]},
    }  # fmt: skip
    (row,) = rows(read(written(tmp_path / "m.json", [memory]), MEM0))
    assert row["occurred_at"] == "2025-06-01T00:00:00Z"
    assert row["metadata"]["mem0"] == {"created_at": "2025-01-01T00:00:00Z"}
    assert row["tags"] == ["home"]
    assert row["source_type"] == "conversation"


def ids(found: list[Entry]) -> list[object]:
    return [row.get("external_id") for row in rows(found)]


def test_a_note_of_basic_memory_is_known_with_and_without_its_project_and_from_another_folder(tmp_path: Path) -> None:
    path = exports.basic_memory(tmp_path)
    before = ids(read(path, BASIC))
    file = path / "guides" / "Coffee Brewing.md"
    text = file.read_text()
    file.write_text(text.replace("permalink: guides/", "permalink: main/guides/"))
    assert ids(read(path, BASIC)) == before
    assert ids(read(path.rename(tmp_path / "copy"), BASIC)) == before


def test_notes_of_two_projects_of_basic_memory_with_one_name_are_two(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.mkdir()
    for number, permalink in enumerate(("index", "main/index", "shop/index")):
        (path / f"{number}.md").write_text(f"---\npermalink: {permalink}\n---\nText {number}.")
    first, again, other = ids(read(path, BASIC))
    assert first == again != other
    (path / "main").mkdir()
    (path / "main" / "index.md").write_text("---\npermalink: main/index\n---\nIn a folder of that name.")
    assert ids(read(path, BASIC))[-1] not in (first, other)


def test_sessions_are_of_the_program_that_wrote_them(tmp_path: Path) -> None:
    qwen = {"uuid": "u", "sessionId": "S", "type": "user", "message": {"role": "user", "parts": [{"text": "Hello."}]}}
    assert transcript_format(written(tmp_path / "q.jsonl", qwen)) == "qwen"
    gemini = {"sessionId": "S", "projectHash": "c0", "messages": [{"id": "1", "type": "user", "content": "Hello."}]}
    for indent in (None, 2):
        assert transcript_format(written(tmp_path / "session-1.json", gemini, indent=indent)) == "gemini"


def test_a_note_of_claude_code_keeps_its_type_time_and_links(tmp_path: Path) -> None:
    path = exports.claude_code_memory(tmp_path)
    found = read(path, ForeignFormat.CLAUDE_CODE_MEMORY)
    mint, shop = rows(found)
    assert mint["content"].startswith("mint-tea\n\nAda likes mint tea\n\nFresh leaves")
    assert (mint["occurred_at"], mint["tags"]) == ("2026-11-28T19:52:26.179Z", ["user"])
    assert mint["external_id"] == "claude-code-memory:-home-ada-shop/mint-tea.md"
    assert "source_type" not in mint
    assert shop["content"] == "shop\n\nThe shop opens at nine."
    assert edges(found) == [("mint-tea", "links_to", "kettle"), ("mint-tea", "links_to", "shop")]
    assert left_out(found) == ["indexes of notes"]
    rules = tmp_path / "CLAUDE.md"
    rules.write_text("Never push on Fridays.")
    assert format_of(rules) is ForeignFormat.CLAUDE_CODE_MEMORY
    assert [row["content"] for row in rows(read(rules, ForeignFormat.CLAUDE_CODE_MEMORY))] == [
        "CLAUDE\n\nNever push on Fridays."
    ]


def test_a_folder_is_not_recognised_by_notes_that_are_links_out_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text(f"one{agents.HERMES_SEPARATOR}two", encoding="utf-8")
    (folder / "MEMORY.md").symlink_to(elsewhere)
    with pytest.raises(UnusableFile):
        format_of(folder)
    (folder / "MEMORY.md").unlink()
    elsewhere.rename(folder / "MEMORY.md")
    assert format_of(folder) is ForeignFormat.HERMES


def test_a_note_of_claude_code_is_known_whichever_folder_is_imported(tmp_path: Path) -> None:
    path = exports.claude_code_memory(tmp_path)
    (path / "tea").mkdir()
    (path / "tea" / "green.md").write_text("Steep it for two minutes.")
    known = ids(read(path, ForeignFormat.CLAUDE_CODE_MEMORY))
    assert ids(read(tmp_path, ForeignFormat.CLAUDE_CODE_MEMORY)) == known
    assert ids(read(path / "tea", ForeignFormat.CLAUDE_CODE_MEMORY)) == known[-1:]


def test_entries_of_hermes_may_end_their_lines_as_windows_does(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_bytes("Mint tea\r\n\N{SECTION SIGN}\r\nGreen kettle\r\n".encode())
    assert [row["content"] for row in rows(read(tmp_path, ForeignFormat.HERMES))] == ["Mint tea", "Green kettle"]


@pytest.mark.parametrize("blocks", [{}, {"blocks": []}])
def test_an_agent_of_letta_without_memory_has_messages(tmp_path: Path, blocks: dict[str, Any]) -> None:
    texts = ["I like tea.", '{"message": "hello"}']
    messages = [{"role": "user", "id": f"m{number}", "content": text} for number, text in enumerate(texts)]
    path = written(tmp_path / "tea.af", {"agents": [{"name": "tea", "block_ids": [], "messages": messages}], **blocks})
    assert format_of(path) is ForeignFormat.LETTA
    assert [row["content"] for row in rows(read(path, ForeignFormat.LETTA))] == texts


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"memories": [{"content": "Port is 80", "memory_type": "note", "tags": []}]}, "mcp-memory-service"),
        ({"memories": [{"content": "Port is 80"}]}, None),
        ({"sessions": [], "observations": [{"id": 1, "title": "Tea", "narrative": "Mint."}], "prompts": []}, None),
    ],
)
def test_a_document_is_of_the_program_that_its_members_tell(tmp_path: Path, document: Any, kind: str | None) -> None:
    assert format_of(written(tmp_path / "x.json", document)) == kind


def test_a_text_comes_in_without_what_no_field_takes(tmp_path: Path) -> None:
    row = {"id": "1", "memory": "Mint\0 tea", "expiration_date": "next week", "run_id": 17, "role": "x" * 300}
    found = read(written(tmp_path / "x.json", [row]), MEM0)
    several = check_rows(
        [each for each in found if isinstance(each, UncheckedRow)], "n", one_namespace=True, foreign=True
    )
    *spared, kept = several
    assert isinstance(kept, CheckedRow)
    assert kept.record.content == "Mint\N{REPLACEMENT CHARACTER} tea"
    assert len(spared) == 3


def test_what_lies_beside_notes_is_named(tmp_path: Path) -> None:
    vault = exports.obsidian(tmp_path)
    (vault / "kettle.png").write_bytes(b"\x89PNG")
    (vault / "elsewhere").symlink_to(tmp_path)
    named = left_out(read(vault, OBSIDIAN))
    assert {"files that end in neither .md nor .canvas", "links and special files"} <= set(named)


def test_a_folder_of_notes_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = exports.obsidian(tmp_path)
    listed = os.scandir

    def scandir(path: str) -> Any:
        if str(path).endswith("Projects"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)  # root may read everything
    (problem,) = [each for each in FORMATS[OBSIDIAN].read(vault, Choices()) if isinstance(each, Rejection)]
    assert (problem.file, problem.reason) == ("Projects", "It cannot be read: Permission denied.")


def test_a_message_to_letta_is_unpacked_and_its_own_left_out(tmp_path: Path) -> None:
    found = read(exports.letta(tmp_path), ForeignFormat.LETTA)
    assert [row["content"] for row in rows(found)] == ["I like mint tea.", "Mint it is.", "Name: Ada\nLikes tea"]
    assert {row["source_type"] for row in rows(found)} == {"conversation"}
    assert len(left_out(found)) == 2


def test_a_memory_that_another_one_has_replaced_holds_until_then(tmp_path: Path) -> None:
    now, before = rows(read(exports.mcp_memory_service(tmp_path), ForeignFormat.MCP_MEMORY_SERVICE))
    assert before["valid_until"] == now["occurred_at"]
    assert (now["tags"], before["tags"]) == (["net", "note"], ["note"])
    assert "valid_until" not in now


def test_a_page_of_notion_is_called_without_its_id(tmp_path: Path) -> None:
    found = read(exports.markdown(tmp_path), ForeignFormat.MARKDOWN)
    assert sorted(item.name for item in found if isinstance(item, ExportedNode)) == ["Kettles", "Tea"]
    assert edges(found) == [("Tea", "links_to", "Kettles")]


@pytest.mark.parametrize(
    ("line", "text", "context"),
    [
        ("- [fact] Steep it (in 2024)", "Tea: Steep it (in 2024)", "in 2024"),
        ("- [fact] Steep f(x) #tea #hot  ", "Tea: Steep f(x)", None),
        ("- [fact] #tea", "Tea: #tea", None),
        ("- [fact] (all of it)", "Tea: (all of it)", None),
        ("- [fact] Steep #tea (a) b)", "Tea: Steep #tea (a) b)", None),
    ],
)
def test_an_observation_is_its_text_tags_and_context(tmp_path: Path, line: str, text: str, context: str | None) -> None:
    (tmp_path / "Tea.md").write_text(line)
    (row,) = rows(read(tmp_path, BASIC))
    assert (row["content"], row["metadata"].get("context")) == (text, context)
