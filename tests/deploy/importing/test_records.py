"""Files as they come: JSON Lines and CSV, packed or not, in UTF-8 or UTF-16; what is spoilt costs no good row."""

import bz2
import codecs
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.importing.exports import LeftOut
from engramq.deploy.importing.records import Rejection, UncheckedRow, format_by_name, read_records
from engramq.deploy.importing.rows import CheckedRow, check_rows
from engramq.schemas import limits, packed_lines
from engramq.schemas.packed_lines import BLANK_LINES, PackedSource, UnusableFile
from engramq.schemas.vocabulary import RowFormat

ROWS = [{"content": f"Zeile {number}: Käse, Öl; 🧀", "speaker": "Ana"} for number in range(300)]
JSONL = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()
CSV = ("content,speaker\r\n" + "".join(f'"{row["content"]}",Ana\r\n' for row in ROWS)).encode()


def read(data: bytes, row_format: RowFormat | None = None) -> list[UncheckedRow | Rejection]:
    return list(read_records(PackedSource(io.BytesIO(data)).lines(), row_format))


def said(data: bytes, row_format: RowFormat | None = None) -> list[dict[str, Any]]:
    made = read(data, row_format)
    assert all(isinstance(item, UncheckedRow) for item in made), made[-1]
    return [item.values for item in made if isinstance(item, UncheckedRow)]


def rejected(made: list[Any]) -> list[tuple[int, str]]:
    return [(item.line, item.field) for item in made if isinstance(item, Rejection)]


def check(data: bytes, row_format: RowFormat | None = None) -> list[CheckedRow | Rejection | LeftOut]:
    return list(check_rows(read(data, row_format), "tenant", one_namespace=False))


def cells(text: str) -> list[dict[str, Any]]:
    return said(text.encode(), RowFormat.CSV)


@pytest.mark.promise("IM-1")
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("chunk", [1, 7, 64 * 1024])
def test_lines_may_end_with_cr_alone(encoding: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_lines, "CHUNK_BYTES", chunk)
    table = 'content,speaker\r"Two\nlines",Ana\r\r"One, with ""marks""",Ben'
    assert said(table.encode(encoding)) == [
        {"content": "Two\nlines", "speaker": "Ana"},
        {"content": 'One, with "marks"', "speaker": "Ben"},
    ]
    other = 'content\r\n"a\rb"\r\nc\r\n'  # where lines end otherwise a CR is of the text
    assert [row["content"] for row in said(other.encode(encoding))] == ["a\rb", "c"]
    twice = b"content,thread\r\r\na,b\r\r\n"  # as of a file that was converted twice
    assert list(PackedSource(io.BytesIO(twice)).lines()) == [b"content,thread\r\r\n", b"a,b\r\r\n"]
    assert said(twice) == [{"content": "a", "thread": "b"}]
    source = PackedSource(io.BytesIO(table.encode()))
    assert len(list(source.lines())) == 5
    assert source.position == len(table)
    assert [row["content"] for row in said(b'{"content":"x"}\r{"content":"y"}\r')] == ["x", "y"]


@pytest.mark.promise("IM-1")
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("data", [JSONL, CSV])
def test_a_file_is_told_by_its_content(data: bytes, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    text = data.decode()
    encoded = codecs.BOM_UTF16_BE + text.encode(encoding) if encoding == "utf-16-be" else text.encode(encoding)
    assert said(pack(encoded)) == ROWS


@pytest.mark.parametrize(
    ("name", "row_format"),
    [
        ("a.csv", RowFormat.CSV), ("a.TSV.gz", RowFormat.CSV), ("a.b.jsonl.xz", RowFormat.JSONL),
        ("a.ndjson", RowFormat.JSONL), ("a.json", None), ("a.gz", None), ("a", None),
    ],
)  # fmt: skip
def test_a_name_tells_the_format(name: str, row_format: RowFormat | None) -> None:
    assert format_by_name(Path(name)) is row_format


def test_the_option_wins_over_the_content() -> None:
    assert rejected(read(CSV, RowFormat.JSONL)) == [(number, "line") for number in range(1, 302)]
    with pytest.raises(UnusableFile, match="names the fields"):
        read(JSONL, RowFormat.CSV)


@pytest.mark.promise("IM-1")
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_cells_are_what_the_tool_takes(delimiter: str) -> None:
    header = ["external_id", "content", "tags", "metadata", "confidence", "position", "occurred_at", "namespace"]
    meta = '"{""a"": [1, 2]}"'
    one = ["e1", '"said ""so""\nand more"', '"a; b;;"', meta, "0.5", "3", "2026-01-31", "other"]
    two = ["", "plain", '"[""x;y"", ""z""]"', "", "", "", "", ""]
    blank = [""] * len(header)
    text = "\n".join(delimiter.join(row) for row in (header, one, blank, two)) + "\n\n"
    first, second = check(text.encode())
    assert isinstance(first, CheckedRow)
    assert isinstance(second, CheckedRow)
    assert (first.line, second.line) == (2, 5)
    assert first.namespace == "other"
    record = first.record
    assert (record.content, record.tags, record.metadata) == ('said "so"\nand more', ("a", "b"), {"a": [1, 2]})
    assert (record.confidence, record.position) == (0.5, 3)
    assert second.record.given == {"content": "plain", "tags": ("x;y", "z")}


@pytest.mark.promise("IM-8")
def test_a_row_of_a_table_is_the_row_of_the_lines_that_say_the_same() -> None:
    table, lines = check(CSV), check(JSONL)
    assert [item.identity for item in table if isinstance(item, CheckedRow)] == [
        line.identity for line in lines if isinstance(line, CheckedRow)
    ]
    assert len(table) == len(ROWS)


@pytest.mark.promise("IM-2")
def test_bad_rows_of_a_table_are_told_with_line_field_and_reason() -> None:
    text = (
        "content,confidence,metadata,tags\n"
        "good,,,\n"
        "bad,7,,\n"
        "few,1\n"
        "many,1,,,,\n"
        '"two\nlines",x,,\n'
        'meta,,"[1]",\n'
        'tags,,,"[1"\n'
        '"quoted"tail,,,\n'
        " ,,,\n"
        ",0.5,,\n"
        "good too,0.5,,\n"
    )
    made = check(text.encode())
    assert rejected(made) == [
        *((3, "confidence"), (4, "line"), (5, "line"), (6, "confidence"), (8, "metadata"), (9, "tags"), (10, "line")),
        *((11, "content"), (12, "content")),
    ]
    assert all(item.reason for item in made if isinstance(item, Rejection))
    assert [item.line for item in made if isinstance(item, CheckedRow)] == [2, 13]


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("content,colour", "no memory has a field 'colour'"),
        ("content,content", "content is there twice"),
        ("speaker,thread", "content is missing"),
        (",content", "no memory has a field ''"),
        ("session,content", "no memory has a field 'session'"),
        ("Inhalt;Schlagworte", "in English: no memory has a field 'Inhalt'. Rename them"),  # findings, texts
    ],
)
def test_a_first_row_that_does_not_name_fields_is_refused(header: str, told: str) -> None:
    with pytest.raises(UnusableFile, match=told):
        cells(f"{header}\na,b\n")


@pytest.mark.promise("IM-2")
def test_what_is_no_text_is_refused_with_its_field() -> None:
    made = check(b"content,speaker\ngood,Ana\nb\xffd,Ana\ngood,\x00\ngood,B\xe9n\ngood,Ben\n")
    assert rejected(made) == [(3, "content"), (4, "speaker"), (5, "speaker")]
    assert [item.reason for item in made if isinstance(item, Rejection)][::2] == [  # as Excel saves it in cp1252
        f"{name} is no UTF-8: save the file as UTF-8 (Excel calls it CSV UTF-8), then import it."
        for name in ("content", "speaker")
    ]
    made = check(b'{"content": "good"}\n{"content": "b\xffd"}\n{"content": "good"}\n')
    assert rejected(made) == [(2, "line")]


@pytest.mark.promise("IM-2")
@pytest.mark.parametrize("behind", ["", " and more"])
def test_half_an_emoji_that_json_names_is_refused_with_its_field(behind: str) -> None:
    torn = rb'{"content": "torn \ud83e' + behind.encode() + b'"}\n'
    good = b'{"content": "good"}\n'
    assert rejected(check(torn + good)) == [(1, "content")]
    assert rejected(check(good + torn)) == [(2, "content")]
    tags = b'content,tags\ngood,"[""torn \\ud83e' + behind.encode() + b'""]"\n'
    (told,) = (item for item in check(tags) if isinstance(item, Rejection))
    assert told.field == "tags"
    assert "half of a surrogate pair" in told.reason


@pytest.mark.promise("IM-2")
def test_half_a_character_of_utf_16_costs_its_line_alone() -> None:
    data = ('{"content": "good"}\n' + '{"content": "torn \ud83e"}\n' + '{"content": "good"}\n').encode(
        "utf-16", "surrogatepass"
    )
    assert rejected(check(data)) == [(2, "line")]
    assert rejected(check(data[:-1])) == [(2, "line"), (3, "line")]
    assert rejected(check(data[:-3])) == [(2, "line"), (3, "line")]


@pytest.mark.promise("IM-2")
@pytest.mark.parametrize(
    ("data", "bad", "good"),
    [
        (b'{"content": "' + b"x" * (2 * limits.BODY_BYTES) + b'"}\n{"content": "good"}\n', [(1, "line")], 1),
        (b"content\n" + b"x" * (2 * limits.BODY_BYTES) + b"\ngood\n", [(2, "line")], 1),
        (b'content\n"' + b"many words\n" * 500_000 + b'"\ngood\n', [(2, "line")], 1),
        (b'content\n"never closed\n' + b"good\n" * 1_000_000, [(2, "line")], 0),
        (b'content\n"never closed\ngood\n', [(2, "line")], 0),
    ],
)
def test_huge_rows_are_rejected_and_what_follows_is_not_mistaken(
    data: bytes, bad: list[tuple[int, str]], good: int
) -> None:
    made = read(data)
    assert rejected(made) == bad
    assert [item.values for item in made if isinstance(item, UncheckedRow)] == [{"content": "good"}] * good


@pytest.mark.promise("IM-2")
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("data", [JSONL, CSV])
@pytest.mark.long
def test_of_a_packed_file_that_is_cut_off_what_can_be_read_goes_in(data: bytes, pack: Callable[[bytes], bytes]) -> None:
    many = data + b"".join(data.splitlines(keepends=True)[1:] * 300)
    whole = pack(many)
    *made, last = read(whole[: len(whole) // 2])
    assert rejected(made) == []
    assert isinstance(last, Rejection)
    assert (last.field, last.line) == ("file", len(made) + (2 if data is CSV else 1))
    assert "too early" in last.reason
    assert made or pack is bz2.compress  # which has blocks of 900 KB
    *made, last = read(whole[:-3] + b"xxx")
    assert isinstance(last, Rejection)
    assert last.field == "file"


@pytest.mark.parametrize("beginning", [b"PK\x03\x04", b"\x28\xb5\x2f\xfd"])
def test_a_packing_that_nobody_reads_is_refused_with_what_to_do(beginning: bytes) -> None:
    with pytest.raises(UnusableFile, match="pack it with gzip"):
        read(beginning + bytes(100))


@pytest.mark.parametrize("data", [b"", b"\n\n \n", gzip.compress(b"", mtime=0), codecs.BOM_UTF16_LE])
def test_an_empty_file_has_no_rows(data: bytes) -> None:
    assert read(data) == []


def test_a_file_of_empty_lines_ends_soon_and_says_why() -> None:
    """Security finding 20: 291 KB of gzip are 300 million empty lines."""
    packed = gzip.compress(b"\n" * 20_000_000 + b'{"content": "x"}\n')
    began = time.process_time()
    (told,) = read(packed)
    assert isinstance(told, Rejection)
    assert "empty lines follow each other" in told.reason
    assert time.process_time() - began < 1
    few = b'{"content": "x"}\n' + b" \n" * (BLANK_LINES - 1)
    assert len(read(few * 2)) == 2


def test_a_pipe_that_gives_a_byte_at_a_time_is_read() -> None:
    class Dripping(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read1(1)

    packed = gzip.compress(b'{"content": "slow"}\n')
    made = list(read_records(PackedSource(Dripping(packed)).lines(), None))
    assert [item.values for item in made if isinstance(item, UncheckedRow)] == [{"content": "slow"}]


READING = """
import resource, sys
from engramq.deploy.importing.records import read_records
from engramq.deploy.importing.rows import CheckedRow, check_rows, make_batches, RowBatch
from engramq.schemas.packed_lines import PackedSource

def mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

rows = check_rows(read_records(PackedSource(sys.stdin.buffer).lines(), None), "tenant", one_namespace=False)
count = 0
for batch in make_batches(rows, 128, 400_000):
    assert isinstance(batch, RowBatch), batch
    count += len(batch.rows)
    if count == 12_800:
        before = mb()
print(count, mb() - before)
"""


@pytest.mark.long
@pytest.mark.promise("IM-6")
@pytest.mark.parametrize(("kind", "rows"), [("jsonl.gz", 50_000), ("csv in utf-16", 30_000)])
def test_many_rows_are_read_in_bounded_memory(kind: str, rows: int) -> None:
    """50,000 rows of 400 bytes are 20 MB; what is kept of each, that equal ones are told apart, are some 100 bytes."""
    filler = "some words that nobody reads " * 13
    if kind.startswith("csv"):
        text = "content\n" + "".join(f"row {number} {filler}\n" for number in range(rows))
    else:
        text = "".join(json.dumps({"content": f"row {number} {filler}"}) + "\n" for number in range(rows))
    data = text.encode("utf-16" if "16" in kind else "utf-8")
    data = gzip.compress(data, 1) if kind.endswith("gz") else data
    ran = subprocess.run([sys.executable, "-c", READING], input=data, capture_output=True, check=False, env=os.environ)
    assert ran.returncode == 0, ran.stderr.decode()
    count, grown_mb = ran.stdout.split()
    assert int(count) == rows
    assert float(grown_mb) < 8
