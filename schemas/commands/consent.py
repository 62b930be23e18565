"""Commands on proposals: how two principals consent to a change of a constitutive edge."""

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from engramq.schemas.commands.base import Command, Page, WriteReply
from engramq.schemas.commands.graph import AnySector
from engramq.schemas.fields import Cursor, Identifier, Note
from engramq.schemas.ids import list_position
from engramq.schemas.records import Proposal
from engramq.schemas.vocabulary import Decision, ProposalState, ReclassifyStatus, Scope, Thing, WorkerKind


class ProposeReclassification(Command, frozen=True, kw_only=True, omit_defaults=True, tag="propose_reclassification"):
    """Ask for consent to another sector of an edge, or join who asked before; counts as the proposer's approval."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True

    edge_id: Identifier
    new_sector: AnySector
    reason: Note | UnsetType = UNSET


class Proposed(WriteReply, kw_only=True, tag="proposed"):
    """The proposal that others may now decide on. `approvals_needed`: so many principals are still missing."""

    status: Literal["proposed"] = "proposed"
    proposal_id: str
    expires_at: str
    approved_by: list[str] = []
    approvals_needed: int = 0
    hint: str = ""


class NotProposed(WriteReply, kw_only=True, tag="not_proposed"):
    """Why there is no proposal: a wrong sector, or no such edge, which `what` says."""

    status: ReclassifyStatus
    error: str
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class ConsentNotNeeded(WriteReply, kw_only=True, tag="consent_not_needed"):
    """There is no proposal, since the edge takes no consent: `hint` says what to do instead."""

    status: Literal["not_needed"] = "not_needed"
    error: str
    hint: str


class DecideProposal(Command, frozen=True, kw_only=True, omit_defaults=True, tag="decide_proposal"):
    """Approve or reject a proposal. Approving twice counts once; one rejection ends it."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.VERIFY
    write: ClassVar[bool] = True

    proposal_id: Identifier
    decision: Decision
    reason: Note | UnsetType = UNSET


class Decided(WriteReply, kw_only=True, tag="decided"):
    """The proposal's state, and how many principals approve. `closed`: it had ended, nothing was recorded.

    Of one that is not there `what` and `hint`.
    """

    status: Literal["recorded", "closed", "not_found"]
    state: ProposalState | UnsetType = UNSET
    approvals: int | UnsetType = UNSET
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class ListProposals(Command, frozen=True, kw_only=True, omit_defaults=True, tag="list_proposals"):
    """List proposals, newest first."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL

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
        return [list_position(one.created_at, one.proposal_id) for one in self.proposals]
