"""Parameters of each call; None means: not given. Written by `make generate` from docs/openapi.json: edit neither."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal

from engramq.client.call import ClientCall
from engramq.schemas import commands as replies


def store(
    content: str,
    *,
    confidence: float | None = None,
    source: Literal["extracted", "explicit"] | None = None,
    source_type: str | None = None,
    verification: Literal["unverified", "verified", "approved", "rejected"] | None = None,
    partition: Literal["trusted", "untrusted"] | None = None,
    sector: Literal["emotional", "episodic", "semantic", "procedural", "reflective"] | None = None,
    speaker: str | None = None,
    occurred_at: datetime | date | str | None = None,
    thread: str | None = None,
    position: int | None = None,
    external_id: str | None = None,
    tags: Sequence[str] | None = None,
    project: str | None = None,
    valid_from: datetime | date | str | None = None,
    valid_until: datetime | date | str | None = None,
    expires_at: datetime | date | str | None = None,
    standing: bool | None = None,
    visibility: Literal["private", "shared"] | None = None,
    evidence: Sequence[Mapping[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    session: str | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.Stored]:
    """Keep one fact for later conversations."""
    return ClientCall("store_memory", locals())


def recent(
    *,
    partitions: Sequence[Literal["trusted", "untrusted"]] | None = None,
    sectors: Sequence[Literal["emotional", "episodic", "semantic", "procedural", "reflective"]] | None = None,
    tags: Sequence[str] | None = None,
    project: str | None = None,
    project_only: bool | None = None,
    states: Sequence[Literal["pending", "active", "archived"]] | None = None,
    verifications: Sequence[Literal["unverified", "verified", "approved", "rejected"]] | None = None,
    thread: str | None = None,
    source_type: str | None = None,
    created_by: str | None = None,
    external_id: str | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    stored_since: datetime | date | str | None = None,
    stored_until: datetime | date | str | None = None,
    evidence: Literal["cited", "stale"] | None = None,
    include_superseded: bool | None = None,
    as_of: datetime | date | str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ClientCall[replies.MemoryList]:
    """List memories, newest first."""
    return ClientCall("list_recent_memories", locals())


def search(
    query: str,
    *,
    limit: int | None = None,
    partitions: Sequence[Literal["trusted", "untrusted"]] | None = None,
    sectors: Sequence[Literal["emotional", "episodic", "semantic", "procedural", "reflective"]] | None = None,
    min_sector_confidence: float | None = None,
    thread: str | None = None,
    tags: Sequence[str] | None = None,
    project: str | None = None,
    project_only: bool | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    stored_since: datetime | date | str | None = None,
    stored_until: datetime | date | str | None = None,
    as_of: datetime | date | str | None = None,
    ranking: Literal["relevance", "similarity"] | None = None,
    min_similarity: float | None = None,
    min_relevance: float | None = None,
    include_superseded: bool | None = None,
    explain: bool | None = None,
    collapse_duplicates: bool | None = None,
    session: str | None = None,
) -> ClientCall[replies.MemoryList]:
    """Find memories by meaning and words."""
    return ClientCall("search_memories", locals())


def get(
    memory_id: str,
    *,
    part: int | None = None,
    include_untrusted: bool | None = None,
    as_of: datetime | date | str | None = None,
    session: str | None = None,
) -> ClientCall[replies.MemoryFound]:
    """Read one memory by id, with its links."""
    return ClientCall("get_memory", locals())


def update(
    memory_id: str,
    *,
    sector: Literal["emotional", "episodic", "semantic", "procedural", "reflective"] | None = None,
    metadata: Mapping[str, Any] | None = None,
    confidence: float | None = None,
    speaker: str | None = None,
    occurred_at: datetime | date | str | None = None,
    thread: str | None = None,
    position: int | None = None,
    add_tags: Sequence[str] | None = None,
    remove_tags: Sequence[str] | None = None,
    project: str | None = None,
    valid_from: datetime | date | str | None = None,
    valid_until: datetime | date | str | None = None,
    expires_at: datetime | date | str | None = None,
    standing: bool | None = None,
    visibility: Literal["private", "shared"] | None = None,
    evidence: Sequence[Mapping[str, Any]] | None = None,
    clear: Sequence[str] | None = None,
    seen: str | None = None,
    session: str | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.MemoryChanged]:
    """Correct what is said about a memory, not its content: date, speaker, sector."""
    return ClientCall("update_memory", locals())


def forget(
    memory_id: str,
    *,
    reason: str | None = None,
    erase: bool | None = None,
    session: str | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.Forgotten]:
    """Hide a memory, or with erase remove it for good."""
    return ClientCall("forget_memory", locals())


def standing(*, project: str | None = None, include_untrusted: bool | None = None) -> ClientCall[replies.MemoryList]:
    """List the user's standing instructions."""
    return ClientCall("list_standing", locals())


def why(
    memory_id: str, *, include_untrusted: bool | None = None, session: str | None = None
) -> ClientCall[replies.Card]:
    """See why a memory is known."""
    return ClientCall("why", locals())


def survey(
    topic: str,
    *,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    stored_since: datetime | date | str | None = None,
    stored_until: datetime | date | str | None = None,
    thread: str | None = None,
    project: str | None = None,
    tags: Sequence[str] | None = None,
    limit: int | None = None,
    order: Literal["time", "relevance"] | None = None,
    cursor: str | None = None,
) -> ClientCall[replies.Surveyed]:
    """See all about a topic: extracts in order of time, totals."""
    return ClientCall("survey_memories", locals())


def supersede(
    old_memory_id: str, new_memory_id: str, *, session: str | None = None, idempotency_key: str | None = None
) -> ClientCall[replies.Superseded]:
    """Hide an old memory behind a newer one."""
    return ClientCall("supersede_memory", locals())


def restore(
    memory_id: str, *, reason: str | None = None, session: str | None = None, idempotency_key: str | None = None
) -> ClientCall[replies.MemoryChanged]:
    """Bring back a memory that was archived or superseded."""
    return ClientCall("restore_memory", locals())


def import_many(
    records: Sequence[Mapping[str, Any]],
    *,
    on_duplicate: Literal["skip", "update"] | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.MemoriesImported]:
    """Keep many facts at once."""
    return ClientCall("import_memories", locals())


def verify(
    memory_id: str,
    verification: Literal["unverified", "verified", "approved", "rejected"],
    *,
    reason: str | None = None,
    seen: str | None = None,
    session: str | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.Verified]:
    """Say how far a memory is vouched for."""
    return ClientCall("verify_memory", locals())


def promote(
    record_id: str, *, seen: str | None = None, session: str | None = None, idempotency_key: str | None = None
) -> ClientCall[replies.Promoted]:
    """Move a verified memory from untrusted to trusted, which searches show."""
    return ClientCall("memory_promote_to_trusted", locals())


def contradictions(*, project: str | None = None, cursor: str | None = None) -> ClientCall[replies.ContradictionList]:
    """List pairs of memories that disagree."""
    return ClientCall("list_contradictions", locals())


def share(
    memory_id: str,
    *,
    seen: str | None = None,
    reason: str | None = None,
    session: str | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.Shared]:
    """Let everybody see your private memory, as you read it."""
    return ClientCall("share_memory", locals())


def unshare(
    memory_id: str, *, session: str | None = None, idempotency_key: str | None = None
) -> ClientCall[replies.Unshared]:
    """Make your memory private again."""
    return ClientCall("unshare_memory", locals())


def connect(
    source: str,
    target: str,
    *,
    relation: str | None = None,
    weight: float | None = None,
    note: str | None = None,
    if_exists: Literal["reinforce", "update", "skip", "error"] | None = None,
    session: str | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.Connected]:
    """Say how two memories are related: searches for one lift the other."""
    return ClientCall("connect", locals())


def disconnect(
    source: str,
    target: str,
    *,
    guard_relation: str | None = None,
    reason: str | None = None,
    session: str | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.Disconnected]:
    """Remove the link between two memories for good."""
    return ClientCall("disconnect", locals())


def connect_by_query(
    source_query: str,
    target_query: str,
    *,
    relation: str | None = None,
    note: str | None = None,
    min_confidence: float | None = None,
    if_exists: Literal["reinforce", "update", "skip", "error"] | None = None,
    dry_run: bool | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.QueryConnected]:
    """Link the memories that best match two queries."""
    return ClientCall("connect_by_query", locals())


def connect_many(
    edges: Sequence[Mapping[str, Any]],
    *,
    atomic: bool | None = None,
    session: str | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.BatchConnected]:
    """Make many links at once; bad ones are reported by index."""
    return ClientCall("connects", locals())


def record_outcome(
    memory_ids: Sequence[str],
    signal: float,
    *,
    weight: float | None = None,
    note: str | None = None,
    session: str | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.OutcomeRecorded]:
    """Say how much memories helped (1) or misled (0), for later ranks."""
    return ClientCall("record_outcome", locals())


def add_node(
    name: str,
    *,
    label: str | None = None,
    properties: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.NodeAdded]:
    """Make a named node, or merge properties into it."""
    return ClientCall("graph_add_node", locals())


def get_node(name: str, *, label: str | None = None) -> ClientCall[replies.NodeFound | replies.NodeMissing]:
    """Read a node by its exact name, or see similar names."""
    return ClientCall("get_node_by_name", locals())


def add_edge(
    source_name: str,
    target_name: str,
    relation: str,
    *,
    source_label: str | None = None,
    target_label: str | None = None,
    weight: float | None = None,
    properties: Mapping[str, Any] | None = None,
    valid_from: datetime | date | str | None = None,
    valid_until: datetime | date | str | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.EdgeAdded | replies.ChangeNeedsConsent | replies.NameAmbiguous]:
    """Write a directed fact about two named things; missing nodes are made."""
    return ClientCall("graph_add_edge", locals())


def list_edges(
    *,
    node_name: str | None = None,
    edge_id: str | None = None,
    label: str | None = None,
    direction: Literal["both", "outgoing", "incoming"] | None = None,
    relation: str | None = None,
    as_of: datetime | date | str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ClientCall[replies.EdgeList | replies.EdgesMissing]:
    """See every edge of a node, heaviest first, or one by edge_id."""
    return ClientCall("graph_list_edges", locals())


def delete_edge(
    edge_id: str, *, reason: str | None = None, idempotency_key: str | None = None
) -> ClientCall[replies.GraphDeleted | replies.DeletionNeedsConsent]:
    """Remove an edge."""
    return ClientCall("graph_delete_edge", locals())


def delete_node(
    node_id: str, *, reason: str | None = None, idempotency_key: str | None = None
) -> ClientCall[replies.GraphDeleted | replies.DeletionNeedsConsent]:
    """Remove a node and all its edges."""
    return ClientCall("graph_delete_node", locals())


def get_edge(
    source_name: str,
    target_name: str,
    relation: str,
    *,
    source_label: str | None = None,
    target_label: str | None = None,
) -> ClientCall[replies.EdgeFound | replies.EdgeMissing]:
    """Verify a fact: read the edge from exactly this source to this target."""
    return ClientCall("get_edge", locals())


def neighbors(
    node_name: str,
    *,
    label: str | None = None,
    depth: int | None = None,
    direction: Literal["both", "outgoing", "incoming"] | None = None,
    relation: str | None = None,
    sectors: Sequence[Literal["emotional", "episodic", "semantic", "procedural", "reflective"]] | None = None,
    as_of: datetime | date | str | None = None,
    limit: int | None = None,
) -> ClientCall[replies.Neighbors | replies.WalkStartMissing]:
    """See what surrounds a node, nearest first."""
    return ClientCall("graph_query_neighbors", locals())


def find_path(
    start_node: str,
    end_node: str,
    *,
    start_label: str | None = None,
    end_label: str | None = None,
    max_depth: int | None = None,
    as_of: datetime | date | str | None = None,
) -> ClientCall[replies.PathReport | replies.WalkStartMissing]:
    """Find a shortest path between two nodes."""
    return ClientCall("graph_find_path", locals())


def reclassify_edge(
    source_name: str,
    target_name: str,
    relation: str,
    new_sector: str,
    *,
    edge_id: str | None = None,
    actor: str | None = None,
    reason: str | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.Reclassified]:
    """Choose the sector of a graph edge by hand, for good."""
    return ClientCall("reclassify_memory_sector", locals())


def decide_proposal(
    proposal_id: str,
    decision: Literal["approve", "reject"],
    *,
    reason: str | None = None,
    seen: str | None = None,
    idempotency_key: str | None = None,
) -> ClientCall[replies.Decided]:
    """Approve or reject a proposal."""
    return ClientCall("decide_proposal", locals())


def list_proposals(
    *, state: Literal["pending", "approved", "rejected", "expired", "used"] | None = None, cursor: str | None = None
) -> ClientCall[replies.ProposalList]:
    """See proposals, newest first, and what each would do."""
    return ClientCall("list_proposals", locals())


def begin_session(*, session: str | None = None) -> ClientCall[replies.SessionBegun]:
    """Begin afresh: @stored and @recalled[N] are cleared."""
    return ClientCall("begin_session", locals())


def breadcrumbs(session: str) -> ClientCall[replies.BreadcrumbTrail]:
    """See what @stored and @recalled[N] stand for in this session."""
    return ClientCall("get_breadcrumbs", locals())


def guide(*, topic: str | None = None) -> ClientCall[dict[str, Any]]:
    """Read how to work with this memory, or what one tool costs and returns, with an example."""
    return ClientCall("guide", locals())


def get_command(command_id: str, *, first: int | None = None) -> ClientCall[replies.CommandReport]:
    """Learn what became of a write, and its reply."""
    return ClientCall("get_command", locals())


def audit(
    *,
    target: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    command_id: str | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ClientCall[replies.AuditList]:
    """See who changed what, newest first."""
    return ClientCall("audit", locals())


def stats(*, partitions: Sequence[Literal["trusted", "untrusted"]] | None = None) -> ClientCall[replies.Stats]:
    """Count memories by partition, sector, state and project, links, and waiting jobs."""
    return ClientCall("memory_stats", locals())
