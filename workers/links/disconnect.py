"""Taking links away: those that are there, and those that wait for an end."""

from typing import Any, Final

from msgspec import UNSET

from engramq.schemas.commands import Disconnect, Disconnected
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.faults import FaultCode, missing, refuse
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import AuditAction, Partition, Relation, Standing, Thing
from engramq.workers.db import audit
from engramq.workers.db.memory_rows import warned
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.deferred import Waiting, drop_deferred, waiting_between
from engramq.workers.links.replies import told
from engramq.workers.links.rules import Link, Pair, pair_of
from engramq.workers.links.snapshot import LinkTable

BURY: Final = sql("insert_tombstone")


async def disconnect(tx: Transaction, command: Disconnect, envelope: Envelope) -> Disconnected:
    """Remove the link between two memories, whatever their standing, unless it is guarded.

    What no agent asserted will not be made again by automatic writers. Raises EngramqError with `forbidden`.
    """
    source, target = parse_uuid(command.source), parse_uuid(command.target)
    if source is None or target is None or source == target:
        return _nothing(command.source, command.target)
    pair = pair_of(source, target)
    table = await LinkTable.open(tx, pair, changing=[pair])
    _require_may(table, pair, envelope.principal)
    link, waiting = table.link(pair), await waiting_between(tx, pair)
    found = link or (waiting[0].link if waiting else None)
    if found is None:
        return _nothing(str(source), str(target))
    distrust = warned(table.is_untrusted(pair))
    guarded = _guarded(found, command)
    if guarded is not None:
        return Disconnected(
            action="guarded",
            source_id=str(source),
            target_id=str(target),
            removed_relation=None,
            removed_weight=None,
            **distrust,
            summary=f"The link {found.relation!r} between {source} and {target} stays: {guarded}.",
        )
    if link is not None:
        table.remove(link)
        await table.save()
        if not link.asserted:
            await tx.send(BURY, low=pair[0], high=pair[1])
    await drop_deferred(tx, waiting, "It was disconnected while it waited.")
    await _audit(tx, envelope, command, found, waiting)
    return Disconnected(
        action="removed",
        source_id=str(source),
        target_id=str(target),
        removed_relation=str(found.relation),
        removed_weight=found.weight,
        **distrust,
        summary=f"Removed the link {str(found.relation)!r} between {source} and {target} (weight {found.weight:.2f}).",
    )


def _require_may(table: LinkTable, pair: Pair, principal: Principal) -> None:
    known = [end for end in pair if table.standing(end) is not Standing.NOT_FOUND]
    if principal.untrusted and any(table.partition(end) is Partition.TRUSTED for end in known):
        raise refuse(FaultCode.FORBIDDEN, "An untrusted principal may disconnect untrusted memories only.")


def _guarded(link: Link, command: Disconnect) -> str | None:
    """Return why a link stays, None when it may go."""
    if link.relation == Relation.SUPERSEDES:
        return "what undoes it is to restore the old memory"
    if command.guard_relation is not UNSET and command.guard_relation != link.relation:
        return f"guard_relation is {command.guard_relation!r}"
    return None


async def _audit(tx: Transaction, envelope: Envelope, command: Disconnect, link: Link, waiting: list[Waiting]) -> None:
    low, high = link.pair
    old: dict[str, Any] = {"source_id": str(low), "target_id": str(high), **told(link)}
    old |= {"declared_from": link.declared_from and str(link.declared_from)}
    old |= {"deferred": len(waiting)} if waiting else {}
    reason = audit.reason_of(command)
    await audit.record(tx, envelope, AuditAction.DISCONNECT, link.id, old=old, new={}, reason=reason)


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
