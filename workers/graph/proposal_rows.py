"""Proposals as rows: the open one of a change found, made, joined, approved, used up. Every one is audited."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import AuditAction, Decision, ProposalAction, ProposalState, Scope, Sector
from engramq.workers.db import audit
from engramq.workers.db.errors import DatabaseError, Meaning, meaning
from engramq.workers.db.json_values import Jsonb
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction

LOCK_PROPOSER: Final = sql("lock_proposer")
COUNT_OPEN: Final = sql("count_open_proposals")
TRIM: Final = sql("trim_proposals")
INSERT: Final = sql("insert_proposal")
APPROVE: Final = sql("approve_proposal")
LOCK: Final = sql("lock_proposal")
BY_ID: Final = sql("proposal_by_id")
REJECT: Final = sql("reject_proposal")
USE: Final = sql("use_proposal")
LOCK_OPEN: Final = sql("lock_open_proposals")
BY_IDS: Final = sql("proposals_by_id")

PRINCIPALS: Final = limits.CONSENT_PRINCIPALS
OPEN: Final = (ProposalState.PENDING, ProposalState.APPROVED)

TRIMMED_AT_ONCE: Final = 5_000

_NO_ROOM: Final = (
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


async def open_ones(tx: Transaction, draft: Draft) -> list[Row]:
    """Return the open proposals of a change, oldest first, locked; raises EngramqError when that cannot be read."""
    async with _lookup():
        return await _locked(tx, draft)


async def use(tx: Transaction, draft: Draft) -> tuple[UUID | None, list[Row]]:
    """Use up an approved proposal of a change and return its id, None when there is none; and the open ones."""
    async with _lookup():
        found = await _locked(tx, draft)
        approved: UUID | None = next((row["id"] for row in found if row["state"] == ProposalState.APPROVED), None)
        if approved is not None:
            await tx.send(USE, id=approved)
    return approved, found


async def join(tx: Transaction, envelope: Envelope, draft: Draft, found: Sequence[Row]) -> Row:
    """Return the open proposal of a change, made if there is none; approved by the caller if they may.

    Who proposes needs no more than the scope write. To approve what somebody else proposed takes verify, here as in
    decide_proposal.
    """
    if not found:
        return await _propose(tx, envelope, draft)
    standing = next((row for row in found if row["state"] == ProposalState.APPROVED), found[0])
    caller = envelope.principal
    counted = standing["state"] == ProposalState.APPROVED or caller.name in standing["approved_by"]
    if counted or Scope.VERIFY not in caller.scopes:
        return standing
    await tx.send(APPROVE, id=standing["id"], principal=caller.name)
    after = await read(tx, standing["id"])
    await record_decision(tx, envelope, standing, after, Decision.APPROVE, draft.reason)
    return after


async def record_decision(
    tx: Transaction, envelope: Envelope, before: Row, after: Row, decision: Decision, reason: str | None
) -> None:
    """Audit what a principal said to a proposal, and how it stood before and after."""
    of = {"proposal_id": str(before["id"])}
    old, new = {**of, "state": before["state"]}, {**of, "state": after["state"], "decision": decision}
    await audit.record(tx, envelope, AuditAction.DECIDE, before["target_id"], old=old, new=new, reason=reason)


async def read(tx: Transaction, proposal_id: UUID) -> Row:
    """Return a proposal that is there, as it is now."""
    row = await tx.row(BY_ID, id=proposal_id, principals=PRINCIPALS)
    assert row is not None
    return {**row, "state": ProposalState(row["state"])}


async def trim(tx: Transaction) -> int:
    """Forget proposals that ended long ago, at most TRIMMED_AT_ONCE; return how many."""
    row = await tx.row(TRIM, days=limits.PROPOSAL_DAYS, limit=TRIMMED_AT_ONCE)
    return 0 if row is None else int(row["trimmed"])


async def _refuse_many(tx: Transaction, proposer: str) -> None:
    """Raise EngramqError when a principal has as many open proposals as one may have."""
    await tx.send(LOCK_PROPOSER, principal=proposer)
    counted = await tx.row(COUNT_OPEN, principal=proposer)
    assert counted is not None
    if counted["proposals"] >= limits.OPEN_PROPOSALS:
        error = f"You have {limits.OPEN_PROPOSALS} open proposals, which is the most that one principal may have."
        raise refuse(FaultCode.QUOTA_EXCEEDED, error, recovery=_NO_ROOM)


async def _propose(tx: Transaction, envelope: Envelope, draft: Draft) -> Row:
    proposal_id, proposer = UUID(uuid7()), envelope.principal.name
    await _refuse_many(tx, proposer)
    await tx.send(
        INSERT,
        **draft.identity,
        id=proposal_id,
        proposed_by=proposer,
        reason=draft.reason,
        hours=limits.CONSENT_HOURS,
    )
    await tx.send(APPROVE, id=proposal_id, principal=proposer)
    new: dict[str, Any] = {"proposal_id": str(proposal_id), "action": draft.action, "new_sector": draft.new_sector}
    if draft.change is not None:
        # Names alone: the audit log gets the values once they are written, and never those that nobody agreed to.
        new["change"] = sorted(draft.change)
    await audit.record(tx, envelope, AuditAction.PROPOSE, draft.target, old={}, new=new, reason=draft.reason)
    return await read(tx, proposal_id)


async def _locked(tx: Transaction, draft: Draft) -> list[Row]:
    locked = await tx.rows(LOCK_OPEN, **draft.identity)
    if not locked:
        return []
    # Read again: who approved while this waited for the lock is seen by a new statement only.
    rows = await tx.rows(BY_IDS, ids=[row["id"] for row in locked], principals=PRINCIPALS)
    return [row for row in rows if row["state"] in OPEN]


@asynccontextmanager
async def _lookup() -> AsyncIterator[None]:
    """Without an answer there is no consent: whatever is wrong with the table, say so at once and change nothing."""
    try:
        yield
    except DatabaseError as error:
        if meaning(error) is not Meaning.DEFECT:
            raise
        raise refuse(FaultCode.INTERNAL, "Consent could not be looked up; nothing was changed.") from error
