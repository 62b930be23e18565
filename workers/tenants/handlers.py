"""Carry out what is asked of whole tenants: count what one holds, delete it, and hand over what is private.

A leaving principal's private memories are handed to another one; purge erases those that are to go instead.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from engramq.schemas.commands import DeleteTenant, DescribeTenant, TenantDeleted, TenantDescribed
from engramq.schemas.envelope import PrincipalId
from engramq.schemas.faults import missing
from engramq.schemas.vocabulary import AuditAction, Partition, Thing
from engramq.workers.db import audit
from engramq.workers.db.transaction import NOBODY, Transaction
from engramq.workers.db.viewers import EVERYTHING, Viewer
from engramq.workers.runner import Context, handles, handles_gradually
from engramq.workers.tenants.deletion import TenantDeletion, record_deleted
from engramq.workers.trust import require_admin


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantContents:
    """How much a tenant holds. `bytes` are of the contents of memories; `last_activity` is of writes, None: none.

    `language` is that of its words; see docs/languages.md.
    """

    language: str
    by_state: Mapping[str, int]
    bytes: int
    nodes: int
    edges: int
    links: int
    tokens: int
    webhooks: int
    last_activity: datetime | None

    @property
    def memories(self) -> int:
        """Return how many memories there are, whatever their state."""
        return sum(self.by_state.values())

    def __bool__(self) -> bool:
        """Return whether there is anything but the audit log and the answers of the last days."""
        return any((self.memories, self.nodes, self.edges, self.links, self.tokens, self.webhooks))


async def count_contents(tx: Transaction) -> TenantContents | None:
    """Count what the namespace holds; None when nobody has ever written to it."""
    if tx.tenant == NOBODY:
        return None
    row = await tx.only_row("tenant_contents")
    return TenantContents(**row)


ABOUT: Final = "A command on a whole namespace"


@handles(DescribeTenant)
async def describe_tenant(tx: Transaction, _command: DescribeTenant, context: Context) -> TenantDescribed:
    """Count what the namespace holds."""
    require_admin(context.envelope.principal, ABOUT)
    async with tx.seeing(EVERYTHING):
        held = await count_contents(tx)
    if held is None:
        return TenantDescribed(status="not_found", **missing(Thing.NAMESPACE))
    return TenantDescribed(
        memory_count=held.memories,
        node_count=held.nodes,
        edge_count=held.edges,
        link_count=held.links,
        token_count=held.tokens,
        webhook_count=held.webhooks,
        content_bytes=held.bytes,
    )


async def delete_some(_command: DeleteTenant, context: Context) -> AsyncIterator[None]:
    """Delete, step by step, what the namespace holds."""
    require_admin(context.envelope.principal, ABOUT)
    deletion = TenantDeletion(context.store.seen_by(EVERYTHING), context.inspection, context.envelope, context.lease)
    async for _ in deletion.run():
        yield


@handles_gradually(DeleteTenant, delete_some)
async def delete_tenant(tx: Transaction, _command: DeleteTenant, context: Context) -> TenantDeleted:
    """Tell what was deleted. A worker that takes over from a dead one goes on with the rest."""
    return await record_deleted(tx, context.envelope)


async def count_owned(tx: Transaction, leaving: PrincipalId) -> int:
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
    """Let another principal own what is private to one; audited. Return how many memories that were.

    Proposals to share them end.
    """
    row = await tx.only_row("hand_over", leaving=Viewer.of(leaving).owner, heir=Viewer.of(heir).owner)
    old, new = _describe(leaving), _describe(heir) | dict(row)
    await audit.write(tx, actor, AuditAction.HAND_OVER, None, old=old, new=new)
    return int(row["memories"])


def _describe(principal: PrincipalId) -> dict[str, object]:
    return {"principal": principal.name, Partition.UNTRUSTED.value: principal.untrusted}
