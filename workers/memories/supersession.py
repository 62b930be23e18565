"""Replace one memory by another: both rows and the link between them, in one transaction."""

from collections.abc import Collection, Mapping
from uuid import UUID

from engramq.schemas.commands import Superseded, SupersedeMemory
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import parse_uuid, uuid7
from engramq.schemas.vocabulary import AuditAction, Linkability, MemoryState, Origin, Relation, Verification
from engramq.workers.db import audit
from engramq.workers.db.errors import Again
from engramq.workers.db.memory_rows import lock, read_memories
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.links.snapshot import not_active, refusal_of, replacements, use_instead
from engramq.workers.memories.grounds import still_resting
from engramq.workers.runner import Context, handles
from engramq.workers.trust import may_displace, require_trusted_with


async def lock_with_replaced(tx: Transaction, *ids: UUID, beside: Collection[UUID] = ()) -> dict[UUID, Row]:
    """Lock memories, all that they replaced, what replaced them, and others `beside`, in canonical order; return the
    rows.

    Raises Again where one of them has replaced another one, or was replaced, in between.

    A caller that changes what memories replaced does this first: in another order it would wait for a caller that waits
    for it.
    """
    rows = await lock_around(tx, *ids, beside=beside)
    await require_all_locked(tx, rows, ids)
    return rows


async def lock_around(tx: Transaction, *ids: UUID, beside: Collection[UUID] = ()) -> dict[UUID, Row]:
    """Lock the same, as far as they are known before: `require_all_locked` has to follow, what it asks may share its
    round trip."""
    return {row["id"]: row for row in await tx.rows("lock_around", ids=list(ids), beside=list(beside))}


async def require_all_locked(tx: Transaction, rows: Mapping[UUID, Row], ids: Collection[UUID]) -> None:
    """Raise Again unless what these memories replaced, and what replaced them, is among the locked rows."""
    if not {row["id"] for row in await tx.rows("around", ids=list(ids))} <= rows.keys():
        raise Again


@handles(SupersedeMemory, by_keys=True)
async def supersede_memory(tx: Transaction, command: SupersedeMemory, context: Context) -> Superseded:
    """Hide an old memory behind a new one; an exact repeat changes nothing.

    Raises EngramqError: `self_loop`, `memory_not_active`, `untrusted_supersedes`, `already_superseded`,
    `supersede_cycle`, `forbidden`.
    """
    envelope, old_text, new_text = context.envelope, command.old_memory_id, command.new_memory_id
    old_id, new_id = parse_uuid(old_text), parse_uuid(new_text)
    if old_text == new_text or (old_id is not None and old_id == new_id):
        raise refuse(FaultCode.SELF_LOOP, "A memory cannot supersede itself.")
    if old_id is None or new_id is None:
        raise not_active(old_text if old_id is None else new_text, Linkability.NOT_FOUND)
    rows = await lock(tx, old_id, new_id)
    for memory_id in (old_id, new_id):
        if memory_id not in rows:
            raise not_active(str(memory_id), Linkability.NOT_FOUND)
    if rows[old_id]["superseded_by"] != new_id:
        await supersede_locked(tx, envelope, rows[old_id], rows[new_id])
    memories = await read_memories(tx, (old_id, new_id))
    return Superseded(old=memories[old_id], new=memories[new_id], **await still_resting(tx, [old_id]))


async def supersede_locked(
    tx: Transaction,
    envelope: Envelope,
    old: Row,
    new: Row,
    *,
    how: Mapping[str, float] | None = None,
    reason: str | None = None,
) -> None:
    """Do the same for two memories that are locked and different; raises the same of their state.

    `how` and `reason` go into the audit log.
    """
    await _require_replaceable(tx, old, new, envelope.principal)
    await tx.send("supersede", old_id=old["id"], new_id=new["id"])
    await _link(tx, old["id"], new["id"], new["owner"])
    before, after = pointers(superseded_by=None), {**pointers(superseded_by=new["id"]), **(how or {})}
    await audit.record(tx, envelope, AuditAction.SUPERSEDE, old["id"], old=before, new=after, reason=reason)


async def undo(tx: Transaction, old_id: UUID, new_id: UUID | None) -> None:
    """Let the old memory be seen again; both are locked already, unless the new one (None) was erased."""
    await tx.send("reveal", id=old_id)
    if new_id is None:
        return
    await point_to_previous(tx, new_id)
    ends = {"old_id": old_id, "new_id": new_id, "relation": Relation.SUPERSEDES}
    await tx.send("unlink_supersedes", **ends)
    await tx.send("relink_replaced", **ends)


async def find_replacements(tx: Transaction, memory_id: UUID) -> list[UUID]:
    """Return what a memory replaced, whatever became of it besides, the last first."""
    return [row["id"] for row in await tx.rows("replaced_by", id=memory_id)]


async def close_chain(tx: Transaction, going: UUID, successor: UUID) -> None:
    """Hide what a memory that is to be erased had replaced behind its successor."""
    chain = await find_replacements(tx, going)
    if not chain:
        return
    owners = {row["id"]: row["owner"] for row in await tx.rows("owners_among", ids=[*chain, successor])}
    for old_id in chain:
        await tx.send("rehang", id=old_id, new_id=successor)
        await _link(tx, old_id, successor, owners.get(old_id, owners.get(successor)))


async def let_go(tx: Transaction, going: Collection[UUID]) -> None:
    """Keep hidden, by no id, what memories that are to be erased had replaced and nothing else replaces.

    An erasure must not bring a stale memory back.
    """
    await tx.send("let_go", ids=sorted(going))


async def move_end(tx: Transaction, memory_id: UUID) -> None:
    """Let what a memory replaced, and is locked with it, end where that one begins, which has changed."""
    await tx.send("move_end", id=memory_id)


async def point_to_previous(tx: Transaction, memory_id: UUID) -> None:
    """Let a memory say that it supersedes the one that it replaced last, of those that are still there."""
    await tx.send("point_to_previous", id=memory_id)


async def _require_replaceable(tx: Transaction, old: Row, new: Row, principal: Principal) -> None:
    for row in (old, new):
        if row["state"] == MemoryState.ARCHIVED:
            raise not_active(str(row["id"]), Linkability.ARCHIVED)
    if not may_displace(new["partition"], old["partition"]):
        raise refuse(FaultCode.UNTRUSTED_SUPERSEDES, "An untrusted memory cannot supersede a trusted one.")
    require_trusted_with(principal, (old["partition"], new["partition"]), "supersede")
    if old["owner"] != new["owner"]:
        # Others would miss the old one, or read the id of a private one in the new one.
        error = "One of the two memories is private and the other is not: neither replaces the other."
        private, shared = (old, new) if old["owner"] is not None else (new, old)
        recovery = f"Make {shared['id']} private first: unshare_memory. Or share {private['id']}: share_memory."
        raise refuse(FaultCode.FORBIDDEN, error, recovery=recovery)
    if old["superseded_by"] is not None:
        found = await replacements(tx, [old["id"]])
        raise refuse(
            FaultCode.ALREADY_SUPERSEDED,
            f"Memory {old['id']} is superseded by {old['superseded_by']} already.",
            recovery=use_instead(found.get(old["id"])),
            memory_id=str(old["superseded_by"]),
        )
    if new["is_superseded"]:
        # Whatever replaces is not replaced itself, so chains have no cycle; this only tells which refusal it is.
        chain = [row["id"] for row in await tx.rows("successors", id=new["id"])]
        if old["id"] in chain:
            raise refuse(FaultCode.SUPERSEDE_CYCLE, f"Memory {new['id']} is already replaced by {old['id']}.")
        raise await refusal_of(tx, new)
    if new["verification"] == Verification.REJECTED:
        raise not_active(str(new["id"]), Linkability.REJECTED)


async def _link(tx: Transaction, old_id: UUID, new_id: UUID, owner: str | None) -> None:
    link = {"id": UUID(uuid7()), "relation": Relation.SUPERSEDES, "origin": Origin.AGENT}
    await tx.send("link_supersedes", **link, old_id=old_id, new_id=new_id, owner=owner)


def pointers(superseded_by: UUID | None) -> dict[str, str | None]:
    """Return what the audit log writes of what replaces a memory."""
    return {"superseded_by": None if superseded_by is None else str(superseded_by)}
