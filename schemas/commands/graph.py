"""Commands on the knowledge graph, each with its reply beside it. Consent and walks have files of their own."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, Page, Reply, WriteReply
from engramq.schemas.contents import Contents
from engramq.schemas.faults import invalid
from engramq.schemas.fields import (
    AsOf,
    Cursor,
    Identifier,
    Name,
    Note,
    Properties,
    UnitInterval,
    ValidFrom,
    ValidUntil,
    refuse_backwards,
    refuse_future,
)
from engramq.schemas.ids import weight_position
from engramq.schemas.records import Candidate, EdgeCandidate, GraphEdge, NodeRef
from engramq.schemas.vocabulary import (
    CONSTITUTIVE,
    EDGE_TYPE,
    ENTITY_LABEL,
    IS_CONSTITUTIVE,
    LAST_RECLASSIFICATION,
    Following,
    ReclassifyStatus,
    Scope,
    Sector,
    Thing,
    WorkerKind,
)

AsWritten = Annotated[Name, Meta(description="Exactly as written, e.g. DESIGNED")]
# Any text: a wrong one has an answer of its own.
AnySector = Annotated[str, Meta(description=", ".join(Sector))]
LabelOfHomonym = Annotated[Name, Meta(description="If ambiguous")]


class AddNode(Command, frozen=True, kw_only=True, omit_defaults=True, tag="graph_add_node"):
    """Make a named node, or merge properties into it."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    name: Name
    label: Annotated[Name, Meta(description="What kind of thing, e.g. Person")] = ENTITY_LABEL
    properties: Annotated[Properties, Meta(description="Merged into what is there")] | UnsetType = UNSET


class NodeAdded(WriteReply, kw_only=True, tag="node_added"):
    """The node as it is now; `created`: it was not there before."""

    status: Literal["success"] = "success"
    node_id: str
    created: bool
    label: str
    name: str
    properties: Contents[dict[str, Any]]


class AddEdge(Command, frozen=True, kw_only=True, omit_defaults=True, tag="graph_add_edge"):
    """Write a fact, source --relation--> target, or merge properties into it."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    source_name: Name
    target_name: Name
    relation: Annotated[Name, Meta(description="A verb, e.g. DESIGNED")]
    source_label: LabelOfHomonym | UnsetType = UNSET
    target_label: LabelOfHomonym | UnsetType = UNSET
    weight: Annotated[UnitInterval, Meta(description="How strongly it holds; 1 if new")] | UnsetType = UNSET
    properties: (
        Annotated[Properties, Meta(description="Merged; is_constitutive true: changes take consent")] | UnsetType
    ) = UNSET
    valid_from: ValidFrom | UnsetType = UNSET
    valid_until: ValidUntil | UnsetType = UNSET

    def check(self) -> None:
        """Refuse an interval that ends before it begins, what only a reclassification writes, a flag that would protect
        nothing, and marks that disagree.
        """
        refuse_backwards(self.valid_from, self.valid_until)
        if self.properties is UNSET:
            return
        if not isinstance(self.properties.get(IS_CONSTITUTIVE, False), bool):
            raise invalid(
                "properties",
                f"properties: {IS_CONSTITUTIVE} is true or false.",
                f'Give {{"{IS_CONSTITUTIVE}": true}}, or leave that key out.',
            )
        if self.properties.get(IS_CONSTITUTIVE) is False and self.properties.get(EDGE_TYPE) == CONSTITUTIVE:
            raise invalid(
                "properties",
                f"properties: {IS_CONSTITUTIVE} says false and {EDGE_TYPE} says {CONSTITUTIVE}.",
                "Leave out the one that is wrong.",
            )
        if LAST_RECLASSIFICATION in self.properties:
            raise invalid(
                "properties",
                f"properties: {LAST_RECLASSIFICATION} is not for callers to write.",
                "Leave that key out.",
            )


class EdgeAdded(WriteReply, kw_only=True, tag="edge_added"):
    """The edge as it is now; `created`: it was not there before. `notice`: it has ended, so that reads leave it out."""

    status: Literal["success"] = "success"
    edge_id: str
    created: bool
    source_id: str
    target_id: str
    relation: str
    weight: float
    memory_sector: Sector
    properties: Contents[dict[str, Any]]
    valid_from: str | None = None
    valid_until: str | None = None
    notice: str | UnsetType = UNSET


class ChangeNeedsConsent(WriteReply, kw_only=True, tag="change_needs_consent"):
    """Nothing was written, since the edge is constitutive: this proposal of exactly that change waits for approvals."""

    status: Literal["consent_required"] = "consent_required"
    error: str
    edge_id: str
    proposal_id: str
    approved_by: list[str]
    expires_at: str
    hint: str


class NameAmbiguous(WriteReply, kw_only=True, tag="name_ambiguous"):
    """Several nodes have the name and no label was given; nothing was written. Candidates are oldest first."""

    status: Literal["ambiguous"] = "ambiguous"
    error: str
    candidates: list[Candidate]


class DeleteEdge(Command, frozen=True, kw_only=True, omit_defaults=True, tag="graph_delete_edge"):
    """Remove an edge. Of a constitutive one the first call is a proposal to delete it."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    edge_id: Identifier
    reason: Note | UnsetType = UNSET


class DeleteNode(Command, frozen=True, kw_only=True, omit_defaults=True, tag="graph_delete_node"):
    """Remove a named node and its edges. With a constitutive edge the first call is a proposal to delete it."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    node_id: Identifier
    reason: Note | UnsetType = UNSET


class GraphDeleted(WriteReply, kw_only=True, tag="graph_deleted"):
    """Whether the edge or node is gone, or was never there. `edges_deleted` counts those that went with a node.

    Until `restore_until` it can be brought back: `audit_id` is the entry of the audit log, `hint` says how.
    """

    status: Literal["deleted", "not_found"]
    edge_id: str | UnsetType = UNSET
    node_id: str | UnsetType = UNSET
    edges_deleted: int | UnsetType = UNSET
    audit_id: int | UnsetType = UNSET
    restore_until: str | UnsetType = UNSET
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class DeletionNeedsConsent(WriteReply, kw_only=True, tag="deletion_needs_consent"):
    """Nothing was deleted: this proposal waits for approvals, or for the next call. `edge_ids` are constitutive."""

    status: Literal["consent_required"] = "consent_required"
    error: str
    hint: str
    proposal_id: str
    expires_at: str
    edge_ids: list[str]
    approved_by: list[str] = []


class GetNodeByName(Command, frozen=True, kw_only=True, omit_defaults=True, tag="get_node_by_name"):
    """Read one node by its exact name."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL

    name: Name
    label: LabelOfHomonym | UnsetType = UNSET


class NodeFound(Reply, kw_only=True, tag="node_found"):
    """The node, the oldest of `match_count` with that name."""

    status: Literal["success"] = "success"
    node_id: str
    label: str
    name: str
    properties: Contents[dict[str, Any]]
    created_at: str
    updated_at: str
    match_count: int
    created_by: str | None = None
    updated_by: str | None = None


class NodeMissing(Reply, kw_only=True, tag="node_missing"):
    """No node has the name; the suggestions resemble it, best first."""

    node: None = None
    status: Literal["not_found"] = "not_found"
    suggestions: list[NodeRef]
    what: Thing = Thing.NODE
    hint: str = ""


class GetEdge(Command, frozen=True, kw_only=True, omit_defaults=True, tag="get_edge"):
    """Read one directed edge by its exact names and relation; changes nothing."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL

    source_name: Name
    target_name: Name
    relation: AsWritten
    source_label: LabelOfHomonym | UnsetType = UNSET
    target_label: LabelOfHomonym | UnsetType = UNSET


class EdgeFound(Reply, kw_only=True, tag="edge_found"):
    """The edge, the oldest of `match_count` between nodes of these names."""

    edge_id: str
    source_id: str
    target_id: str
    relation: str
    weight: float
    properties: Contents[dict[str, Any]]
    memory_sector: Sector
    created_at: str
    match_count: int
    status: Literal["success"] = "success"
    created_by: str | None = None
    updated_by: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None


class EdgeMissing(Reply, kw_only=True, tag="edge_missing"):
    """There is no such edge, whether or not there are such nodes. The one not_found that says no more."""

    edge: None = None
    status: Literal["not_found"] = "not_found"


class ListEdges(Command, frozen=True, kw_only=True, omit_defaults=True, tag="graph_list_edges"):
    """List the edges of a node that hold, or one edge by its id, whenever it holds.

    The gateway checks a cursor and hands its position on.
    """

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL

    node_name: Name | UnsetType = UNSET
    edge_id: Annotated[Identifier, Meta(description="Instead: this edge")] | UnsetType = UNSET
    label: LabelOfHomonym | UnsetType = UNSET
    direction: Annotated[Following, Meta(description="From the node")] = Following.BOTH
    relation: Annotated[Name, Meta(description="Only these")] | UnsetType = UNSET
    as_of: AsOf | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=limits.NEIGHBOR_LIMIT)] = 50
    cursor: Cursor | UnsetType = UNSET

    def check(self) -> None:
        """Ask for a node or an edge, not both, and for no time to come."""
        refuse_future(self.as_of)
        if (self.node_name is UNSET) == (self.edge_id is UNSET):
            raise invalid("node_name", "node_name or edge_id is required, one of them.", "Give one of them.")


class EdgeList(Page, kw_only=True, tag="edges"):
    """Edges, heaviest first. `node` is the oldest of `match_count` of that name, null when an edge was asked for."""

    status: Literal["success"] = "success"
    node: NodeRef | None
    edges: list[GraphEdge]
    count: int
    match_count: int
    candidates: list[Candidate] = []
    hint: str | UnsetType = UNSET
    next_cursor: str | UnsetType | None = UNSET

    listed: ClassVar[str] = "edges"

    def positions(self) -> list[str]:
        """Return the position after each edge."""
        return [weight_position(edge.weight, edge.edge_id) for edge in self.edges]


class EdgesMissing(Reply, kw_only=True, tag="edges_missing"):
    """There is no such node, or no such edge."""

    status: Literal["not_found"] = "not_found"
    what: Thing
    error: str
    hint: str


class ReclassifySector(Command, frozen=True, kw_only=True, omit_defaults=True, tag="reclassify_memory_sector"):
    """Choose the sector of an edge by hand, for good."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    source_name: Name
    target_name: Name
    relation: AsWritten
    new_sector: AnySector
    edge_id: Annotated[Identifier, Meta(description="Which one, if several match")] | UnsetType = UNSET
    actor: Annotated[Name, Meta(description="In whose name, if not yours (admin)")] | UnsetType = UNSET


class Reclassified(WriteReply, kw_only=True, tag="reclassified"):
    """What became of a reclassification; which fields are there depends on the status.

    `proposal_id` and `expires_at` are null when consent is needed and nobody has asked for it yet.
    """

    status: ReclassifyStatus
    edge_id: str | UnsetType = UNSET
    old_sector: Sector | UnsetType = UNSET
    new_sector: Sector | UnsetType = UNSET
    error: str | UnsetType = UNSET
    edge_ids: list[str] | UnsetType = UNSET
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET
    proposal_id: str | UnsetType | None = UNSET
    approved_by: list[str] | UnsetType = UNSET
    expires_at: str | UnsetType | None = UNSET
    candidates: list[EdgeCandidate] | UnsetType = UNSET
