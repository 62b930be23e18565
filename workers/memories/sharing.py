"""Share private memories with the namespace, and take them back as long as nobody has built on them."""

from typing import Final
from uuid import UUID

from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.vocabulary import AuditAction, Visibility
from engramq.workers.db import audit
from engramq.workers.db.errors import Again
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.db.viewers import EVERYTHING, Viewer

SHARE: Final = sql("share")
SHARE_LINKS: Final = sql("share_links")
UNSHARE: Final = sql("unshare")
UNSHARE_LINKS: Final = sql("unshare_links")
STANDING_ON: Final = sql("standing_on")
SHARED_WITH_EXTERNAL_ID: Final = sql("shared_with_external_id")

NAMED_MAX: Final = 5  # memories that a refusal names


async def show_to(tx: Transaction, row: Row, visibility: Visibility, envelope: Envelope) -> None:
    """Let everybody see a locked memory with this row, or its principal alone; audited where that is a change.

    Raises EngramqError: `external_id_taken`, and `forbidden` for what is not the caller's to hide or others built on.
    """
    was = Visibility.SHARED if row["owner"] is None else Visibility.PRIVATE
    if was is visibility:
        return
    if visibility is Visibility.SHARED:
        await _share(tx, row["id"])
        action = AuditAction.SHARE
    else:
        await _unshare(tx, row, envelope)
        action = AuditAction.UNSHARE
    await audit.record(tx, envelope, action, row["id"], old={"visibility": was}, new={"visibility": visibility})


async def _share(tx: Transaction, memory_id: UUID) -> None:
    taken = await tx.row(SHARED_WITH_EXTERNAL_ID, id=memory_id)
    if taken is not None:
        error = f"A memory that everybody sees has its external_id: {taken['id']}."
        raise refuse(FaultCode.EXTERNAL_ID_TAKEN, error, memory_id=str(taken["id"]))
    if await tx.row(SHARE, id=memory_id) is None:
        raise Again
    await tx.send(SHARE_LINKS, id=memory_id)


async def _unshare(tx: Transaction, row: Row, envelope: Envelope) -> None:
    if row["created_by"] != envelope.principal.name:
        raise refuse(FaultCode.FORBIDDEN, "Only who stored a memory may make it private.")
    memory_id, owner = row["id"], Viewer.of(envelope.principal.identity).owner
    async with tx.seeing(EVERYTHING):  # others may have built on it in private
        standing = [found["id"] for found in await tx.rows(STANDING_ON, id=memory_id, owner=owner)]
        if standing:
            raise _built_on(standing)
        if await tx.row(UNSHARE, id=memory_id, owner=owner) is None:
            raise Again
        await tx.send(UNSHARE_LINKS, id=memory_id, owner=owner)


def _built_on(standing: list[UUID | None]) -> EngramqError:
    """Return the refusal, which names nothing that the caller does not see."""
    named = sorted(str(memory_id) for memory_id in standing if memory_id is not None)[:NAMED_MAX]
    error = f"Others have built on it: {', '.join(named)}." if named else "Others have built on it."
    return refuse(FaultCode.FORBIDDEN, error, recovery="Supersede or forget it instead, or talk to them.")
