"""Consent: a proposal that two different principals approve, used once within its time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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
)
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import missing, missing_id
from engramq.schemas.ids import format_time, parse_uuid
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
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.graph import proposal_rows
from engramq.workers.graph.edge_rules import is_constitutive, sector_named, wrong_sector
from engramq.workers.graph.proposal_rows import APPROVE, LOCK, PRINCIPALS, REJECT, Draft

LOCK_EDGE: Final = sql("lock_edge")

SAME_CALL: Final = "make this same call"  # what proposes, and what approves somebody else's proposal


@dataclass(frozen=True, slots=True)
class Deletion:
    """An edge or node that is to be deleted, and the constitutive edges that would go (`covers`)."""

    action: AuditAction
    target: UUID
    covers: tuple[UUID, ...]
    reason: str | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a change still waits for; without a proposal nobody has asked for it yet."""

    proposal_id: UUID | None
    approved_by: Sequence[str]
    hint: str
    expires_at: datetime | None = None


async def reclassification_consent(
    tx: Transaction, envelope: Envelope, edge_id: UUID, sector: Sector
) -> UUID | Waiting:
    """Use up an approved proposal to give a locked edge this sector and return its id, or what is still missing."""
    used, open_ones = await proposal_rows.use(tx, _reclassification(edge_id, sector))
    if used is not None:
        return used
    ask = f'propose_reclassification(edge_id="{edge_id}", new_sector="{sector}")'
    if not open_ones:
        hint = (
            f"Call {ask}: that is your approval. Have another principal, with the scope verify, call the same. "
            "Or have one approve it with decide_proposal. "
            f"Then {call_again(envelope)} within {limits.CONSENT_HOURS} hours."
        )
        return Waiting(None, (), hint)
    standing = open_ones[0]
    hint = _missing(envelope, standing, f"call {ask}", call_again(envelope))
    return Waiting(standing["id"], standing["approved_by"], hint, standing["expires_at"])


def call_again(envelope: Envelope) -> str:
    """Say how the same call is made once there is consent: its idempotency key would bring this reply again."""
    return "call this again" if envelope.idempotency_key is None else "call this again with another idempotency_key"


async def deletion_consent(
    tx: Transaction, envelope: Envelope, deletion: Deletion
) -> UUID | DeletionNeedsConsent | None:
    """Return the id of the proposal that was used up, None when none is needed, or what to answer instead.

    Without consent, this call is the proposal, or joins the open one.
    """
    if not deletion.covers:
        return None
    draft = Draft(ProposalAction.DELETE, deletion.target, deletion.covers, reason=deletion.reason)
    used, open_ones = await proposal_rows.use(tx, draft)
    if used is not None:
        return used
    standing = await proposal_rows.join(tx, envelope, draft, open_ones)
    return DeletionNeedsConsent(
        error=f"What is constitutive is deleted only when {PRINCIPALS} different principals approve.",
        hint=_missing(envelope, standing, SAME_CALL, call_again(envelope)),
        proposal_id=str(standing["id"]),
        expires_at=format_time(standing["expires_at"]),
        edge_ids=[str(edge) for edge in deletion.covers],
        approved_by=list(standing["approved_by"]),
    )


async def change_consent(
    tx: Transaction, envelope: Envelope, edge_id: UUID, change: Mapping[str, Any]
) -> UUID | ChangeNeedsConsent:
    """Use up consent to change a locked edge and return the proposal's id, or what to answer instead.

    `change` holds what would be different, as it would be, in JSON values; of properties by key. Consent is to exactly
    that: whatever else the call would change by now, or no longer would, makes it another change.
    """
    draft = Draft(ProposalAction.CHANGE, edge_id, (edge_id,), change=change)
    used, open_ones = await proposal_rows.use(tx, draft)
    if used is not None:
        return used
    standing = await proposal_rows.join(tx, envelope, draft, open_ones)
    what = all_of(sorted(change))
    return ChangeNeedsConsent(
        error=f"Edge {edge_id} is constitutive: {PRINCIPALS} different principals must approve this change of {what}.",
        hint=_missing(envelope, standing, SAME_CALL, call_again(envelope)),
        edge_id=str(edge_id),
        proposal_id=str(standing["id"]),
        approved_by=list(standing["approved_by"]),
        expires_at=format_time(standing["expires_at"]),
    )


async def propose(
    tx: Transaction, envelope: Envelope, command: ProposeReclassification
) -> Proposed | NotProposed | ConsentNotNeeded:
    """Make a proposal, which its proposer approves, or join the open one for the same edge and sector."""
    sector = sector_named(command.new_sector)
    if sector is None:
        return NotProposed(status=ReclassifyStatus.INVALID_SECTOR, error=wrong_sector(command.new_sector))
    edge_id = parse_uuid(command.edge_id)
    row = None if edge_id is None else await tx.row(LOCK_EDGE, id=edge_id)
    if row is None or edge_id is None:
        error = f"Edge not found: {command.edge_id}"
        return NotProposed(status=ReclassifyStatus.NOT_FOUND, error=error, **missing_id(Thing.EDGE))
    if not is_constitutive(row["properties"]):
        return ConsentNotNeeded(
            error=f"Edge {edge_id} is not constitutive: changing it takes no consent.",
            hint="Call reclassify_memory_sector: it takes effect at once.",
        )
    draft = _reclassification(edge_id, sector, audit.reason_of(command))
    joined = await proposal_rows.join(tx, envelope, draft, await proposal_rows.open_ones(tx, draft))
    ask = f'call propose_reclassification(edge_id="{edge_id}", new_sector="{sector}")'
    return Proposed(
        proposal_id=str(joined["id"]),
        expires_at=format_time(joined["expires_at"]),
        approved_by=list(joined["approved_by"]),
        approvals_needed=max(0, PRINCIPALS - len(joined["approved_by"])),
        hint=_missing(envelope, joined, ask, "call reclassify_memory_sector"),
    )


async def decide(tx: Transaction, envelope: Envelope, command: DecideProposal) -> Decided:
    """Note what a principal says to a proposal; one rejection ends it, also when it was approved but not used."""
    proposal_id = parse_uuid(command.proposal_id)
    if proposal_id is None or await tx.row(LOCK, id=proposal_id) is None:
        return Decided(status="not_found", **missing(Thing.PROPOSAL))
    before = await proposal_rows.read(tx, proposal_id)
    if before["state"] not in proposal_rows.OPEN:
        return Decided(status="closed", state=before["state"], approvals=len(before["approved_by"]))
    if command.decision == Decision.APPROVE:
        await tx.send(APPROVE, id=proposal_id, principal=envelope.principal.name)
    else:
        await tx.send(REJECT, id=proposal_id)
    after = await proposal_rows.read(tx, proposal_id)
    approvals = len(after["approved_by"])
    await proposal_rows.record_decision(tx, envelope, before, after, command.decision, audit.reason_of(command))
    return Decided(status="recorded", state=after["state"], approvals=approvals)


def _reclassification(edge_id: UUID, sector: Sector, reason: str | None = None) -> Draft:
    return Draft(ProposalAction.RECLASSIFY, edge_id, (edge_id,), new_sector=sector, reason=reason)


def _missing(envelope: Envelope, standing: Row, ask: str, again: str) -> str:
    """Say which approval an open proposal still lacks and how it is given, to whoever calls now.

    `ask` is what others do to approve, `again` what is done then. What names decide_proposal is a sentence of its own,
    which the gateway takes out for those who have no such tool.
    """
    approved_by, names = standing["approved_by"], all_of(standing["approved_by"])
    if standing["state"] == ProposalState.APPROVED:
        return f"Approved by {names}: {again} by {format_time(standing['expires_at'])}."
    if envelope.principal.name in approved_by:
        count = PRINCIPALS - len(approved_by)
        missing = f"You have approved; {count} more principal is missing, with the scope verify."
    elif Scope.VERIFY in envelope.principal.scopes:
        return f"Approved by {names} so far. {ask[0].upper()}{ask[1:]}: that is your approval. Then {again}."
    else:
        missing = f"Approved by {names} so far; to approve takes the scope verify, which you do not have."
    return (
        f"{missing} Have one who has it {ask}. Or have one call "
        f'decide_proposal(proposal_id="{standing["id"]}", decision="approve"). Then {again}.'
    )
