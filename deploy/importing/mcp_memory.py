"""The file of MCP's reference memory server: one entity or relation for each line.

An observation becomes a memory that names its entity, an entity a node and a relation an edge of the knowledge graph.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engramq.deploy.importing.found import Choices, Edge, Found, LeftOut, Node
from engramq.deploy.importing.records import Given, Rejection, read_records
from engramq.deploy.importing.values import tags, without_nothing
from engramq.schemas import limits
from engramq.schemas.packed_lines import Source
from engramq.schemas.vocabulary import RowFormat

ENTITY: Final = "entity"
RELATION: Final = "relation"
_OBSERVATIONS: Final = "observations"


def read(path: Path, _choices: Choices) -> Iterator[Found]:
    """Yield the nodes, memories and edges."""
    with path.open("rb") as raw:
        for row in read_records(Source(raw).lines(), RowFormat.JSONL):
            if isinstance(row, Rejection):
                yield row
            elif row.values.get("type") == ENTITY:
                yield from _of_entity(row)
            elif row.values.get("type") == RELATION:
                yield _of_relation(row)
            else:
                yield Rejection(row.line, "type", f"type is neither {ENTITY} nor {RELATION}.")


def _of_relation(row: Given) -> Found:
    for name in ("from", "to", "relationType"):
        if not isinstance(row.values.get(name), str):
            return Rejection(row.line, name, f"{name} is no text.")
    return Edge(row.values["from"], row.values["to"], row.values["relationType"], row.line)


def _of_entity(row: Given) -> Iterator[Found]:
    name, kind = row.values.get("name"), row.values.get("entityType")
    if not isinstance(name, str) or not isinstance(kind, str):
        field = "entityType" if isinstance(name, str) else "name"
        yield Rejection(row.line, field, f"{field} is no text.")
        return
    yield Node(name, kind, row.line)
    observations = row.values.get(_OBSERVATIONS)
    if not isinstance(observations, list):
        yield Rejection(row.line, _OBSERVATIONS, f"{_OBSERVATIONS} is no list.")
        return
    if not 0 < len(name) <= limits.NAME_CHARS:
        return  # the node is rejected for it
    for observation in observations:
        if not isinstance(observation, str):
            yield Rejection(row.line, _OBSERVATIONS, "An observation is no text.")
        elif not observation.strip():
            yield LeftOut("blank observations", "blank observation")
        else:
            yield Given(
                row.line,
                without_nothing(
                    {
                        "content": f"{name}: {observation}",
                        "tags": tags([kind]),
                        "metadata": {"entity": name, "entity_type": kind},
                    }
                ),
            )
