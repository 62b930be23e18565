"""Files in odd shapes that are valid all the same: what people wrote in them comes in, and what stays out is named."""

import bz2
import codecs
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from engramq.deploy.importing.chatgpt import FILE
from engramq.deploy.importing.exports import ExportedNode, LeftOut, members
from engramq.deploy.importing.fields import Choices
from engramq.deploy.importing.foreign import Export
from engramq.deploy.importing.formats import FORMATS, format_of
from engramq.deploy.importing.records import Rejection, UncheckedRow, read_records
from engramq.deploy.importing.rows import CheckedRow, check_rows
from engramq.schemas.packed_lines import BrokenOff, PackedSource, UnusableFile
from engramq.schemas.vocabulary import ForeignFormat
from tests.deploy.importing import exports
from tests.deploy.importing.test_foreign_forms import (
    BASIC,
    CHATGPT,
    CLAUDE,
    MEM0,
    OBSIDIAN,
    left_out,
    note,
    read,
    written,
)
from tests.deploy.importing.test_readers import edges, rows

pytestmark = pytest.mark.promise("SN-3")


@pytest.mark.parametrize("name", ["mem0.json", "export/mem0.json", "export\\mem0.json"])
def test_an_archive_that_a_mac_or_windows_has_packed_is_read_as_any_other(tmp_path: Path, name: str) -> None:
    archive, chats = tmp_path / "export.zip", tmp_path / "chats.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr(name, json.dumps(exports.MEM0))
        packed.writestr("__MACOSX/._mem0.json", b"\0\5\x16\7")
        packed.writestr("__MACOSX\\._mem0.json", b"\0\5\x16\7")
    assert len(rows(read(archive, MEM0))) == len(exports.MEM0["results"])
    with zipfile.ZipFile(chats, "w") as packed:
        packed.writestr(name.replace("mem0", "conversations"), json.dumps(exports.CHATGPT))
    assert format_of(chats) is ForeignFormat.CHATGPT
    assert len(rows(read(chats, CHATGPT))) == 3


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_note_in_utf_16_comes_in(tmp_path: Path, encoding: str) -> None:
    bom = codecs.BOM_UTF16_LE if encoding.endswith("le") else codecs.BOM_UTF16_BE
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "Kettle.md").write_bytes(bom + "---\r\ntags: [tea]\r\n---\r\nIt is blue \u2013 and hot.".encode(encoding))
    (row,) = rows(read(folder, OBSIDIAN))
    assert (row["content"], row["tags"]) == ("Kettle\n\nIt is blue \u2013 and hot.", ["tea"])


@pytest.mark.parametrize("encoding", ["utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_in_utf_32_is_refused_by_that_name(
    tmp_path: Path, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    text = "\ufeff" + json.dumps({"content": "Tea"})
    with pytest.raises(UnusableFile, match="in UTF-32"):
        checked(pack(text.encode(encoding)))
    (tmp_path / "Kettle.md").write_bytes(text.encode(encoding))
    (told,) = FORMATS[OBSIDIAN].read(tmp_path, Choices())
    assert isinstance(told, Rejection)
    assert told.reason == "The file is in UTF-32: save it as UTF-8."


@pytest.mark.parametrize(
    "text", ["```x``` is code", "````\n```\n#no\n````", "```\n```python\n#no\n```", "~~~\n```\n~~~"]
)
def test_what_follows_a_block_of_code_or_code_within_a_line_is_read_as_text(tmp_path: Path, text: str) -> None:
    found = note(tmp_path, f"{text}\n#tag [[Tea]]\n- [fact] It whistles")
    assert edges(found) == [("Kettle", "links_to", "Tea")]
    assert rows(found)[0]["tags"] == ["tag"]
    observed = rows(read(tmp_path / "vault", BASIC))
    assert "Kettle: It whistles" in [row["content"] for row in observed]


CARDS = {
    "nodes": [
        {"id": "1", "type": "text", "text": "Order #tea from [[Ada]]", "x": 0, "y": 0},
        {"id": "2", "type": "file", "file": "shop/Kettle.md"},
        {"id": "3", "type": "link", "url": "https://tea.example"},
        {"id": "4", "type": "group", "label": "To buy"},
        {"id": "5", "type": "file", "file": "pot.png"},
    ],
    "edges": [{"id": "e", "fromNode": "1", "toNode": "2", "label": "boils in"}],
}


def test_what_is_written_on_a_canvas_comes_in_with_links_to_the_notes_on_it(tmp_path: Path) -> None:
    written(tmp_path / "vault" / "plans" / "Shop.canvas", CARDS)
    (tmp_path / "vault" / "plans" / "New.canvas").touch()
    found = note(tmp_path, "Blue.", "Shop.md")
    board = next(row for row in rows(found) if row["external_id"].endswith(".canvas"))
    words = [
        "Order #tea from [[Ada]]",
        "https://tea.example",
        "To buy",
        "boils in",
        "[[shop/Kettle.md]]",
        "[[pot.png]]",
    ]
    assert board["content"] == "\n\n".join(["Shop.canvas", *words])
    assert (board["tags"], board["thread"]) == (["tea"], "obsidian:vault/plans/Shop.canvas")
    assert edges(found) == [("Shop.canvas", "links_to", "Ada"), ("Shop.canvas", "links_to", "Kettle")]
    assert left_out(found) == ["notes without text"]


def test_a_canvas_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "Shop.canvas").write_text("[]")
    (told,) = FORMATS[OBSIDIAN].read(tmp_path, Choices())
    assert isinstance(told, Rejection)
    assert (told.file, told.reason) == ("Shop.canvas", "The canvas is no JSON object.")


def test_of_chatgpt_words_beside_pictures_come_in_and_pictures_are_named(tmp_path: Path) -> None:
    document = json.loads(json.dumps(exports.CHATGPT[0]))
    asked = document["mapping"]["n2"]["message"]
    asked["content"] = {
        "content_type": "multimodal_text",
        "parts": [
            {"content_type": "image_asset_pointer", "asset_pointer": "file-1"},
            {"content_type": "audio_transcription", "text": "How hot for this?", "direction": "in"},
            {"content_type": "real_time_user_audio_video_asset_pointer", "audio_asset_pointer": {}},
        ],
    }
    asked["metadata"] = {"attachments": [{"id": "1", "name": "a.png"}, {"id": "2", "name": "b.pdf"}]}
    found = read(written(tmp_path / "conversations.json", [document]), CHATGPT)
    assert [row["content"] for row in rows(found)] == ["How hot for this?", "At 180 degrees.", "At 240 degrees."]
    named = [what for what in left_out(found) if what != "messages of the system and of tools"]
    assert named == ["attached files", "attached files"]


def test_what_was_spoken_to_claude_comes_in(tmp_path: Path) -> None:
    document = json.loads(json.dumps(exports.CLAUDE[0]))
    document["chat_messages"][0] |= {"text": "", "content": [{"type": "voice_note", "text": "Green tea, please."}]}
    said = [row["content"] for row in rows(read(written(tmp_path / "conversations.json", [document]), CLAUDE))]
    assert "Green tea, please." in said


TAGS_LOST = "tags that cannot be taken (their rows are in)"


@pytest.mark.parametrize(
    ("tags", "kept"),
    [(["ok", "x" * 256, "fine", 7, "a\nb", "\ud83d", "\u202e"], 2), ([f"t{n}" for n in range(70)], 50)],
)
def test_a_tag_that_cannot_be_taken_costs_no_other_and_is_named(tags: list[object], kept: int) -> None:
    *named, row = check_rows([UncheckedRow(1, {"content": "Tea", "tags": tags})], "x", one_namespace=True, foreign=True)
    assert isinstance(row, CheckedRow)
    assert isinstance(row.record.tags, tuple)
    assert len(row.record.tags) == kept
    refused = [each for each in named if each == LeftOut(TAGS_LOST, "tag that cannot be taken (its row is in)")]
    assert len(refused) == len(tags) - kept
    assert len(named) - len(refused) == tags.count("\u202e")


TURNED = LeftOut("marks in names that turn text around", "mark in a name that turns text around")


@pytest.mark.parametrize("foreign", [False, True])
def test_a_name_loses_marks_that_turn_text_around_and_is_kept(foreign: bool) -> None:
    values = {
        "content": "Tea \u202eaet",
        "speaker": "\u202b\u05d3\u05d5\u05d3\u202c",
        "thread": "talk\u2069",
        "project": "rov\u2066er",
        "tags": ["ok", "\u202eabc", "fine"],
    }
    *named, row = check_rows([UncheckedRow(1, values)], "x", one_namespace=True, foreign=foreign)
    assert isinstance(row, CheckedRow)
    assert row.record.given == {
        "content": "Tea \u202eaet",
        "speaker": "\u05d3\u05d5\u05d3",
        "thread": "talk",
        "project": "rover",
        "tags": ("ok", "abc", "fine"),
    }
    assert named == [TURNED] * 5


def test_things_and_relations_lose_marks_that_turn_text_around(tmp_path: Path) -> None:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "\u2067Pot\u2069.md").write_text("brews:: [[Te\u202ea]]")
    entries = list(Export(folder, OBSIDIAN, Choices()).entries())
    assert edges(entries) == [("Pot", "brews", "Tea")]
    assert [each.name for each in entries if isinstance(each, ExportedNode)] == ["Pot"]
    assert entries.count(TURNED) == 5


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize(
    ("kind", "name", "document"),
    [
        (CHATGPT, "conversations.json", json.dumps(exports.CHATGPT)),
        (MEM0, "mem0.json", json.dumps(exports.MEM0, indent=1)),
        (ForeignFormat.MCP_MEMORY, "memory.jsonl", "\n".join(map(json.dumps, exports.MCP_MEMORY))),
    ],
)
def test_a_packed_export_is_read_as_a_plain_one(
    tmp_path: Path, pack: Callable[[bytes], bytes], kind: ForeignFormat, name: str, document: str
) -> None:
    plain, packed = tmp_path / name, tmp_path / f"{name}.packed"
    plain.write_text(document)
    packed.write_bytes(pack(document.encode("utf-16")))
    assert format_of(packed) is kind
    assert rows(read(packed, kind)) == rows(read(plain, kind))
    packed.write_bytes(pack(document.encode())[:-9])
    with pytest.raises((UnusableFile, BrokenOff)):
        read(packed, kind)


def test_a_second_download_of_conversations_is_one_of_them(tmp_path: Path) -> None:
    for kind, document in ((CHATGPT, exports.CHATGPT), (CLAUDE, exports.CLAUDE)):
        written(tmp_path / str(kind) / "conversations (1).json", document)
        assert format_of(tmp_path / str(kind)) is kind
        assert rows(read(tmp_path / str(kind), kind))


def test_downloads_of_one_name_are_read_in_their_order(tmp_path: Path) -> None:
    names = [
        "conversations.json",
        "conversations (1).json",
        "conversations (2).json",
        "conversations (10).json",
        "conversations-000.json",
        "conversations-000 (1).json",
        "conversations-001.json",
        "export/conversations.json",
        "export (1)/conversations.json",
    ]
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name in reversed(names):
            written(tmp_path / "all" / name, exports.CHATGPT)
            packed.writestr(name, "[]")
    assert members(archive, FILE) == members(tmp_path / "all", FILE) == names


SEMICOLONS = 'sep=;\r\ncontent;confidence;tags\r\n"Tea,\r\nhot";0,8;a\r\n'
TABS = 'content\tconfidence\ttags\r\n"Tea,\r\nhot"\t0,8\ta\r\n'


def checked(data: bytes) -> list[CheckedRow | Rejection | LeftOut]:
    return list(check_rows(read_records(PackedSource(io.BytesIO(data)).lines(), None), "x", one_namespace=True))


@pytest.mark.parametrize(
    "data",
    [
        SEMICOLONS.encode(),
        TABS.encode(),
        TABS.encode("utf-16"),
        b'content,confidence,tags\r\n"Tea,\r\nhot","0,8",a\r\n',
    ],
    ids=["semicolons", "tabs", "tabs in utf-16", "commas"],
)
def test_a_spreadsheet_may_write_a_comma_for_a_point(data: bytes) -> None:
    (row,) = checked(data)
    assert isinstance(row, CheckedRow)
    assert (row.record.content, row.record.confidence) == ("Tea,\r\nhot", 0.8)


@pytest.mark.parametrize("number", ["1.000,5", "7,5", "-0,5", "0,8,1", ",8", "much,so"])
def test_what_is_no_number_with_a_comma_is_refused_as_it_was_written(number: str) -> None:
    (told,) = checked(f"content;confidence\nTea;{number}\n".encode())
    assert isinstance(told, Rejection)
    assert told.reason.endswith(f"not {number!r}.")
