"""Consent: a proposal that two different principals approve, used once within its time."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.commands import (
    ConsentNotNeeded,
    Decided,
    DecideProposal,
    DeletionNeedsConsent,
    NotProposed,
    Proposed,
    ProposeReclassification,
)
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import format_time, parse_uuid, uuid7
from engramq.schemas.vocabulary import AuditAction, Decision, ProposalAction, ProposalState, ReclassifyStatus, Sector
from engramq.workers.db import audit
from engramq.workers.db.errors import DatabaseError, Meaning, meaning
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.graph.constitution import is_constitutive
from engramq.workers.graph.sector_names import sector_named, wrong_sector

INSERT: Final = sql("insert_proposal")
APPROVE: Final = sql("approve_proposal")
LOCK: Final = sql("lock_proposal")
BY_ID: Final = sql("proposal_by_id")
REJECT: Final = sql("reject_proposal")
USE: Final = sql("use_proposal")
LOCK_OPEN: Final = sql("lock_open_proposals")
BY_IDS: Final = sql("proposals_by_id")
LOCK_EDGE: Final = sql("lock_edge")

PRINCIPALS: Final = limits.CONSENT_PRINCIPALS
_OPEN: Final = (ProposalState.PENDING, ProposalState.APPROVED)


@dataclass(frozen=True, slots=True)
class Deletion:
    """An edge or node that is to be deleted, and the constitutive edges that would go (`covers`)."""

    action: AuditAction
    target: UUID
    covers: tuple[UUID, ...]
    reason: str | None


@dataclass(frozen=True, slots=True)
class _Draft:
    action: ProposalAction
    target: UUID
    covers: Sequence[UUID]
    new_sector: Sector | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a change still waits for; without a proposal nobody has asked for it yet."""

    proposal_id: UUID | None
    approved_by: Sequence[str]
    hint: str


async def reclassification_consent(
    tx: Transaction, envelope: Envelope, edge_id: UUID, sector: Sector
) -> UUID | Waiting:
    """Use up an approved proposal to give a locked edge this sector and return its id, or what is still missing."""
    async with _consent_lookup():
        open_ones = await _open_proposals(tx, _reclassification(edge_id, sector))
        used = await _use_first(tx, open_ones)
    if used is not None:
        return used
    ask = f'propose_reclassification(edge_id="{edge_id}", new_sector="{sector}")'
    if not open_ones:
        hint = (
            f"Call {ask}: that is your approval. Have another principal call the same, or approve it with "
            f"decide_proposal. Then {call_again(envelope)} within {limits.CONSENT_HOURS} hours."
        )
        return Waiting(None, (), hint)
    standing = open_ones[0]
    return Waiting(standing["id"], standing["approved_by"], _missing(envelope, standing, ask, call_again(envelope)))


def call_again(envelope: Envelope) -> str:
    """Say how the same call is made once there is consent: its idempotency key would bring this reply again."""
    return "call this again" if envelope.idempotency_key is None else "call this again with another idempotency_key"


async def deletion_consent(
    tx: Transaction, envelope: Envelope, deletion: Deletion
) -> UUID | DeletionNeedsConsent | None:
    """Return the id of the proposal that was used up, None when none is needed, or what to answer instead.

    Without consent, this is the proposal: it is made unless it is there, with its proposer's approval.
    """
    if not deletion.covers:
        return None
    async with _consent_lookup():
        draft = _Draft(ProposalAction.DELETE, deletion.target, deletion.covers, None, deletion.reason)
        open_ones = await _open_proposals(tx, draft)
        used = await _use_first(tx, open_ones)
    if used is not None:
        return used
    standing = open_ones[0] if open_ones else await _propose(tx, envelope, draft)
    return DeletionNeedsConsent(
        error=f"What is constitutive is deleted only when {PRINCIPALS} different principals approve.",
        hint=f"Have a principal other than {standing['proposed_by']} call decide_proposal("
        f'proposal_id="{standing["id"]}", decision="approve"), then {call_again(envelope)}.',
        proposal_id=str(standing["id"]),
        expires_at=format_time(standing["expires_at"]),
        edge_ids=[str(edge) for edge in deletion.covers],
        approved_by=list(standing["approved_by"]),
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
        return NotProposed(status=ReclassifyStatus.NOT_FOUND, error=f"Edge not found: {command.edge_id}")
    if not is_constitutive(row["properties"]):
        return ConsentNotNeeded(
            error=f"Edge {edge_id} is not constitutive: changing it takes no consent.",
            hint="Call reclassify_memory_sector: it takes effect at once.",
        )
    joined = await _join(tx, envelope, _reclassification(edge_id, sector, audit.reason_of(command)))
    ask = f'propose_reclassification(edge_id="{edge_id}", new_sector="{sector}")'
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
        return Decided(status="not_found")
    before = await _read(tx, proposal_id)
    if before["state"] not in _OPEN:
        return Decided(status="closed", state=before["state"], approvals=len(before["approved_by"]))
    if command.decision == Decision.APPROVE:
        await tx.send(APPROVE, id=proposal_id, principal=envelope.principal.name)
    else:
        await tx.send(REJECT, id=proposal_id)
    after = await _read(tx, proposal_id)
    approvals = len(after["approved_by"])
    await _record_decision(tx, envelope, before, after, command.decision, audit.reason_of(command))
    return Decided(status="recorded", state=after["state"], approvals=approvals)


@asynccontextmanager
async def _consent_lookup() -> AsyncIterator[None]:
    """Without an answer there is no consent: whatever is wrong with the table, say so at once and change nothing."""
    try:
        yield
    except DatabaseError as error:
        if meaning(error) is not Meaning.DEFECT:
            raise
        raise refuse(FaultCode.INTERNAL, "Consent could not be looked up; nothing was changed.") from error


def _reclassification(edge_id: UUID, sector: Sector, reason: str | None = None) -> _Draft:
    return _Draft(ProposalAction.RECLASSIFY, edge_id, (edge_id,), sector, reason)


def _missing(envelope: Envelope, standing: Row, ask: str, again: str) -> str:
    """Say which approval an open proposal still lacks and how it is given, to whoever calls now."""
    approved_by, identifier = standing["approved_by"], standing["id"]
    if standing["state"] == ProposalState.APPROVED:
        return f"Approved by {' and '.join(approved_by)}: {again} by {format_time(standing['expires_at'])}."
    if envelope.principal.name not in approved_by:
        return f"Approved by {' and '.join(approved_by)} so far. Call {ask}: that is your approval. Then {again}."
    return (
        f"You have approved; {PRINCIPALS - len(approved_by)} more principal is missing. Have another one call "
        f'decide_proposal(proposal_id="{identifier}", decision="approve") or {ask}. Then {again}.'
    )


async def _join(tx: Transaction, envelope: Envelope, draft: _Draft) -> Row:
    """Return the open proposal of a change, approved by the caller, made if there is none."""
    async with _consent_lookup():
        open_ones = await _open_proposals(tx, draft)
    if not open_ones:
        return await _propose(tx, envelope, draft)
    standing = next((row for row in open_ones if row["state"] == ProposalState.APPROVED), open_ones[0])
    if standing["state"] == ProposalState.APPROVED or envelope.principal.name in standing["approved_by"]:
        return standing
    await tx.send(APPROVE, id=standing["id"], principal=envelope.principal.name)
    after = await _read(tx, standing["id"])
    await _record_decision(tx, envelope, standing, after, Decision.APPROVE, draft.reason)
    return after


async def _record_decision(
    tx: Transaction, envelope: Envelope, before: Row, after: Row, decision: Decision, reason: str | None
) -> None:
    of = {"proposal_id": str(before["id"])}
    old, new = {**of, "state": before["state"]}, {**of, "state": after["state"], "decision": decision}
    await audit.record(tx, envelope, AuditAction.DECIDE, before["target_id"], old=old, new=new, reason=reason)


async def _open_proposals(tx: Transaction, draft: _Draft) -> list[Row]:
    locked = await tx.rows(
        LOCK_OPEN,
        action=draft.action,
        target_id=draft.target,
        covers=list(draft.covers),
        new_sector=draft.new_sector,
    )
    if not locked:
        return []
    # Read again: who approved while this waited for the lock is seen by a new statement only.
    rows = await tx.rows(BY_IDS, ids=[row["id"] for row in locked], principals=PRINCIPALS)
    return [row for row in rows if row["state"] in _OPEN]


async def _use_first(tx: Transaction, open_ones: Sequence[Row]) -> UUID | None:
    approved: UUID | None = next((row["id"] for row in open_ones if row["state"] == ProposalState.APPROVED), None)
    if approved is not None:
        await tx.send(USE, id=approved)
    return approved


async def _propose(tx: Transaction, envelope: Envelope, draft: _Draft) -> Row:
    proposal_id, proposer = UUID(uuid7()), envelope.principal.name
    await tx.send(
        INSERT,
        id=proposal_id,
        action=draft.action,
        target_id=draft.target,
        covers=list(draft.covers),
        new_sector=draft.new_sector,
        proposed_by=proposer,
        reason=draft.reason,
        hours=limits.CONSENT_HOURS,
    )
    await tx.send(APPROVE, id=proposal_id, principal=proposer)
    new = {"proposal_id": str(proposal_id), "action": draft.action, "new_sector": draft.new_sector}
    await audit.record(tx, envelope, AuditAction.PROPOSE, draft.target, old={}, new=new, reason=draft.reason)
    return await _read(tx, proposal_id)


async def _read(tx: Transaction, proposal_id: UUID) -> Row:
    row = await tx.row(BY_ID, id=proposal_id, principals=PRINCIPALS)
    assert row is not None
    return {**row, "state": ProposalState(row["state"])}
