"""Purging: erasing for good all memories of one principal, source type, thread, partition or time."""

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.commands import Command, Purged, PurgeMemories
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import NOT_APPLIED, EngramqError, FaultCode, refuse
from engramq.schemas.vocabulary import AuditAction, Scope
from engramq.workers.db import audit
from engramq.workers.db.database import Store
from engramq.workers.db.ledger import Effect, Ledger
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories import purge
from engramq.workers.memories.purge import BEGINNING, Filters, Place
from engramq.workers.queue.contract import Handler, Job, MailboxView, Outcome, OutcomeUnknown

log = logging.getLogger(__name__)

ERASED_AT_ONCE: Final = 100  # memories of one transaction, whose locks others wait for


@dataclass(frozen=True, slots=True, kw_only=True)
class Purger:
    """The handler of the command."""

    store: Store
    ledger: Ledger
    mailboxes: MailboxView

    async def purge(self, job: Job) -> Outcome:
        """Carry out PurgeMemories.

        Erasing happens before the transaction that records it. Whoever takes over from a worker that died in between
        goes on with what is left, and the audit log tells how much was done by all of them.
        """
        command = job.envelope.command
        assert isinstance(command, PurgeMemories)
        command.check()
        _require_admin(job.envelope.principal)
        filters = Filters.of(command)

        begun = command.erase and job.envelope.attempt > 1

        async def prepare() -> Effect:
            nonlocal begun
            if not command.erase:
                return lambda tx: _listed(tx, filters)
            async for _ in self._erase(job, filters):
                begun = True
            return lambda tx: _recorded(tx, job, filters)

        try:
            recorded = await self.ledger.run_prepared(job, prepare)
        except EngramqError as problem:
            if not begun or problem.fault.code not in NOT_APPLIED:
                raise
            # That would say that nothing was done: another try will do what is left.
            raise OutcomeUnknown("part of a purge is done") from problem
        return Outcome(recorded.reply, replayed=recorded.replayed)

    async def _erase(self, job: Job, filters: Filters) -> AsyncIterator[Place]:
        """Erase everything, yielding at each step how far it is."""
        namespace = job.envelope.namespace
        _, now = await self.store.read(namespace, lambda tx: purge.count(tx, filters))
        if filters.until is None or filters.until > now:
            filters = replace(filters, until=now)  # else somebody who keeps storing would keep this going
        place = await self._erase_some(job, filters, BEGINNING)
        while place is not None:
            yield place
            place = await self._erase_some(job, filters, place)

    async def _erase_some(self, job: Job, filters: Filters, place: Place) -> Place | None:
        """Erase the next few and return where to go on; None when there were none left.

        Queues are looked through before and after, as for a single erasure.
        """
        namespace = job.envelope.namespace
        found = await self.store.read(namespace, lambda tx: purge.find(tx, filters, place, ERASED_AT_ONCE))
        if not found.contents:
            return None
        contents = {str(memory_id): content for memory_id, content in found.contents.items()}
        ids: list[UUID] = list(found.contents)

        async def effect(tx: Transaction) -> None:
            tx.lease = job.lease
            await purge.erase(tx, job.envelope, filters, ids, audit.reason_of(job.envelope.command))

        await self.mailboxes.scrub(namespace, contents)
        await self.store.write(namespace, effect)
        await self.mailboxes.scrub(namespace, contents)
        log.info("Memories purged", extra={"command_id": job.envelope.id, "count": len(ids)})
        return found.place


def handlers(purger: Purger) -> Mapping[type[Command], Handler]:
    """Return the handler by command."""
    return {PurgeMemories: purger.purge}


async def _listed(tx: Transaction, filters: Filters) -> Purged:
    matched, _ = await purge.count(tx, filters)
    found = await purge.find(tx, filters, BEGINNING, limits.PURGED_SHOWN)
    return Purged(matched=matched, erased=0, memory_ids=[str(one) for one in found.contents])


async def _recorded(tx: Transaction, job: Job, filters: Filters) -> Purged:
    erased, ids = await purge.done(tx, job.envelope.id)
    new = {"erased": erased, "filters": purge.told(filters)}
    await audit.record(
        tx, job.envelope, AuditAction.PURGE, None, old={}, new=new, reason=audit.reason_of(job.envelope.command)
    )
    return Purged(matched=erased, erased=erased, memory_ids=ids)


def _require_admin(principal: Principal) -> None:
    if principal.untrusted or Scope.ADMIN not in principal.scopes:
        raise refuse(FaultCode.FORBIDDEN, f"Purging needs the scope {Scope.ADMIN.value!r}.")
