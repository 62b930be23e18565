"""Read folders of Markdown notes: a vault of Obsidian, or a folder of basic-memory.

In Obsidian each note becomes a memory, each link between notes an edge of the knowledge graph. In basic-memory each
observation becomes a memory that names its note, the text around them another one, each note a node and each relation
an edge."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import yaml

from engramq.deploy.importing.exports import (
    Choices,
    Entry,
    ExportedEdge,
    ExportedNode,
    LeftOut,
    moment,
    own_id,
    tags,
    without_nothing,
)
from engramq.deploy.importing.plain_files import read_plain
from engramq.deploy.importing.records import FILE, Given, Rejection
from engramq.schemas import limits
from engramq.schemas.packed_lines import UnusableFile

PROPERTIES: Final = "properties"
SUFFIX: Final = ".md"
_FENCE: Final = re.compile(r"\s*(```|~~~)")
_PROPERTIES: Final = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PROPERTIES_BYTES: Final = 64 * 1024  # YAML takes a second for a MB of ordinary ones, and a minute for odd ones
_CODE: Final = re.compile(r"`[^`\n]*`")
# [[Note]], [[Note#Heading]], [[Note|as it reads]], and the same with ! before it, which shows the note.
_LINK: Final = re.compile(r"\[\[([^\[\]|#^\n]+)(?:[#^][^\[\]|\n]*)?(?:\|[^\[\]\n]*)?\]\]")
# A tag has at least one character that is no digit.
_TAG: Final = re.compile(r"(?<![\w/#&])#([\w/-]*[^\W\d][\w/-]*)")


@dataclass(frozen=True, slots=True)
class MarkdownNote:
    """One file: its path below the folder, its properties, and the text behind them, which begins on line `first`."""

    path: PurePosixPath
    properties: dict[str, Any]
    text: str
    first: int

    @property
    def file(self) -> str:
        """Its path, as it is told."""
        return str(self.path)

    @property
    def title(self) -> str:
        """What it is called: as it says, else as its file is named."""
        title = self.properties.get("title")
        return title.strip() if isinstance(title, str) and title.strip() else self.path.stem

    def title_of(self, text: str) -> str:
        """Return a text under its title, by which a note is found too, unless its first line has that already."""
        return text if self.title in text.partition("\n")[0] else f"{self.title}\n\n{text}"

    def row(self, line: int, values: dict[str, Any]) -> Given:
        """Return one memory of it, which begins on a line; values that say nothing are left out."""
        return Given(line, without_nothing(values), self.file)

    def lines(self) -> Iterator[tuple[int, str, bool]]:
        """Yield each line with its number, and whether it is of a block of code."""
        fence = ""
        for number, line in enumerate(self.text.splitlines(), self.first):
            mark = _FENCE.match(line)
            if mark and fence in ("", mark[1]):
                fence = "" if fence else mark[1]
                yield number, line, True
            else:
                yield number, line, bool(fence)


def notes(folder: Path) -> Iterator[MarkdownNote | Rejection | LeftOut]:
    """Yield each note below a folder, in order; links to elsewhere and hidden folders are passed over.

    Raises UnusableFile when it is no folder, or holds no note.
    """
    if not folder.is_dir():
        raise UnusableFile("Notes are imported from the folder that they are in, and this is none.")
    count = 0
    for path in _files(folder):
        count += 1
        if path.is_symlink() or not path.is_file():
            yield LeftOut("links and special files", "link or special file")
        else:
            yield _note(folder, path)
    if not count:
        raise UnusableFile(f"There is no note in it: no file that ends in {SUFFIX}.")


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):  # which follows no links
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(root, name) for name in sorted(files) if name.lower().endswith(SUFFIX) and name[0] != ".")


def _note(folder: Path, path: Path) -> MarkdownNote | Rejection:
    own = PurePosixPath(path.relative_to(folder).as_posix())
    try:
        text = read_plain(str(path), limits.BODY_BYTES).decode("utf-8-sig")
    except UnusableFile as problem:
        return Rejection(1, FILE, str(problem), str(own))
    except OSError as problem:
        return Rejection(1, FILE, f"The file cannot be read: {problem.strerror or problem}.", str(own))
    except UnicodeDecodeError:
        return Rejection(1, FILE, "The file is no text in UTF-8.", str(own))
    found = _PROPERTIES.match(text)
    if found is None:
        return MarkdownNote(own, {}, text, 1)
    if len(found[1].encode()) > _PROPERTIES_BYTES:
        reason = f"The properties are longer than {_PROPERTIES_BYTES // 1024} KiB, which are not read."
        return Rejection(1, PROPERTIES, reason, str(own))
    try:
        properties = _properties(found[1])
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        first = str(problem).splitlines()[0] if str(problem) else "nested too deeply"
        return Rejection(1, PROPERTIES, f"The properties are no YAML: {first}.", str(own))
    return MarkdownNote(own, properties, text[found.end() :], 1 + text.count("\n", 0, found.end()))


def _properties(text: str) -> dict[str, Any]:
    """Return the properties, every value a text or made of texts; raises YAMLError, ValueError.

    One that repeats another by reference is refused: a few lines of those stand for more than any memory holds.
    """
    if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
        raise ValueError("a value that refers to another")
    read = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - BaseLoader makes texts, lists and objects, nothing else
    if read is None or read == "":
        return {}
    if not isinstance(read, dict):
        raise ValueError("no names with values")
    return {str(name): value for name, value in read.items()}


def link_names(line: str) -> list[str]:
    """Return the names of the notes that a line links to: without folders, and without the suffix of notes."""
    paths = (path.strip() for path in _LINK.findall(_CODE.sub("", line)))
    return [name for path in paths if (name := path.rpartition("/")[2].removesuffix(SUFFIX).strip())]


def tags_of(line: str) -> list[str]:
    """Return the tags of one line."""
    return _TAG.findall(_CODE.sub("", line))


LABEL: Final = "Note"
LINKS_TO: Final = "links_to"
_TIMES: Final = ("created", "date")  # which property says when, the first that is there
_OBSIDIAN_FIELDS: Final = ("title", "tags", "tag", *_TIMES)


def read_obsidian(path: Path, _choices: Choices) -> Iterator[Entry]:
    """Yield the notes, and the links between them."""
    vault = path.resolve().name
    for note in notes(path):
        if not isinstance(note, MarkdownNote):
            yield note
            continue
        name = note.path.stem  # links name the file, whatever the note calls itself
        yield ExportedNode(name, LABEL, 1, note.file)
        yield _memory(note, vault)
        passed = {name}
        for number, line, is_code in note.lines():
            for target in [] if is_code else link_names(line):
                if target not in passed:
                    passed.add(target)
                    yield ExportedEdge(name, target, LINKS_TO, number, note.file, LABEL)


def _memory(note: MarkdownNote, vault: str) -> Entry:
    text = note.text.strip()
    if not text:
        return LeftOut("notes without text", "note without text")
    own, folder = note.properties, str(note.path.parent)
    at = next((own[name] for name in _TIMES if isinstance(own.get(name), str) and own[name]), None)
    inline = [tag for _, line, is_code in note.lines() if not is_code for tag in tags_of(line)]
    kept = without_nothing({name: value for name, value in own.items() if name not in _OBSIDIAN_FIELDS})
    values = {
        "content": note.title_of(text),
        "external_id": own_id("obsidian", f"{vault}/{note.path}"),
        "thread": own_id("obsidian", f"{vault}/{note.path.with_suffix('')}"),
        "occurred_at": moment(at),
        "tags": tags(own.get("tags"), own.get("tag"), inline),
        "metadata": {**kept, **({"folder": folder} if folder != "." else {})},
    }
    return note.row(note.first, values)


NOTE: Final = "note"
RELATES_TO: Final = "relates_to"
# - [category] what is so #tag (where from); a box to tick is none, nor is a link.
_OBSERVATION: Final = re.compile(r"\s*[-*]\s+\[(?![ xX-]\])([^\[\]]+)\](?!\()\s+(\S.*?)(?:\s+\(([^()]*)\))?\s*")
# - relation [[Other note]] (why)
_RELATION: Final = re.compile(r"""\s*[-*]\s+(?:"([^"]+)"|'([^']+)'|([^\[\]]*?))\s*\[\[[^\[\]]+\]\].*""")
_TRAILING_TAGS: Final = re.compile(r"(?:\s+#[\w/-]+)+\s*$")
_BASIC_FIELDS: Final = ("title", "type", "tags", "permalink", "created", "date")


def read_basic_memory(path: Path, _choices: Choices) -> Iterator[Entry]:
    """Yield the nodes, memories and edges of each note."""
    folder = path.resolve().name
    for note in notes(path):
        if isinstance(note, MarkdownNote):
            yield from _read_note(note, folder)
        else:
            yield note


def _read_note(note: MarkdownNote, folder: str) -> Iterator[Entry]:
    kind = note.properties.get("type")
    kind = kind.strip() if isinstance(kind, str) and kind.strip() else NOTE
    yield ExportedNode(note.title, kind, 1, note.file)
    rest: list[str] = []
    linked = set[tuple[str, str]]()
    for number, line, is_code in note.lines():
        observed = None if is_code else _OBSERVATION.fullmatch(line)
        if observed:
            yield _observation(note, number, observed)
        elif not is_code and (relation := _RELATION.fullmatch(line)):
            name = next((group.strip() for group in relation.groups() if group and group.strip()), RELATES_TO)
            yield from _edges(note, number, name, line, linked)
        else:
            rest.append(line)
            if not is_code:
                yield from _edges(note, number, LINKS_TO, line, linked)
    if text := _prose(rest):
        yield _text(note, folder, text)


def _edges(
    note: MarkdownNote, number: int, relation: str, line: str, linked: set[tuple[str, str]]
) -> Iterator[ExportedEdge]:
    for target in link_names(line):
        if (relation, target) not in linked:
            linked.add((relation, target))
            yield ExportedEdge(note.title, target, relation, number, note.file, NOTE)


def _observation(note: MarkdownNote, number: int, observed: re.Match[str]) -> Given:
    category, said, context = observed[1].strip(), observed[2], observed[3]
    text = _TRAILING_TAGS.sub("", said) or said
    values = {
        "content": f"{note.title}: {text}" + (f" ({context})" if context else ""),
        "occurred_at": _time(note),
        "tags": tags(note.properties.get("tags"), [category], tags_of(said)),
        "metadata": without_nothing({**_about(note), "category": category, "context": context}),
    }
    return note.row(number, values)


def _text(note: MarkdownNote, folder: str, text: str) -> Given:
    own = {name: value for name, value in note.properties.items() if name not in _BASIC_FIELDS}
    identifier = own_id("basic-memory", f"{folder}/{note.properties.get('permalink') or note.path}")
    values = {
        "content": note.title_of(text),
        "external_id": identifier,
        "thread": identifier,
        "occurred_at": _time(note),
        "tags": tags(note.properties.get("tags")),
        "metadata": without_nothing({**own, **_about(note)}),
    }
    return note.row(note.first, values)


def _about(note: MarkdownNote) -> dict[str, Any]:
    return {"note": note.title, "permalink": note.properties.get("permalink")}


def _time(note: MarkdownNote) -> str | None:
    return moment(note.properties.get("created") or note.properties.get("date"))


def _prose(lines: list[str]) -> str:
    """Return what stands around observations and relations; nothing where that is headings alone."""
    said = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return "\n".join(lines).strip() if said else ""
