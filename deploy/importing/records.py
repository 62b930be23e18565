"""Read the rows of a file, JSON Lines or CSV whose first row names the fields, in bounded memory."""

import csv
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from engramq.deploy.importing.plain_files import SQLITE
from engramq.schemas import limits
from engramq.schemas.codec import DecodeError, decode_json
from engramq.schemas.commands import ImportRecord, Original
from engramq.schemas.exports import LINE_BYTES, is_head
from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.packed_lines import UTF8_BOM, BrokenOff, PackedSource, UnusableFile
from engramq.schemas.vocabulary import RowFormat

LINE: Final = "line"  # the field of a rejection that concerns the line as a whole
FILE: Final = "file"  # and of one that concerns the rest of the file
NAMESPACE: Final = "namespace"
CONTENT: Final = "content"
TAGS: Final = "tags"
CONFIDENCE: Final = "confidence"
RECORD_FIELDS: Final = frozenset(ImportRecord.__struct_fields__)
FIELDS: Final = (*ImportRecord.__struct_fields__, NAMESPACE)

_SUFFIXES: Final = {".csv": RowFormat.CSV, ".tsv": RowFormat.CSV, ".jsonl": RowFormat.JSONL, ".ndjson": RowFormat.JSONL}
_PACKED_SUFFIXES: Final = (".gz", ".bz2", ".xz")
_SAY_WHICH: Final = "--format says whose it is, if it is one of those that docs/import.md names."
_SEPARATOR: Final = re.compile(rb"sep=([,;\t])\s*")
_WITH_COMMA: Final = re.compile("-?[0-9]+,[0-9]+")
_DELIMITERS: Final = ",;\t"
_TOO_LONG: Final = f"The line is longer than {limits.BODY_BYTES} bytes."


@dataclass(frozen=True, slots=True)
class UncheckedRow:
    """A row as it was read, unchecked, the line on which it begins, its file within a folder, and what it was here."""

    line: int
    values: dict[str, Any]
    file: str = ""
    original: Original | None = None


class Rejection(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row that cannot be stored, the line on which it begins, and why; `file`: the one of a folder."""

    line: int
    field: str
    reason: str
    file: str = ""


def rejection(line: int, refused: EngramqError, file: str = "") -> Rejection:
    """Return the rejection of a row that was refused."""
    return Rejection(line, str(refused.fault.field), refused.fault.error, file)


def format_by_name(path: Path | None) -> RowFormat | None:
    """Return the format that a file's name tells; None when the content has to."""
    suffixes = [] if path is None else [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PACKED_SUFFIXES:
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def read_records(lines: Iterable[bytes], row_format: RowFormat | None) -> Iterator[UncheckedRow | Rejection]:
    """Yield each row; blank lines are passed over. An unreadable rest ends in one rejection.

    Raises UnusableFile for an export or a document of something else, and when the first row of a CSV file does not
    name fields.
    """
    return _to_the_end(_Numbered(lines), lambda first, rest: _records(first, rest, row_format))


def read_json_lines(lines: Iterable[bytes]) -> Iterator[UncheckedRow | Rejection]:
    """Yield the object in each line, whatever it holds, as `read_records` does."""
    return _to_the_end(_Numbered(lines), lambda first, rest: _json_records([(rest.count, first)], rest))


def _to_the_end(
    numbered: "_Numbered", read: Callable[[bytes, "_Numbered"], Iterator[UncheckedRow | Rejection]]
) -> Iterator[UncheckedRow | Rejection]:
    try:
        first = next((line for line in numbered if line.strip()), None)
        if first is not None:
            yield from read(first, numbered)
    except BrokenOff as problem:
        yield Rejection(numbered.count + 1, FILE, str(problem))


def _records(first: bytes, rest: "_Numbered", row_format: RowFormat | None) -> Iterator[UncheckedRow | Rejection]:
    if is_head(first.removeprefix(UTF8_BOM)):
        raise UnusableFile("This is an export. It is read twice: write it to a file, and import that.")
    if (row_format or _format_by_content(first)) is RowFormat.CSV:
        if separator := _SEPARATOR.fullmatch(first.removeprefix(UTF8_BOM)):  # as Excel writes it
            first = next(rest, b"")
        yield from _csv_records(first, rest, separator[1].decode() if separator else "")
    else:
        yield from _json_records(_first_lines(first, rest, row_format), rest)


class _Numbered:
    """Lines, counted as they are given."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        self.count = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        line = next(self._lines)
        self.count += 1
        return line


def _format_by_content(first: bytes) -> RowFormat:
    line = first.removeprefix(UTF8_BOM).lstrip()
    names = () if line.startswith(b"{") else _header(line)[0]
    return RowFormat.CSV if CONTENT in names or _SEPARATOR.fullmatch(line) else RowFormat.JSONL


def _first_lines(first: bytes, rest: "_Numbered", row_format: RowFormat | None) -> list[tuple[int, bytes]]:
    """Return the first rows of JSON Lines; raises UnusableFile for what is one document, or something else.

    One reject for each line of it would say nothing.
    """
    number = rest.count
    line = first.removeprefix(UTF8_BOM).strip()
    if line.startswith(SQLITE):
        raise UnusableFile(f"The file is a SQLite database. {_SAY_WHICH}")
    if not line.startswith((b"{", b"[")):
        if row_format is None:
            raise UnusableFile(
                f"The file is neither JSON Lines nor a table whose first row names {CONTENT}. {_SAY_WHICH}"
            )
        return [(number, first)]
    try:
        row = decode_json(line)
    except (DecodeError, ValueError, RecursionError) as problem:
        if "truncated" in str(problem) and len(line) <= limits.BODY_BYTES:
            raise UnusableFile(f"The file is one JSON document over several lines, and no rows. {_SAY_WHICH}") from None
        return [(number, first)]
    second = next((each for each in rest if each.strip()), None)
    if isinstance(row, list) or (second is None and not _has_fields(line)):
        raise UnusableFile(f"The file is one JSON document, and no rows. {_SAY_WHICH}")
    if second is None:
        return [(number, first)]
    if not (_has_fields(line) or _has_fields(second)):
        raise UnusableFile(f"The lines of the file are objects of something else: none has {CONTENT}. {_SAY_WHICH}")
    return [(number, first), (rest.count, second)]


def _has_fields(line: bytes) -> bool:
    """Say whether a line may be a row: an object with a field, or no JSON, which is rejected by itself."""
    try:
        row = decode_json(line.strip())
    except (DecodeError, ValueError, RecursionError):
        return True
    return not isinstance(row, dict) or bool(row.keys() & {*FIELDS})


def _json_records(begun: list[tuple[int, bytes]], rest: _Numbered) -> Iterator[UncheckedRow | Rejection]:
    for number, line in itertools.chain(begun, ((rest.count, line) for line in rest)):
        if not line.strip():
            continue
        try:
            yield UncheckedRow(number, _json_object(line))
        except EngramqError as refused:
            yield rejection(number, refused)


def _json_object(line: bytes) -> dict[str, Any]:
    if len(line) > limits.BODY_BYTES:
        raise invalid(LINE, _TOO_LONG)
    try:
        given = decode_json(line.removeprefix(UTF8_BOM))
    except (DecodeError, ValueError) as problem:
        raise invalid(LINE, f"The line is no JSON: {problem}.") from None
    except RecursionError:
        raise invalid(LINE, "The line is nested too deeply.") from None
    if not isinstance(given, dict):
        raise invalid(LINE, "The line is no JSON object.")
    return given


class _TooLong(Exception):
    """A line was cut, so nobody knows whether a quotation mark is open."""


class _Feed:
    """Lines for the parser, as text.

    After a row has become too long it passes on only quotation marks, to find the row's end.
    """

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._bytes = 0

    def begin(self) -> None:
        """A row begins."""
        self._bytes = 0

    @property
    def is_too_long(self) -> bool:
        """Whether the row is longer than any may be."""
        return self._bytes > limits.BODY_BYTES

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        if len(line) > limits.BODY_BYTES:
            raise _TooLong
        self._bytes += len(line)
        if self.is_too_long:
            return '"' * (line.count(b'"') % 2)
        return line.decode("utf-8", "surrogateescape")  # bytes that are no text are refused with their field


def _csv_records(first: bytes, lines: _Numbered, separator: str) -> Iterator[UncheckedRow | Rejection]:
    names, delimiter = _header(first.removeprefix(UTF8_BOM), separator or _DELIMITERS)
    _check_header(names)
    feed = _Feed(lines)
    csv.field_size_limit(limits.BODY_BYTES)
    rows = csv.reader(feed, delimiter=delimiter, strict=True)
    while True:
        number = lines.count + 1
        feed.begin()
        try:
            cells = next(rows, None)
            if cells is None:
                return
            if feed.is_too_long:
                raise invalid(LINE, f"{_TOO_LONG[:-1]}: is a quotation mark never closed?")
            if any(cells):
                yield UncheckedRow(number, _named(names, cells))
        except _TooLong:
            yield Rejection(number, LINE, _TOO_LONG)
        except csv.Error as problem:
            yield Rejection(number, LINE, f"The line is no CSV: {problem}.")
        except EngramqError as refused:
            yield rejection(number, refused)


def _header(line: bytes, delimiters: str = _DELIMITERS) -> tuple[list[str], str]:
    """Return the names in the first row and what stands between them: what gives the most names of fields, or most."""
    text = line.decode("utf-8", "replace")
    read = [(_cells(text, delimiter), delimiter) for delimiter in delimiters]
    return max(read, key=lambda names: (len({*names[0]} & {*FIELDS}), len(names[0])))


def _cells(text: str, delimiter: str) -> list[str]:
    try:
        names = [name.strip() or name for name in next(csv.reader([text], delimiter=delimiter), [])]
        return [name.lower() if name.lower() in FIELDS else name for name in names]
    except csv.Error:
        return []


def _check_header(names: list[str]) -> None:
    """Raise UnusableFile unless each name is that of a field, there once, and one is the content."""
    problem = None
    last = max((number for number, name in enumerate(names, 1) if name), default=0)
    named = names[:last]  # spreadsheets leave separators behind the last name
    unknown = [name for name in named if name not in FIELDS]
    if unknown:
        problem = f"no memory has a field {unknown[0][: limits.NAME_CHARS]!r}"
    elif len({*named}) < len(named):
        problem = f"{next(name for name in named if named.count(name) > 1)} is there twice"
    elif CONTENT not in named:
        problem = f"{CONTENT} is missing"
    if problem is not None:
        raise UnusableFile(
            f"The first row of a CSV file names the fields, in English: {problem}. Rename them to what they mean: "
            f"{', '.join(FIELDS)}."
        )


def _named(names: list[str], cells: list[str]) -> dict[str, Any]:
    if len(cells) != len(names):
        raise invalid(LINE, f"The row has {len(cells)} cells, the first row {len(names)}.")
    values: dict[str, Any] = {
        name: cell for name, cell in zip(names, cells, strict=True) if (cell if name else cell.strip())
    }
    if "" in values:
        raise invalid(LINE, "The row has a cell below no name.")
    if TAGS in values:
        values[TAGS] = _tags(values[TAGS])
    if CONFIDENCE in values:
        values[CONFIDENCE] = _with_point(values[CONFIDENCE])
    return values


def _with_point(cell: str) -> str:
    """Return a number with its point, where a spreadsheet writes a comma; as it stands what is to be refused."""
    number = cell.replace(",", ".")
    return number if _WITH_COMMA.fullmatch(cell.strip()) and 0 <= float(number) <= 1 else cell


def _tags(cell: str) -> Any:
    if not cell.lstrip().startswith("["):
        return [tag.strip() for tag in cell.split(";") if tag.strip()]
    try:
        return decode_json(cell)
    except (DecodeError, ValueError, RecursionError):
        raise invalid(TAGS, "tags is neither words with ; between them nor a JSON list.") from None


def is_export(path: Path) -> bool:
    """Say whether the first line of a file, packed or not, begins an export. A file that cannot be read is none.

    Nothing is read of a pipe, since that would be missing afterwards: the reader of its rows refuses an export.
    """
    try:
        if not path.is_file():
            return False
        with path.open("rb") as raw:
            first = next((line for line in PackedSource(raw).lines(LINE_BYTES) if line.strip()), b"")
    except (OSError, UnusableFile, BrokenOff):
        return False
    return is_head(first.removeprefix(UTF8_BOM))
