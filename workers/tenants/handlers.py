"""Carries out the commands on whole tenants."""

from typing import Final

from engramq.schemas.commands import DeleteTenant, DescribeTenant, TenantDeleted, TenantDescribed
from engramq.schemas.missing import missing
from engramq.schemas.vocabulary import Thing
from engramq.workers.authority import require_admin
from engramq.workers.db.transaction import Transaction
from engramq.workers.runner import Context, handles
from engramq.workers.tenants.contents import contents
from engramq.workers.tenants.deletion import Deletion, recorded

ABOUT: Final = "A command on a whole namespace"


@handles(DescribeTenant)
async def describe_tenant(tx: Transaction, _command: DescribeTenant, context: Context) -> TenantDescribed:
    """Count what the namespace holds."""
    require_admin(context.envelope.principal, ABOUT)
    held = await contents(tx)
    if held is None:
        return TenantDescribed(status="not_found", **missing(Thing.NAMESPACE))
    return TenantDescribed(
        memory_count=held.memories,
        node_count=held.nodes,
        edge_count=held.edges,
        link_count=held.links,
        token_count=held.tokens,
        content_bytes=held.bytes,
    )


async def delete_all(_command: DeleteTenant, context: Context) -> None:
    """Delete, step by step, what the namespace holds; the command's own transaction sums it up."""
    require_admin(context.envelope.principal, ABOUT)
    deletion = Deletion(context.store, context.mailboxes, context.envelope, context.lease)
    async for _ in deletion.run():
        context.begun = True


@handles(DeleteTenant, before=delete_all, begun=lambda _command, envelope: envelope.attempt > 1)
async def delete_tenant(tx: Transaction, _command: DeleteTenant, context: Context, _done: None) -> TenantDeleted:
    """Tell what was deleted. Whoever takes over from a worker that died goes on with what is left."""
    return await recorded(tx, context.envelope)
