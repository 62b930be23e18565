"""The fields of all replies, with the shape of each, and the few words that may have more than one."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import inspect

from engramq.gateway.brief import BARE_FORMS, BRIEF_FORMS, BriefMemory, SimilarMemory, StoredMemory
from engramq.gateway.mcp.schema import ErasedSince, PendingReply
from engramq.schemas.commands import REPLIES, TOOLS, Identity, Pong
from engramq.schemas.faults import Fault
from engramq.schemas.records import Candidate, CountedNode, GraphPreview, Memory, MemoryPreview, Neighbor, NodeRef

# A record and the one that it is with fewer or more fields.
IS_A: Final[Mapping[type[msgspec.Struct], type[msgspec.Struct]]] = {
    BriefMemory: Memory, StoredMemory: Memory, SimilarMemory: Memory, CountedNode: NodeRef, Candidate: NodeRef,
    Neighbor: NodeRef, GraphPreview: MemoryPreview,
}  # fmt: skip

# Words with more than one shape: each shape that is allowed, and why. Everything else has one everywhere.
DIFFERENT: Final[Mapping[str, Mapping[str, str]]] = {
    "action": {
        "LinkAction": "of connect and connects",
        "QueryLinkAction": "of connect_by_query",
        "ProposalAction": "of a proposal",
        "text": "of disconnect; of an audit entry, whose words grow",
    },
    "candidates": {"[NodeRef]": "homonymous nodes", "[EdgeCandidate]": "the edges that a triple can mean"},
    "created": {"boolean": "one node or edge", "number": "connects counts"},
    "edges": {
        "[GraphEdge]": "edges of the graph",
        "[PathEdge]": "edges of a path, each with the direction in which it is crossed",
        "[Crossing]": "edges to a neighbour, whose ends the walk names",
        "[EdgeCount]": "memory_stats counts",
        "[DrawnEdge]": "edges of the page's drawing, between ids alone",
    },
    "entry": {"Overview": "guide, of the whole", "ToolGuide": "guide, of a tool"},
    "more": {
        "MoreNamed": "how many further memories name what was asked for",
        "boolean": "whether a list of nodes goes on",
    },
    "passage": {
        "boolean": "whether a content is cut to what bears on the question",
        "text": "what of a reply in a thread bears on it",
    },
    "standing": {
        "boolean": "whether a memory is a standing wish",
        "[MemoryPreview]": "the wishes that bear on a search",
    },
    "errors": {"[BatchRefusal]": "refused links", "text": "what the guide says of errors"},
    "id": {"text": "a UUID", "number": "of an audit entry, which counts up"},
    "links": {"[Link]": "of a memory", "text": "what the guide says of links"},
    "memories": {"[Memory]": "in a list", "number": "memory_stats counts"},
    "new": {"Memory": "what replaces", "Verification": "older word for new_verification", "{any}": "what changed"},
    "old": {"Memory": "what is replaced", "Verification": "older word for old_verification", "{any}": "what changed"},
    "origin": {"Origin": "of a link", "text": "memory_stats counts those of facts too, which have none"},
    "skipped": {"[SkippedMemory]": "of record_outcome", "number": "connects and imports count"},
    "source": {"MemorySource": "who says that a memory is true", "NodeRef": "where an edge begins"},
    "state": {"MemoryState": "of a memory", "ProposalState": "of a proposal", "Resolution": "of a deferred link"},
    "status": {
        "text": "each reply has words of its own",
        "ReclassifyStatus": "they live once",
        "CommandStatus": "of a command",
        "ReceiptStatus": "of a row of an import",
    },
    "stored": {"Memory": "of store_memory", "number": "imports count"},
    "topics": {"[text]": "where a topic is unknown", "{[text]}": "by area, in the overview"},
    "updated": {"[UsefulMemory]": "of record_outcome", "number": "connects and imports count"},
    "what": {"Thing": "what is not there", "text": "what a tool does, in the guide"},
}

# What each id is of. Nothing that has a word here gets a second one.
IDS: Final[Mapping[str, str]] = {
    "memory_id": "a memory; in links and via, the other end",
    "source_id": "the memory or node where a link or edge begins",
    "target_id": "the memory or node where it ends; of an audit entry, what it is about",
    "other_id": "older word, in displaced_edge alone, for the end that is not memory_id",
    "edge_id": "an edge of the graph",
    "node_id": "a node of the graph",
    "proposal_id": "a proposal",
    "command_id": "a write",
    "audit_id": "an entry of the audit log",
    "external_id": "the caller's own for a memory",
    "last_stored_id": "a memory, of breadcrumbs",
    "token_id": "a bearer token, on the page alone",
}


# Between gateway and workers: no client reads it.
INTERNAL: Final = frozenset({Identity, Pong})


def replies() -> list[type[msgspec.Struct]]:
    """Return every shape that a reply can have, of tools and of commands that no tool sends."""
    of_tools = [reply for tool in TOOLS.values() for reply in tool.replies]
    shorter = [*BRIEF_FORMS.values(), *BARE_FORMS.values()]
    of_commands = [reply for reply in REPLIES if reply not in INTERNAL]
    return list(dict.fromkeys([*of_tools, *of_commands, *shorter, PendingReply, ErasedSince, Fault]))


def structs_of(roots: list[type[msgspec.Struct]]) -> dict[type[msgspec.Struct], dict[str, inspect.Type]]:
    """Return these Structs and all within them, each with the types of its fields."""
    found: dict[type[msgspec.Struct], dict[str, inspect.Type]] = {}
    waiting: list[inspect.Type] = [inspect.type_info(root) for root in roots]
    while waiting:
        match waiting.pop():
            case inspect.StructType(cls=cls, fields=fields) if cls not in found:
                found[cls] = {field.encode_name: field.type for field in fields}
                waiting += found[cls].values()
            case inspect.Metadata(type=within):
                waiting.append(within)
            case inspect.UnionType(types=several):
                waiting += several
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
                waiting.append(item)
            case inspect.DictType(value_type=value):
                waiting.append(value)
    return found


def shape_of(info: inspect.Type) -> set[str]:
    """Return what a field holds, in words; that it may be null or absent is no difference."""
    match info:
        case inspect.Metadata(type=within):
            return shape_of(within)
        case inspect.UnionType(types=several):
            return set().union(*(shape_of(entry) for entry in several))
        case inspect.StructType(cls=cls):
            return {IS_A.get(cls, cls).__name__.removeprefix("Bare")}  # within a small budget
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return {f"[{entry}]" for entry in shape_of(item)}
        case inspect.DictType(value_type=value):
            return {f"{{{entry}}}" for entry in shape_of(value)}
        case inspect.EnumType(cls=words):
            return {words.__name__}
        case inspect.NoneType():
            return set()
        case _:
            return _PLAIN.get(type(info), {type(info).__name__})


_PLAIN: Final[Mapping[type[Any], set[str]]] = {
    inspect.StrType: {"text"}, inspect.LiteralType: {"text"}, inspect.IntType: {"number"},
    inspect.FloatType: {"number"}, inspect.BoolType: {"boolean"}, inspect.AnyType: {"any"},
}  # fmt: skip


def words_of(info: inspect.Type) -> Iterator[str]:
    """Yield the words that a field can have, of an enumeration or a literal."""
    match info:
        case inspect.Metadata(type=within):
            yield from words_of(within)
        case inspect.UnionType(types=several):
            for item in several:
                yield from words_of(item)
        case inspect.EnumType(cls=words):
            yield from (str(word.value) for word in words)
        case inspect.LiteralType(values=values):
            yield from (str(value) for value in values)
