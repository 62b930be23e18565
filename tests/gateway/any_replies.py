"""Any replies of each tool that keeps a budget, for tests of rendering."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET, inspect

from engramq.schemas import commands, limits, records
from engramq.schemas.codec import reply_body
from engramq.schemas.commands.links import BatchLinked, BatchRefusal
from engramq.schemas.faults import FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import (
    UNTRUSTED_WARNING,
    CommandStatus,
    Direction,
    MemoryState,
    Origin,
    Partition,
    QueryLinkAction,
)

ME = "me"
AT = "2026-01-31T09:00:00.123456Z"
LONG = "The lighthouse keeper wrote every evening. " * 760  # 32,680 characters
Values = st.SearchStrategy[Any]


def memory(content: str = "Ada prefers tea", **fields: Any) -> records.Memory:
    usual = {"created_by": ME, "created_at": AT, "updated_at": AT, "state": MemoryState.ACTIVE}
    return records.Memory(id=uuid7(), content=content, **{**usual, **fields})


IDS: Values = st.builds(uuid7)
CONTENTS = st.text(st.sampled_from('ab \n"\\\u0001ä🦆'), min_size=1, max_size=4_000)
NAMES = st.none() | st.text(min_size=1, max_size=255)
MEMORIES = st.builds(
    memory,
    CONTENTS,
    metadata=st.dictionaries(st.text(max_size=3), st.text(max_size=3_000), max_size=2),
    **dict.fromkeys(("external_id", "speaker", "thread", "source_type"), NAMES),
    similarity=st.none() | st.floats(0, 1),
    partition=st.sampled_from(Partition),
    untrusted=st.just(True) | st.just(UNSET),
    warning=st.just(UNTRUSTED_WARNING) | st.just(UNSET),
)
SEVERAL = st.lists(MEMORIES, max_size=8)
CURSOR = st.just("x" * 108)
# What a field that every reply has holds by its name, where its type says too little or too much.
BY_NAME: dict[str, Values] = {
    "old": MEMORIES, "new": MEMORIES, "memory": MEMORIES, "memories": SEVERAL, "stored": MEMORIES, "at": st.just(AT),
    "text": st.text(max_size=160), "summary": st.text(max_size=300), "next_cursor": CURSOR, "truncated": st.just(False),
    "displaced_edge": st.none(), "displaced_edges": st.just([]), "connect_result": st.none(), "error": st.text(),
    "reason": st.none() | st.text(max_size=2_000), "note": st.none() | st.text(max_size=500),
    **dict.fromkeys(("source_query", "target_query", "source_content", "target_content"), CONTENTS),
}  # fmt: skip
MOST: dict[str, int] = {"nodes": limits.PATH_DEPTH + 1, "entries": 20, "extracts": 20, "approved_by": 2, "pairs": 0}


def any_of(kind: type[Any], **more: Values) -> Values:
    """Return replies or records of a kind: all that they must have, and of the rest these."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    needed = {each.name: each.type for each in info.fields if each.required and each.name not in more}
    made = st.builds(kind, **{name: any_value(name, type_of) for name, type_of in needed.items()}, **more)
    if "count" not in needed:
        return made
    (listed,) = [name for name in ("memories", "neighbors", "edges") if name in kind.__struct_fields__]
    return made.map(lambda reply: msgspec.structs.replace(reply, count=len(getattr(reply, listed))))


def any_value(name: str, kind: inspect.Type) -> Values:
    """Return what a field may hold, by its name or else by its type."""
    if name in BY_NAME and not (name in ("old", "new") and not isinstance(kind, inspect.StructType)):
        return BY_NAME[name]
    match kind:
        case inspect.UnionType(types=several):
            return st.one_of([any_value(name, each) for each in several])
        case inspect.Metadata(type=within):
            return any_value(name, within)
        case inspect.EnumType(cls=words):
            return st.sampled_from(words)
        case inspect.LiteralType(values=words):
            return st.sampled_from(words)
        case inspect.StructType(cls=cls):
            return any_of(cls)
        case inspect.ListType(item_type=item):
            return st.lists(any_value(name.removesuffix("s"), item), max_size=MOST.get(name, 6))
        case inspect.DictType():
            return st.dictionaries(st.text(max_size=9), st.text(max_size=900), max_size=3)
        case inspect.StrType():
            if name == "id" or name.endswith(("_id", "_ids")):
                return IDS
            return st.just(AT) if name.endswith("_at") else st.text(min_size=1, max_size=255)
    return {inspect.BoolType: st.booleans(), inspect.FloatType: st.floats(0, 1), inspect.NoneType: st.none()}.get(
        type(kind), st.integers(1, 9)
    )


REFERENCES = st.dictionaries(st.sampled_from(["@stored", "@recalled[0]"]), any_of(records.ReferencedMemory))
WRITTEN: dict[str, Values] = {"command_id": IDS, "resolved_references": REFERENCES | st.just(UNSET)}
PREVIEWS = st.none() | st.text(max_size=limits.PREVIEW_CHARS)
HIDDEN = st.lists(any_of(records.MemoryPreview, preview=PREVIEWS), max_size=20)
STILL: dict[str, Values] = {"still_hidden": HIDDEN, "hint": st.just("What this one had replaced stays hidden.")}
LINKS = st.lists(
    any_of(
        records.Link,
        relation=st.just("supports"),
        note=st.none() | st.text(min_size=1, max_size=2_000),
        origin=st.just(Origin.AGENT),
        direction=st.just(Direction.OUTGOING),
    ),
    max_size=12,
)
CHANGES = st.dictionaries(st.sampled_from(["relation", "weight", "still_hidden"]), st.text(max_size=400), max_size=3)
WRITES: dict[str, Values] = {
    "store_memory": any_of(commands.Stored, similar_memories=st.lists(MEMORIES, max_size=5), **WRITTEN),
    "supersede_memory": any_of(commands.Superseded, **WRITTEN),
    "update_memory": any_of(commands.MemoryChanged, status=st.just("updated"), memory=MEMORIES, **WRITTEN),
    "restore_memory": any_of(commands.MemoryChanged, status=st.just("restored"), memory=MEMORIES, **WRITTEN),
    "graph_add_node": any_of(commands.NodeAdded, **WRITTEN),
    "graph_add_edge": any_of(commands.EdgeAdded, **WRITTEN),
    "connects": any_of(
        commands.BatchConnected,
        results=st.lists(any_of(BatchLinked, relation=st.text(min_size=1, max_size=255)), max_size=100),
        errors=st.lists(any_of(BatchRefusal, code=st.just(FaultCode.DEGREE_LIMIT)), max_size=100),
        command_id=IDS,
    ),
    "memory_promote_to_trusted": any_of(
        commands.Promoted, status=st.sampled_from(["promoted", "already_trusted"]), **WRITTEN
    ),
}


def candidates(field: str) -> Values:
    return st.lists(any_of(records.Candidate, field=st.just(field)), max_size=9)


REPLIES: dict[str, Values] = {
    **WRITES,
    "graph_query_neighbors": any_of(commands.Neighbors),
    "graph_list_edges": any_of(commands.EdgeList, candidates=candidates("node_name"), next_cursor=CURSOR),
    "get_node_by_name": any_of(commands.NodeFound),
    "get_edge": any_of(commands.EdgeFound),
    "graph_find_path": any_of(commands.PathReport, candidates=candidates("start_node")),
    "search_memories": any_of(commands.MemoryList),
    "list_standing": any_of(commands.MemoryList),
    "list_recent_memories": any_of(commands.MemoryList, next_cursor=CURSOR),
    "survey_memories": any_of(
        commands.Surveyed,
        topic=st.just("boat"),
        answered=st.just("yes"),
        extracts=st.lists(any_of(records.Extract, thread=NAMES, same=st.integers(0, 9)), max_size=20),
        totals=any_of(
            records.SurveyTotals,
            by_month=st.just({"2026-01": 9}),
            by_thread=st.dictionaries(st.text(max_size=255), st.just(1), max_size=8),
        ),
    ),
    "get_memory": any_of(
        commands.MemoryFound,
        status=st.just("success"),
        links=LINKS,
        replaces=HIDDEN,
        resolved_references=WRITTEN["resolved_references"],
    ),
    "forget_memory": any_of(commands.Forgotten, status=st.just("erased"), **STILL, **WRITTEN),
    "verify_memory": any_of(commands.Verified, status=st.just("success"), **STILL, **WRITTEN),
    "get_command": st.one_of(*WRITES.values()).map(
        lambda reply: commands.CommandReport(status=CommandStatus.DONE, reply=reply_body(reply))
    ),
    "connect_by_query": any_of(
        commands.QueryConnected, action=st.just(QueryLinkAction.DRY_RUN_PREVIEW), command_id=IDS
    ),
    "list_contradictions": any_of(commands.ContradictionList),
    "list_proposals": any_of(
        commands.ProposalList,
        proposals=st.lists(
            any_of(records.Proposal, change=st.none() | any_of(records.EdgeChange, old=CHANGES, new=CHANGES)),
            max_size=6,
        ),
    ),
    "audit": any_of(
        commands.AuditList,
        entries=st.lists(any_of(records.AuditEntry, **dict.fromkeys(("old", "new"), st.none() | CHANGES)), max_size=20),
    ),
    "get_breadcrumbs": any_of(
        commands.BreadcrumbTrail,
        **dict.fromkeys(("last_recalled_ids", "session_memory_ids"), st.lists(IDS, max_size=60)),
    ),
}
ASKED = st.sampled_from(sorted(REPLIES)).flatmap(lambda tool: st.tuples(st.just(tool), REPLIES[tool]))
