"""Disconnect memories: take away the link that is there, and those that wait for an end."""

from typing import Any

from msgspec import UNSET

from engramq.schemas.commands import Disconnect, Disconnected
from engramq.schemas.faults import missing
from engramq.schemas.ids import pair_of, parse_uuid
from engramq.schemas.vocabulary import AuditAction, Linkability, Relation, Thing
from engramq.workers.db import audit
from engramq.workers.db.memory_rows import warn_of
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.connect import link_for_audit
from engramq.workers.links.deferred import drop, link_of, waiting_between
from engramq.workers.links.rules import StoredLink
from engramq.workers.links.snapshot import LinkTable
from engramq.workers.runner import Context, handles
from engramq.workers.trust import require_trusted_with


@handles(Disconnect, by_keys=True)
async def disconnect(tx: Transaction, command: Disconnect, context: Context) -> Disconnected:
    """Remove the link between two memories, also where one cannot be linked, unless it is guarded.

    Automatic writers do not make a disconnected link again. Raises EngramqError with `forbidden`.
    """
    source, target = parse_uuid(command.source), parse_uuid(command.target)
    if source is None or target is None or source == target:
        return _nothing(command.source, command.target)
    pair = pair_of(source, target)
    table = await LinkTable.open(tx, pair, changing=[pair])
    known = [end for end in pair if table.linkability(end) is not Linkability.NOT_FOUND]
    require_trusted_with(context.envelope.principal, map(table.partition, known), "disconnect")
    stored, waiting = table.link(pair), await waiting_between(tx, pair)
    link = stored or (link_of(waiting[0]) if waiting else None)
    if link is None:
        return _nothing(str(source), str(target))
    distrust, guarded = warn_of(table.is_untrusted(pair)), _guard(link, command)
    if guarded is not None:
        return Disconnected(
            action="guarded",
            source_id=str(source),
            target_id=str(target),
            removed_relation=None,
            removed_weight=None,
            **distrust,
            summary=f"The link {link.relation!r} between {source} and {target} stays: {guarded}.",
        )
    if stored is not None:
        table.remove(stored)
        await table.save()
        if not stored.asserted:
            await tx.send("insert_tombstone", low=pair[0], high=pair[1])
    await drop(tx, waiting, "It was disconnected while it waited.")
    old: dict[str, Any] = {"source_id": str(pair[0]), "target_id": str(pair[1]), **link_for_audit(link)}
    old |= {"declared_from": link.declared_from and str(link.declared_from)}
    old |= {"deferred": len(waiting)} if waiting else {}
    await audit.record(tx, context.envelope, AuditAction.DISCONNECT, link.id, old=old, new={})
    return Disconnected(
        action="removed",
        source_id=str(source),
        target_id=str(target),
        removed_relation=str(link.relation),
        removed_weight=link.weight,
        **distrust,
        summary=f"Removed the link {str(link.relation)!r} between {source} and {target} (weight {link.weight:.2f}).",
    )


def _guard(link: StoredLink, command: Disconnect) -> str | None:
    """Return why a link stays, None when it may go."""
    if link.relation == Relation.SUPERSEDES:
        return "restore the old memory to undo it"
    if command.guard_relation is not UNSET and command.guard_relation != link.relation:
        return f"guard_relation is {command.guard_relation!r}"
    return None


def _nothing(source: str, target: str) -> Disconnected:
    return Disconnected(
        action="not_found",
        source_id=source,
        target_id=target,
        removed_relation=None,
        removed_weight=None,
        summary="There is no link between these memories.",
        **missing(Thing.LINK),
    )
