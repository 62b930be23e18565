"""Review memories: say how far they are vouched for, and promote them from untrusted to trusted."""

from typing import Any

from engramq.schemas.commands import Promoted, PromoteMemory, Verified, VerifyMemory
from engramq.schemas.faults import FaultCode, missing, refuse
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import AuditAction, MemoryState, Partition, Thing, Verification
from engramq.workers.db import audit
from engramq.workers.db.errors import Again
from engramq.workers.db.memory_rows import lock, read_memories
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.rules import LinkRules
from engramq.workers.links.snapshot import refusal_of
from engramq.workers.links.writer import audit_displaced, lock_with_linked, make_room_again
from engramq.workers.memories.change import StillHidden, behind, name_behind
from engramq.workers.memories.grounds import still_resting
from engramq.workers.memories.preconditions import require_as_seen
from engramq.workers.runner import Context, handles
from engramq.workers.trust import VOUCHED_FOR, require_reviewer


@handles(VerifyMemory, by_keys=True)
async def verify_memory(tx: Transaction, command: VerifyMemory, context: Context) -> Verified:
    """Say how far a memory is vouched for, in either partition: review comes before promotion.

    A review that changes nothing is audited too: somebody else has looked, and says why. Raises EngramqError with
    `conflict` when it is not what the reviewer saw, and with `degree_limit` when the links of a memory that is rejected
    no more leave somebody above the cap.
    """
    require_reviewer(context.envelope.principal)
    memory_id, verification = parse_uuid(command.memory_id), command.verification
    if memory_id is None:
        return Verified(status="not_found", memory_id=command.memory_id, **missing(Thing.MEMORY))
    hides = verification is Verification.REJECTED
    row = (await lock(tx, memory_id)).get(memory_id) if hides else await lock_with_linked(tx, memory_id)
    if row is None:
        return Verified(status="not_found", memory_id=str(memory_id), **missing(Thing.MEMORY))
    await require_as_seen(tx, memory_id, command.seen, context)
    before = Verification(row["verification"])
    if before is not verification:
        await tx.send("verify", id=memory_id, verification=verification)
    new: dict[str, Any] = {"verification": verification}
    if before is Verification.REJECTED and not hides:
        displaced = await make_room_again(tx, memory_id, context.services[LinkRules])
        new |= {"displaced": audit_displaced(displaced)} if displaced else {}
    hidden = await name_behind(tx, await behind(tx, [memory_id])) if hides else StillHidden()
    old = {"verification": before}
    await audit.record(tx, context.envelope, AuditAction.VERIFY, memory_id, old=old, new=new)
    return Verified(
        status="success",
        memory_id=str(memory_id),
        old_verification=before,
        new_verification=verification,
        old=before,
        new=verification,
        **hidden,
        **(await still_resting(tx, [memory_id]) if hides else {}),
    )


@handles(PromoteMemory)
async def promote_memory(tx: Transaction, command: PromoteMemory, context: Context) -> Promoted:
    """Move a memory that is vouched for to trusted.

    Raises EngramqError: `record_not_verified` for all that is not vouched for, unknown, malformed and foreign ids
    alike, which tells nobody what exists; `conflict` when it is not what the reviewer saw; `memory_not_active` for what
    is archived or superseded.
    """
    principal, memory_id = context.envelope.principal, parse_uuid(command.record_id)
    require_reviewer(principal)
    row = None if memory_id is None else (await lock(tx, memory_id)).get(memory_id)
    is_trusted = row is not None and row["partition"] == Partition.TRUSTED
    if memory_id is None or row is None or not (is_trusted or row["verification"] in VOUCHED_FOR):
        raise refuse(FaultCode.RECORD_NOT_VERIFIED, "There is no verified or approved memory of that id.")
    await require_as_seen(tx, memory_id, command.seen, context)
    if not is_trusted:
        if row["state"] == MemoryState.ARCHIVED or row["is_superseded"]:
            raise await refusal_of(tx, row)
        if await tx.row("promote", id=memory_id, promoted_by=principal.name) is None:
            raise Again
        old = {"partition": row["partition"], "verification": row["verification"]}
        new = {**old, "partition": Partition.TRUSTED}
        await audit.record(tx, context.envelope, AuditAction.PROMOTE, memory_id, old=old, new=new)
    memory = (await read_memories(tx, (memory_id,)))[memory_id]
    return Promoted(status="already_trusted" if is_trusted else "promoted", memory=memory)
