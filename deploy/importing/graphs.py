"""Read graphs of memories: that of MCP's reference memory server, and that of Graphiti and Zep.

Things become nodes of the knowledge graph, relations edges. An observation or a fact becomes a memory.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from engramq.deploy.importing import exports, fields
from engramq.deploy.importing.records import Rejection, UncheckedRow, read_json_lines
from engramq.schemas import limits
from engramq.schemas.packed_lines import PackedSource

ENTITY: Final = "entity"
RELATION: Final = "relation"
_OBSERVATIONS: Final = "observations"


GRAPH_LISTS: Final = ("entities", "relations")
_OF_GRAPH: Final = frozenset({_OBSERVATIONS, "relationType"})  # each of its lines has one of them
_NAMED: Final = frozenset({"name", "from", "from_entity"})  # and one of these
_KINDS: Final = {"entities": ENTITY, "relations": RELATION}


def read_mcp_memory(path: Path, _choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield the nodes, memories and edges, of lines or of one document with both lists; each observation once."""
    passed = set[int]()
    for kind, row in _graph_rows(path):
        if isinstance(row, Rejection):
            yield row
        elif kind == ENTITY:
            yield from _read_entity(row, passed)
        elif kind == RELATION:
            yield _read_relation(row)
        else:
            yield Rejection(row.line, "type", f"type is neither {ENTITY} nor {RELATION}.")


def _graph_rows(path: Path) -> Iterator[tuple[object, UncheckedRow | Rejection]]:
    with exports.open_document(path, "") as stream:
        are_lines = exports.read_beginning(stream, *GRAPH_LISTS).name is None
    with path.open("rb") as raw:  # a line that is broken costs no other
        lines = read_json_lines(PackedSource(raw).lines()) if are_lines else ()
        for name, row in (("", row) for row in lines) if are_lines else exports.read_lists(path, "", *GRAPH_LISTS):
            yield _KINDS.get(name) or (None if isinstance(row, Rejection) else graph_kind(row.values)), row


def graph_kind(row: dict[str, Any]) -> object:
    """Return what a line of a graph is: as it says, by one of the names that forks use, else as its members tell."""
    kind = row.get("type", row.get("_type"))
    if kind in (ENTITY, RELATION) or "type" in row:
        return kind
    return ENTITY if _OBSERVATIONS in row else RELATION if "relationType" in row else kind


def is_of_graph(row: dict[str, Any]) -> bool:
    """Say whether a line is of a graph."""
    return bool(row.keys() & _OF_GRAPH and row.keys() & _NAMED) and graph_kind(row) in (ENTITY, RELATION)


def _read_relation(row: UncheckedRow) -> exports.Entry:
    ends = [
        fields.first_at(row.values, names)
        for names in (("from", "from_entity"), ("to", "to_entity"), ("relationType", "relation_type"))
    ]
    for name, value in zip(("from", "to", "relationType"), ends, strict=True):
        if not isinstance(value, str):
            return Rejection(row.line, name, f"{name} is no text.")
    return exports.ExportedEdge(ends[0], ends[1], ends[2], row.line)


def _read_entity(row: UncheckedRow, passed: set[int]) -> Iterator[exports.Entry]:
    name, kind = row.values.get("name"), fields.first_at(row.values, ("entityType", "entity_type"))
    if not isinstance(name, str) or not isinstance(kind, str):
        field = "entityType" if isinstance(name, str) else "name"
        yield Rejection(row.line, field, f"{field} is no text.")
        return
    yield exports.ExportedNode(name, kind, row.line)
    observations = row.values.get(_OBSERVATIONS)
    if not isinstance(observations, list):
        yield Rejection(row.line, _OBSERVATIONS, f"{_OBSERVATIONS} is no list.")
        return
    if not 0 < len(name) <= limits.NAME_CHARS:
        return  # the node is rejected for it
    for observation in observations:
        said = observation if isinstance(observation, dict) else {}
        text = fields.first_at(said, ("text", "content", "observation")) if said else observation
        if not isinstance(text, str):
            yield Rejection(row.line, _OBSERVATIONS, "An observation is no text.")
        elif not text.strip():
            yield exports.LeftOut("blank observations", "blank observation")
        elif (mark := hash((name, kind, text))) in passed:
            yield exports.LeftOut("observations that are there twice", "observation that is there twice")
        else:
            passed.add(mark)
            values = {
                "content": f"{name}: {text}",
                "tags": exports.tags([kind]),
                fields.WHEN: exports.moment(fields.first_at(said, ("timestamp", "createdAt", "created_at"))),
                "metadata": {"entity": name, "entity_type": kind},
            }
            yield UncheckedRow(row.line, exports.without_nothing(values))


ZEP_LISTS: Final = ("nodes", "edges", "facts", "episodes", "messages", "items", "entity_edges", "entity_nodes")
OF_FACT: Final = frozenset({"fact", "source_node_uuid"})
OF_EPISODE: Final = (frozenset({"content", "source_description"}), frozenset({"content", "thread_uuid"}))
OF_NODE: Final = frozenset({"summary", "labels"})
_ID: Final = ("uuid", "uuid_")
_FACT: Final = fields.ItemFields(
    "graphiti",
    content=("fact",),
    identifier=_ID,
    when=("reference_time", "created_at"),
    until=("invalid_at", "expired_at"),
    tags=("name",),
)
_ENTITY: Final = "Entity"  # the label that each has
_ENDED: Final = exports.LeftOut(
    "edges of facts that have ended (their memories are in)", "edge of a fact that has ended"
)
_SUMMARIES: Final = exports.LeftOut("summaries of things, which are made of facts", "summary of a thing, made of facts")


def read_graphiti(path: Path, choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield facts with the time in which they held, things, relations that hold, and episodes as turns.

    A document has several of the lists, or is one of them; its items are recognised by their form.
    """
    things: dict[object, tuple[object, str]] = {}
    for _, item in exports.read_lists(path, "uuid", *ZEP_LISTS):
        if isinstance(item, UncheckedRow) and item.values.keys() >= OF_NODE:
            things[str(fields.first_at(item.values, _ID))] = (item.values.get("name"), _label(item.values))
    for _, item in exports.read_lists(path, "uuid", *ZEP_LISTS):
        if isinstance(item, Rejection):
            yield item
        elif item.values.keys() >= OF_FACT:
            yield from _fact(item, things)
        elif item.values.keys() >= OF_NODE:
            yield exports.ExportedNode(item.values.get("name"), _label(item.values), item.line)
            yield from [_SUMMARIES] if item.values["summary"] else []
        else:
            yield _episode(item, choices)


def _label(values: dict[str, Any]) -> str:
    several = [label for label in fields.list_at(values, "labels") if isinstance(label, str)]
    return next((label for label in several if label != _ENTITY), _ENTITY)


def _fact(item: UncheckedRow, things: dict[object, tuple[object, str]]) -> Iterator[exports.Entry]:
    row, values = _FACT.entry(item), item.values
    since, until = exports.moment(values.get("valid_at")), row.values.get(fields.UNTIL)
    if since and not (until and until <= since):  # one that was over when it was said has both alike
        row.values[fields.SINCE] = since
    yield row
    source, target = (
        values.get(f"{end}_node_name") or things.get(str(values.get(f"{end}_node_uuid")), (None, ""))[0]
        for end in ("source", "target")
    )
    if until:
        yield _ENDED
    elif source and target and values.get("name"):
        yield exports.ExportedEdge(source, target, values["name"], item.line, label=_ENTITY)


def _episode(item: UncheckedRow, choices: fields.Choices) -> exports.Entry:
    values = item.values
    text, role = values.get("content"), fields.first_at(values, ("role", "role_type"))
    if not isinstance(text, str) or not text.strip():
        return exports.LeftOut("episodes without text", "episode without text")
    thread = fields.first_at(values, ("thread_uuid", "session_id", "group_id", "graph_uuid", "source_description"))
    said = fields.Conversation("graphiti", item.line, thread, choices)
    at = fields.first_at(values, ("valid_at", "reference_time", "created_at"))
    return said.turn(fields.first_at(values, _ID), None, role or "user", text, at)
