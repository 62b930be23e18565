"""Read folders of Markdown notes: a vault of Obsidian, or a folder of basic-memory.

In Obsidian each note becomes a memory, each link between notes an edge of the knowledge graph. In basic-memory each
observation becomes a memory that names its note, the text around them another one, each note a node and each relation
an edge."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

import yaml

from engramq.deploy.importing import exports
from engramq.deploy.importing.fields import WHEN, Choices, join_texts, list_at, value_at
from engramq.deploy.importing.own_notes import OWN, own_properties, read_own
from engramq.deploy.importing.plain_files import read_plain
from engramq.deploy.importing.records import FILE, Rejection, UncheckedRow
from engramq.deploy.local.hooks.transcripts import parse_line
from engramq.schemas import limits
from engramq.schemas.packed_lines import UnusableFile, is_utf16

SUFFIX: Final = ".md"
CANVAS: Final = ".canvas"  # cards on a board, which Obsidian writes as JSON
# ```x``` within a line is no block.
_FENCE: Final = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,}|%%(?=\s*$))")
_PROPERTIES: Final = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PROPERTIES_BYTES: Final = 64 * 1024  # YAML takes a second for a MB of ordinary ones, and a minute for odd ones
_DEEPEST: Final = 32  # brackets within brackets; an unclosed one within quotes counts, too
# Within a line: code, comments, marks of HTML, and targets of links, in which # begins no tag.
_CODE: Final = re.compile(r"`[^`\n]*`|%%.*?(?:%%|\Z)", re.DOTALL)
_NO_TAGS: Final = re.compile(r"\[\[[^\[\]]*\]\]|\]\([^()\n]*\)|<[^<>\n]*>")
# [[Note]], [[Note#Heading]], [[Note|as it reads]], in a table [[Note\|as it reads]], and ! before it shows the note.
_LINK: Final = re.compile(r"\[\[([^\[\]|#^\n\\]+)(?:[#^][^\[\]|\n\\]*)?(?:\\?\|[^\[\]\n]*)?\]\]")
_LINK_TO_FILE: Final = re.compile(r"(?<!!)\[[^\[\]\n]*\]\(<?(?![a-z]+:)([^()<>\n#]+\.md)(?:#[^()<>\n]*)?>?\)")
# A link to a file that programs show and that is no note.
_SHOWN: Final = re.compile(
    r"(?i).*\.(?:png|jpe?g|gif|svg|webp|bmp|avif|heic|pdf|mp[34]|m4a|wav|ogg|flac|3gp|web[mp]|mov|mkv|canvas|base|excalidraw)"
)
_NOTION_ID: Final = re.compile(r" [0-9a-f]{32}\Z")  # which Notion puts behind the name of a file
# author:: [[Note]], as Dataview reads it, also within brackets.
_FIELD: Final = re.compile(r"(?:^|[\[(])\s*(?:[-*]\s+)?([^\W\d_][\w -]{0,60}?) {0,3}::(?= {0,3}\[\[)")
# A tag has at least one character that is no digit; it may have emoji, and no punctuation but these.
_TAG: Final = re.compile(
    r"(?<![\w/#&\\])#(?!\d+(?:[^\w/-]|$))"
    r"([^\s!-,.:-@\[-^`{-~\u2010-\u2027\u3000-\u303f\uff00-\uff0f\uff1a-\uff20]+)"
)
# A line that begins a property; most programs also take one without a blank before its value.
_NAMED: Final = re.compile(r"([^\s:#\-\[\]{}'\"][^:\n]*?|\"[^\"\n]+\"):(?!//)(.*)")
_LINK_OR_SPECIAL: Final = exports.LeftOut("links and special files", "link or special file")
_NO_NOTE: Final = exports.LeftOut(
    "files that end in neither .md nor .canvas", "file that ends in neither .md nor .canvas"
)
NO_NOTE_TEXT: Final = exports.LeftOut("notes without text", "note without text")
UNREAD: Final = exports.LeftOut(
    "lines of properties that cannot be read (their notes are in)", "line of properties that cannot be read"
)


@dataclass(frozen=True, slots=True)
class MarkdownNote:
    """One file: its path below the folder, its properties, and the text behind them, which begins on line `first`.

    `unread`: how many lines of its properties cannot be read.
    """

    path: PurePosixPath
    properties: dict[str, Any]
    text: str
    first: int
    unread: int = 0

    @property
    def file(self) -> str:
        """Its path, as reports show it."""
        return str(self.path)

    @property
    def title(self) -> str:
        """Its title: the property of that name, else the name of its file."""
        title = self.properties.get("title")
        return title.strip() if isinstance(title, str) and title.strip() else self.name

    @property
    def name(self) -> str:
        """Its name in links: the name of its file."""
        return _NOTION_ID.sub("", self.path.stem) if self.path.suffix.lower() == SUFFIX else self.path.name

    def title_of(self, text: str) -> str:
        """Return a text under its title, by which a note is found too, unless its first line has that already."""
        return text if self.title in text.partition("\n")[0] else f"{self.title}\n\n{text}"

    def row(self, line: int, values: dict[str, Any]) -> UncheckedRow:
        """Return one memory of it, which begins on a line; values that say nothing are left out."""
        return UncheckedRow(line, exports.without_nothing(values), self.file)

    def lines(self) -> Iterator[tuple[int, str, bool]]:
        """Yield each line with its number, and whether it is of a block of code."""
        fence = ""
        for number, line in enumerate(self.text.splitlines(), self.first):
            mark = _FENCE.match(line)
            if mark and (not fence or (mark[1].startswith(fence) and not line[mark.end() :].strip())):
                fence = "" if fence else mark[1]
                yield number, line, True
            else:
                yield number, line, bool(fence)


def notes(folder: Path) -> Iterator[MarkdownNote | exports.Entry]:
    """Yield each note below a folder, in order; links to elsewhere and hidden folders are passed over.

    A note that our own export wrote gives what it says; words that somebody has added to the note of a thing are read
    as basic-memory does, whatever the format, so that they come in once. Raises UnusableFile when it is no folder, or
    holds no note.
    """
    if not folder.is_dir():
        raise UnusableFile("Notes are imported from the folder that they are in: unpack an archive, then name that.")
    count = 0
    for path in _files(folder):
        if isinstance(path, Rejection):
            yield path
        elif path.is_symlink() or not path.is_file():
            yield _LINK_OR_SPECIAL
        elif path.suffix.lower() not in (SUFFIX, CANVAS):
            yield _NO_NOTE
        else:
            count += 1
            note = read_note(folder, path)
            yield from [note] if isinstance(note, Rejection) else _said_in(note, folder)
    if not count:
        raise UnusableFile(f"There is no note in it: no file that ends in {SUFFIX} or {CANVAS}.")


def _said_in(note: MarkdownNote, folder: Path) -> Iterator[MarkdownNote | exports.Entry]:
    if (own := read_own(note.file, note.first, note.properties, note.text)) is None:
        yield note
    else:
        entries, properties, added = own
        yield from entries
        if properties is not None:
            yield from _read_note(replace(note, properties=properties, text=added), folder.resolve().name)
    yield from [UNREAD] * note.unread


def _files(folder: Path) -> Iterator[Path | Rejection]:
    """Yield files and links below a folder that are not hidden, and a rejection for a folder that cannot be read."""
    problems: list[OSError] = []
    for root, folders, files in os.walk(folder, onerror=problems.append):  # which follows no links
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(root, name) for name in folders if Path(root, name).is_symlink())
        yield from (Path(root, name) for name in sorted(files) if not name.startswith("."))
    yield from (_unreadable(Path(problem.filename).relative_to(folder), problem) for problem in problems)


def _unreadable(path: PurePath, problem: OSError) -> Rejection:
    return Rejection(1, FILE, f"It cannot be read: {problem.strerror or problem}.", path.as_posix())


def read_note(folder: Path, path: Path, *, properties: bool = True) -> MarkdownNote | Rejection:
    """Return a note below a folder, or why it cannot be read; `properties`: whether it may begin with such."""
    own = PurePosixPath(path.relative_to(folder).as_posix())
    try:
        data = read_plain(str(path), limits.BODY_BYTES)
        text = data.decode("utf-16" if is_utf16(data) else "utf-8-sig")
        if path.suffix.lower() == CANVAS:
            return MarkdownNote(own, {}, _cards_in(text), 1)
    except UnusableFile as problem:
        return Rejection(1, FILE, str(problem), str(own))
    except OSError as problem:
        return _unreadable(own, problem)
    except UnicodeDecodeError:
        return Rejection(1, FILE, "The file is no text in UTF-8 or UTF-16.", str(own))
    found = _PROPERTIES.match(text) if properties else None
    read = None if found is None else _read_properties(found[1])
    if found is None or read is None:  # a rule, and no properties
        return MarkdownNote(own, {}, text, 1)
    values, unread = read
    if OWN not in values and OWN in (line.partition(":")[0].strip(" '\"") for line in found[1].splitlines()):
        values = {**values, OWN: {}}  # it is there, among what cannot be read
    return MarkdownNote(own, values, text[found.end() :], 1 + text.count("\n", 0, found.end()), unread)


def _cards_in(text: str) -> str:
    """Return what is written on a canvas, with links to the files that it shows. Raises UnusableFile."""
    canvas = parse_line(text.encode() or b"{}")
    if canvas is None:
        raise UnusableFile("The canvas is no JSON object.")
    several = [*list_at(canvas, "nodes"), *list_at(canvas, "edges")]
    shown = (value_at(each, "file") for each in several)
    links = [f"[[{file}]]" for file in shown if isinstance(file, str)]
    return join_texts([*(value_at(each, name) for each in several for name in ("label", "text", "url")), *links])


def _read_properties(text: str) -> tuple[dict[str, Any], int] | None:
    """Return properties, and how many of their lines cannot be read; None for a text that has none.

    Each value is a text or made of texts. A head that is no YAML as a whole is read property by property. A value that
    is no YAML by itself, such as "Kettle: a history" or "@someone", is the text that stands there.
    """
    if (own := own_properties(text)) is not None:
        return own, 0
    if len(text.encode()) > _PROPERTIES_BYTES:
        return {}, text.count("\n")
    if (whole := _yaml(text)) is not None:
        return (whole, 0) if whole or not text.strip() else None  # a heading is a comment in YAML
    groups: list[list[str]] = []
    for line in text.splitlines():
        if _NAMED.fullmatch(line):
            groups.append([line])
        elif not line.strip() or line.lstrip().startswith("#"):
            continue
        elif groups and line[0] in " \t-":
            groups[-1].append(line.replace("\t", "  "))
        else:
            return None
    properties: dict[str, Any] = {}
    unread = 0
    for first, *rest in groups:
        if (read := _yaml("\n".join([first, *rest]))) is not None:
            properties |= read
            continue
        named = _NAMED.fullmatch(first)
        assert named is not None
        value = named[2].strip()
        properties[named[1].strip(' "')] = value if value.startswith("[[") else value.strip("[]")
        unread += len(rest)
    return properties, unread


def _yaml(text: str) -> dict[str, Any] | None:
    """Return the properties that a text is; None for what is no YAML, no names with values, or refers to itself.

    A few lines of references stand for more than any memory holds, and each bracket that is open slows the parser.
    """
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth = depth + 1 if bracket in "[{" else max(depth - 1, 0)
        if depth > _DEEPEST:
            return None
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            return None
        read = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - BaseLoader makes texts, lists and objects, nothing else
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if read is None or read == "":
        return {}
    return {str(name): value for name, value in read.items()} if isinstance(read, dict) else None


def link_names(line: str) -> list[str]:
    """Return the names of the notes that a line links to: without folders, and without the suffix of notes."""
    text = _CODE.sub("", line)
    paths = [*_LINK.findall(text), *map(unquote, _LINK_TO_FILE.findall(text))]
    names = (_NOTION_ID.sub("", path.strip().rpartition("/")[2].removesuffix(SUFFIX).strip()) for path in paths)
    return [name for name in names if name and not _SHOWN.fullmatch(name)]


def tags_of(line: str) -> list[str]:
    """Return the tags of one line."""
    return _TAG.findall(_NO_TAGS.sub("", _CODE.sub("", line)))


def relation_in(line: str, otherwise: str) -> str:
    """Return the relation that a line's links have: the name of its field, where it has one."""
    field = _FIELD.search(_CODE.sub("", line))
    return field[1].strip() if field else otherwise


def linked_by(properties: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the properties that link to notes, each with the note's name: [[X]] without marks is a list of lists."""
    for name, value in properties.items():
        waiting = [value]
        while waiting:
            each = waiting.pop(0)
            if isinstance(each, list) and len(each) == 1 and isinstance(each[0], list) and len(each[0]) == 1:
                each = f"[[{each[0][0]}]]"
            if isinstance(each, list):
                waiting += each
            elif isinstance(each, str):
                yield from ((name, target) for target in link_names(each))


LABEL: Final = "Note"
LINKS_TO: Final = "links_to"
_TIMES: Final = ("created", "date")  # which property says when, the first that is there
_OBSIDIAN_FIELDS: Final = ("title", "tags", "tag", *_TIMES)


def read_markdown(path: Path, _choices: Choices, kind: str = "markdown") -> Iterator[exports.Entry]:
    """Yield the notes, and the links between them: of any folder of Markdown, such as an export of Notion."""
    vault = path.resolve().name
    for note in notes(path):
        if not isinstance(note, MarkdownNote):
            yield note
            continue
        name = note.name  # links name the file, whatever the note calls itself
        yield exports.ExportedNode(name, LABEL, 1, note.file)
        yield _memory(note, vault, kind)
        yield from edges_of(note, name)


read_obsidian: Final = partial(read_markdown, kind="obsidian")


def edges_of(note: MarkdownNote, name: str) -> Iterator[exports.ExportedEdge]:
    """Yield an edge for each link in a note's properties and text, from the node of that name."""
    linked = set[tuple[str, str]]()
    yield from _edges(name, LABEL, [(1, *link) for link in linked_by(note.properties)], linked, note)
    for number, line, is_code in note.lines():
        if not is_code and (targets := link_names(line)):
            relation = relation_in(line, LINKS_TO)
            yield from _edges(name, LABEL, [(number, relation, target) for target in targets], linked, note)


def _edges(
    source: str, label: str, found: Iterable[tuple[int, str, str]], linked: set[tuple[str, str]], note: MarkdownNote
) -> Iterator[exports.ExportedEdge]:
    """Yield an edge for each link that is not in `linked` yet, by its relation and target."""
    for number, relation, target in found:
        if target != source and (relation, target) not in linked:
            linked.add((relation, target))
            yield exports.ExportedEdge(source, target, relation, number, note.file, label)


def _memory(note: MarkdownNote, vault: str, kind: str) -> exports.Entry:
    own, folder = note.properties, str(note.path.parent)
    place = note.path if note.name == note.path.name else note.path.with_suffix("")
    # A note may be its properties alone, as of a book or a person.
    text = note.text.strip() or "\n".join(
        f"{name}: {_as_text(value)}" for name, value in own.items() if name not in _OBSIDIAN_FIELDS and value
    )
    if not text:
        return NO_NOTE_TEXT
    at = next((own[name] for name in _TIMES if isinstance(own.get(name), str) and own[name]), None)
    inline = [tag for _, line, is_code in note.lines() if not is_code for tag in tags_of(line)]
    kept = exports.without_nothing({name: value for name, value in own.items() if name not in _OBSIDIAN_FIELDS})
    values = {
        "content": note.title_of(text),
        "external_id": exports.own_id(kind, f"{vault}/{note.path}"),
        "thread": exports.own_id(kind, f"{vault}/{place}"),
        WHEN: exports.moment(at),
        "tags": exports.tags(own.get("tags"), own.get("tag"), inline),
        "metadata": {**kept, **({"folder": folder} if folder != "." else {})},
    }
    return note.row(note.first, values)


def _as_text(value: Any) -> str:
    return ", ".join(map(_as_text, value)) if isinstance(value, list) else str(value)


NOTE: Final = "note"
RELATES_TO: Final = "relates_to"
# - [category] what is so #tag (where from); a box to tick is none, nor is a link.
_OBSERVATION: Final = re.compile(r"\s*[-*]\s+\[(?![ xX-]\])([^\[\]]+)\](?!\()\s+(\S.*)")
# - relation [[Other note]] (why)
_RELATION: Final = re.compile(r"""\s*[-*](?:\s+"([^"]+)"\s*|\s+'([^']+)'\s*|\s([^\[\]]*))\[\[[^\[\]]+\]\].*""")
_TAG_ALONE: Final = re.compile(r"#[\w/-]+")
_DEFAULT: Final = "main/"  # as the first collection is called unless somebody names it
_BASIC_FIELDS: Final = ("title", "type", "tags", "permalink", "created", "date")


def read_basic_memory(path: Path, _choices: Choices) -> Iterator[exports.Entry]:
    """Yield the nodes, memories and edges of each note."""
    folder = path.resolve().name
    for note in notes(path):
        if isinstance(note, MarkdownNote):
            yield from _read_note(note, folder)
        else:
            yield note


def _read_note(note: MarkdownNote, folder: str) -> Iterator[exports.Entry]:
    kind = note.properties.get("type")
    kind = kind.strip() if isinstance(kind, str) and kind.strip() else NOTE
    yield exports.ExportedNode(note.title, kind, 1, note.file)
    rest: list[str] = []
    linked = set[tuple[str, str]]()
    for number, line, is_code in note.lines():
        observed = None if is_code else _OBSERVATION.fullmatch(line)
        if observed:
            yield _observation(note, number, observed)
        elif not is_code and (relation := _RELATION.fullmatch(line)):
            name = next((group.strip() for group in relation.groups() if group and group.strip()), RELATES_TO)
            yield from _edges(note.title, NOTE, [(number, name, target) for target in link_names(line)], linked, note)
        else:
            rest.append(line)
            if not is_code:
                found = [(number, LINKS_TO, target) for target in link_names(line)]
                yield from _edges(note.title, NOTE, found, linked, note)
    if text := _prose(rest):
        yield _text(note, folder, text)


def _observation(note: MarkdownNote, number: int, observed: re.Match[str]) -> UncheckedRow:
    category, (said, context) = observed[1].strip(), _without_context(observed[2].rstrip())
    text = _without_last_tags(said) or said
    values = {
        "content": f"{note.title}: {text}" + (f" ({context})" if context else ""),
        WHEN: _time(note),
        "tags": exports.tags(note.properties.get("tags"), [category], tags_of(said)),
        "metadata": exports.without_nothing({**_about(note), "category": category, "context": context}),
    }
    return note.row(number, values)


def _without_context(said: str) -> tuple[str, str]:
    """Return an observation and what stands in parentheses behind it, as where it is from."""
    head, opens, context = said.rpartition("(")
    if opens and context.endswith(")") and ")" not in context[:-1] and head.rstrip() not in ("", head):
        return head.rstrip(), context[:-1]
    return said, ""


def _without_last_tags(said: str) -> str:
    words = list(re.finditer(r"\S+", said))
    return said[: next((word.end() for word in reversed(words) if not _TAG_ALONE.fullmatch(word[0])), 0)]


def _text(note: MarkdownNote, folder: str, text: str) -> UncheckedRow:
    own = {name: value for name, value in note.properties.items() if name not in _BASIC_FIELDS}
    identifier = exports.own_id("basic-memory", _permalink(note) or f"{folder}/{note.path}")
    values = {
        "content": note.title_of(text),
        "external_id": identifier,
        "thread": identifier,
        WHEN: _time(note),
        "tags": exports.tags(note.properties.get("tags")),
        "metadata": exports.without_nothing({**own, **_about(note)}),
    }
    return note.row(note.first, values)


def _permalink(note: MarkdownNote) -> str:
    """Return a note's permalink, "" where it has none.

    Newer versions put their collection before it: those of the first one are known without it, as they were before.
    """
    given = note.properties.get("permalink")
    own = given.strip("/ ") if isinstance(given, str) else ""
    return own if str(note.path).startswith(_DEFAULT) else own.removeprefix(_DEFAULT)


def _about(note: MarkdownNote) -> dict[str, Any]:
    return {"note": note.title, "permalink": note.properties.get("permalink")}


def _time(note: MarkdownNote) -> str | None:
    return exports.moment(note.properties.get("created") or note.properties.get("date"))


def _prose(lines: list[str]) -> str:
    """Return what stands around observations and relations; nothing where that is headings alone."""
    said = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return "\n".join(lines).strip() if said else ""
