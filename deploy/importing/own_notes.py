"""Read a note that `engramq export --format markdown` has written: its property `engramq` says what Markdown cannot."""

import json
from collections.abc import Iterator
from typing import Any, Final

from engramq.deploy.importing.exports import Entry, ExportedEdge, ExportedNode
from engramq.deploy.importing.fields import WHEN
from engramq.deploy.importing.records import RECORD_FIELDS, Given, Rejection

OWN: Final = "engramq"
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


def read_own(file: str, line: int, properties: dict[str, Any], text: str) -> Iterator[Entry] | None:
    """Return the memory, or the node and edges, that a note is; None for one that is not ours.

    One whose property was spoilt is rejected: it may say that the memory is private, or untrusted.
    """
    said = properties.get(OWN)
    if not isinstance(said, dict) and not (isinstance(said, str) and said.lstrip().startswith("{")):
        return None
    try:
        own = json.loads(said) if isinstance(said, str) else None
    except (ValueError, RecursionError):
        own = None
    if not isinstance(own, dict):
        return iter([Rejection(1, OWN, _SPOILT, file)])
    return _thing(file, properties, own) if "thing" in own else iter([_memory(file, line, properties, own, text)])


def _thing(file: str, properties: dict[str, Any], own: dict[str, Any]) -> Iterator[Entry]:
    yield ExportedNode(own["thing"], properties.get("type"), 1, file)
    edges = own.get("edges")
    for edge in edges if isinstance(edges, list) else ():
        if isinstance(edge, list) and len(edge) == 2:
            yield ExportedEdge(own["thing"], edge[1], edge[0], 1, file)


def _memory(file: str, line: int, properties: dict[str, Any], own: dict[str, Any], text: str) -> Given:
    values = {name: value for name, value in own.items() if name in _OWN_FIELDS}
    given = {"tags": properties.get("tags"), WHEN: properties.get("created")}
    values |= {name: value for name, value in given.items() if value}
    return Given(line, {**values, "content": text.removeprefix("\n").removesuffix("\n")}, file)
