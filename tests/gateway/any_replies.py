"""Any replies of each tool that keeps a budget, for tests of rendering."""

from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.codec import reply_body
from engramq.schemas.commands import (
    AuditList,
    BatchConnected,
    BreadcrumbTrail,
    CommandReport,
    ContradictionList,
    EdgeAdded,
    EdgeFound,
    EdgeList,
    Forgotten,
    MemoryChanged,
    MemoryFound,
    MemoryList,
    Neighbors,
    NodeAdded,
    NodeFound,
    PathReport,
    Promoted,
    ProposalList,
    QueryConnected,
    Stored,
    Superseded,
    Surveyed,
    Verified,
)
from engramq.schemas.commands.links import BatchLinked, BatchRefusal
from engramq.schemas.faults import FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.records import (
    AuditEntry,
    Candidate,
    EdgeChange,
    Extract,
    GraphEdge,
    Link,
    Memory,
    MemoryPreview,
    Neighbor,
    NodeRef,
    PathEdge,
    Proposal,
    ReferencedMemory,
    SurveyTotals,
)
from engramq.schemas.vocabulary import (
    UNTRUSTED_WARNING,
    AuditAction,
    CommandStatus,
    Direction,
    LinkAction,
    MemoryState,
    Origin,
    Partition,
    ProposalAction,
    ProposalState,
    QueryLinkAction,
    Sector,
)

ME = "me"
AT = "2026-01-31T09:00:00.123456Z"
LONG = "The lighthouse keeper wrote every evening. " * 760  # 32,680 characters


def memory(content: str = "Ada prefers tea", **fields: Any) -> Memory:
    usual = {"created_by": ME, "created_at": AT, "updated_at": AT, "state": MemoryState.ACTIVE}
    return Memory(id=uuid7(), content=content, **{**usual, **fields})


def a_link(note: str | None = None) -> Link:
    return Link(
        memory_id=uuid7(),
        relation="supports",
        weight=0.75,
        note=note,
        origin=Origin.AGENT,
        direction=Direction.OUTGOING,
        reinforcement_count=1,
    )


CONTENTS = st.text(st.sampled_from('ab \n"\\\u0001ä🦆'), min_size=1, max_size=4_000)
NAMES = st.none() | st.text(min_size=1, max_size=255)
REFERENCES = st.dictionaries(
    st.sampled_from(["@stored", "@recalled[0]"]), st.builds(ReferencedMemory, id=st.builds(uuid7))
)
MEMORIES = st.builds(
    memory,
    CONTENTS,
    metadata=st.dictionaries(st.text(max_size=3), st.text(max_size=3_000), max_size=2),
    external_id=NAMES,
    speaker=NAMES,
    thread=NAMES,
    source_type=NAMES,
    similarity=st.none() | st.floats(0, 1),
    partition=st.sampled_from(Partition),
    untrusted=st.just(True) | st.just(UNSET),
    warning=st.just(UNTRUSTED_WARNING) | st.just(UNSET),
)
SEVERAL = st.lists(MEMORIES, max_size=8)
LINKS = st.lists(st.builds(a_link, st.none() | st.text(min_size=1, max_size=2_000)), max_size=12)
IDS = st.lists(st.builds(uuid7), max_size=60)
WRITTEN: dict[str, Any] = {"command_id": st.builds(uuid7), "resolved_references": REFERENCES | st.just(UNSET)}
PREVIEWS = st.none() | st.text(max_size=limits.PREVIEW_CHARS)
HIDDEN = st.lists(st.builds(MemoryPreview, id=st.builds(uuid7), preview=PREVIEWS), max_size=20)
HINTS = st.just("What this one had replaced stays hidden.")
CHANGES = st.dictionaries(st.sampled_from(["relation", "weight", "still_hidden"]), st.text(max_size=400), max_size=3)
NODES: dict[str, st.SearchStrategy[Any]] = {
    "node_id": st.builds(uuid7),
    "label": st.text(min_size=1, max_size=255),
    "name": st.text(min_size=1, max_size=255),
}
PROPERTIES = st.dictionaries(st.text(max_size=9), st.text(max_size=900), max_size=3)
EDGE: dict[str, st.SearchStrategy[Any]] = {
    "edge_id": st.builds(uuid7),
    "source_id": st.builds(uuid7),
    "target_id": st.builds(uuid7),
    "relation": st.text(min_size=1, max_size=255),
    "weight": st.floats(0, 1),
    "memory_sector": st.sampled_from(Sector),
    "properties": PROPERTIES,
}
LINKED = st.fixed_dictionaries(
    {
        "action": st.sampled_from(LinkAction),
        "source_id": st.builds(uuid7),
        "target_id": st.builds(uuid7),
        "relation": st.text(min_size=1, max_size=255),
        "weight": st.floats(0, 1),
        "note": st.none() | st.text(max_size=500),
        "reinforcement_count": st.integers(0, 9),
        "displaced_edge": st.none(),
        "displaced_edges": st.just([]),
        "summary": st.text(max_size=300),
    }
)
WRITES: dict[str, st.SearchStrategy[Any]] = {
    "store_memory": st.builds(Stored, stored=MEMORIES, similar_memories=st.lists(MEMORIES, max_size=5), **WRITTEN),
    "supersede_memory": st.builds(Superseded, old=MEMORIES, new=MEMORIES, **WRITTEN),
    "update_memory": st.builds(MemoryChanged, status=st.just("updated"), memory=MEMORIES, **WRITTEN),
    "restore_memory": st.builds(MemoryChanged, status=st.just("restored"), memory=MEMORIES, **WRITTEN),
    "graph_add_node": st.builds(NodeAdded, created=st.booleans(), properties=PROPERTIES, **NODES, **WRITTEN),
    "graph_add_edge": st.builds(EdgeAdded, created=st.booleans(), **EDGE, **WRITTEN),
    "connects": st.builds(
        lambda results, errors: BatchConnected(
            results=[BatchLinked(index=index, **link) for index, link in enumerate(results)],
            errors=[
                BatchRefusal(index=index, code=FaultCode.DEGREE_LIMIT, **told) for index, told in enumerate(errors)
            ],
            created=len(results),
            reinforced=0,
            updated=0,
            skipped=0,
            deferred=0,
            summary="Some were linked.",
            command_id=uuid7(),
        ),
        st.lists(LINKED, max_size=limits.BATCH_LINKS // 2),
        st.lists(st.fixed_dictionaries({"error": st.text(), "recovery": st.text()}), max_size=limits.BATCH_LINKS // 2),
    ),
    "memory_promote_to_trusted": st.builds(
        Promoted, status=st.sampled_from(["promoted", "already_trusted"]), memory=MEMORIES, **WRITTEN
    ),
}
PATH_EDGES = st.builds(
    PathEdge,
    **{name: value for name, value in EDGE.items() if name != "properties"},
    direction=st.sampled_from(Direction),
)
EDGES = st.builds(
    GraphEdge,
    edge_id=st.builds(uuid7),
    source=st.builds(NodeRef, **NODES),
    target=st.builds(NodeRef, **NODES),
    relation=st.text(min_size=1, max_size=255),
    weight=st.floats(0, 1),
    memory_sector=st.sampled_from(Sector),
    properties=PROPERTIES,
)
NEIGHBORS = st.builds(
    Neighbor,
    **NODES,
    distance=st.integers(1, 5),
    edge_id=st.builds(uuid7),
    relation=st.text(min_size=1, max_size=255),
    weight=st.floats(0, 1),
    memory_sector=st.sampled_from(Sector),
    direction=st.sampled_from(Direction),
    relevance=st.floats(0, 1),
    properties=PROPERTIES,
)
REPLIES: dict[str, st.SearchStrategy[Any]] = {
    **WRITES,
    "graph_query_neighbors": st.builds(
        lambda node, neighbors: Neighbors(start_node=node, neighbors=neighbors, count=len(neighbors), truncated=False),
        st.builds(NodeRef, **NODES),
        st.lists(NEIGHBORS, max_size=9),
    ),
    "graph_list_edges": st.builds(
        lambda node, edges, alike: EdgeList(
            node=node, edges=edges, count=len(edges), match_count=9, candidates=alike, next_cursor="x" * 100
        ),
        st.none() | st.builds(NodeRef, **NODES),
        st.lists(EDGES, max_size=6),
        st.lists(st.builds(Candidate, field=st.just("node_name"), **NODES), max_size=9),
    ),
    "get_node_by_name": st.builds(
        NodeFound,
        **NODES,
        properties=PROPERTIES,
        created_at=st.just(AT),
        updated_at=st.just(AT),
        match_count=st.just(1),
    ),
    "get_edge": st.builds(EdgeFound, **EDGE, created_at=st.just(AT), match_count=st.just(1)),
    "graph_find_path": st.builds(
        lambda nodes, edges, alike: PathReport(
            path_found=True,
            path_length=len(edges),
            nodes=nodes,
            edges=edges,
            total_weight=1.0,
            truncated=False,
            candidates=alike,
        ),
        st.lists(st.builds(NodeRef, **NODES), max_size=limits.PATH_DEPTH + 1),
        st.lists(PATH_EDGES, max_size=limits.PATH_DEPTH),
        st.lists(st.builds(Candidate, field=st.just("start_node"), **NODES), max_size=9),
    ),
    "search_memories": SEVERAL.map(lambda found: MemoryList(memories=found, count=len(found))),
    "list_standing": SEVERAL.map(lambda found: MemoryList(memories=found, count=len(found))),
    "list_recent_memories": SEVERAL.map(
        lambda found: MemoryList(memories=found, count=len(found), next_cursor="x" * 108)
    ),
    "survey_memories": st.builds(
        lambda extracts, threads: Surveyed(
            topic="boat",
            answered="yes",
            extracts=extracts,
            totals=SurveyTotals(named=9, near=3, by_month={"2026-01": 9}, by_thread=dict.fromkeys(threads, 1)),
            next_cursor="x" * 108,
        ),
        st.lists(
            st.builds(
                Extract,
                id=st.builds(uuid7),
                at=st.just("2026-01-05"),
                thread=st.none() | st.text(max_size=255),
                text=st.text(max_size=160),
                same=st.integers(0, 9),
            ),
            max_size=20,
        ),
        st.lists(st.text(max_size=255), max_size=8),
    ),
    "get_memory": st.builds(
        MemoryFound,
        memory=MEMORIES,
        links=LINKS,
        replaces=HIDDEN,
        status=st.just("success"),
        resolved_references=WRITTEN["resolved_references"],
    ),
    "forget_memory": st.builds(
        Forgotten, status=st.just("erased"), id=st.builds(uuid7), still_hidden=HIDDEN, hint=HINTS, **WRITTEN
    ),
    "verify_memory": st.builds(Verified, status=st.just("success"), still_hidden=HIDDEN, hint=HINTS, **WRITTEN),
    "get_command": st.one_of(*WRITES.values()).map(
        lambda reply: CommandReport(status=CommandStatus.DONE, reply=reply_body(reply))
    ),
    "connect_by_query": st.builds(
        QueryConnected,
        action=st.just(QueryLinkAction.DRY_RUN_PREVIEW),
        source_query=CONTENTS,
        target_query=CONTENTS,
        source_id=st.builds(uuid7),
        target_id=st.builds(uuid7),
        source_content=CONTENTS,
        target_content=CONTENTS,
        source_confidence=st.floats(0, 1),
        target_confidence=st.floats(0, 1),
        connect_result=st.none(),
        summary=st.text(max_size=200),
        command_id=st.builds(uuid7),
    ),
    "list_contradictions": st.builds(ContradictionList, next_cursor=st.none()),
    "list_proposals": st.lists(
        st.builds(
            Proposal,
            proposal_id=st.builds(uuid7),
            action=st.sampled_from(ProposalAction),
            edge_id=st.builds(uuid7),
            node_id=st.none(),
            new_sector=st.sampled_from(Sector),
            state=st.sampled_from(ProposalState),
            proposed_by=st.text(min_size=1, max_size=255),
            reason=st.none() | st.text(max_size=2_000),
            approvals=st.integers(0, 2),
            approved_by=st.lists(st.text(min_size=1, max_size=20), max_size=2),
            created_at=st.just(AT),
            expires_at=st.just(AT),
            change=st.none() | st.builds(EdgeChange, old=CHANGES, new=CHANGES),
        ),
        max_size=6,
    ).map(lambda found: ProposalList(proposals=found, truncated=False)),
    "audit": st.lists(
        st.builds(
            AuditEntry,
            id=st.integers(1, 10**12),
            at=st.just(AT),
            actor=st.text(min_size=1, max_size=255),
            action=st.sampled_from(AuditAction),
            target_id=st.builds(uuid7),
            old=st.none() | CHANGES,
            new=st.none() | CHANGES,
            reason=st.none() | st.text(max_size=2_000),
            command_id=st.builds(uuid7),
        ),
        max_size=20,
    ).map(lambda found: AuditList(entries=found, next_cursor="x" * 60)),
    "get_breadcrumbs": st.builds(
        BreadcrumbTrail,
        last_stored_id=st.none() | st.builds(uuid7),
        last_recalled_ids=IDS,
        session_memory_ids=IDS,
        expires_at=st.just(AT),
    ),
}
ASKED = st.sampled_from(sorted(REPLIES)).flatmap(lambda tool: st.tuples(st.just(tool), REPLIES[tool]))
