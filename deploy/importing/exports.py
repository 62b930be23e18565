"""Share code between readers of exports: the entries they yield, conversion of values, archives, long documents."""

import codecs
import contextlib
import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias

from engramq.deploy.importing.records import LINE, Rejection, UncheckedRow
from engramq.schemas import limits
from engramq.schemas.ids import format_time
from engramq.schemas.packed_lines import DAMAGES, PackedSource, UnusableFile


@dataclass(frozen=True, slots=True)
class ExportedNode:
    """A thing that the export names, which becomes a node of the knowledge graph; where it stands."""

    name: Any
    label: Any
    line: int
    file: str = ""


@dataclass(frozen=True, slots=True)
class ExportedEdge:
    """A relation between two things by their names, which becomes an edge of the knowledge graph; where it stands.

    `label`: of an end that the export has no node for; None leaves it to the graph.
    """

    source: Any
    target: Any
    relation: Any
    line: int
    file: str = ""
    label: str | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is not brought in, by a rule of its format: `what`, in the plural, and `one` of it."""

    what: str
    one: str


GraphEntry: TypeAlias = ExportedNode | ExportedEdge
Entry: TypeAlias = UncheckedRow | Rejection | GraphEntry | LeftOut


_DIGEST_BYTES: Final = 16
_FOLDERS: Final = re.compile(r"[/\\]")


def moment(given: object) -> str | None:
    """Return a time, a text or seconds since 1970, as a field takes it; None for what says nothing.

    A text that is no time is returned as it is: its row comes in without, and that is said.
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        try:
            return format_time(datetime.fromtimestamp(given, UTC))
        except (OverflowError, OSError, ValueError):
            return str(given)
    return given if isinstance(given, str) and given.strip() else None


def own_id(kind: str, *parts: object) -> str:
    """Return an external id: the format's name and what is unique in it; a long one ends in a digest of all of it."""
    whole = ":".join((kind, *map(str, parts)))
    if len(whole) <= limits.NAME_CHARS:
        return whole
    digest = hashlib.blake2b(whole.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{whole[: limits.NAME_CHARS - len(digest) - 1]}#{digest}"


def tags(*given: object) -> list[str]:
    """Return the distinct words of lists and texts, which are cut at commas and semicolons, in order."""
    words: dict[str, None] = {}
    for value in given:
        several = value if isinstance(value, list) else re.split("[,;]", value) if isinstance(value, str) else []
        words |= dict.fromkeys(word for each in several if (word := str(each).strip().removeprefix("#")))
    return list(words)


def without_nothing(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that say something."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


_DEEPEST: Final = 3  # folders below the one that is named
_DAMAGES: Final = (zipfile.BadZipFile, NotImplementedError, RuntimeError)


def is_archive(path: Path) -> bool:
    """Say whether a file is a zip archive; a damaged one is one too."""
    with path.open("rb") as raw:
        return raw.read(4) == b"PK\x03\x04"


def members(path: Path, name: re.Pattern[str]) -> list[str]:
    """Return the files of an archive or folder whose own name is such a one, in order; [""] for a file by itself.

    A folder is looked through to a depth of three, as an unpacked archive has; symbolic links and what is hidden are
    passed over, such as the copy "._x.json" that a Mac packs beside each file. Raises UnusableFile.
    """
    if not path.is_dir() and not is_archive(path):
        return [""]
    with _refusing_damage():
        if path.is_dir():
            several = list(_files_below(path))
        else:
            with zipfile.ZipFile(path) as archive:
                several = archive.namelist()
    named = (each for each in several if name.fullmatch(own_name(each)) and not own_name(each).startswith("."))
    return sorted(named, key=_in_order)


def _in_order(member: str) -> tuple[list[list[tuple[int, str]]], str]:
    """Return by what members are sorted: numbers as such, "x.json" before "x (1).json", which was downloaded later."""
    parts = _FOLDERS.split(member.rpartition(".")[0])
    return [[_as_number(piece) for piece in re.split(r"(\d+)", part)] for part in parts], member


def _as_number(piece: str) -> tuple[int, str]:
    digits = piece.lstrip("0")
    return (len(digits), digits) if piece.isdecimal() else (0, piece)


def own_name(member: str) -> str:
    """Return a member's name without its folders; some programs of Windows write backslashes between them."""
    return _FOLDERS.split(member)[-1]


def _files_below(folder: Path) -> Iterator[str]:
    for root, folders, files in os.walk(folder):  # which follows no links
        below = Path(root).relative_to(folder)
        folders[:] = [name for name in folders if not name.startswith(".") and len(below.parts) < _DEEPEST]
        for name in files:
            file = Path(root, name)
            if file.is_file() and not file.is_symlink():
                yield (below / name).as_posix()


@contextlib.contextmanager
def open_document(path: Path, member: str) -> Iterator[IO[bytes]]:
    """Open one of the `members`, unpacked and in UTF-8; damages that show as it is read are raised as UnusableFile."""
    with _refusing_damage():
        if member and not path.is_dir():
            with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
                yield PackedSource(stream).text()
        else:
            with (path / member if member else path).open("rb") as file:
                yield PackedSource(file).text()


ANY_DOCUMENT: Final = re.compile(r".*\.json")


def read_lists(
    path: Path, mark: str | frozenset[str], *keys: str, name: re.Pattern[str] = ANY_DOCUMENT
) -> Iterator[tuple[str, UncheckedRow | Rejection]]:
    """Yield the items of each of the `members` as `read_list` does; objects in lines are of the list "".

    A document that is one object, or begins with one, is of this form only if that has the `mark`, or one of several.
    Raises UnusableFile when there is no member.
    """
    marks = {mark} if isinstance(mark, str) else mark
    names = members(path, name)
    if not names:
        raise UnusableFile(f"There is no {name.pattern.replace(chr(92), '')} in it.")
    for member in names:
        with open_document(path, member) as stream:
            begins = read_beginning(stream, *keys)
        with open_document(path, member) as stream:
            if begins.name is None and not marks.isdisjoint(begins.members):
                yield from (("", item) for item in objects(stream))
            else:
                yield from read_list(stream, *keys)


def all_items(
    path: Path, mark: str | frozenset[str], *keys: str, name: re.Pattern[str] = ANY_DOCUMENT
) -> Iterator[UncheckedRow | Rejection]:
    """Yield the items of each of the `members` without the names of their lists."""
    return (item for _, item in read_lists(path, mark, *keys, name=name))


def read_each(
    found: Iterable[UncheckedRow | Rejection], read: Callable[[UncheckedRow], Iterable[Entry]]
) -> Iterator[Entry]:
    """Yield what is read of each item; what could not be read already stays a rejection."""
    for item in found:
        yield from [item] if isinstance(item, Rejection) else read(item)


class Beginning(NamedTuple):
    """How a document begins: an object's members up to a list under one of the names, and the first item of a list.

    `members`: short texts as they are; of other values their type, with nothing in it. `name`: of the list, "" for a
    document that is one, None where there is none.
    """

    members: dict[str, Any]
    name: str | None
    item: Any


def read_beginning(stream: IO[bytes], *keys: str) -> Beginning:
    """Return how a document begins that is a list or an object; raises UnusableFile for another, or one that is cut."""
    text = _document(stream)
    held: dict[str, Any] = {}
    if text.peek() == "[":
        return Beginning(held, "", _first(text))
    if text.peek() != "{":
        raise UnusableFile("The file is no JSON object.")
    for key in _members(text, held):
        if key in keys and text.peek() == "[":
            return Beginning({**held, key: []}, key, _first(text))
    return Beginning(held, None, None)


def _first(text: "_JsonText") -> Any:
    text.take()
    return None if text.peek() == "]" else text.value()


def objects(stream: IO[bytes]) -> Iterator[UncheckedRow | Rejection]:
    """Yield the objects of a document that has one behind the other, as in lines. Raises UnusableFile."""
    text = _document(stream)
    while not text.is_at_end:
        line = text.line
        value = text.value()
        yield (
            UncheckedRow(line, value)
            if isinstance(value, dict)
            else Rejection(line, LINE, "The item is no JSON object.")
        )


@contextlib.contextmanager
def _refusing_damage() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise UnusableFile(f"The file cannot be read: {problem.strerror or problem}.") from None
    except (*_DAMAGES, *DAMAGES) as problem:
        raise UnusableFile(f"The archive is damaged, cut off or locked: {problem}.") from None


_HELD_MEMBERS: Final = 1000
CHUNK_CHARS: Final = 64 * 1024
ITEM_CHARS: Final = 16 * 1024 * 1024  # one conversation of an export; longest known: some 10 million
# An error so close to the end of what was read may be one that more text mends, as of a cut number or escape.
_EDGE_CHARS: Final = 16
_OPEN_TEXT: Final = "Unterminated string"
_WORDS: Final = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_CUT_NUMBER: Final = re.compile(r"\.|[eE][+-]?")  # behind its whole part
_CUT_ESCAPE: Final = re.compile(r"\\?u?[0-9a-fA-F]{0,4}")
_CUT: Final = "The file ends too early: it is cut off within its JSON. Nothing of it can be relied on."
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


def items(stream: IO[bytes], *keys: str) -> Iterator[UncheckedRow | Rejection]:
    """Yield the objects of a document's lists as `read_list` does, without the name of their list."""
    return (item for _, item in read_list(stream, *keys))


def read_list(stream: IO[bytes], *keys: str) -> Iterator[tuple[str, UncheckedRow | Rejection]]:
    """Yield the objects of each document, each with its line and the name of its list; of others a rejection.

    A document is a list, whose name is "", or an object that has lists under some of the `keys`. Raises UnusableFile
    when it is neither, an object without such a list, no JSON, or cut off, maybe after some items.
    """
    text = _document(stream)
    yield from _document_items(text, *keys)
    while not text.is_at_end:  # as pages that were written into one file
        yield from _document_items(text, *keys)


def _document_items(text: "_JsonText", *keys: str) -> Iterator[tuple[str, UncheckedRow | Rejection]]:
    if text.peek() == "[":
        yield from (("", item) for item in _items(text))
        return
    if text.peek() != "{":
        raise UnusableFile("The file is no JSON list.")
    has_list = False
    for key in _members(text):
        if key in keys and text.peek() == "[":
            has_list = True
            yield from ((key, item) for item in _items(text))
    text.take()
    if not has_list:
        wanted = " or ".join(repr(key) for key in keys)
        raise UnusableFile(f"The JSON object has no list {wanted}." if keys else "The file is no JSON list.")


def _items(text: "_JsonText") -> Iterator[UncheckedRow | Rejection]:
    text.take()
    while text.peek() != "]":
        line = text.line
        value = text.value()
        yield (
            UncheckedRow(line, value)
            if isinstance(value, dict)
            else Rejection(line, LINE, "The item is no JSON object.")
        )
        if text.peek() == ",":
            text.take()
            if text.peek() == "]":
                raise text.broken("a comma before the end of the list")
        elif text.peek() != "]":
            raise text.broken("no comma between two items")
    text.take()


def _members(text: "_JsonText", held: dict[str, Any] | None = None) -> Iterator[str]:
    """Yield each key of an object; a value that is not read meanwhile is passed over, or held."""
    text.take()
    while text.peek() != "}":
        key = text.value()
        if not isinstance(key, str) or text.peek() != ":":
            raise text.broken("no key where one is due")
        text.take()
        text.peek()
        before = text.passed
        yield key
        if text.passed == before:
            value = text.value()
            if held is not None and len(held) < _HELD_MEMBERS:
                held[key] = value if isinstance(value, str) and len(value) < limits.NAME_CHARS else type(value)()
        if text.peek() == ",":
            text.take()
        elif text.peek() != "}":
            raise text.broken("no comma between two members")


def _is_cut(problem: str, rest: str) -> bool:
    """Say whether a text that ends with this rest may be the beginning of a whole one."""
    if problem.startswith(_OPEN_TEXT):
        return True
    if problem.startswith("Invalid \\u"):
        return _CUT_ESCAPE.fullmatch(rest) is not None
    return any(word.startswith(rest.strip()) for word in _WORDS) or _CUT_NUMBER.fullmatch(rest) is not None


def damage_in(data: bytes, before: int = 0) -> UnusableFile:
    """Return why a text is no JSON object, and where it is damaged; `before`: lines of the file before it."""
    if not data.strip():
        return UnusableFile("The file is empty.")
    text = _JsonText(io.BytesIO(data))
    text.line += before
    try:
        text.value()
        ends = text.is_at_end
        return UnusableFile("The file is no JSON object.") if ends else text.broken("something stands behind the text")
    except UnusableFile as problem:
        return problem


def _document(stream: IO[bytes]) -> "_JsonText":
    """Return the text of a document; of one that a program has written as a text, the document in it."""
    text = _JsonText(stream)
    if text.peek() != '"':
        return text
    packed = text.value().encode(errors="surrogatepass")
    if not text.is_at_end:
        raise text.broken("something stands behind the text")
    return _JsonText(io.BytesIO(packed))


class _JsonText:
    """The text of a document, of which as much is held as one value needs; `line`: that of the next character."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._held = ""
        self._at = 0
        self._ended = False
        self.line = 1
        self._column = 0
        self.passed = 0  # characters

    def peek(self) -> str:
        """Return the next character that is no white space; raises UnusableFile at the end."""
        while True:
            blank = _BLANK.match(self._held, self._at)
            self._pass(blank.end() if blank else self._at)
            if self._at < len(self._held):
                return self._held[self._at]
            if not self._read(CHUNK_CHARS):
                raise UnusableFile(_CUT)

    @property
    def is_at_end(self) -> bool:
        """Whether nothing comes but white space."""
        while (blank := _BLANK.match(self._held, self._at)) and blank.end() == len(self._held):
            self._pass(blank.end())
            if not self._read(CHUNK_CHARS):
                return True
        return False

    def take(self) -> None:
        """Pass over the character that `peek` has returned."""
        self._pass(self._at + 1)

    def value(self) -> Any:
        """Return the next value; raises UnusableFile for what is none."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._held, self._at)
            except json.JSONDecodeError as problem:
                place = self._place_of(problem) - self._at
                if not self._may_go_on(problem):
                    raise self.broken(problem.msg.removesuffix(" at"), self._at + place) from None
            except RecursionError:
                raise self.broken("nested too deeply") from None
            else:
                if end < len(self._held) or not self._read(CHUNK_CHARS):  # a number may go on
                    self._pass(end)
                    return value

    def _may_go_on(self, problem: json.JSONDecodeError) -> bool:
        """Read on where the value may only be cut at the end of what is held; twice as much each time."""
        held, rest = len(self._held) - self._at, self._held[problem.pos :]
        if not problem.msg.startswith(_OPEN_TEXT) and problem.pos < len(self._held) - _EDGE_CHARS:
            return False
        if held > ITEM_CHARS:
            raise self.broken(f"an item of more than {ITEM_CHARS} characters")
        if self._read(max(held, CHUNK_CHARS)):
            return True
        if _is_cut(problem.msg, rest):
            raise UnusableFile(_CUT)
        return False

    def broken(self, why: str, at: int | None = None) -> UnusableFile:
        """Return what to raise for text that is no JSON: at this place of what is held, else at the next character."""
        self._pass(self._at if at is None else at)
        return UnusableFile(f"The file is no JSON near line {self.line}, character {self._column + 1}: {why}.")

    def _place_of(self, problem: json.JSONDecodeError) -> int:
        """Return where a value is damaged: where a comma is missing, that is behind what stands before."""
        is_missing = problem.msg.startswith("Expecting ',' delimiter")
        return self._at + len(self._held[self._at : problem.pos].rstrip()) if is_missing else problem.pos

    def _pass(self, to: int) -> None:
        if lines := self._held.count("\n", self._at, to):
            self.line += lines
            self._column = to - self._held.rindex("\n", self._at, to) - 1
        else:
            self._column += to - self._at
        self.passed += to - self._at
        self._at = to

    def _read(self, size: int) -> bool:
        """Hold more, and nothing that has been passed; say whether there was more."""
        self._held, self._at = self._held[self._at :], 0
        before = len(self._held)
        while not self._ended and len(self._held) < before + size:
            data = self._stream.read(size)
            self._ended = not data
            try:
                self._held += self._decoder.decode(data, self._ended)
            except UnicodeDecodeError:
                raise UnusableFile("The file is no text in UTF-8.") from None
        return len(self._held) > before
