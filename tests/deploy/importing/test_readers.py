"""What is read of each export, value by value; what is spoilt in one costs no other, and a cut one is told as that."""

import io
import json
import os
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.importing import exports as reading
from engramq.deploy.importing.exports import Entry, ExportedEdge, ExportedNode, LeftOut, items
from engramq.deploy.importing.fields import Choices
from engramq.deploy.importing.formats import FORMATS, format_of
from engramq.deploy.importing.notes import UNREAD
from engramq.deploy.importing.records import Rejection, UncheckedRow
from engramq.schemas import limits
from engramq.schemas.packed_lines import UnusableFile
from engramq.schemas.vocabulary import ForeignFormat
from tests.deploy.importing import exports

pytestmark = pytest.mark.promise("RC-11")


def read(path: Path, kind: ForeignFormat, choices: Choices = Choices()) -> list[Entry]:  # noqa: B008 - frozen
    return list(FORMATS[kind].read(path, choices))


def rows(found: list[Entry]) -> list[dict[str, Any]]:
    return [item.values for item in found if isinstance(item, UncheckedRow)]


def rejected(found: list[Entry]) -> list[Rejection]:
    return [item for item in found if isinstance(item, Rejection)]


def left_out(found: list[Entry]) -> Counter[str]:
    return Counter(item.what for item in found if isinstance(item, LeftOut))


def edges(found: list[Entry]) -> list[tuple[str, str, str]]:
    return [(item.source, item.relation, item.target) for item in found if isinstance(item, ExportedEdge)]


def nodes(found: list[Entry]) -> list[tuple[str, str | None]]:
    return [(item.name, item.label) for item in found if isinstance(item, ExportedNode)]


@pytest.mark.parametrize("kind", ForeignFormat)
def test_every_format_has_a_reader_and_is_told_by_its_content(kind: ForeignFormat, tmp_path: Path) -> None:
    path = exports.EXPORTS[kind](tmp_path)
    found = read(path, kind)
    assert not rejected(found)
    assert (len(rows(found)), len(nodes(found)), len(edges(found))) == exports.BROUGHT[kind]
    if kind in exports.NAMED:
        with pytest.raises(UnusableFile, match=r"--format says what it is: .*basic-memory.* codex, "):
            format_of(path)
    else:
        assert format_of(path) is kind


def test_an_observation_names_its_entity(tmp_path: Path) -> None:
    found = read(exports.mcp_memory(tmp_path), ForeignFormat.MCP_MEMORY)
    assert rows(found)[0] == {
        "content": "Ana Silva: Speaks fluent Spanish",
        "tags": ["person"],
        "metadata": {"entity": "Ana Silva", "entity_type": "person"},
    }
    assert nodes(found) == [("Ana Silva", "person"), ("Lisbon office", "place")]
    assert edges(found) == [("Ana Silva", "works_at", "Lisbon office")]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"type": "entity", "name": "x", "entityType": "y"}, "observations"),
        ({"type": "entity", "name": "x", "entityType": "y", "observations": [7]}, "observations"),
        ({"type": "entity", "entityType": "y", "observations": []}, "name"),
        ({"type": "relation", "from": "x", "to": None, "relationType": "y"}, "to"),
        ({"type": "note"}, "type"),
    ],
)
def test_a_line_that_is_no_entity_is_rejected_by_its_field(tmp_path: Path, line: dict[str, Any], field: str) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_text(json.dumps(exports.MCP_MEMORY[0]) + "\n" + json.dumps(line) + "\n")
    found = read(file, ForeignFormat.MCP_MEMORY)
    assert [(item.line, item.field) for item in rejected(found)] == [(2, field)]
    assert len(rows(found)) == 2


def test_a_memory_of_mem0_keeps_whose_it_was(tmp_path: Path) -> None:
    first, second = rows(read(exports.mem0(tmp_path), ForeignFormat.MEM0))
    assert first == {
        "content": "Prefers tea in the morning",
        "external_id": "mem0:0d9c4a5e-1111-4b6e-9d0a-000000000001",
        "occurred_at": "2025-03-01T08:00:00-07:00",
        "thread": "onboarding-7",
        "tags": ["preferences", "food"],
        "metadata": {"source": "onboarding", "mem0": {"user_id": "ana", "run_id": "onboarding-7"}},
    }
    assert second["metadata"] == {"mem0": {"user_id": "ana"}}
    assert "tags" not in second


@pytest.mark.parametrize("form", ["archive", "lines", "document", "folder"])
def test_a_backup_of_openmemory_is_read_in_each_of_its_forms(tmp_path: Path, form: str) -> None:
    path = exports.openmemory(tmp_path)
    if form != "archive":
        folder = tmp_path / "unpacked"
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        path = {"lines": folder / "memories.jsonl.gz", "document": folder / "memories.json", "folder": folder}[form]
    assert format_of(path) is ForeignFormat.OPENMEMORY
    found = read(path, ForeignFormat.OPENMEMORY)
    (row,) = rows(found)
    assert row["content"] == "The staging cluster runs in Frankfurt"
    assert row["tags"] == ["infrastructure"]
    assert row["metadata"]["ticket"] == "OPS-7"
    assert left_out(found) == {"memories that were archived or deleted there": 1}


def test_a_conversation_of_claude_keeps_thread_speaker_and_time(tmp_path: Path) -> None:
    path = exports.claude(tmp_path)
    found = read(path, ForeignFormat.CLAUDE)
    question, answer = rows(found)
    assert question == {
        "content": "When do I plant garlic?",
        "external_id": "claude:m0000000-0000-4000-8000-000000000001",
        "thread": "claude:c0000000-0000-4000-8000-000000000001",
        "position": 0,
        "speaker": "user",
        "occurred_at": "2025-04-01T09:00:01.000000Z",
        "source_type": "conversation",
        "metadata": {"title": "Planning the garden"},
    }
    assert (answer["content"], answer["speaker"]) == ("In autumn, some weeks before the frost.", "assistant")
    assert left_out(found) == {"results of tools": 1, "messages without text": 1}

    more = rows(read(path, ForeignFormat.CLAUDE, Choices(all_messages=True, trusted=True)))
    assert [(item["speaker"], item.get("source_type")) for item in more] == [
        ("user", None),
        ("assistant", None),
        ("tool", "tool_output"),  # others have written it: no choice makes that trusted
    ]


def test_of_chatgpt_what_was_not_shown_last_has_a_tag(tmp_path: Path) -> None:
    path = exports.chatgpt(tmp_path)
    found = read(path, ForeignFormat.CHATGPT)
    question, other, answer = rows(found)
    assert (other["content"], other["tags"]) == ("At 180 degrees.", ["other-branch"])
    assert question["occurred_at"] == "2025-01-01T10:00:01.500000Z"
    assert (answer["content"], answer["position"], answer["speaker"]) == ("At 240 degrees.", 4, "assistant")
    assert question["thread"] == other["thread"] == "chatgpt:g0000000-0000-4000-8000-000000000001"
    assert (answer["thread"], "tags" in answer) == (f"{question['thread']}#n4", False)
    assert left_out(found) == {"messages of the system and of tools": 3}
    more = rows(read(path, ForeignFormat.CHATGPT, Choices(all_messages=True, trusted=True)))
    assert [item["speaker"] for item in more] == [
        "system",
        "user",
        "assistant",
        "assistant (hidden)",
        "tool",
        "assistant",
    ]
    assert [item.get("source_type") for item in more] == ["tool_output", None, None, "tool_output", "tool_output", None]


def test_a_message_of_the_user_that_nobody_saw_is_no_speech(tmp_path: Path) -> None:
    mapping = json.loads(json.dumps(exports.CHATGPT[0]["mapping"]))
    mapping["n2"]["message"]["metadata"] = {"is_visually_hidden_from_conversation": True}  # as custom instructions are
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([{**exports.CHATGPT[0], "mapping": mapping}]))
    found = read(file, ForeignFormat.CHATGPT)
    assert [row["speaker"] for row in rows(found)] == ["assistant", "assistant"]
    assert left_out(found) == {"messages of the system and of tools": 4}
    more = rows(read(file, ForeignFormat.CHATGPT, Choices(all_messages=True, trusted=True)))
    assert [item["source_type"] for item in more if item["speaker"] == "user (hidden)"] == ["tool_output"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"mapping": []}, "mapping"),
        ({"conversation_id": None}, "id"),
        ({"mapping": {"n6": {"parent": "n5"}, "n5": {"parent": "n6"}}}, "mapping"),  # a circle
        ({"mapping": {"n6": {"parent": "gone"}}}, "mapping"),
        ({"mapping": {}, "current_node": None}, "mapping"),
    ],
)
def test_a_conversation_that_leads_nowhere_is_rejected_alone(
    tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([{**exports.CHATGPT[0], **change}, *exports.CHATGPT], indent=1))
    found = read(file, ForeignFormat.CHATGPT)
    assert [(item.line, item.field) for item in rejected(found)] == [(2, field)]
    assert len(rows(found)) == 3


def test_a_note_of_basic_memory_is_observations_text_and_relations(tmp_path: Path) -> None:
    found = read(exports.basic_memory(tmp_path), ForeignFormat.BASIC_MEMORY)
    rule, observation, text = rows(found)
    assert rule["content"] == "Chocolate Tasting: Begin with the mildest"
    assert observation == {
        "content": "Coffee Brewing: Pour over is clearer than French press (own tests)",
        "occurred_at": "2025-02-03",
        "tags": ["coffee", "brewing", "method", "filter"],
        "metadata": {
            "note": "Coffee Brewing",
            "permalink": "guides/coffee-brewing",
            "category": "method",
            "context": "own tests",
        },
    }
    assert "Grind late" in text["content"]
    assert "- [ ] buy filters" in text["content"]
    assert "[method] not this one" in text["content"], "code is text"
    assert text["external_id"] == "basic-memory:guides/coffee-brewing"
    assert edges(found) == [
        ("Coffee Brewing", "pairs_with", "Chocolate Tasting"),
        ("Coffee Brewing", "relates_to", "Water"),
    ]
    assert nodes(found) == [("Chocolate Tasting", "note"), ("Coffee Brewing", "guide")]


def test_a_note_of_obsidian_keeps_its_folder_tags_properties_and_links(tmp_path: Path) -> None:
    found = read(exports.obsidian(tmp_path), ForeignFormat.OBSIDIAN)
    budget, kickoff = rows(found)
    assert budget["content"] == "Budget\n\nForty thousand for the first phase. #money"
    assert kickoff["content"].startswith("Kickoff\n\nWe begin in March, see [[Budget|the budget]]")
    assert kickoff | {"content": ""} == {
        "content": "",
        "external_id": "obsidian:vault/Projects/Kickoff.md",
        "thread": "obsidian:vault/Projects/Kickoff",
        "occurred_at": "2025-01-15T09:30:00Z",
        "tags": ["work/alpha", "kickoff", "planning"],
        "metadata": {"status": "done", "folder": "Projects"},
    }
    assert edges(found) == [("Kickoff", "links_to", "Budget"), ("Kickoff", "links_to", "Ana Silva")]
    assert left_out(found) == {"notes without text": 1}


def test_a_link_names_a_note_by_its_file_too(tmp_path: Path) -> None:
    vault = exports.obsidian(tmp_path)
    text = "See [[Budget.md]] and [[Projects/Kickoff.md|this]]."
    (vault / "Many.md").write_text(text)
    found = read(vault, ForeignFormat.OBSIDIAN)
    assert [edge[2] for edge in edges(found) if edge[0] == "Many"] == ["Budget", "Kickoff"]


@pytest.mark.parametrize("own", ["", 'engramq: "{}"\n'], ids=["a note", "one that an export has written"])
@pytest.mark.parametrize("said", ["infra; billing", "infra, billing", "#infra;billing;", "infra;, billing"])
def test_tags_that_are_one_text_are_cut_at_commas_and_semicolons(tmp_path: Path, said: str, own: str) -> None:
    (tmp_path / "Service.md").write_text(f'---\ntags: "{said}"\n{own}---\n\nIt listens on a port.\n')
    (row,) = rows(read(tmp_path, ForeignFormat.MARKDOWN))
    assert row["tags"] == ["infra", "billing"]


def test_a_link_out_of_the_vault_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("the key is under the mat")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "other.md").write_text("not of this vault")
    vault = exports.obsidian(tmp_path)
    (vault / "link.md").symlink_to(tmp_path / "secret.md")
    (vault / "folder").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(vault / "pipe.md")  # nobody ever writes into it
    found = read(vault, ForeignFormat.OBSIDIAN)
    assert not [row for row in rows(found) if "mat" in row["content"] or "not of this" in row["content"]]
    assert left_out(found)["links and special files"] == 3


@pytest.mark.parametrize(
    ("data", "field", "told"),
    [
        (b"\xff\xfe\x00", "file", "no text in UTF-8"),
        (b"x" * (limits.BODY_BYTES + 1), "file", "longer than"),
    ],
)
def test_a_note_that_cannot_be_read_is_rejected_by_its_file(tmp_path: Path, data: bytes, field: str, told: str) -> None:
    vault = exports.obsidian(tmp_path)
    (vault / "Projects" / "Bad.md").write_bytes(data)
    found = read(vault, ForeignFormat.OBSIDIAN)
    (one,) = rejected(found)
    assert (one.file, one.field) == ("Projects/Bad.md", field)
    assert told in one.reason
    assert len(rows(found)) == 2


@pytest.mark.parametrize("kind", [ForeignFormat.OBSIDIAN, ForeignFormat.BASIC_MEMORY])
def test_a_folder_without_notes_and_a_file_are_none(tmp_path: Path, kind: ForeignFormat) -> None:
    with pytest.raises(UnusableFile, match="no note in it"):
        read(tmp_path, kind)
    file = tmp_path / "note.md"
    file.write_text("text")
    with pytest.raises(UnusableFile, match="the folder that they are in"):
        read(file, kind)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize(
    "kind", [ForeignFormat.MEM0, ForeignFormat.OPENMEMORY, ForeignFormat.CLAUDE, ForeignFormat.CHATGPT]
)
def test_an_export_that_is_cut_is_no_export(tmp_path: Path, kind: ForeignFormat, share: float) -> None:
    path = exports.EXPORTS[kind](tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(UnusableFile, match=r"cut off|damaged"):
        read(path, kind)


@pytest.mark.promise("SN-3")
@pytest.mark.parametrize(
    ("was", "is_now", "character"),
    [('"text"', '"text', 11), ('",', '"', 20), ("hello", "hel\x01lo", 15)],
    ids=["a name without its end", "no comma", "a control character"],
)
def test_where_a_document_is_damaged_is_told_by_line_and_character(was: str, is_now: str, character: int) -> None:
    """A conversation has hundreds of lines, and its first one says little."""
    items_of_lines = [{"id": number, "text": f"hello {number}", "by": "ada"} for number in range(9)]
    lines = json.dumps(items_of_lines, indent=1).split("\n")
    place = next(number for number, line in enumerate(lines) if "hello 7" in line)
    lines[place] = lines[place].replace(was, is_now, 1) if was != '",' else lines[place].removesuffix(",")
    with pytest.raises(UnusableFile, match=f"near line {place + 1}, character {character}: "):
        list(items(io.BytesIO("\n".join(lines).encode())))


@pytest.mark.promise("SN-3")
@pytest.mark.parametrize(
    ("text", "character"),
    [
        ('[{"a": 1}, {"a": tru}]', 18), ('[{"a": 01}]', 9), ('[{"a": "\x01"}]', 9), ('[{"a": "\\x"}]', 9),
        ('[{"a": 1}, {"a" 2}]', 17), ('[{"a": 1}, {a: 2}]', 13), ('[{"a": "\\u00g0"}]', 10), ('[{"a": 1.}]', 9),
    ],
)  # fmt: skip
def test_damage_near_the_end_is_no_cut(text: str, character: int) -> None:
    with pytest.raises(UnusableFile, match=f"near line 1, character {character}: "):
        list(items(io.BytesIO(text.encode())))


@pytest.mark.parametrize("chunk", [1, 7, 64 * 1024])
def test_a_document_that_is_cut_within_an_item_is_told_as_that(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """An item is cut wherever it is: in a word, a number, an escape, between two members."""
    monkeypatch.setattr(reading, "CHUNK_CHARS", chunk)
    whole = (
        r'[{"k": "a\u00e9\n\ud83d\ude00", "n": -1.5e+10, "t": [true, false, null], "i": -Infinity, "x": NaN, "o": {}}]'
    )
    for length in range(1, len(whole)):
        with pytest.raises(UnusableFile, match="cut off"):
            list(items(io.BytesIO(whole[:length].encode())))


@pytest.mark.parametrize(
    "text",
    ["[{}, ]", "[{} {}]", "[{}", "{", '{"results": 7}', "7", "", '[{"a": tru}]', "[\x00]", '["' + "x" * 99 + "\n"],
)
def test_what_is_no_list_is_told(text: str) -> None:
    with pytest.raises(UnusableFile):
        list(items(io.BytesIO(text.encode()), "results"))


def test_items_are_read_in_pieces_as_they_are_written_and_by_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK_CHARS", 7)
    several = [{"n": number, "text": 'é "\\" [{,]} \U0001f9c0' * number} for number in range(30)]
    for told in (several, {"a": [{"x": 1}], "b": 3, "results": several, "c": 1}):
        text = json.dumps(told, indent=1, ensure_ascii=False)
        read_again = list(items(io.BytesIO(b"\xef\xbb\xbf" + text.encode()), "results"))
        assert [item.values for item in read_again if isinstance(item, UncheckedRow)] == several
        lines = text.splitlines()
        assert all("{" in lines[item.line - 1] for item in read_again), "each begins on its line"


def test_a_number_at_the_end_of_what_was_read_is_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'{"n":12345678901234, "results": [{"n": 98765432109876}]}'
    for size in range(5, 30):
        monkeypatch.setattr(reading, "CHUNK_CHARS", size)
        (only,) = items(io.BytesIO(text), "results")
        assert isinstance(only, UncheckedRow)
        assert only.values == {"n": 98765432109876}


def test_an_item_that_is_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ITEM_CHARS", 1_000)
    monkeypatch.setattr(reading, "CHUNK_CHARS", 100)
    with pytest.raises(UnusableFile, match="more than 1000 characters"):
        list(items(io.BytesIO(b'["' + b"x" * 10_000 + b'"]')))


def test_a_note_with_too_many_properties_comes_in_without_them(tmp_path: Path) -> None:
    """YAML of a few megabytes may take minutes."""
    vault = tmp_path / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    (vault / "note.md").write_bytes(b"---\nx: [" + b"a," * 40_000 + b"]\n---\nThe port is 443")
    found = read(vault, ForeignFormat.OBSIDIAN)
    assert [row["content"] for row in rows(found)] == ["note\n\nThe port is 443"]
    assert UNREAD in found
