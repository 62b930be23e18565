"""A vault of Obsidian: each note becomes a memory, each link between notes an edge of the knowledge graph."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing.found import Choices, Edge, Found, LeftOut, Node
from engramq.deploy.importing.markdown import Note, inline_tags, links, notes
from engramq.deploy.importing.records import Given
from engramq.deploy.importing.values import moment, own_id, tags, without_nothing

LABEL: Final = "Note"
LINKS_TO: Final = "links_to"
_TIMES: Final = ("created", "date")  # which property says when, the first that is there
_FIELDS: Final = ("title", "tags", "tag", *_TIMES)


def read(path: Path, _choices: Choices) -> Iterator[Found]:
    """Yield the notes, and the links between them."""
    vault = path.resolve().name
    for note in notes(path):
        if not isinstance(note, Note):
            yield note
            continue
        name = note.path.stem  # links name the file, whatever the note calls itself
        yield Node(name, LABEL, 1, note.file)
        yield _memory(note, vault)
        for line, target in links(note):
            if target != name:
                yield Edge(name, target, LINKS_TO, line, note.file, LABEL)


def _memory(note: Note, vault: str) -> Found:
    text = note.text.strip()
    if not text:
        return LeftOut("notes without text", "note without text")
    said = note.properties
    at = next((said[name] for name in _TIMES if isinstance(said.get(name), str) and said[name]), None)
    folder = str(note.path.parent)
    metadata: dict[str, Any] = {name: value for name, value in said.items() if name not in _FIELDS}
    return Given(
        note.first,
        without_nothing(
            {
                "content": note.titled(text),
                "external_id": own_id("obsidian", f"{vault}/{note.path}"),
                "thread": own_id("obsidian", f"{vault}/{note.path.with_suffix('')}"),
                "occurred_at": moment(at),
                "tags": tags(said.get("tags"), said.get("tag"), inline_tags(note)),
                "metadata": {**without_nothing(metadata), **({"folder": folder} if folder != "." else {})},
            }
        ),
        note.file,
    )
