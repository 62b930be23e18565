"""Records that replies are made of, as a client reads them: memories, links, nodes, edges, proposals."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas.vocabulary import (
    DEFAULT_SECTOR,
    Direction,
    MemorySource,
    MemoryState,
    NotRestoredReason,
    Origin,
    Partition,
    ProposalAction,
    ProposalState,
    Scope,
    Sector,
    SectorSource,
    StandingSource,
    Verification,
    Visibility,
)

# Text that engramq makes, or shows to everybody who may call. Any other text of a record is what somebody wrote: see
# `contents_of` in contents.py.
Id = Annotated[str, Meta(extra={"holds": "id"})]
Time = Annotated[str, Meta(extra={"holds": "time"})]  # RFC 3339
Who = Annotated[str, Meta(extra={"holds": "principal"})]
Label = Annotated[str, Meta(extra={"holds": "label"})]  # names of nodes and relations
Words = Annotated[str, Meta(extra={"holds": "words"})]  # what engramq says
T = TypeVar("T")
Key = Annotated[str, Meta(extra={"holds": "key"})]  # somebody's own word too, by which memories are found again
# Whether what is kept has an answer; unsure: hits may be about something else.
Answered: TypeAlias = Literal["yes", "unsure", "no"]
Audited = Annotated[T, Meta(extra={"holds": "audited"})]  # read with a scope of its own


class ReferencedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The memory that a reference such as `@stored` stood for."""

    id: Id


class MemoryPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that a reply names, and how its content begins: null of what is untrusted, unless that was asked for.
    `by`: the writer of a wish that is another's and that nobody has verified: data, no wish of the user."""

    id: Id
    preview: str | None
    by: Who | UnsetType = UNSET


class CardLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of why a memory is known: when, by whom, about which other memory, in what words."""

    at: Time | UnsetType = UNSET
    by: Who | UnsetType = UNSET
    memory_id: Id | UnsetType = UNSET
    says: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    audit_id: int | UnsetType = UNSET


class GraphPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A node, edge or link that a reply names: `label: name` or `source --RELATION--> target`; null when it is gone."""

    id: Id
    preview: str | None


class Extract(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The words of a memory on a topic, in a whole sentence; `at` is the day of occurred_at, else of created_at.

    `thread` and `speaker` are left out where they are those of the extract before. `same` near-duplicates are left out,
    for which it stands.
    """

    id: Id
    at: Time
    thread: Key | UnsetType | None = UNSET
    speaker: str | UnsetType | None = UNSET
    text: str
    same: int = 0


class SurveyTotals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many memories name a topic, all that there are, and how many others found may be about it.

    Months and threads are of those that name it: the ones with most, months in order of time; others are omitted.
    """

    named: int
    near: int
    by_month: dict[str, int]
    by_thread: dict[str, int]
    months_omitted: int = 0
    threads_omitted: int = 0


class Via(msgspec.Struct, frozen=True, kw_only=True):
    """The link over which a search result came: the memory at its other end."""

    memory_id: Id
    relation: Label
    weight: float


class FollowedBy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The memory that followed a question or a request in its thread, and what of it bears on the search."""

    id: Id
    speaker: str | UnsetType = UNSET
    passage: str


class Difference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another memory that says otherwise about the same thing: a piece of it, `said`, and of this one, `here`.

    Which holds is not decided. `newer`: the other is the later one.
    """

    id: Id
    said: str
    here: str
    newer: bool | UnsetType = UNSET


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """Two memories that say otherwise about the same thing: a piece of the earlier, `said`, and of the later, `here`.

    The pieces of two that somebody linked as `contradicts` may be their beginnings.
    """

    later: Id
    earlier: Id
    said: str
    here: str


class MemoryFields(msgspec.Struct, kw_only=True):
    """The fields of a memory that full and brief replies share; see Memory."""

    id: Id
    external_id: Key | None = None
    content: str | UnsetType = UNSET
    confidence: float | UnsetType = UNSET
    source: MemorySource = MemorySource.EXTRACTED
    source_type: Key | None = None
    speaker: str | None = None
    occurred_at: Time | None = None
    thread: Key | None = None
    position: int | None = None
    sector: Sector = DEFAULT_SECTOR
    sector_source: SectorSource | None = None
    sector_confidence: float | None = None
    partition: Partition = Partition.TRUSTED
    verification: Verification = Verification.UNVERIFIED
    state: MemoryState = MemoryState.ACTIVE
    valid_from: Time | None = None
    valid_until: Time | None = None
    expires_at: Time | None = None
    standing: bool | None = None
    standing_source: StandingSource | None = None
    evidence: list[dict[str, Any]] = []
    visibility: Visibility | UnsetType = UNSET
    of_another: bool | UnsetType = UNSET
    supersedes: Id | None = None
    superseded_by: Id | None = None
    superseded_at: Time | None = None
    promoted_at: Time | None = None
    promoted_by: Who | None = None
    tags: list[str] = []
    project: Key | None = None
    metadata: dict[str, Any] = {}
    created_by: Who | UnsetType = UNSET
    created_at: Time | UnsetType = UNSET
    updated_at: Time | UnsetType = UNSET
    similarity: float | UnsetType | None = UNSET
    relevance: float | UnsetType = UNSET
    via: Via | UnsetType = UNSET
    differs_from: list[Difference] | UnsetType = UNSET
    explain: dict[str, float | None] | UnsetType = UNSET
    relevance_of: dict[str, float] | UnsetType = UNSET
    truncated: bool | UnsetType = UNSET
    passage: bool | UnsetType = UNSET
    part: int | UnsetType = UNSET
    parts: int | UnsetType = UNSET
    followed_by: FollowedBy | UnsetType = UNSET
    digest: Id | UnsetType = UNSET
    untrusted: bool | UnsetType = UNSET
    warning: Words | UnsetType = UNSET


class Memory(MemoryFields, kw_only=True):
    """A memory as a client reads it; never the embedding. Times are RFC 3339 text in UTC.

    `occurred_at` has the offset by which it was given.

    It holds from `valid_from` until `valid_until`, which is excluded; null is open. From `expires_at` on it reads as
    archived.

    `sector_confidence` is the calibrated chance, 0 to 1, that an automatic sector is right, or that none fits; null for
    a sector that was chosen by hand, or is not chosen yet.

    `standing`: whether it is a standing instruction (always, never, from now on); null is no, as far as is known.
    `standing_source` says how it is known.

    `evidence` are citations, as they were given; `state`, `checked_at` and `checked_by` say what the last comparison
    found.
    `visibility` is shown where it is private: nobody else sees it. `of_another`: an administrator reads what is private
    to another, who alone changes it.

    `supersedes` is the memory that it replaced last (get_memory lists all of them). `superseded_at` without
    `superseded_by`: what replaced it was erased. `score` and `similarity` are on ranked results only (similarity is
    null when no vector was compared). `relevance` is the calibrated chance, 0 to 1, that a hit of a search helps to
    answer. When the search asked for it `explain` has what the score is the sum of, and `relevance_of` by how much what
    each kind of evidence says lifts the relevance above what it usually says. `truncated` when max_chars cut the
    content; `passage`: to the sentences that bear on the question; `part`: where they begin, of how many `parts` that
    get_memory gives. `followed_by`: what a question or request was answered with in its thread. `differs_from`: others
    that say otherwise about the same thing, in replies to stores and searches only. `untrusted` and `warning` on
    untrusted memories only. `digest` is of what is shown, for the `seen` of a verdict; it is missing where not all is
    shown.
    """

    content: str
    confidence: float = 1.0
    state: MemoryState = MemoryState.PENDING
    usefulness: float = 0.5
    created_by: Who
    created_at: Time
    updated_at: Time
    accessed_at: Time | None = None
    score: float | UnsetType = UNSET

    @property
    def moment(self) -> datetime:
        """When it happened, else when it was stored."""
        return datetime.fromisoformat(self.occurred_at or self.created_at)


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link as seen from one memory; `memory_id` is the other end, `direction` outgoing if this end declared it.

    `preview` is the beginning of the other end's content. `untrusted` and `warning` where the other end is untrusted:
    its author may have chosen relation and note.
    """

    memory_id: Id
    preview: str | None = None
    relation: Label
    weight: float
    note: str | None
    origin: Origin
    direction: Direction
    reinforcement_count: int
    untrusted: bool | UnsetType = UNSET
    warning: Words | UnsetType = UNSET


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An action on a memory, link, edge, node or token (`target_id`): it names the change, not memories' contents.

    `at` is RFC 3339; `id` counts up.
    """

    id: int
    at: Time
    actor: Who
    action: Words
    target_id: Id | None
    old: Audited[dict[str, Any] | None]
    new: Audited[dict[str, Any] | None]
    reason: Audited[str | None]
    command_id: Id | None


class DisplacedLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that had to make room for another; `memory_id` is the end that was full, `other_id` the end it lost.

    `source_id` is the end that declared it; of a link that nobody declared, the older end.
    """

    memory_id: Id
    other_id: Id
    relation: Label
    weight: float
    origin: Origin
    source_id: Id
    target_id: Id


class UsefulMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory and how useful it has proved, from 0 to 1."""

    memory_id: Id
    usefulness: float


class SkippedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that was left out, and why: not_found, pending, archived, superseded or rejected."""

    memory_id: Id
    reason: Words


class NodeRef(msgspec.Struct, frozen=True, kw_only=True):
    """A named node."""

    node_id: Id
    label: Label
    name: Label


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge of the knowledge graph with its ends by name, and who wrote it first and changed it last, if known.

    Here and on other edges, it holds from `valid_from` until `valid_until`, which is excluded; null is open.
    """

    edge_id: Id
    source: NodeRef
    target: NodeRef
    relation: Label
    weight: float
    memory_sector: Sector
    properties: dict[str, Any]
    created_by: Who | None = None
    updated_by: Who | None = None
    valid_from: Time | None = None
    valid_until: Time | None = None


class CountedNode(NodeRef, frozen=True, kw_only=True):
    """A named node, and how many edges it has."""

    edge_count: int


class Candidate(NodeRef, frozen=True, kw_only=True):
    """One of several nodes that a name can mean; `field` is the parameter that has the name."""

    field: Words


class NotRestored(msgspec.Struct, frozen=True, kw_only=True):
    """A deleted edge, `preview` in words, that could not be brought back.

    `restore_first` are the deletions, by the ids of their audit entries, that took the ends which are missing.
    """

    edge_id: Id
    preview: Label
    why: NotRestoredReason
    restore_first: list[int] = []


class GraphDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """A deletion that can be undone until `restore_until`; `audit_id` is its entry in the audit log.

    `what` says in words what would come back, `edge_count` how many edges.
    """

    audit_id: int
    deleted_at: Time
    deleted_by: Who
    reason: Audited[str | None]
    what: Audited[str]
    edge_count: int
    edge_id: Id | None
    node_id: Id | None
    restore_until: Time


class EdgeCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """One of several edges that a triple of names can mean."""

    edge_id: Id
    source_label: Label
    target_label: Label
    memory_sector: Sector


class Crossing(msgspec.Struct, frozen=True, kw_only=True):
    """An edge by which a walk can come to a node; `direction` is outgoing when it leads away from the start."""

    edge_id: Id
    relation: Label
    weight: float
    direction: Direction
    valid_from: Time | None = None
    valid_until: Time | None = None


class Neighbor(NodeRef, frozen=True, kw_only=True):
    """A node that a walk has reached, `distance` edges from its start.

    `edges` are those from the node before it on the walk, heaviest first, `more_edges` the number of those left out.
    All other fields describe the first edge. `relevance`, from 0 to 1, is the product of the weights along the way,
    each decayed by its sector and age in active hours. `properties` are the node's.
    """

    distance: int
    edge_id: Id
    relation: Label
    weight: float
    memory_sector: Sector
    direction: Direction
    relevance: float
    properties: dict[str, Any]
    edges: list[Crossing] = []
    more_edges: int | UnsetType = UNSET


class PathEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge of a path; `direction` is incoming when the path goes against it."""

    edge_id: Id
    source_id: Id
    target_id: Id
    relation: Label
    weight: float
    memory_sector: Sector
    direction: Direction
    valid_from: Time | None = None
    valid_until: Time | None = None


class EdgeChange(msgspec.Struct, frozen=True, kw_only=True):
    """The difference that a proposal makes to an edge: as it is now, and as it would be; of properties by key.

    For a memory that is to be shared, `new` has the text that others would read.
    """

    old: dict[str, Any] = {}
    new: dict[str, Any] = {}


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A change that waits for consent, was decided, used, or has expired.

    It names an edge (to be reclassified, changed or deleted) or a node (to be deleted with its constitutive edges), as
    it is now, null when it is gone. Or it names a memory that is to be shared, with all its fields in `change`.
    `effect` says in words what the proposal would do; `change` is null unless weight, properties or flag of an edge
    would change, or a memory would be shared. `digest` is of what is shown, for the `seen` of a decision.
    """

    proposal_id: Id
    action: ProposalAction
    edge_id: Id | None
    node_id: Id | None
    new_sector: Sector | None
    state: ProposalState
    proposed_by: Who
    reason: str | None
    approvals: int
    approved_by: list[Who]
    created_at: Time
    expires_at: Time
    effect: str = ""
    edge: GraphEdge | None = None
    node: CountedNode | None = None
    change: EdgeChange | None = None
    memory_id: Id | UnsetType = UNSET
    digest: Id | UnsetType = UNSET


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a bearer token, never the token itself. Without `expires_at` it counts until it is revoked."""

    token_id: Id
    principal: Who
    scopes: list[Scope]
    untrusted: bool
    project: Label | None
    label: Label | None
    created_by: Who
    created_at: Time
    expires_at: Time | None
    revoked_at: Time | None


class ImportRun(msgspec.Struct, frozen=True, kw_only=True):
    """Batches of one principal that came one soon after another; counts are of rows.

    `is_whole`: its first batch is among those that were looked at, else there were more before.
    """

    principal: Who
    untrusted: bool
    began_at: Time
    last_at: Time
    batches: int
    stored: int
    updated: int
    skipped: int
    rejected: int
    is_whole: bool
