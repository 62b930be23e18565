"""What calls take beside what they must have; None means: not given.

Written by `make clients` from docs/openapi.json: edit neither.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal, TypedDict


class Store(TypedDict, total=False):
    """Of `store`."""

    confidence: float | None
    source: Literal["extracted", "explicit"] | None
    source_type: str | None
    verification: Literal["unverified", "verified", "approved", "rejected"] | None
    partition: Literal["trusted", "untrusted"] | None
    sector: Literal["emotional", "episodic", "semantic", "procedural", "reflective"] | None
    speaker: str | None
    occurred_at: datetime | date | str | None
    thread: str | None
    position: int | None
    external_id: str | None
    tags: Sequence[str] | None
    project: str | None
    valid_from: datetime | date | str | None
    valid_until: datetime | date | str | None
    expires_at: datetime | date | str | None
    metadata: Mapping[str, Any] | None
    session: str | None
    idempotency_key: str | None


class Recent(TypedDict, total=False):
    """Of `recent`."""

    limit: int | None
    partitions: Sequence[Literal["trusted", "untrusted"]] | None
    sectors: Sequence[Literal["emotional", "episodic", "semantic", "procedural", "reflective"]] | None
    tags: Sequence[str] | None
    project: str | None
    states: Sequence[Literal["pending", "active", "archived"]] | None
    verifications: Sequence[Literal["unverified", "verified", "approved", "rejected"]] | None
    thread: str | None
    source_type: str | None
    created_by: str | None
    external_id: str | None
    include_superseded: bool | None
    as_of: datetime | date | str | None
    cursor: str | None


class Search(TypedDict, total=False):
    """Of `search`."""

    limit: int | None
    partitions: Sequence[Literal["trusted", "untrusted"]] | None
    sectors: Sequence[Literal["emotional", "episodic", "semantic", "procedural", "reflective"]] | None
    min_sector_confidence: float | None
    thread: str | None
    tags: Sequence[str] | None
    project: str | None
    since: datetime | date | str | None
    until: datetime | date | str | None
    as_of: datetime | date | str | None
    ranking: Literal["relevance", "similarity"] | None
    min_similarity: float | None
    include_superseded: bool | None
    explain: bool | None
    collapse_duplicates: bool | None
    session: str | None


class Get(TypedDict, total=False):
    """Of `get`."""

    include_untrusted: bool | None
    as_of: datetime | date | str | None
    session: str | None


class Update(TypedDict, total=False):
    """Of `update`."""

    sector: Literal["emotional", "episodic", "semantic", "procedural", "reflective"] | None
    metadata: Mapping[str, Any] | None
    confidence: float | None
    speaker: str | None
    occurred_at: datetime | date | str | None
    thread: str | None
    position: int | None
    add_tags: Sequence[str] | None
    remove_tags: Sequence[str] | None
    project: str | None
    valid_from: datetime | date | str | None
    valid_until: datetime | date | str | None
    expires_at: datetime | date | str | None
    clear: Sequence[str] | None
    session: str | None
    idempotency_key: str | None


class Forget(TypedDict, total=False):
    """Of `forget`."""

    reason: str | None
    erase: bool | None
    session: str | None
    idempotency_key: str | None


class Supersede(TypedDict, total=False):
    """Of `supersede`."""

    session: str | None
    idempotency_key: str | None


class Restore(TypedDict, total=False):
    """Of `restore`."""

    reason: str | None
    session: str | None
    idempotency_key: str | None


class ImportMany(TypedDict, total=False):
    """Of `import_many`."""

    on_duplicate: Literal["skip", "update"] | None
    idempotency_key: str | None


class Verify(TypedDict, total=False):
    """Of `verify`."""

    reason: str | None
    session: str | None
    idempotency_key: str | None


class Promote(TypedDict, total=False):
    """Of `promote`."""

    session: str | None
    idempotency_key: str | None


class Connect(TypedDict, total=False):
    """Of `connect`."""

    relation: str | None
    weight: float | None
    note: str | None
    if_exists: Literal["reinforce", "update", "skip", "error"] | None
    session: str | None
    idempotency_key: str | None


class Disconnect(TypedDict, total=False):
    """Of `disconnect`."""

    guard_relation: str | None
    reason: str | None
    session: str | None
    idempotency_key: str | None


class ConnectByQuery(TypedDict, total=False):
    """Of `connect_by_query`."""

    relation: str | None
    note: str | None
    min_confidence: float | None
    if_exists: Literal["reinforce", "update", "skip", "error"] | None
    dry_run: bool | None
    idempotency_key: str | None


class ConnectMany(TypedDict, total=False):
    """Of `connect_many`."""

    atomic: bool | None
    session: str | None
    idempotency_key: str | None


class RecordOutcome(TypedDict, total=False):
    """Of `record_outcome`."""

    weight: float | None
    note: str | None
    session: str | None
    idempotency_key: str | None


class AddNode(TypedDict, total=False):
    """Of `add_node`."""

    label: str | None
    properties: Mapping[str, Any] | None
    idempotency_key: str | None


class GetNode(TypedDict, total=False):
    """Of `get_node`."""

    label: str | None


class AddEdge(TypedDict, total=False):
    """Of `add_edge`."""

    source_label: str | None
    target_label: str | None
    weight: float | None
    properties: Mapping[str, Any] | None
    valid_from: datetime | date | str | None
    valid_until: datetime | date | str | None
    idempotency_key: str | None


class ListEdges(TypedDict, total=False):
    """Of `list_edges`."""

    node_name: str | None
    edge_id: str | None
    label: str | None
    direction: Literal["both", "outgoing", "incoming"] | None
    relation: str | None
    as_of: datetime | date | str | None
    limit: int | None
    cursor: str | None


class DeleteEdge(TypedDict, total=False):
    """Of `delete_edge`."""

    reason: str | None
    idempotency_key: str | None


class DeleteNode(TypedDict, total=False):
    """Of `delete_node`."""

    reason: str | None
    idempotency_key: str | None


class GetEdge(TypedDict, total=False):
    """Of `get_edge`."""

    source_label: str | None
    target_label: str | None


class Neighbors(TypedDict, total=False):
    """Of `neighbors`."""

    label: str | None
    depth: int | None
    direction: Literal["both", "outgoing", "incoming"] | None
    relation: str | None
    sectors: Sequence[Literal["emotional", "episodic", "semantic", "procedural", "reflective"]] | None
    as_of: datetime | date | str | None
    limit: int | None


class FindPath(TypedDict, total=False):
    """Of `find_path`."""

    start_label: str | None
    end_label: str | None
    max_depth: int | None
    as_of: datetime | date | str | None


class ReclassifyEdge(TypedDict, total=False):
    """Of `reclassify_edge`."""

    edge_id: str | None
    actor: str | None
    idempotency_key: str | None


class ProposeReclassification(TypedDict, total=False):
    """Of `propose_reclassification`."""

    reason: str | None
    idempotency_key: str | None


class DecideProposal(TypedDict, total=False):
    """Of `decide_proposal`."""

    reason: str | None
    idempotency_key: str | None


class ListProposals(TypedDict, total=False):
    """Of `list_proposals`."""

    state: Literal["pending", "approved", "rejected", "expired", "used"] | None
    cursor: str | None


class BeginSession(TypedDict, total=False):
    """Of `begin_session`."""

    session: str | None


class Guide(TypedDict, total=False):
    """Of `guide`."""

    topic: str | None


class Audit(TypedDict, total=False):
    """Of `audit`."""

    target: str | None
    actor: str | None
    action: str | None
    since: datetime | date | str | None
    until: datetime | date | str | None
    limit: int | None
    cursor: str | None


class Stats(TypedDict, total=False):
    """Of `stats`."""

    partitions: Sequence[Literal["trusted", "untrusted"]] | None
