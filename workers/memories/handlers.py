"""The `promotion` kind: what changes the standing of memories that are there. Every change is audited."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from msgspec import UNSET

from engramq.schemas.commands import (
    ForgetMemory,
    Forgotten,
    MemoryChanged,
    RestoreMemory,
    Superseded,
    SupersedeMemory,
    UpdateMemory,
)
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import AuditAction, MemoryState, Scope, WorkerKind
from engramq.workers.db import audit
from engramq.workers.db.database import Store
from engramq.workers.db.ledger import Effect, Ledger
from engramq.workers.db.pool import Row
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.replies import displaced_records
from engramq.workers.links.room import lock_with_linked, make_room_again
from engramq.workers.links.rules import LinkRules
from engramq.workers.memories import change as changes
from engramq.workers.memories import purge_handlers as purge
from engramq.workers.memories import review_handlers as trust
from engramq.workers.memories.change import TELLABLE
from engramq.workers.memories.store import read_memories
from engramq.workers.memories.supersession import lock, lock_with_successor, pointers, supersede
from engramq.workers.queue.contract import Actor, Job, MailboxView, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """The handlers of the kind."""

    store: Store
    ledger: Ledger
    mailboxes: MailboxView
    rules: LinkRules

    async def supersede(self, job: Job) -> Outcome:
        """Carry out SupersedeMemory."""
        command, envelope = job.envelope.command, job.envelope
        assert isinstance(command, SupersedeMemory)

        async def effect(tx: Transaction) -> Superseded:
            old_id, new_id, changed = await supersede(
                tx, command.old_memory_id, command.new_memory_id, envelope.principal
            )
            if changed:
                await audit.record(
                    tx,
                    envelope,
                    AuditAction.SUPERSEDE,
                    old_id,
                    old=pointers(superseded_by=None),
                    new=pointers(superseded_by=new_id),
                )
            found = await read_memories(tx, (old_id, new_id))
            return Superseded(old=found[old_id], new=found[new_id])

        return await self._run(job, effect)

    async def update(self, job: Job) -> Outcome:
        """Carry out UpdateMemory."""
        command, envelope = job.envelope.command, job.envelope
        assert isinstance(command, UpdateMemory)
        _require_trusted_principal(envelope.principal)
        memory_id = parse_uuid(command.memory_id)

        async def effect(tx: Transaction) -> MemoryChanged:
            if memory_id is None or memory_id not in await lock(tx, memory_id):
                return MemoryChanged(status="not_found")
            before = (await read_memories(tx, (memory_id,)))[memory_id]
            if not changes.is_change(command):
                return MemoryChanged(status="updated", memory=before)
            await changes.update(tx, before, command)
            after = (await read_memories(tx, (memory_id,)))[memory_id]
            given = {name for name in changes.CHANGEABLE if getattr(command, name) is not UNSET}
            old = {name: getattr(before, name) for name in TELLABLE if getattr(before, name) != getattr(after, name)}
            new = {name: getattr(after, name) for name in old} | {"changed": sorted(given)}
            await audit.record(tx, envelope, AuditAction.UPDATE, memory_id, old=old, new=new)
            return MemoryChanged(status="updated", memory=after)

        return await self._run(job, effect)

    async def forget(self, job: Job) -> Outcome:
        """Carry out ForgetMemory."""
        command = job.envelope.command
        assert isinstance(command, ForgetMemory)
        _require_trusted_principal(job.envelope.principal)
        memory_id = parse_uuid(command.memory_id)
        if memory_id is None:
            return await self._run(job, _answer(Forgotten(status="not_found", id=command.memory_id)))
        if command.erase:
            return await self._erase(job, memory_id)

        async def effect(tx: Transaction) -> Forgotten:
            row = (await lock(tx, memory_id)).get(memory_id)
            if row is None:
                return Forgotten(status="not_found", id=str(memory_id))
            if row["state"] != MemoryState.ARCHIVED:
                await changes.archive(tx, memory_id)
                await _audit_state(tx, job.envelope, AuditAction.ARCHIVE, row, {"state": MemoryState.ARCHIVED})
            return Forgotten(status="archived", id=str(memory_id))

        return await self._run(job, effect)

    async def _erase(self, job: Job, memory_id: UUID) -> Outcome:
        """Erase in the database, and what passed through Redis, before and after.

        Before, since whoever takes over from a worker that died in between no longer knows the content; after, since an
        answer may have been on its way.
        """
        namespace, principal = job.envelope.namespace, job.envelope.principal
        content = ""

        async def prepare() -> Effect:
            nonlocal content
            known = await self.store.read(namespace, lambda tx: changes.content_of(tx, memory_id))
            if known is not None:
                _require_eraser(known, principal)
                content = known["content"]
                await self.mailboxes.scrub(namespace, {str(memory_id): content})
            return effect

        async def effect(tx: Transaction) -> Forgotten:
            row, successor = await lock_with_successor(tx, memory_id)
            if row is None:
                return Forgotten(status="not_found", id=str(memory_id))
            _require_eraser(row, principal)
            await changes.erase(tx, {memory_id: None if successor is None else successor["id"]})
            await _audit_state(tx, job.envelope, AuditAction.ERASE, row, {})
            return Forgotten(status="erased", id=str(memory_id))

        recorded = await self.ledger.run_prepared(job, prepare)
        await self.mailboxes.scrub(namespace, {str(memory_id): content})
        return Outcome(recorded.reply, replayed=recorded.replayed)

    async def restore(self, job: Job) -> Outcome:
        """Carry out RestoreMemory; one that is neither archived nor superseded stays as it is.

        Refused with `degree_limit` when its links, which count again, leave somebody above the cap.
        """
        command = job.envelope.command
        assert isinstance(command, RestoreMemory)
        _require_trusted_principal(job.envelope.principal)
        memory_id = parse_uuid(command.memory_id)

        async def effect(tx: Transaction) -> MemoryChanged:
            row = None if memory_id is None else await lock_with_linked(tx, memory_id)
            if row is None or memory_id is None:
                return MemoryChanged(status="not_found")
            changed = await changes.restore(tx, row)
            if changed:
                displaced = await make_room_again(tx, memory_id, self.rules)
                changed |= {"displaced": displaced_records(displaced)} if displaced else {}
                await _audit_state(tx, job.envelope, AuditAction.RESTORE, row, changed)
            return MemoryChanged(status="restored", memory=(await read_memories(tx, (memory_id,)))[memory_id])

        return await self._run(job, effect)

    async def _run(self, job: Job, effect: Effect) -> Outcome:
        recorded = await self.ledger.run(job, effect)
        return Outcome(recorded.reply, replayed=recorded.replayed)


def actor(keeper: Keeper) -> Actor:
    """Return the worker kind."""
    return Actor(
        WorkerKind.PROMOTION,
        {
            SupersedeMemory: keeper.supersede,
            UpdateMemory: keeper.update,
            ForgetMemory: keeper.forget,
            RestoreMemory: keeper.restore,
            **trust.handlers(trust.Reviewer(ledger=keeper.ledger, rules=keeper.rules)),
            **purge.handlers(purge.Purger(store=keeper.store, ledger=keeper.ledger, mailboxes=keeper.mailboxes)),
        },
    )


async def _audit_state(
    tx: Transaction, envelope: Envelope, action: AuditAction, row: Row, changed: dict[str, Any]
) -> None:
    """Audit a change of a locked row; `changed` has the new values, none when it was erased."""
    old = {
        name: row[name] if name == "state" else row[name] and str(row[name])
        for name in changed or ("state",)
        if name in row
    }
    await audit.record(tx, envelope, action, row["id"], old=old, new=changed, reason=audit.reason_of(envelope.command))


def _answer(reply: Forgotten) -> Effect:
    async def effect(_: Transaction) -> Forgotten:
        return reply

    return effect


def _require_trusted_principal(principal: Principal) -> None:
    if principal.untrusted:
        raise refuse(FaultCode.FORBIDDEN, "An untrusted principal may only read, store, link and supersede.")


def _require_eraser(row: Row, principal: Principal) -> None:
    if row["created_by"] != principal.name and Scope.ADMIN not in principal.scopes:
        raise refuse(FaultCode.FORBIDDEN, f"Erasing another's memory needs the scope {Scope.ADMIN.value!r}.")
