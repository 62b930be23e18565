"""A folder of basic-memory: notes with observations and relations, each on a line of its own.

An observation becomes a memory that names its note, the text around them one more, a note a node and a relation an edge
of the knowledge graph.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing.found import Choices, Edge, Found, Node
from engramq.deploy.importing.markdown import Note, link_names, notes, tags_of
from engramq.deploy.importing.records import Given
from engramq.deploy.importing.values import moment, own_id, tags, without_nothing

NOTE: Final = "note"
LINKS_TO: Final = "links_to"
RELATES_TO: Final = "relates_to"
# - [category] what is so #tag (where from); a box to tick is none, nor is a link.
_OBSERVATION: Final = re.compile(r"\s*[-*]\s+\[(?![ xX-]\])([^\[\]]+)\](?!\()\s+(\S.*?)(?:\s+\(([^()]*)\))?\s*")
# - relation [[Other note]] (why)
_RELATION: Final = re.compile(r"""\s*[-*]\s+(?:"([^"]+)"|'([^']+)'|([^\[\]]*?))\s*\[\[[^\[\]]+\]\].*""")
_TRAILING_TAGS: Final = re.compile(r"(?:\s+#[\w/-]+)+\s*$")
_FIELDS: Final = ("title", "type", "tags", "permalink", "created", "date")


def read(path: Path, _choices: Choices) -> Iterator[Found]:
    """Yield the nodes, memories and edges of each note."""
    folder = path.resolve().name
    for note in notes(path):
        if isinstance(note, Note):
            yield from _of_note(note, folder)
        else:
            yield note


def _of_note(note: Note, folder: str) -> Iterator[Found]:
    kind = note.properties.get("type")
    kind = kind.strip() if isinstance(kind, str) and kind.strip() else NOTE
    yield Node(note.title, kind, 1, note.file)
    rest: list[str] = []
    linked = set[tuple[str, str]]()
    for number, line, is_code in note.lines():
        observed = None if is_code else _OBSERVATION.fullmatch(line)
        if observed:
            yield _observation(note, number, observed)
        elif not is_code and (relation := _RELATION.fullmatch(line)):
            told = next((one.strip() for one in relation.groups() if one and one.strip()), RELATES_TO)
            yield from _edges(note, number, told, line, linked)
        else:
            rest.append(line)
            if not is_code:
                yield from _edges(note, number, LINKS_TO, line, linked)
    if text := _prose(rest):
        yield _text(note, folder, text)


def _edges(note: Note, number: int, relation: str, line: str, linked: set[tuple[str, str]]) -> Iterator[Edge]:
    for target in link_names(line):
        if (relation, target) not in linked:
            linked.add((relation, target))
            yield Edge(note.title, target, relation, number, note.file, NOTE)


def _observation(note: Note, number: int, observed: re.Match[str]) -> Given:
    category, said, context = observed[1].strip(), observed[2], observed[3]
    text = _TRAILING_TAGS.sub("", said) or said
    metadata = {**_about(note), "category": category, "context": context}
    return Given(
        number,
        without_nothing(
            {
                "content": f"{note.title}: {text}" + (f" ({context})" if context else ""),
                "occurred_at": _time(note),
                "tags": tags(note.properties.get("tags"), [category], tags_of(said)),
                "metadata": without_nothing(metadata),
            }
        ),
        note.file,
    )


def _text(note: Note, folder: str, text: str) -> Given:
    own = {name: value for name, value in note.properties.items() if name not in _FIELDS}
    permalink = note.properties.get("permalink")
    return Given(
        note.first,
        without_nothing(
            {
                "content": note.titled(text),
                "external_id": own_id("basic-memory", f"{folder}/{permalink or note.path}"),
                "thread": own_id("basic-memory", f"{folder}/{permalink or note.path}"),
                "occurred_at": _time(note),
                "tags": tags(note.properties.get("tags")),
                "metadata": without_nothing({**own, **_about(note)}),
            }
        ),
        note.file,
    )


def _about(note: Note) -> dict[str, Any]:
    return {"note": note.title, "permalink": note.properties.get("permalink")}


def _time(note: Note) -> str | None:
    return moment(note.properties.get("created") or note.properties.get("date"))


def _prose(lines: list[str]) -> str:
    """Return what stands around observations and relations; nothing where that is headings alone."""
    said = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return "\n".join(lines).strip() if said else ""
