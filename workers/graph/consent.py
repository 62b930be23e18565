"""Take the consent of two different principals to a change, used once within its time. Every decision is audited."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.command_line import all_of
from engramq.schemas.commands import (
    ChangeNeedsConsent,
    ConsentNotNeeded,
    Decided,
    DecideProposal,
    DeletionNeedsConsent,
    NotProposed,
    Proposed,
    ProposeReclassification,
    Reclassified,
    Shared,
)
from engramq.schemas.digests import digest_of, require_seen
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import FaultCode, missing, missing_id, refuse
from engramq.schemas.ids import format_time, parse_uuid, uuid7
from engramq.schemas.vocabulary import (
    AuditAction,
    Decision,
    ProposalAction,
    ProposalState,
    ReclassifyStatus,
    Scope,
    Sector,
    Thing,
)
from engramq.workers.db import audit
from engramq.workers.db.errors import DatabaseError, Meaning, meaning
from engramq.workers.db.memory_rows import read_memories
from engramq.workers.db.transaction import Jsonb, Row, Transaction
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.graph.edge_rules import is_constitutive, sector_named, wrong_sector
from engramq.workers.graph.nodes import require_trusted_principal
from engramq.workers.graph.proposals import OPEN, SEEN, records_of
from engramq.workers.runner import Context, handles

PRINCIPALS: Final = limits.CONSENT_PRINCIPALS
SAME_CALL: Final = "make this same call"  # what proposes, and what approves somebody else's proposal

_TOO_MANY_OPEN: Final = (
    f"Have some of them decided, or wait: each ends {limits.CONSENT_HOURS} hours after it was made. "
    'list_proposals(state="pending") shows them. decide_proposal ends one.'
)


@dataclass(frozen=True, slots=True)
class Draft:
    """What consent is asked for: a proposal of the same is the same proposal, but for its reason."""

    action: ProposalAction
    target: UUID
    covers: Sequence[UUID]
    new_sector: Sector | None = None
    change: Mapping[str, Any] | None = None
    reason: str | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """The parameters by which queries know it."""
        return {
            "action": self.action,
            "target_id": self.target,
            "covers": list(self.covers),
            "new_sector": self.new_sector,
            "change": None if self.change is None else Jsonb(dict(self.change)),
        }


async def reclassification_consent(
    tx: Transaction, envelope: Envelope, edge_id: UUID, sector: Sector
) -> UUID | Reclassified:
    """Use up an approved proposal to give a locked edge this sector and return its id, or what to answer instead."""
    used, proposals = await _use(tx, Draft(ProposalAction.RECLASSIFY, edge_id, (edge_id,), new_sector=sector))
    if used is not None:
        return used
    call, again = f'propose_reclassification(edge_id="{edge_id}", new_sector="{sector}")', _call_again(envelope)
    hint = (
        f"Call {call}: that is your approval. Have another principal, with the scope verify, call the same. "
        f"Or have one approve it with decide_proposal. Then {again} within {limits.CONSENT_HOURS} hours."
    )
    asked: dict[str, Any] = {"proposal_id": None, "approved_by": [], "expires_at": None}
    if proposals:
        hint, asked = _missing(envelope, proposals[0], f"call {call}", again), _asked(proposals[0])
    return Reclassified(
        status=ReclassifyStatus.CONSENT_REQUIRED,
        error=f"Edge {edge_id} is constitutive: two different principals must approve its reclassification.",
        edge_id=str(edge_id),
        hint=hint,
        **asked,
    )


async def deletion_consent(
    tx: Transaction, envelope: Envelope, target: UUID, covers: Sequence[UUID]
) -> UUID | DeletionNeedsConsent | None:
    """Return the id of the proposal that was used up to delete an edge or node, or what to answer instead.

    `covers`: the constitutive edges that would go; without any no consent is needed. Without consent, this call is the
    proposal, or joins the open one.
    """
    if not covers:
        return None
    draft = Draft(ProposalAction.DELETE, target, covers, reason=audit.reason_of(envelope.command))
    used, proposals = await _use(tx, draft)
    if used is not None:
        return used
    proposal = await _join(tx, envelope, draft, proposals)
    return DeletionNeedsConsent(
        error=f"What is constitutive is deleted only when {PRINCIPALS} different principals approve.",
        hint=_missing(envelope, proposal, SAME_CALL, _call_again(envelope)),
        edge_ids=[str(edge) for edge in covers],
        **_asked(proposal),
    )


async def change_consent(
    tx: Transaction, envelope: Envelope, edge_id: UUID, change: Mapping[str, Any]
) -> UUID | ChangeNeedsConsent:
    """Use up consent to change a locked edge and return the proposal's id, or what to answer instead.

    `change` holds what would be different, as it would be, in JSON values; of properties by key. Consent is to exactly
    that: whatever else the call would change by now, or no longer would, makes it another change.
    """
    draft = Draft(ProposalAction.CHANGE, edge_id, (edge_id,), change=change)
    used, proposals = await _use(tx, draft)
    if used is not None:
        return used
    proposal = await _join(tx, envelope, draft, proposals)
    what = all_of(sorted(change))
    return ChangeNeedsConsent(
        error=f"Edge {edge_id} is constitutive: {PRINCIPALS} different principals must approve this change of {what}.",
        hint=_missing(envelope, proposal, SAME_CALL, _call_again(envelope)),
        edge_id=str(edge_id),
        **_asked(proposal),
    )


async def sharing_consent(tx: Transaction, envelope: Envelope, memory_id: UUID) -> UUID | Shared:
    """Return the id of the proposal that was used up to share a locked memory, or what to answer instead.

    Without consent, this call of its owner is the proposal, and nobody else can make it: others do not see the memory.
    Consent is to the memory as it was when it was asked for: whatever of it is judged and differs now takes another.
    """
    memory = (await read_memories(tx, (memory_id,)))[memory_id]
    change = {SEEN: digest_of(memory)}
    draft = Draft(ProposalAction.SHARE, memory_id, (), change=change, reason=audit.reason_of(envelope.command))
    used, proposals = await _use(tx, draft)
    if used is not None:
        return used
    proposal = await _join(tx, envelope, draft, proposals)
    again = _call_again(envelope)
    return Shared(
        status="consent_required",
        memory_id=str(memory_id),
        **_asked(proposal),
        # No tool is named, else its sentence would be left out for most who propose, who lack the scope verify.
        hint="This namespace asks for consent. Have another principal, with the scope verify, approve the proposal, by "
        f"a tool or on the page Consent. Then {again} within {limits.CONSENT_HOURS} hours.",
    )


async def end_sharing(tx: Transaction, envelope: Envelope, memory_id: UUID) -> None:
    """Reject what was proposed to share a memory, in the name of its owner, who keeps it private."""
    for locked in await tx.rows("lock_open_sharing", target_id=memory_id):
        before = await _read(tx, locked["id"])
        await tx.send("reject_proposal", id=locked["id"])
        await _record_decision(tx, envelope, before, await _read(tx, locked["id"]), Decision.REJECT)


@handles(ProposeReclassification)
async def propose(
    tx: Transaction, command: ProposeReclassification, context: Context
) -> Proposed | NotProposed | ConsentNotNeeded:
    """Make a proposal, which its proposer approves, or join the open one for the same edge and sector."""
    require_trusted_principal(context)
    envelope = context.envelope
    sector = sector_named(command.new_sector)
    if sector is None:
        return NotProposed(status=ReclassifyStatus.INVALID_SECTOR, error=wrong_sector(command.new_sector))
    edge_id = parse_uuid(command.edge_id)
    row = None if edge_id is None else await tx.row("lock_edge", id=edge_id)
    if row is None or edge_id is None:
        error = f"Edge not found: {command.edge_id}"
        return NotProposed(status=ReclassifyStatus.NOT_FOUND, error=error, **missing_id(Thing.EDGE))
    if not is_constitutive(row["properties"]):
        return ConsentNotNeeded(
            error=f"Edge {edge_id} is not constitutive: changing it takes no consent.",
            hint="Call reclassify_memory_sector: it takes effect at once.",
        )
    reason = audit.reason_of(command)
    draft = Draft(ProposalAction.RECLASSIFY, edge_id, (edge_id,), new_sector=sector, reason=reason)
    proposal = await _join(tx, envelope, draft, await _open_proposals(tx, draft))
    call = f'call propose_reclassification(edge_id="{edge_id}", new_sector="{sector}")'
    return Proposed(
        **_asked(proposal),
        approvals_needed=max(0, PRINCIPALS - len(proposal["approved_by"])),
        hint=_missing(envelope, proposal, call, "call reclassify_memory_sector"),
    )


@handles(DecideProposal)
async def decide(tx: Transaction, command: DecideProposal, context: Context) -> Decided:
    """Note what a principal decides on a proposal; one rejection ends it, also when it was approved but not used.

    Raises EngramqError with `conflict` when the proposal, or what it is about, is not what the principal saw.
    """
    require_trusted_principal(context)
    envelope = context.envelope
    proposal_id = parse_uuid(command.proposal_id)
    if proposal_id is None or await tx.row("lock_proposal", id=proposal_id) is None:
        return Decided(status="not_found", **missing(Thing.PROPOSAL))
    before = await _read(tx, proposal_id)
    if before["state"] not in OPEN:
        return Decided(status="closed", state=before["state"], approvals=len(before["approved_by"]))
    (shown,) = await records_of(tx, [before])
    require_seen(command.seen, shown, envelope.principal, "list_proposals shows all of it.")
    if command.decision == Decision.APPROVE and shown.action is ProposalAction.SHARE and shown.change is None:
        raise refuse(FaultCode.CONFLICT, shown.effect, recovery="Reject it, or let it end.")
    if command.decision == Decision.APPROVE:
        await tx.send("approve_proposal", id=proposal_id, principal=envelope.principal.name)
    else:
        await tx.send("reject_proposal", id=proposal_id)
    after = await _read(tx, proposal_id)
    await _record_decision(tx, envelope, before, after, command.decision)
    return Decided(status="recorded", state=after["state"], approvals=len(after["approved_by"]))


async def _use(tx: Transaction, draft: Draft) -> tuple[UUID | None, list[Row]]:
    """Use up an approved proposal of a change and return its id, None when there is none; and the open ones."""
    proposals = await _open_proposals(tx, draft)
    approved: UUID | None = next((row["id"] for row in proposals if row["state"] == ProposalState.APPROVED), None)
    if approved is not None:
        await tx.send("use_proposal", id=approved)
    return approved, proposals


async def _open_proposals(tx: Transaction, draft: Draft) -> list[Row]:
    """Return the open proposals of a change, oldest first, locked.

    Without an answer there is no consent: whatever is wrong with the table, say so at once and change nothing.
    """
    try:
        locked = await tx.rows("lock_open_proposals", **draft.identity)
        if not locked:
            return []
        # Read again: who approved while this waited for the lock is seen by a new statement only.
        rows = await tx.rows("proposals_by_id", ids=[row["id"] for row in locked], principals=PRINCIPALS)
    except DatabaseError as error:
        if meaning(error) is not Meaning.DEFECT:
            raise
        raise refuse(FaultCode.INTERNAL, "Consent could not be looked up; nothing was changed.") from error
    return [row for row in rows if row["state"] in OPEN]


async def _join(tx: Transaction, envelope: Envelope, draft: Draft, proposals: Sequence[Row]) -> Row:
    """Return the open proposal of a change, made if there is none; approved by the caller if they may.

    Who proposes needs no more than the scope write. To approve what somebody else proposed takes verify, here as in
    decide_proposal.
    """
    if not proposals:
        return await _make(tx, envelope, draft)
    proposal = next((row for row in proposals if row["state"] == ProposalState.APPROVED), proposals[0])
    caller = envelope.principal
    counted = proposal["state"] == ProposalState.APPROVED or caller.name in proposal["approved_by"]
    if counted or Scope.VERIFY not in caller.scopes:
        return proposal
    await tx.send("approve_proposal", id=proposal["id"], principal=caller.name)
    after = await _read(tx, proposal["id"])
    await _record_decision(tx, envelope, proposal, after, Decision.APPROVE)
    return after


async def _make(tx: Transaction, envelope: Envelope, draft: Draft) -> Row:
    """Make a proposal; raises EngramqError when the principal has as many open ones as one may have."""
    proposal_id, proposer = UUID(uuid7()), envelope.principal.name
    await tx.send("lock_proposer", principal=proposer)
    counted = await tx.only_row("count_open_proposals", principal=proposer)
    if counted["proposals"] >= limits.OPEN_PROPOSALS:
        error = f"You have {limits.OPEN_PROPOSALS} open proposals, which is the most that one principal may have."
        raise refuse(FaultCode.QUOTA_EXCEEDED, error, recovery=_TOO_MANY_OPEN)
    values = {"id": proposal_id, "proposed_by": proposer, "reason": draft.reason, "hours": limits.CONSENT_HOURS}
    await tx.send("insert_proposal", **draft.identity, **values)
    await tx.send("approve_proposal", id=proposal_id, principal=proposer)
    new: dict[str, Any] = {"proposal_id": str(proposal_id), "action": draft.action, "new_sector": draft.new_sector}
    if draft.change is not None:
        # Names alone: the audit log gets the values once they are written, and never those that nobody agreed to.
        new["change"] = sorted(draft.change)
    await audit.record(tx, envelope, AuditAction.PROPOSE, draft.target, old={}, new=new)
    return await _read(tx, proposal_id)


async def _record_decision(tx: Transaction, envelope: Envelope, before: Row, after: Row, decision: Decision) -> None:
    of = {"proposal_id": str(before["id"])}
    old, new = {**of, "state": before["state"]}, {**of, "state": after["state"], "decision": decision}
    async with tx.seeing(EVERYTHING):  # who decides does not see the memory that is to be shared
        await audit.record(tx, envelope, AuditAction.DECIDE, before["target_id"], old=old, new=new)


async def _read(tx: Transaction, proposal_id: UUID) -> Row:
    row = await tx.only_row("proposal_by_id", id=proposal_id, principals=PRINCIPALS)
    return {**row, "state": ProposalState(row["state"])}


def _asked(proposal: Row) -> dict[str, Any]:
    """Return the fields by which a reply names an open proposal."""
    return {
        "proposal_id": str(proposal["id"]),
        "approved_by": list(proposal["approved_by"]),
        "expires_at": format_time(proposal["expires_at"]),
    }


def _call_again(envelope: Envelope) -> str:
    """Say how the same call is made once there is consent: its idempotency key would bring this reply again."""
    return "call this again" if envelope.idempotency_key is None else "call this again with another idempotency_key"


def _missing(envelope: Envelope, proposal: Row, call: str, again: str) -> str:
    """Say which approval an open proposal still lacks and how it is given, to whoever calls now.

    `call` is what others do to approve, `again` what is done then. What names decide_proposal is a sentence of its own,
    which the gateway takes out for those who have no such tool.
    """
    approved_by, names = proposal["approved_by"], all_of(proposal["approved_by"])
    if proposal["state"] == ProposalState.APPROVED:
        return f"Approved by {names}: {again} by {format_time(proposal['expires_at'])}."
    if envelope.principal.name in approved_by:
        lacking = PRINCIPALS - len(approved_by)
        begins = f"You have approved; {lacking} more principal is missing, with the scope verify."
    elif Scope.VERIFY in envelope.principal.scopes:
        return f"Approved by {names} so far. {call[0].upper()}{call[1:]}: that is your approval. Then {again}."
    else:
        begins = f"Approved by {names} so far; to approve takes the scope verify, which you do not have."
    return (
        f"{begins} Have one who has it {call}. Or have one call "
        f'decide_proposal(proposal_id="{proposal["id"]}", decision="approve"). Then {again}.'
    )
