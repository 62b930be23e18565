"""Commands on the sectors of edges, and on proposals: how two principals consent to a change of a constitutive edge."""

from typing import Annotated, ClassVar, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from engramq.schemas.commands.base import Command, ExampleCall, Page, Tool, ToolGuide, WriteCommand, WriteReply
from engramq.schemas.commands.graph import AnySector, AsWritten
from engramq.schemas.fields import Cursor, Identifier, JudgedDigest, Name, Note
from engramq.schemas.ids import list_position
from engramq.schemas.records import EdgeCandidate, Proposal
from engramq.schemas.vocabulary import Decision, ProposalState, ReclassifyStatus, Scope, Sector, Thing, WorkerKind

# The subject of the guide's examples.
_FACT: Final = {"source_name": "Ada", "target_name": "Royal Society", "relation": "DISCUSSED"}
_VALUE: Final = ExampleCall.of(
    "graph_add_edge",
    source_name="Ada",
    source_label="Person",
    target_name="Honesty",
    relation="VALUES",
    properties={"is_constitutive": True},
)
_PROPOSE: Final = ExampleCall.of(
    "reclassify_memory_sector",
    source_name="Ada",
    target_name="Honesty",
    relation="VALUES",
    new_sector=Sector.REFLECTIVE.value,
    reason="a conclusion about herself",
)


class ReclassifySector(WriteCommand, frozen=True, kw_only=True, tag="reclassify_memory_sector"):
    """Choose the sector of an edge by hand, for good; of a constitutive one with consent, which the call asks for."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES

    source_name: Name
    target_name: Name
    relation: AsWritten
    new_sector: AnySector
    edge_id: Annotated[Identifier, Meta(description="If several match")] | UnsetType = UNSET
    actor: Annotated[Name, Meta(description="In whose name, if not yours (admin)")] | UnsetType = UNSET
    reason: Note | UnsetType = UNSET


class Reclassified(WriteReply, kw_only=True, tag="reclassified"):
    """The result of a reclassification; its status says which fields are present.

    consent_required: the sector is as it was, and this call has made, or joined, the proposal.
    """

    status: ReclassifyStatus
    edge_id: str | UnsetType = UNSET
    old_sector: Sector | UnsetType = UNSET
    new_sector: Sector | UnsetType = UNSET
    error: str | UnsetType = UNSET
    edge_ids: list[str] | UnsetType = UNSET
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET
    proposal_id: str | UnsetType = UNSET
    approved_by: list[str] | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET
    candidates: list[EdgeCandidate] | UnsetType = UNSET


RECLASSIFY_SECTOR: Final = Tool(
    parameters=ReclassifySector,
    replies=(Reclassified,),
    rest="POST /graph/edges/reclassify",
    client_name="reclassify_edge",
    title="Reclassify an edge",
    summary="Choose the sector of a graph edge by hand, for good. Call it when an edge has the wrong one. A "
    "constitutive edge takes consent: another principal calls the same or decide_proposal, then call again. For a "
    "memory call update_memory.",
    example='reclassify_memory_sector(source_name="Ada", target_name="Engine", relation="DESIGNED", '
    'new_sector="episodic")',
    destructive=True,
    everyday=("source_name", "target_name", "relation", "new_sector", "edge_id"),
    guide=ToolGuide(
        what="Chooses an edge's sector by hand, for good: no automatic classification changes it again. For a "
        "constitutive edge the call is the proposal to do so; it lasts 48 hours.",
        when="An edge has the wrong sector and so fades or is filtered wrongly.",
        when_not="The sector of a memory: update_memory. The relation is wrong: graph_delete_edge, then the right one.",
        cost="One audited transaction, about 5 ms.",
        returns="old_sector and new_sector; or invalid_sector, not_found, ambiguous (candidates, oldest first), "
        "consent_required with a proposal_id: each says what to do, and nothing has changed.",
        next="ambiguous: again with edge_id. consent_required: do what hint says, then call this again.",
        before=(ExampleCall.of("graph_add_edge", **_FACT, source_label="Person"),),
        example=ExampleCall.of("reclassify_memory_sector", **_FACT, new_sector=Sector.EPISODIC.value),
    ),
)


class DecideProposal(WriteCommand, frozen=True, kw_only=True, tag="decide_proposal"):
    """Approve or reject a proposal. Approving twice counts once; one rejection ends it."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.VERIFY

    proposal_id: Identifier
    decision: Decision
    reason: Note | UnsetType = UNSET
    seen: JudgedDigest | UnsetType = UNSET


class Decided(WriteReply, kw_only=True, tag="decided"):
    """The proposal's state, and how many principals approve. `closed`: it had ended, nothing was recorded.

    A missing proposal has `what` and `hint`; so has one that the principal had approved before (`hint` alone).
    """

    status: Literal["recorded", "closed", "not_found"]
    state: ProposalState | UnsetType = UNSET
    approvals: int | UnsetType = UNSET
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


DECIDE_PROPOSAL: Final = Tool(
    parameters=DecideProposal,
    replies=(Decided,),
    rest="POST /proposals/{proposal_id}/decision",
    client_name="decide_proposal",
    title="Decide on a proposal",
    summary="Approve or reject a proposal. Two different principals must approve; one rejection ends it. Call it once "
    "you have judged the change. Your own has your approval already. Next make "
    "the proposed call.",
    example='decide_proposal(proposal_id="<id>", decision="approve")',
    destructive=True,
    idempotent=True,
    guide=ToolGuide(
        what="Approves or rejects a proposal. Two different principals must approve; one rejection ends it.",
        when="Another principal proposed a change and you have judged it on its merits.",
        when_not="You proposed it yourself: your approval counts once, and is there already.",
        cost="One audited transaction, about 5 ms. Needs the verify scope.",
        returns="recorded with state and approvals; closed when it had ended; not_found; conflict if seen is another "
        "digest.",
        next="approved: call what was proposed again; it uses the proposal up.",
        before=(_VALUE, _PROPOSE),
        example=ExampleCall.of("decide_proposal", proposal_id="<proposal_id>", decision="approve"),
    ),
)


class ListProposals(Command, frozen=True, kw_only=True, tag="list_proposals"):
    """List proposals, newest first."""

    state: Annotated[ProposalState, Meta(description="Left out: all")] | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET


class ProposalList(Page, kw_only=True, tag="proposals"):
    """Proposals, newest first; `truncated`: there are more, and `next_cursor` is not null."""

    status: Literal["success"] = "success"
    proposals: list[Proposal]
    truncated: bool
    next_cursor: str | UnsetType | None = UNSET

    listed: ClassVar[str] = "proposals"

    def positions(self) -> list[str]:
        """Return the position after each proposal."""
        return [list_position(proposal.created_at, proposal.proposal_id) for proposal in self.proposals]


LIST_PROPOSALS: Final = Tool(
    parameters=ListProposals,
    replies=(ProposalList,),
    rest="GET /proposals",
    client_name="list_proposals",
    title="List proposals",
    summary="See proposals, newest first, and what each would do. Call it when asked to decide. Not right "
    "after a proposal: the reply had the id.",
    example='list_proposals(state="pending")',
    bounded=True,
    read_only=True,
    guide=ToolGuide(
        what="Shows proposals, newest first: what each would do, to which edge or node, who approved, until when.",
        when="You are asked to decide, or wonder why something still needs consent.",
        when_not="You have just proposed: the reply holds the id.",
        cost="One read, a few milliseconds.",
        returns="proposals, each with effect in words, the edge or node as it is now, and change: what of an edge "
        "would be different, or all of a memory to be shared; next_cursor, null at the end.",
        next="decide_proposal with a proposal_id. next_cursor as cursor, with the same state, for the next page.",
        example=ExampleCall.of("list_proposals", state="pending"),
    ),
)
