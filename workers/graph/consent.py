"""Consent: a proposal that two different principals approve, used once within its time."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.commands import (
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
from engramq.schemas.records import Proposal
from engramq.schemas.vocabulary import AuditAction, Decision, ProposalAction, ProposalState, ReclassifyStatus, Sector
from engramq.workers.db import audit
from engramq.workers.db.errors import DatabaseError, Meaning, meaning
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.graph.sector_names import sector_named, wrong_sector

INSERT: Final = sql("insert_proposal")
APPROVE: Final = sql("approve_proposal")
LOCK: Final = sql("lock_proposal")
BY_ID: Final = sql("proposal_by_id")
REJECT: Final = sql("reject_proposal")
USE: Final = sql("use_proposal")
LOCK_OPEN: Final = sql("lock_open_proposals")
BY_IDS: Final = sql("proposals_by_id")
LIST: Final = sql("list_proposals")
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


async def use_reclassification_consent(tx: Transaction, edge_id: UUID, sector: Sector) -> UUID | None:
    """Use up an approved proposal to give a locked edge this sector and return its id, None when there is none."""
    async with _consent_lookup():
        open_ones = await _open_proposals(tx, ProposalAction.RECLASSIFY, edge_id, (edge_id,), sector)
        return await _use_first(tx, open_ones)


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
        open_ones = await _open_proposals(tx, ProposalAction.DELETE, deletion.target, deletion.covers, None)
        used = await _use_first(tx, open_ones)
    if used is not None:
        return used
    if open_ones:
        proposal_id, expires_at, proposer = (open_ones[0][name] for name in ("id", "expires_at", "proposed_by"))
    else:
        draft = _Draft(ProposalAction.DELETE, deletion.target, deletion.covers, None, deletion.reason)
        proposer = envelope.principal.name
        proposal_id, expires_at = await _propose(tx, envelope, draft)
    return DeletionNeedsConsent(
        error=f"What is constitutive is deleted only when {PRINCIPALS} different principals approve.",
        hint=f'Have a principal other than {proposer} call decide_proposal(proposal_id="{proposal_id}", '
        f'decision="approve"), then {call_again(envelope)}.',
        proposal_id=str(proposal_id),
        expires_at=format_time(expires_at),
        edge_ids=[str(edge) for edge in deletion.covers],
    )


async def propose(tx: Transaction, envelope: Envelope, command: ProposeReclassification) -> Proposed | NotProposed:
    """Make a proposal, which its proposer approves."""
    sector = sector_named(command.new_sector)
    if sector is None:
        return NotProposed(status=ReclassifyStatus.INVALID_SECTOR, error=wrong_sector(command.new_sector))
    edge_id = parse_uuid(command.edge_id)
    if edge_id is None or await tx.row(LOCK_EDGE, id=edge_id) is None:
        return NotProposed(status=ReclassifyStatus.NOT_FOUND, error=f"Edge not found: {command.edge_id}")
    reason = command.reason if isinstance(command.reason, str) else None
    draft = _Draft(ProposalAction.RECLASSIFY, edge_id, (edge_id,), sector, reason)
    proposal_id, expires_at = await _propose(tx, envelope, draft)
    return Proposed(proposal_id=str(proposal_id), expires_at=format_time(expires_at))


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
    await audit.record(
        tx,
        envelope,
        AuditAction.DECIDE,
        before["target_id"],
        old={"proposal_id": str(proposal_id), "state": before["state"]},
        new={"proposal_id": str(proposal_id), "state": after["state"], "decision": command.decision},
        reason=command.reason if isinstance(command.reason, str) else None,
    )
    return Decided(status="recorded", state=after["state"], approvals=approvals)


async def list_proposals(tx: Transaction, state: ProposalState | None) -> tuple[list[Proposal], bool]:
    """Return the newest proposals of a state, or of all, and whether there are more."""
    rows = await tx.rows(LIST, state=state, principals=PRINCIPALS, limit=limits.PROPOSALS_SHOWN + 1)
    return [_record(row) for row in rows[: limits.PROPOSALS_SHOWN]], len(rows) > limits.PROPOSALS_SHOWN


@asynccontextmanager
async def _consent_lookup() -> AsyncIterator[None]:
    """Without an answer there is no consent: whatever is wrong with the table, say so at once and change nothing."""
    try:
        yield
    except DatabaseError as error:
        if meaning(error) is not Meaning.DEFECT:
            raise
        raise refuse(FaultCode.INTERNAL, "Consent could not be looked up; nothing was changed.") from error


async def _open_proposals(
    tx: Transaction, action: ProposalAction, target: UUID, covers: Sequence[UUID], sector: Sector | None
) -> list[Row]:
    locked = await tx.rows(LOCK_OPEN, action=action, target_id=target, covers=list(covers), new_sector=sector)
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


async def _propose(tx: Transaction, envelope: Envelope, draft: _Draft) -> tuple[UUID, Any]:
    proposal_id, proposer = UUID(uuid7()), envelope.principal.name
    made = await tx.row(
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
    assert made is not None
    await tx.send(APPROVE, id=proposal_id, principal=proposer)
    new = {"proposal_id": str(proposal_id), "action": draft.action, "new_sector": draft.new_sector}
    await audit.record(tx, envelope, AuditAction.PROPOSE, draft.target, old={}, new=new, reason=draft.reason)
    return proposal_id, made["expires_at"]


async def _read(tx: Transaction, proposal_id: UUID) -> Row:
    row = await tx.row(BY_ID, id=proposal_id, principals=PRINCIPALS)
    assert row is not None
    return {**row, "state": ProposalState(row["state"])}


def _record(row: Row) -> Proposal:
    on_edge = list(row["covers"]) == [row["target_id"]]
    return Proposal(
        proposal_id=str(row["id"]),
        action=ProposalAction(row["action"]),
        edge_id=str(row["target_id"]) if on_edge else None,
        node_id=None if on_edge else str(row["target_id"]),
        new_sector=Sector(row["new_sector"]) if row["new_sector"] else None,
        state=ProposalState(row["state"]),
        proposed_by=row["proposed_by"],
        reason=row["reason"],
        approvals=len(row["approved_by"]),
        approved_by=list(row["approved_by"]),
        created_at=format_time(row["created_at"]),
        expires_at=format_time(row["expires_at"]),
    )
