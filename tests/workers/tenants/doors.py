"""What a stranger may try at every door: each tool and resource with something of another tenant's in its arguments."""

from typing import Any

import msgspec
from msgspec import inspect

from engramq.schemas.commands import Tool

# Kinds of things that belong to somebody; a probe's arguments name them where a value stands.
MEMORY = "<memory>"
EDGE = "<edge>"
NODE = "<node>"
PROPOSAL = "<proposal>"
COMMAND = "<command>"
CURSOR = "<cursor>"
EXTERNAL_ID = "<external id>"
CONTENT = "<content>"
THREAD = "<thread>"
TAG = "<tag>"
PROJECT = "<project>"
NAME = "<name of a node>"
ALIKE = "<name in another case>"
SESSION = "<session>"
KEY = "<idempotency key>"
MINE = "<a memory of the stranger's own>"  # not foreign: what the other parameter needs

BOTH = {"partitions": ["trusted", "untrusted"], "include_superseded": True}
TRIPLE = {"source_name": NAME, "target_name": "Kühleborn", "relation": "KNOWS"}

PROBES: dict[str, list[dict[str, Any]]] = {
    "store_memory": [
        {"content": "mine", "external_id": EXTERNAL_ID},
        {"content": "mine", "thread": THREAD, "position": 1},
        {"content": "mine", "tags": [TAG], "project": PROJECT},
        {"content": CONTENT},
        {"content": "mine", "idempotency_key": KEY},
    ],
    "search_memories": [
        {"query": CONTENT},
        {"query": CONTENT, "thread": THREAD, "explain": True, **BOTH},
        {"query": CONTENT, "tags": [TAG], "project": PROJECT, **BOTH},
        {"query": CONTENT, "project": "*"},
    ],
    "list_recent_memories": [
        {"cursor": CURSOR},
        {"cursor": CURSOR, "limit": 1, **BOTH},
        {"thread": THREAD, **BOTH},
        {"tags": [TAG], "project": PROJECT, **BOTH},
        {"project": "*", **BOTH},
        {"external_id": EXTERNAL_ID, **BOTH},
        {"states": ["archived"], **BOTH},
        {"verifications": ["rejected", "verified"], **BOTH},
    ],
    "get_memory": [{"memory_id": MEMORY}, {"memory_id": MEMORY, "include_untrusted": True}],
    "why": [{"memory_id": MEMORY}, {"memory_id": MEMORY, "include_untrusted": True}],
    "supersede_memory": [
        {"old_memory_id": MEMORY, "new_memory_id": MINE},
        {"old_memory_id": MINE, "new_memory_id": MEMORY},
        {"old_memory_id": MEMORY, "new_memory_id": MEMORY},
    ],
    "update_memory": [
        {"memory_id": MEMORY, "confidence": 0.1, "thread": THREAD},
        {"memory_id": MEMORY, "add_tags": [TAG], "project": PROJECT},
        {"memory_id": MEMORY, "remove_tags": [TAG]},
    ],
    "forget_memory": [{"memory_id": MEMORY}, {"memory_id": MEMORY, "erase": True, "reason": "spite"}],
    "restore_memory": [{"memory_id": MEMORY}],
    "import_memories": [
        {"records": [{"content": "mine", "external_id": EXTERNAL_ID}]},
        {
            "records": [{"content": CONTENT, "external_id": EXTERNAL_ID, "thread": THREAD, "tags": [TAG]}],
            "on_duplicate": "update",
        },
        {"records": [{"content": "mine", "project": PROJECT}], "idempotency_key": KEY},
    ],
    "verify_memory": [{"memory_id": MEMORY, "verification": "rejected"}],
    "share_memory": [{"memory_id": MEMORY}, {"memory_id": MEMORY, "reason": "spite"}],
    "unshare_memory": [{"memory_id": MEMORY}],
    "memory_promote_to_trusted": [{"record_id": MEMORY}],
    "connect": [
        {"source": MINE, "target": MEMORY},
        {"source": MEMORY, "target": MINE, "relation": "supports", "if_exists": "update"},
        {"source": MEMORY, "target": MEMORY},
    ],
    "disconnect": [{"source": MINE, "target": MEMORY}, {"source": MEMORY, "target": MINE, "guard_relation": "similar"}],
    "connect_by_query": [
        {"source_query": CONTENT, "target_query": CONTENT, "min_confidence": 0.0, "dry_run": True},
        {"source_query": CONTENT, "target_query": "mine", "min_confidence": 0.0},
    ],
    "connects": [
        {"edges": [{"source": MINE, "target": MEMORY}, {"source": MEMORY, "target": MINE}]},
        {"edges": [{"source": MEMORY, "target": MINE}], "atomic": True},
    ],
    "record_outcome": [{"memory_ids": [MEMORY], "signal": 1.0}],
    "graph_add_node": [{"name": NAME, "properties": {"mine": True}}],
    "graph_add_edge": [TRIPLE, {"source_name": "Huldbrand", "target_name": NAME, "relation": "LOVES"}],
    "graph_delete_edge": [{"edge_id": EDGE}],
    "graph_delete_node": [{"node_id": NODE}, {"node_id": MEMORY}],
    "get_node_by_name": [{"name": NAME}, {"name": ALIKE}],
    "get_edge": [TRIPLE],
    "graph_list_edges": [{"node_name": NAME}, {"node_name": NAME, "cursor": CURSOR}, {"edge_id": EDGE}],
    "graph_query_neighbors": [{"node_name": NAME, "depth": 3}, {"node_name": NAME, "as_of": "2026-01-01"}],
    "graph_find_path": [{"start_node": NAME, "end_node": "Kühleborn"}, {"start_node": "Kühleborn", "end_node": NAME}],
    "reclassify_memory_sector": [
        {**TRIPLE, "new_sector": "reflective"},
        {**TRIPLE, "new_sector": "reflective", "edge_id": EDGE},
        {"source_name": "a", "target_name": "b", "relation": "R", "new_sector": "reflective", "edge_id": EDGE},
    ],
    "decide_proposal": [
        {"proposal_id": PROPOSAL, "decision": "approve"},
        {"proposal_id": PROPOSAL, "decision": "reject"},
    ],
    "list_proposals": [{"cursor": CURSOR}, {}],
    "begin_session": [{"session": SESSION}],
    "get_breadcrumbs": [{"session": SESSION}],
    "guide": [{"topic": CONTENT}],
    "get_command": [{"command_id": COMMAND}],
    "audit": [{"target": MEMORY}, {"target": EDGE}, {"target": NODE}, {"cursor": CURSOR}],
    "memory_stats": [{}],
}

RESOURCES: dict[str, list[str]] = {
    "engramq://memory/{id}": [f"engramq://memory/{MEMORY}"],
    "engramq://guide": ["engramq://guide"],
    "engramq://guide/{topic}": [f"engramq://guide/{THREAD}"],
    "engramq://stats": ["engramq://stats"],
}

# Which parameters of any tool may name somebody's things, and as what; those of `Tool.ids` name memories.
MAY_NAME: dict[str, tuple[str, ...]] = {
    "target": (MEMORY,),
    "edge_id": (EDGE,),
    "node_id": (NODE,),
    "proposal_id": (PROPOSAL,),
    "command_id": (COMMAND,),
    "cursor": (CURSOR,),
    "external_id": (EXTERNAL_ID,),
    "thread": (THREAD,),
    "tags": (TAG,),
    "add_tags": (TAG,),
    "remove_tags": (TAG,),
    "project": (PROJECT,),
    "name": (NAME,),
    "node_name": (NAME,),
    "start_node": (NAME,),
    "end_node": (NAME,),
    "source_name": (NAME,),
    "query": (CONTENT,),
    "source_query": (CONTENT,),
    "target_query": (CONTENT,),
    "content": (CONTENT,),
}
# Texts of the caller's own, numbers and choices: nothing of another's can be named by them. `source` is a memory's
# here; a link's is among the ids.
NAMES_NOTHING = frozenset((
    "start_label", "end_label",
    "confidence", "source_type", "verification", "partition", "partitions", "sector", "sectors", "speaker",
    "occurred_at", "position", "metadata", "limit", "since", "until", "ranking", "min_similarity",
    "min_sector_confidence",
    "include_superseded", "explain", "max_chars", "collapse_duplicates", "include_untrusted", "reason", "erase",
    "relation", "weight", "note", "if_exists", "guard_relation", "min_confidence", "dry_run", "atomic", "signal",
    "label", "properties", "source_label", "target_label", "target_name", "depth", "direction", "max_depth",
    "new_sector", "on_duplicate", "actor", "action", "clear", "decision", "state", "topic", "source",
    "states", "verifications", "created_by", "valid_from", "valid_until", "expires_at", "as_of",
))  # fmt: skip


# What a free text may name of which nothing is said above: a new tool or field is tried with each, without a line here.
ANY_KIND = (CONTENT, THREAD, TAG, PROJECT, NAME)


def probes_of(tool: Tool) -> list[dict[str, Any]]:
    """Return the probes of a tool, else its guide's example, and more for each free text that they leave out."""
    probes = list(PROBES.get(tool.name, [tool.guide.example.arguments]))
    usual = probes[0]
    for parameter, kinds, is_list in _left_out(tool.parameters, tool.ids, probes):
        if parameter not in tool.batches:
            probes += [{**usual, parameter: [kind] if is_list else kind} for kind in kinds]
    for batch, items in tool.batches.items():
        given = [item for probe in probes for item in probe.get(batch, ())]
        for field, kinds, is_list in _left_out(items.taken, items.ids, given):
            probes += [{**usual, batch: [{**given[0], field: [kind] if is_list else kind}]} for kind in kinds]
    return probes


def _left_out(
    struct: type[msgspec.Struct], ids: tuple[str, ...], probes: list[dict[str, Any]]
) -> list[tuple[str, tuple[str, ...], bool]]:
    """Return (field, what it may name, whether it is a list) of the free texts that no probe gives a kind of thing."""
    texts = [
        (field, (MEMORY,) if field in ids else MAY_NAME.get(field, ANY_KIND), is_list)
        for field, is_list in free_texts(struct).items()
        if field in ids or field not in NAMES_NOTHING
    ]
    return [text for text in texts if not any(kinds_in(probe.get(text[0])) & set(text[1]) for probe in probes)]


def free_texts(struct: type[msgspec.Struct]) -> dict[str, bool]:
    """Return the fields of a Struct that take any text, and whether they take a list of them."""
    shape = inspect.type_info(struct)
    assert isinstance(shape, inspect.StructType)
    found: dict[str, bool] = {}
    for field in shape.fields:
        kinds = list(_parts(field.type))
        if any(isinstance(kind, inspect.StrType) for kind in kinds):
            found[field.name] = any(isinstance(kind, inspect.VarTupleType) for kind in kinds)
    return found


def _parts(kind: inspect.Type) -> list[inspect.Type]:
    match kind:
        case inspect.UnionType(types=types):
            return [part for each in types for part in _parts(each)]
        case inspect.Metadata(type=part):
            return _parts(part)
        case inspect.VarTupleType(item_type=part):
            return [kind, *_parts(part)]
    return [kind]


def filled(value: Any, given: dict[str, Any]) -> Any:
    """Return arguments with what `given` has in the places of the kinds."""
    if isinstance(value, dict):
        return {name: filled(item, given) for name, item in value.items()}
    if isinstance(value, list):
        return [filled(item, given) for item in value]
    if isinstance(value, str):
        for kind, item in given.items():
            value = value.replace(kind, item)
    return value


def kinds_in(value: Any) -> set[str]:
    """Return the kinds that arguments name, but for the stranger's own."""
    if isinstance(value, dict | list):
        return {kind for item in (value.values() if isinstance(value, dict) else value) for kind in kinds_in(item)}
    return {item for item in ALL_KINDS if isinstance(value, str) and item in value}


ALL_KINDS = (
    MEMORY, EDGE, NODE, PROPOSAL, COMMAND, CURSOR, EXTERNAL_ID, CONTENT, THREAD, TAG, PROJECT, NAME, ALIKE, SESSION,
    KEY,
)  # fmt: skip
