"""Verification and promotion: what the `promotion` kind does for reviewers. Every change is audited."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engramq.schemas.commands import Command, Promoted, PromoteMemory, Verified, VerifyMemory
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import AuditAction, Partition, Scope
from engramq.workers.db import audit
from engramq.workers.db.ledger import Effect, Ledger
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.replies import displaced_records
from engramq.workers.links.rules import LinkRules
from engramq.workers.memories import review as promotion
from engramq.workers.memories.store import read_memories
from engramq.workers.queue.contract import Handler, Job, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """The handlers of these commands."""

    ledger: Ledger
    rules: LinkRules

    async def verify(self, job: Job) -> Outcome:
        """Carry out VerifyMemory, of memories of either partition: review comes before promotion."""
        command, envelope = job.envelope.command, job.envelope
        assert isinstance(command, VerifyMemory)
        _require_reviewer(envelope.principal)
        memory_id = parse_uuid(command.memory_id)

        async def effect(tx: Transaction) -> Verified:
            if memory_id is None:
                return Verified(status="not_found")
            verdict = await promotion.verify(tx, memory_id, command.verification, self.rules)
            if verdict is None:
                return Verified(status="not_found")
            if verdict.before is not command.verification:
                new: dict[str, Any] = {"verification": command.verification}
                new |= {"displaced": displaced_records(verdict.displaced)} if verdict.displaced else {}
                reason = audit.reason_of(command)
                old = {"verification": verdict.before}
                await audit.record(tx, envelope, AuditAction.VERIFY, memory_id, old=old, new=new, reason=reason)
            return Verified(status="success", old=verdict.before, new=command.verification)

        return await self._run(job, effect)

    async def promote(self, job: Job) -> Outcome:
        """Carry out PromoteMemory."""
        command, envelope = job.envelope.command, job.envelope
        assert isinstance(command, PromoteMemory)
        _require_reviewer(envelope.principal)
        memory_id = parse_uuid(command.record_id)

        async def effect(tx: Transaction) -> Promoted:
            old = await promotion.promote(tx, memory_id, envelope.principal.name)
            assert memory_id is not None  # else it was refused
            if old is not None:
                new = {**old, "partition": Partition.TRUSTED}
                await audit.record(tx, envelope, AuditAction.PROMOTE, memory_id, old=old, new=new)
            memory = (await read_memories(tx, (memory_id,)))[memory_id]
            return Promoted(status="already_trusted" if old is None else "promoted", memory=memory)

        return await self._run(job, effect)

    async def _run(self, job: Job, effect: Effect) -> Outcome:
        recorded = await self.ledger.run(job, effect)
        return Outcome(recorded.reply, replayed=recorded.replayed)


def handlers(reviewer: Reviewer) -> Mapping[type[Command], Handler]:
    """Return the handlers by command."""
    return {VerifyMemory: reviewer.verify, PromoteMemory: reviewer.promote}


def _require_reviewer(principal: Principal) -> None:
    if principal.untrusted:
        raise refuse(FaultCode.FORBIDDEN, "An untrusted principal may not vouch for memories.")
    if Scope.VERIFY not in principal.scopes:
        raise refuse(FaultCode.FORBIDDEN, f"This needs the scope {Scope.VERIFY.value!r}.")
