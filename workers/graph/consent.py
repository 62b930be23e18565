"""Take the consent of two different principals to a change, used once within its time. Every decision is audited."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.command_line import join_words
from engramq.schemas.commands import Decided, DecideProposal
from engramq.schemas.digests import digest_of, require_seen
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import FaultCode, missing, refuse
from engramq.schemas.ids import format_time, parse_uuid, uuid7
from engramq.schemas.vocabulary import AuditAction, Decision, ProposalAction, ProposalState, Scope, Sector, Thing
from engramq.workers.db import audit
from engramq.workers.db.errors import DatabaseError, Meaning, meaning_of_error
from engramq.workers.db.memory_rows import read_memories
from engramq.workers.db.transaction import Jsonb, Row, Transaction
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.graph.proposals import OPEN, SEEN, records_of
from engramq.workers.runner import Context, handles
from engramq.workers.trust import require_graph_writer

PRINCIPALS: Final = limits.CONSENT_PRINCIPALS

_TOO_MANY_OPEN: Final = (
    f"Have some of them decided, or wait: each ends {limits.CONSENT_HOURS} hours after it was made. "
    'list_proposals(state="pending") shows them. decide_proposal ends one.'
)


@dataclass(frozen=True, slots=True)
class ConsentDraft:
    """The change for which consent is asked: equal changes are one proposal, whatever their reasons.

    `covers`: the constitutive edges that would be changed or go. `change` holds what would be different, as it would
    be, in JSON values; of properties by key. Consent is to exactly that: whatever else the call would change by now, or
    no longer would, makes it another change.
    """

    action: ProposalAction
    target: UUID
    covers: Sequence[UUID] = ()
    new_sector: Sector | None = None
    change: Mapping[str, Any] | None = None

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


@dataclass(frozen=True, slots=True)
class ConsentWanted:
    """The open proposal of a call, as replies name it, and what it still lacks in words."""

    proposal_id: str
    approved_by: list[str]
    expires_at: str
    hint: str

    @property
    def fields(self) -> dict[str, Any]:
        """The same as fields of a reply."""
        return asdict(self)


async def consent(tx: Transaction, envelope: Envelope, draft: ConsentDraft) -> UUID | ConsentWanted:
    """Use up an approved proposal of a change to what is locked, and return its id.

    Without one this call is the proposal, or joins the open one, and nothing changes.
    """
    proposals = await _open_proposals(tx, draft)
    approved: UUID | None = next((row["id"] for row in proposals if row["state"] == ProposalState.APPROVED), None)
    if approved is not None:
        await tx.send("use_proposal", id=approved)
        return approved
    proposal = await _join(tx, envelope, draft, proposals)
    return ConsentWanted(
        proposal_id=str(proposal["id"]),
        approved_by=list(proposal["approved_by"]),
        expires_at=format_time(proposal["expires_at"]),
        hint=_missing(envelope, proposal),
    )


async def draft_sharing(tx: Transaction, memory_id: UUID) -> ConsentDraft:
    """Return what consent is asked for to share a locked memory: to share it as it is now.

    Whatever of it is judged and differs later takes another. Its owner alone can ask: others do not see the memory.
    """
    memory = (await read_memories(tx, (memory_id,)))[memory_id]
    return ConsentDraft(ProposalAction.SHARE, memory_id, change={SEEN: digest_of(memory)})


async def end_sharing(tx: Transaction, envelope: Envelope, memory_id: UUID) -> None:
    """Reject what was proposed to share a memory, in the name of its owner."""
    for locked in await tx.rows("lock_open_sharing", target_id=memory_id):
        before = await _read(tx, locked["id"])
        await tx.send("reject_proposal", id=locked["id"])
        await _record_decision(tx, envelope, before, await _read(tx, locked["id"]), Decision.REJECT)


_APPROVED_BEFORE: Final = {
    ProposalState.PENDING: "You had approved it before, which counts once: somebody else has to approve it.",
    ProposalState.APPROVED: "You had approved it before, and nothing is lacking: what it is about can be called now.",
}


@handles(DecideProposal)
async def record_decision(tx: Transaction, command: DecideProposal, context: Context) -> Decided:
    """Note what a principal decides on a proposal; one rejection ends it, also when it was approved but not used.

    Raises EngramqError with `conflict` when the proposal, or what it is about, is not what the principal saw.
    """
    require_graph_writer(context.envelope.principal)
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
    approvals = len(after["approved_by"])
    again = command.decision == Decision.APPROVE and envelope.principal.name in before["approved_by"]
    hint = _APPROVED_BEFORE[after["state"]] if again else UNSET
    return Decided(status="recorded", state=after["state"], approvals=approvals, hint=hint)


async def _open_proposals(tx: Transaction, draft: ConsentDraft) -> list[Row]:
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
        if meaning_of_error(error) is not Meaning.DEFECT:
            raise
        raise refuse(FaultCode.INTERNAL, "Consent could not be looked up; nothing was changed.") from error
    return [row for row in rows if row["state"] in OPEN]


async def _join(tx: Transaction, envelope: Envelope, draft: ConsentDraft, proposals: Sequence[Row]) -> Row:
    """Return the open proposal of a change, made if there is none; approved by the caller if they may.

    A proposer needs no more than the scope write. To approve what somebody else proposed takes verify, here as in
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


async def _make(tx: Transaction, envelope: Envelope, draft: ConsentDraft) -> Row:
    """Make a proposal; raises EngramqError when the principal has as many open ones as one may have."""
    proposal_id, proposer = UUID(uuid7()), envelope.principal.name
    await tx.send("lock_proposer", principal=proposer)
    counted = await tx.only_row("count_open_proposals", principal=proposer)
    if counted["proposals"] >= limits.OPEN_PROPOSALS:
        error = f"You have {limits.OPEN_PROPOSALS} open proposals, which is the most that one principal may have."
        raise refuse(FaultCode.QUOTA_EXCEEDED, error, recovery=_TOO_MANY_OPEN)
    values = {
        "id": proposal_id,
        "proposed_by": proposer,
        "reason": audit.reason_of(envelope.command),
        "hours": limits.CONSENT_HOURS,
    }
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


def call_again(envelope: Envelope) -> str:
    """Say how the same call is made once there is consent: its idempotency key would bring this reply again."""
    return "call this again" if envelope.idempotency_key is None else "call this again with another idempotency_key"


def _missing(envelope: Envelope, proposal: Row) -> str:
    """Say which approval an open proposal still lacks and how it is given, to the caller.

    A sentence that names decide_proposal stands alone, so that the gateway can take it out for callers without that
    tool.
    """
    approved_by, names, again = proposal["approved_by"], join_words(proposal["approved_by"]), call_again(envelope)
    if proposal["state"] == ProposalState.APPROVED:
        return f"Approved by {names}: {again} by {format_time(proposal['expires_at'])}."
    if envelope.principal.name in approved_by:
        lacking = PRINCIPALS - len(approved_by)
        begins = f"You have approved; {lacking} more principal is missing, with the scope verify."
    else:  # the approver with the scope verify has just joined
        begins = f"Approved by {names} so far; to approve takes the scope verify, which you do not have."
    return (
        f"{begins} Have one who has it make this same call. Or have one call "
        f'decide_proposal(proposal_id="{proposal["id"]}", decision="approve"). Then {again}.'
    )
