"""Files as Anthropic's memory tool (`memory_20250818`) shows and edits them: paths and texts, without a server. Pure.

The sentences for the model are the ones that the tool's documentation gives.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import Visibility

ROOT: Final = "/memories"
METADATA: Final = "memory_file"  # the key in the metadata of a memory that describes its file
LINES_MAX: Final = 999_999
LISTED_MAX: Final = 1_000  # files of one listing
PATH_CHARS: Final = 200  # so that path and version make up an external_id
LEVELS: Final = 2
_NUMBER_WIDTH: Final = 6
_AROUND: Final = 2  # lines shown before and after a change
_UNSAFE: Final = re.compile(r"\\|[\x00-\x1f\x7f]|%(?:2e|2f|5c|00)", re.IGNORECASE)  # also as URLs write them
_HALVES: Final = re.compile(r"[\ud800-\udfff]")  # of a character in UTF-16, which no text in UTF-8 has
_SIZES: Final = ("B", "K", "M", "G")


class FileProblem(Exception):
    """A command that was not carried out; the text is for the model."""


@dataclass(frozen=True, slots=True)
class File:
    """A file as one memory keeps it. Its versions are numbered from 1; `is_whole`: nothing of the text is left out.
    `visibility`: who sees it, and then its next version."""

    memory_id: str
    path: str
    version: int
    text: str
    size: int
    is_whole: bool
    visibility: Visibility = Visibility.SHARED


class _About(msgspec.Struct):
    """The description below METADATA. `text`: of a file of white space alone, whose memory has its path as content."""

    path: str
    version: int
    size: int
    text: str | None = None


def clean_path(given: str) -> str:
    """Return a path in the one way in which it is written; raises FileProblem for one that leaves /memories."""
    given = unicodedata.normalize("NFC", given).rstrip()  # as a tag is kept
    if given != ROOT and not given.startswith(f"{ROOT}/"):
        raise FileProblem(f"Error: Path must start with {ROOT}, got: {given}")
    if _HALVES.search(given):
        raise FileProblem(f"Error: Path {_HALVES.sub('?', given)} has half of a character in it")
    parts = [part for part in given.split("/") if part]
    if _UNSAFE.search(given) or any(part in (".", "..") for part in parts):
        raise FileProblem(f"Error: Path {given} would escape {ROOT} directory")
    path = "/" + "/".join(parts)
    if len(path) > PATH_CHARS:
        raise FileProblem(f"Error: Path {path[:PATH_CHARS]}... is too long: at most {PATH_CHARS} characters")
    return path


def folders_of(path: str) -> list[str]:
    """Return the folders that a path is in, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts))]


def project_of(path: str) -> str | None:
    """Return the first folder's name: /memories/shop/notes.md is in the project shop, /memories/notes.md in none."""
    folders = folders_of(path)
    return folders[1].rpartition("/")[2] if len(folders) > 1 else None


def describe_file(path: str, version: int, text: str) -> dict[str, Any]:
    """Return the fields of the memory that keeps a file. Its tags are the path, and each folder with a / at its end.

    Raises FileProblem for a text that cannot be sent.
    """
    if half := _HALVES.search(text):
        line = text.count("\n", 0, half.start()) + 1
        raise FileProblem(f"Error: Line {line} has half of a character in it; write it whole, or leave it out")
    about = {"path": path, "version": version, "size": len(text.encode())}
    is_blank = not re.search(r"\S", text)
    return {
        "content": path if is_blank else text,
        "tags": [path, *(f"{folder}/" for folder in folders_of(path))],
        "thread": folders_of(path)[-1],
        "metadata": {METADATA: about | ({"text": text} if is_blank else {})},
    }


def file_of(memory: Memory) -> File | None:
    """Return the file that a memory keeps; None where it keeps none, or others have made it look as if it did."""
    try:
        about = msgspec.convert(memory.metadata.get(METADATA), _About)
    except msgspec.ValidationError:
        return None
    if about.path not in memory.tags:
        return None
    text = about.text if about.text is not None else str(memory.content)
    visibility = memory.visibility or Visibility.SHARED
    return File(
        memory.id, about.path, about.version, text, about.size, is_whole=not memory.truncated, visibility=visibility
    )


def order_files(memories: Iterable[Memory]) -> list[File]:
    """Return the files that memories keep, sorted so that of each path the version that counts comes last.

    That is the newest one, of the private ones if there are any: else the author of a planted shared file would read
    what the owner of the private one writes next.
    """
    files = filter(None, map(file_of, memories))
    return sorted(files, key=lambda file: (file.visibility is Visibility.PRIVATE, file.version))


def select_counting(files: Sequence[File]) -> list[File]:
    """Return the versions of a file that count: one's own private ones, or else the shared ones."""
    return [file for file in files if file.visibility is files[-1].visibility]


def list_newest(memories: Iterable[Memory]) -> list[File]:
    """Return each file that memories keep in the version that counts, in the order of the paths."""
    files = {file.path: file for file in order_files(memories)}
    return sorted(files.values(), key=lambda file: file.path.split("/"))


def number_lines(file: File, view_range: Sequence[int] | None) -> str:
    """Return the text of a file, or the lines of a range, with their numbers."""
    lines = file.text.split("\n")
    if len(lines) > LINES_MAX:
        raise FileProblem(f"File {file.path} exceeds maximum line limit of 999,999 lines.")
    first, last = view_range or (1, -1)
    end = len(lines) if last == -1 else last
    if not 1 <= first <= end or first > len(lines):
        raise FileProblem(
            f"Error: Invalid `view_range` parameter: [{first}, {last}]. "
            f"It should be within the range of lines of the file: [1, {len(lines)}]"
        )
    return f"Here's the content of {file.path} with line numbers:\n{_numbered(lines, first, end)}"


def list_folder(path: str, files: Sequence[File]) -> str:
    """Return a folder's files and folders with their sizes, two levels deep; `files`: all that are below it."""
    sizes = {path: sum(file.size for file in files)}
    for file in files:
        below = file.path.removeprefix(f"{path}/").split("/")
        if any(part.startswith(".") or part == "node_modules" for part in below):
            continue
        for depth in range(1, min(len(below), LEVELS + 1)):
            folder = f"{path}/{'/'.join(below[:depth])}/"
            sizes[folder] = sizes.get(folder, 0) + file.size
        if len(below) <= LEVELS:
            sizes[file.path] = file.size
    lines = [f"{_size(size)}\t{name}" for name, size in sizes.items()]
    left_out = len(lines) - LISTED_MAX
    if left_out > 0:
        lines[LISTED_MAX:] = [f"... and {left_out} more: view a folder"]
    header = (
        f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items and node_modules:"
    )
    return "\n".join([header, *lines])


def replace_once(path: str, text: str, old: str, new: str) -> str:
    """Return a text with the one occurrence of `old` replaced; raises FileProblem where there is not exactly one."""
    places = [match.start() for match in re.finditer(f"(?={re.escape(old)})", text)] if old else []
    if not places:
        raise FileProblem(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if len(places) > 1:
        lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in places)
        raise FileProblem(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )
    return text[: places[0]] + new + text[places[0] + len(old) :]


def show_change(text: str, before: str) -> str:
    """Return the lines around the first difference between a text and what it was before, with their numbers."""
    lines, old = text.split("\n"), before.split("\n")
    pairs = zip(lines, old, strict=False)
    changed = next((at for at, (line, was) in enumerate(pairs) if line != was), min(len(lines), len(old)) - 1)
    return _numbered(lines, max(1, changed + 1 - _AROUND), min(len(lines), changed + 1 + _AROUND))


def insert_lines(text: str, at: int, addition: str) -> str:
    """Return a text with lines inserted after line `at`, 0 for its beginning; raises FileProblem for no such line."""
    lines = text.removesuffix("\n").split("\n") if text else []
    if not 0 <= at <= len(lines):
        raise FileProblem(
            f"Error: Invalid `insert_line` parameter: {at}. "
            f"It should be within the range of lines of the file: [0, {len(lines)}]"
        )
    return "\n".join([*lines[:at], addition.removesuffix("\n"), *lines[at:], ""])


def _numbered(lines: Sequence[str], first: int, last: int) -> str:
    return "\n".join(f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines[first - 1 : last], first))


def _size(size: int) -> str:
    exponent = min(max(size.bit_length() - 1, 0) // 10, len(_SIZES) - 1)
    amount = f"{size / 1024**exponent:.1f}".removesuffix(".0")
    return f"{amount}{_SIZES[exponent]}"
