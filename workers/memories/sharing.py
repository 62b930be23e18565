"""Share private memories with the namespace, and take them back as long as nobody has built on them."""

from typing import Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.commands import Shared, ShareMemory, Unshared, UnshareMemory
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import FaultCode, missing, refuse
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import AuditAction, Thing, Visibility, WebhookEvent
from engramq.workers.db import audit, ledger
from engramq.workers.db.errors import Again
from engramq.workers.db.ledger import Announcement
from engramq.workers.db.privacy import privacy_of
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.graph.consent import ConsentWanted, call_again, consent, draft_sharing, end_sharing
from engramq.workers.memories import supersession
from engramq.workers.memories.preconditions import require_as_seen, require_look
from engramq.workers.runner import Context, handles
from engramq.workers.trust import require_editor

NAMED_MAX: Final = 5  # memories that a refusal names
INSTEAD: Final = "Supersede or forget it instead, or talk to them."


@handles(ShareMemory)
async def share_memory(tx: Transaction, command: ShareMemory, context: Context) -> Shared:
    """Let everybody see a private memory; audited. Raises EngramqError as `require_look` and `require_as_seen` do."""
    require_editor(context.envelope.principal)
    row = await _lock(tx, command.memory_id)
    if row is None:
        return Shared(status="not_found", memory_id=command.memory_id, **missing(Thing.MEMORY))
    memory_id: UUID = row["id"]
    require_look(row, command.seen)
    await require_as_seen(tx, memory_id, command.seen, context)
    by_consent = row["owner"] is not None and (await privacy_of(tx)).consent
    if by_consent:
        agreed = await consent(tx, context.envelope, await draft_sharing(tx, memory_id))
        if isinstance(agreed, ConsentWanted):
            # No tool is named, else its sentence would be left out for most who propose, who lack the scope verify.
            hint = (
                "This namespace asks for consent. Have another principal, with the scope verify, approve the proposal, "
                f"by a tool or on the page Consent. Then {call_again(context.envelope)} within "
                f"{limits.CONSENT_HOURS} hours."
            )
            return Shared(status="consent_required", memory_id=str(memory_id), **{**agreed.fields, "hint": hint})
    await show_to_all(tx, row, context.envelope, by_consent=by_consent)
    return Shared(status="shared", memory_id=str(memory_id))


@handles(UnshareMemory)
async def unshare_memory(tx: Transaction, command: UnshareMemory, context: Context) -> Unshared:
    """Make a memory private to who stored it, unless others have built on it; audited."""
    require_editor(context.envelope.principal)
    row = await _lock(tx, command.memory_id)
    if row is None:
        return Unshared(status="not_found", memory_id=command.memory_id, **missing(Thing.MEMORY))
    built_on = await hide_from_others(tx, row, context.envelope)
    if built_on is None:
        return Unshared(status="private", memory_id=str(row["id"]))
    return Unshared(status="refused", memory_id=str(row["id"]), built_on=built_on, hint=INSTEAD)


async def _lock(tx: Transaction, memory_id: str) -> Row | None:
    """Lock the memory that a command names, with what it replaced; return its row, None where the caller sees none."""
    found = parse_uuid(memory_id)
    return None if found is None else (await supersession.lock_with_replaced(tx, found)).get(found)


async def show_to(tx: Transaction, row: Row, visibility: Visibility, envelope: Envelope) -> None:
    """Let everybody see a locked memory with this row, or its principal alone; audited where that is a change.

    Raises EngramqError: what `show_to_all` and `hide_from_others` raise, and `forbidden` for what others built on.
    """
    if visibility is Visibility.SHARED:
        if row["owner"] is not None and (await privacy_of(tx)).consent:
            raise refuse(FaultCode.FORBIDDEN, "This namespace asks for consent.", recovery="Call share_memory.")
        await show_to_all(tx, row, envelope)
    elif (built_on := await hide_from_others(tx, row, envelope)) is not None:
        error = f"Others have built on it: {', '.join(built_on)}." if built_on else "Others have built on it."
        raise refuse(FaultCode.FORBIDDEN, error, recovery=INSTEAD)


async def show_to_all(tx: Transaction, row: Row, envelope: Envelope, *, by_consent: bool = False) -> None:
    """Let everybody see a locked memory with this row. The memory that it replaced stays private, and no id reveals it.

    `by_consent`: others judged the memory, but not the notes on its links, which stay private.

    Raises EngramqError: `external_id_taken`, `forbidden` where a private one has replaced it.
    """
    if row["owner"] is None:
        return
    memory_id = row["id"]
    if row["superseded_by"] is not None:
        error = f"Memory {row['superseded_by']} has replaced it, which is private."
        raise refuse(FaultCode.FORBIDDEN, error, recovery="Share that one.", memory_id=str(row["superseded_by"]))
    await _require_free(tx, memory_id, None, "A memory that everybody sees")
    if await tx.row("share", id=memory_id) is None:
        raise Again
    await tx.send("share_links", id=memory_id, by_consent=by_consent)
    await supersession.let_go(tx, [memory_id])
    data = {"memory_id": str(memory_id)} | {name: row[name] for name in ("partition", "verification", "state")}
    await ledger.announce(tx, envelope, Announcement(WebhookEvent.STORED, data, memory_id))
    await _record(tx, envelope, AuditAction.SHARE, memory_id)


async def hide_from_others(tx: Transaction, row: Row, envelope: Envelope) -> list[str] | None:
    """Make a locked memory with this row private, or return what of what others built on it the caller sees.

    For one that is private already it ends the proposals to share it. Raises EngramqError: `external_id_taken`,
    `forbidden` for what is not the caller's to hide.
    """
    memory_id, owner = row["id"], tx.viewer.owner
    if row["owner"] is not None:
        await end_sharing(tx, envelope, memory_id)
        return None
    if owner is None or not await _is_own(tx, memory_id, envelope.principal.name):
        raise refuse(FaultCode.FORBIDDEN, "Only who stored or shared a memory may make it private.")
    await _require_free(tx, memory_id, owner, "A private memory of yours")
    async with tx.seeing(EVERYTHING):  # others may have built on it in private
        built_on = [found["id"] for found in await tx.rows("built_on", id=memory_id, owner=owner)]
        if built_on:  # in private, of which nothing is named
            return sorted(str(found) for found in built_on if found is not None)[:NAMED_MAX]
        if await tx.row("unshare", id=memory_id, owner=owner) is None:
            raise Again
        await tx.send("unshare_links", id=memory_id, owner=owner)
        await ledger.drop_announcements(tx, memory_id)
    await _record(tx, envelope, AuditAction.UNSHARE, memory_id)
    return None


async def _require_free(tx: Transaction, memory_id: UUID, owner: str | None, whose: str) -> None:
    """Raise EngramqError with `external_id_taken` where the owner that a memory is to have has its external id."""
    taken = await tx.row("with_external_id_of", id=memory_id, owner=owner)
    if taken is not None:
        error = f"{whose} has its external_id: {taken['id']}."
        raise refuse(FaultCode.EXTERNAL_ID_TAKEN, error, memory_id=str(taken["id"]))


async def _is_own(tx: Transaction, memory_id: UUID, name: str) -> bool:
    row = await tx.row("stored_or_shared_by", id=memory_id, name=name)
    return row is not None and bool(row["own"])


async def _record(tx: Transaction, envelope: Envelope, action: AuditAction, memory_id: UUID) -> None:
    was, is_now = Visibility.PRIVATE, Visibility.SHARED
    if action is AuditAction.UNSHARE:
        was, is_now = is_now, was
    await audit.record(tx, envelope, action, memory_id, old={"visibility": was}, new={"visibility": is_now})
