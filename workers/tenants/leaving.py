"""Hand over what is private to a principal that leaves a namespace. What is to go instead, a purge takes."""

from engramq.schemas.envelope import PrincipalId
from engramq.schemas.vocabulary import AuditAction, Partition
from engramq.workers.db import audit
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.viewers import Viewer


async def owned(tx: Transaction, leaving: PrincipalId) -> int:
    """Return how many memories are private to a principal."""
    row = await tx.only_row("owned_privately", leaving=Viewer.of(leaving).owner)
    return int(row["memories"])


async def is_known(tx: Transaction, principal: PrincipalId) -> bool:
    """Say whether a token or a memory of the namespace names a principal: else it may be misspelt."""
    row = await tx.only_row(
        "principal_known", name=principal.name, untrusted=principal.untrusted, owner=Viewer.of(principal).owner
    )
    return bool(row["known"])


async def hand_over(tx: Transaction, leaving: PrincipalId, heir: PrincipalId, actor: str) -> int:
    """Let another principal own what is private to one; audited. Return how many memories that were."""
    row = await tx.only_row("hand_over", leaving=Viewer.of(leaving).owner, heir=Viewer.of(heir).owner)
    old, new = _told(leaving), _told(heir) | {"memories": row["memories"]}
    await audit.write(tx, actor, AuditAction.HAND_OVER, None, old=old, new=new)
    return int(row["memories"])


def _told(principal: PrincipalId) -> dict[str, object]:
    return {"principal": principal.name, Partition.UNTRUSTED.value: principal.untrusted}
