"""Read a note that `engramq export --format markdown` has written: its property `engramq` says what Markdown cannot."""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from engramq.deploy.importing.exports import Entry, ExportedEdge, tags
from engramq.deploy.importing.fields import WHEN, list_at
from engramq.deploy.importing.records import RECORD_FIELDS, Rejection, UncheckedRow
from engramq.schemas.commands import Original, text_digest

OWN: Final = "engramq"
_ORIGINAL: Final = "memory"  # within it: which memory the note was, and the digest of its text
THINGS: Final = "things"  # the folder of notes on things of the graph
# No verification: a folder of somebody else would vouch for itself.
_OWN_FIELDS: Final = RECORD_FIELDS - {"verification"}
_SPOILT: Final = f"The property {OWN} cannot be read: mend it, or take it out to import the note as any other."


def own_properties(text: str) -> dict[str, Any] | None:
    """Return properties that are as an export wrote them: a value in JSON on each line; None for others."""
    if f"{OWN}: " not in text:
        return None
    try:
        return {
            name: json.loads(value) for name, _, value in (line.partition(": ") for line in text.strip().split("\n"))
        }
    except (ValueError, RecursionError):
        return None  # edited since: YAML, maybe


def read_own(
    file: str, line: int, properties: dict[str, Any], text: str
) -> tuple[list[Entry], dict[str, Any] | None, str] | None:
    """Return what a note of ours is; None for another one.

    A memory is an entry. The edges of a thing are entries too, and its properties and the text that somebody has added
    to it follow. One whose property was spoilt is rejected: it may say that the memory is private, or untrusted.
    """
    said = properties.get(OWN)
    if not isinstance(said, dict) and not (isinstance(said, str) and said.lstrip().startswith("{")):
        return None
    try:
        own = json.loads(said) if isinstance(said, str) else None
    except (ValueError, RecursionError):
        own = None
    if not isinstance(own, dict):
        return [Rejection(1, OWN, _SPOILT, file)], None, ""
    if "thing" not in own:
        return [_memory(file, line, properties, own, text)], None, ""
    name = own["thing"]
    pairs = [edge for edge in list_at(own, "edges") if isinstance(edge, list) and len(edge) == 2]
    written = {heading_of(name), *(line_of(*pair) for pair in pairs)}
    added = "\n".join("" if line in written else line for line in text.splitlines())
    others = {key: value for key, value in properties.items() if key != OWN}
    return (
        [ExportedEdge(name, target, relation, 1, file) for relation, target in pairs],
        others | {"title": name},
        added,
    )


def heading_of(thing: object) -> str:
    """Return the first line of a thing's note."""
    return f"# {thing}"


def line_of(relation: object, target: object) -> str:
    """Return the line of an edge in the note of its source."""
    return f"- {relation} [[{target}]]"


def _memory(file: str, line: int, properties: dict[str, Any], own: dict[str, Any], text: str) -> UncheckedRow:
    values = {name: value for name, value in own.items() if name in _OWN_FIELDS}
    said = properties.get("tags")  # as a text, a person has written them
    given = {"tags": said if isinstance(said, list) else tags(said), WHEN: properties.get("created")}
    values |= {name: value for name, value in given.items() if value}
    content = text.removeprefix("\n").removesuffix("\n")
    return UncheckedRow(line, {**values, "content": content}, file, _original(own.get(_ORIGINAL), content))


def original_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the note of a memory says, so that it is known again."""
    return {_ORIGINAL: msgspec.to_builtins(Original(memory_id=record["id"], sha256=text_digest(record["content"])))}


def _original(said: object, content: str) -> Original | None:
    """Return which memory a note was; None for one of another program, or of an earlier version."""
    try:
        original = msgspec.convert(said, Original)
    except msgspec.ValidationError:
        return None
    return msgspec.structs.replace(original, edited=not original.is_of(content))
