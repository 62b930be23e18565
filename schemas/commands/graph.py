"""Commands that write to the knowledge graph, each with its reply and its tool; operators undo deletions (no tools)."""

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import fields, limits
from engramq.schemas.commands.base import Command, ExampleCall, Reply, Tool, ToolGuide, WriteCommand, WriteReply
from engramq.schemas.contents import Contents
from engramq.schemas.faults import invalid
from engramq.schemas.records import Candidate, GraphDeletion, NotRestored
from engramq.schemas.vocabulary import (
    CONSTITUTIVE,
    EDGE_TYPE,
    ENTITY_LABEL,
    IS_CONSTITUTIVE,
    LAST_RECLASSIFICATION,
    Scope,
    Sector,
    Thing,
    WorkerKind,
)

AsWritten = Annotated[fields.Name, Meta(description="As written, e.g. DESIGNED")]
# Any text: a wrong one has an answer of its own.
AnySector = Annotated[str, Meta(description=", ".join(Sector))]
LabelOfHomonym = Annotated[fields.Name, Meta(description="If ambiguous")]


# The subject of the guide's examples.
EXAMPLE_FACT: Final = {"source_name": "Ada", "target_name": "Analytical Engine", "relation": "DESCRIBED"}
# With the label, an example works whether or not another one has made a node of that name.
EXAMPLE_EDGE: Final = ExampleCall.of("graph_add_edge", **EXAMPLE_FACT, source_label="Person", properties={"year": 1843})
EXAMPLE_NODE: Final = ExampleCall.of("graph_add_node", name="Ada", label="Person", properties={"born": 1815})
_ADD_WRONG: Final = ExampleCall.of(
    "graph_add_edge", source_name="Ada", source_label="Person", target_name="Telegraph", relation="INVENTED"
)


class AddNode(WriteCommand, frozen=True, kw_only=True, tag="graph_add_node"):
    """Make a named node, or merge properties into it."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES

    name: fields.Name
    label: Annotated[fields.Name, Meta(description="Kind, e.g. Person")] = ENTITY_LABEL
    properties: Annotated[fields.Properties, Meta(description="Merged into what is there")] | UnsetType = UNSET

    def check(self) -> None:
        """Refuse a name that is none."""
        fields.refuse_control_characters(name=self.name, label=self.label)


class NodeAdded(WriteReply, kw_only=True, tag="node_added"):
    """The node as it is now; `created`: it was not there before."""

    status: Literal["success"] = "success"
    node_id: str
    created: bool
    label: str
    name: str
    properties: Contents[dict[str, Any]]


ADD_NODE: Final = Tool(
    parameters=AddNode,
    replies=(NodeAdded,),
    rest="POST /graph/nodes",
    client_name="add_node",
    title="Add a node",
    summary="Make a named node, or merge properties into it. Label and name identify it. Call it for "
    "properties of a thing itself. Not before an edge: graph_add_edge makes missing nodes.",
    example='graph_add_node(name="Ada", label="Person")',
    bounded=True,
    idempotent=True,
    guide=ToolGuide(
        what="Makes a named node, or merges properties into it. Label and name together identify it, as written.",
        when="A thing has properties of its own, or one name means several things and labels have to tell them apart.",
        when_not="You are about to write an edge: graph_add_edge makes missing nodes itself.",
        cost="One transaction, about 5 ms; no embedding.",
        returns="node_id, created (false: it was there), and the merged properties.",
        next="graph_add_edge, with source_label or target_label where the name is ambiguous.",
        example=EXAMPLE_NODE,
    ),
)


_NAMES: Final = ("source_name", "target_name", "relation", "source_label", "target_label")


class AddEdge(WriteCommand, frozen=True, kw_only=True, tag="graph_add_edge"):
    """Write a fact, source --relation--> target, or merge properties into it."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES

    source_name: fields.Name
    target_name: fields.Name
    relation: Annotated[fields.Name, Meta(description="A verb, e.g. DESIGNED")]
    source_label: LabelOfHomonym | UnsetType = UNSET
    target_label: LabelOfHomonym | UnsetType = UNSET
    weight: Annotated[fields.UnitInterval, Meta(description="How strongly it holds; 1 if new")] | UnsetType = UNSET
    properties: (
        Annotated[fields.Properties, Meta(description="Merged; is_constitutive true: changes take consent")] | UnsetType
    ) = UNSET
    valid_from: fields.ValidFrom | UnsetType = UNSET
    valid_until: fields.ValidUntil | UnsetType = UNSET

    def check(self) -> None:
        """Refuse what is no name, what only a reclassification writes, a flag that would protect nothing,
        and marks that disagree.
        """
        fields.refuse_control_characters(**{name: getattr(self, name) for name in _NAMES})
        super().check()
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
                "properties", f"properties: {LAST_RECLASSIFICATION} is not for callers to write.", "Leave that key out."
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


ADD_EDGE: Final = Tool(
    parameters=AddEdge,
    replies=(EdgeAdded, ChangeNeedsConsent, NameAmbiguous),
    rest="POST /graph/edges",
    client_name="add_edge",
    title="Add an edge",
    summary="Write a directed fact about two named things; missing nodes are made. Call it for a plain fact to "
    "check exactly later; valid_until ends it. If it takes a sentence, call store_memory.",
    example='graph_add_edge(source_name="Ada", target_name="Engine", relation="DESIGNED")',
    bounded=True,
    idempotent=True,
    everyday=(
        *("source_name", "target_name", "relation", "source_label", "target_label", "properties", "valid_from"),
        *("valid_until",),
    ),
    guide=ToolGuide(
        what="Writes a directed fact between two named things: source --RELATION--> target. Missing nodes are made.",
        when="Something is a plain fact about named things and you want to check or walk it exactly later.",
        when_not="It needs a sentence to be understood: store_memory. You relate two memories: connect.",
        cost="One transaction, about 5 ms; no embedding.",
        returns="edge_id, created, the edge as stored, its sector and when it holds; ambiguous with candidates, or "
        "consent_required with a proposal_id (it would change a constitutive edge): nothing was written.",
        next="ambiguous: again with source_label or target_label. consent_required: do what hint says. When it holds "
        "no longer: again with valid_until. get_edge verifies it.",
        example=EXAMPLE_EDGE,
    ),
)


class DeleteEdge(WriteCommand, frozen=True, kw_only=True, tag="graph_delete_edge"):
    """Remove an edge. For a constitutive edge the first call proposes to delete it."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES

    edge_id: fields.Identifier
    reason: fields.Note | UnsetType = UNSET


class DeleteNode(WriteCommand, frozen=True, kw_only=True, tag="graph_delete_node"):
    """Remove a named node and its edges. With a constitutive edge the first call is a proposal to delete it."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES

    node_id: fields.Identifier
    reason: fields.Note | UnsetType = UNSET


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


DELETE_EDGE: Final = Tool(
    parameters=DeleteEdge,
    replies=(GraphDeleted, DeletionNeedsConsent),
    rest="DELETE /graph/edges/{edge_id}",
    client_name="delete_edge",
    title="Delete an edge",
    summary="Remove an edge. Call it when the fact is false. A constitutive edge takes consent: another "
    "principal calls the same, then call again. If it held once, or properties or "
    "weight are wrong, call graph_add_edge.",
    example='graph_delete_edge(edge_id="<id>")',
    destructive=True,
    idempotent=True,
    guide=ToolGuide(
        what="Removes an edge. For a constitutive edge the call is the proposal to do so.",
        when="The fact is false.",
        when_not="It held once: graph_add_edge with valid_until ends it. Its properties or weight are wrong: "
        "graph_add_edge again merges them. Its sector: reclassify_memory_sector.",
        cost="One audited transaction, about 5 ms. An operator can undo it until restore_until; hint says how.",
        returns="deleted, not_found, or consent_required with a proposal_id.",
        next="consent_required: do what hint says, then call this again.",
        before=(_ADD_WRONG,),
        example=ExampleCall.of("graph_delete_edge", edge_id="<edge_id>", reason="not true"),
    ),
)


DELETE_NODE: Final = Tool(
    parameters=DeleteNode,
    replies=(GraphDeleted, DeletionNeedsConsent),
    rest="DELETE /graph/nodes/{node_id}",
    client_name="delete_node",
    title="Delete a node",
    summary="Remove a node and all its edges. Call it when there is no such thing, or it was misnamed. "
    "Constitutive edges take consent. If one fact is wrong, call graph_delete_edge.",
    example='graph_delete_node(node_id="<id>")',
    destructive=True,
    idempotent=True,
    guide=ToolGuide(
        what="Removes a named node and all its edges.",
        when="The thing does not exist, or was written under a wrong name and has been written again.",
        when_not="Only one fact about it is wrong: graph_delete_edge.",
        cost="One audited transaction, longer with many edges. An operator can undo it until restore_until.",
        returns="deleted with edges_deleted, not_found, or consent_required when an edge is constitutive.",
        next="consent_required: do what hint says, then call this again.",
        before=(ExampleCall.of("graph_add_node", name="Adda", label="Person"),),
        example=ExampleCall.of("graph_delete_node", node_id="<node_id>", reason="misspelt"),
    ),
)


class RestoreGraph(WriteCommand, frozen=True, kw_only=True, tag="restore_graph"):
    """Undo a deletion in the graph: `audit_id` is the id of its entry in the audit log."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.ADMIN

    audit_id: Annotated[int, Meta(ge=1, le=limits.AUDIT_ID_MAX)]
    reason: fields.Note | UnsetType = UNSET


class GraphRestored(WriteReply, kw_only=True, tag="graph_restored"):
    """The edge or node that was restored as it was, and how many edges came back with it.

    `not_restored` are the first edges of those that could not, `not_restored_count` all of them: another call brings
    them back once nothing stands in their way. `edges_purged` are those that a purge has erased. Where nothing
    came back, nothing has changed, and `error` says why.
    """

    status: Literal["restored", "not_restored", "already_restored", "not_found"]
    audit_id: int
    edge_id: str | UnsetType = UNSET
    node_id: str | UnsetType = UNSET
    edges_restored: int = 0
    not_restored: list[NotRestored] = []
    not_restored_count: int = 0
    edges_purged: int = 0
    error: str | UnsetType = UNSET
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class ListDeleted(Command, frozen=True, kw_only=True, tag="list_deleted"):
    """List the deletions in the graph that can be undone, newest first."""

    scope: ClassVar[Scope] = Scope.ADMIN

    limit: Annotated[int, Meta(ge=1, le=limits.DELETIONS_SHOWN)] = limits.DELETIONS_SHOWN


class DeletedList(Reply, kw_only=True, tag="deleted"):
    """The newest deletions; `truncated`: there are older ones."""

    status: Literal["success"] = "success"
    deletions: list[GraphDeletion]
    truncated: bool
