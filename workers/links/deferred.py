"""Settle links that wait for a pending end: made as a connect once both are active, dropped when one is gone."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import msgspec

from engramq.schemas.commands import Connect, LinkRequest, Resolved
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.faults import EngramqError
from engramq.schemas.ids import Pair, format_time
from engramq.schemas.vocabulary import AuditAction, Linkability, Resolution
from engramq.workers.db import audit
from engramq.workers.db.transaction import Jsonb, Row, Transaction
from engramq.workers.links.connect import LinkWriter, OrderedPair, require_linkable
from engramq.workers.links.rules import LinkRules, StoredLink, assert_new

SETTLED_MAX: Final = 500  # in one transaction; what is left is due, and found by `deferred_due`


async def settle_deferred(tx: Transaction, memory_ids: Collection[UUID], *, rules: LinkRules) -> int:
    """Make or drop the links that wait at these memories and for nothing else; return how many were settled.

    Each is audited, and noted in the answer of the command that asked for it. It locks the memories at both ends, so
    call it where the transaction holds no lock of a memory yet.
    """
    waiting = await tx.rows("deferred_at", ids=list(memory_ids), limit=SETTLED_MAX)
    if not waiting:
        return 0
    writer = await LinkWriter.open(tx, [OrderedPair(row["source_id"], row["target_id"]) for row in waiting], rules)
    # Read again, now that nobody else can settle or remove them.
    rows = await tx.rows("deferred_requests", ids=[row["id"] for row in waiting])
    settled: list[tuple[Row, Resolved]] = []
    for row in rows:
        principal = msgspec.convert(row["principal"], Principal)
        # The command that asked for it, as if it asked for this one only.
        envelope = Envelope(
            id=str(row["command_id"]), namespace=tx.namespace, principal=principal, command=_request(row)
        )
        resolved = _settle(writer, row, envelope)
        if resolved is None:
            continue
        settled.append((row, resolved))
        if resolved.state is Resolution.DROPPED:
            new = {"state": resolved.state, "code": resolved.code, "error": resolved.error}
            request = {name: value for name, value in row["request"].items() if name != "note"}
            old = {"source_id": str(row["source_id"]), "target_id": str(row["target_id"]), **request}
            await audit.record(tx, envelope, AuditAction.RESOLVE_DEFERRED, row["source_id"], old=old, new=new)
    await writer.save()
    await _finish(tx, settled)
    return len(settled)


async def find_due(tx: Transaction, *, limit: int) -> list[UUID]:
    """Return memories at which links wait for nothing any more; `settle_deferred` takes them."""
    return list(dict.fromkeys(row["id"] for row in await tx.rows("deferred_due", limit=limit)))


async def waiting_between(tx: Transaction, pair: Pair) -> list[Row]:
    """Return the links that wait between two locked memories, in the order in which they were asked for."""
    return await tx.rows("deferred_between", ids=list(pair))


def link_of(row: Row) -> StoredLink:
    """Return the link that a waiting one would become if nothing else were there."""
    return assert_new(row["id"], row["source_id"], row["target_id"], _request(row))


async def drop(tx: Transaction, rows: Sequence[Row], why: str) -> None:
    """Remove links that wait between locked memories, since somebody took them away."""
    if rows:
        await _finish(tx, [(row, Resolved(state=Resolution.DROPPED, error=why, at=_now())) for row in rows])


async def drop_by_id(tx: Transaction, ids: Sequence[UUID], why: str) -> list[Row]:
    """Remove those of these links that still wait, between locked memories; return them."""
    rows = await tx.rows("deferred_requests", ids=list(ids))
    await drop(tx, rows, why)
    return rows


def _settle(writer: LinkWriter, row: Row, envelope: Envelope) -> Resolved | None:
    """Make a link, or say why it is dropped; None: it has to wait on."""
    ends, request = OrderedPair(row["source_id"], row["target_id"]), envelope.command
    try:
        require_linkable(writer.table, ends, envelope.principal)
        if Linkability.PENDING in (writer.table.linkability(end) for end in ends):
            return None
        assert isinstance(request, Connect)
        made = writer.add(request, envelope, action=AuditAction.RESOLVE_DEFERRED)
    except EngramqError as refusal:
        fault, state = refusal.fault, Resolution.DROPPED
        return Resolved(state=state, code=fault.code, error=fault.error, recovery=fault.recovery, at=_now())
    return Resolved(state=Resolution.MADE, action=made.action, at=_now())


def _request(row: Row) -> Connect:
    """Return the request that waits."""
    ends = {"source": str(row["source_id"]), "target": str(row["target_id"])}
    return Connect(**msgspec.structs.asdict(msgspec.convert({**row["request"], **ends}, LinkRequest)))


async def _finish(tx: Transaction, settled: Sequence[tuple[Row, Resolved]]) -> None:
    """Let links wait no more, and note that where they were asked for; ledger rows are written in order of ids."""
    await tx.send("delete_deferred", ids=[row["id"] for row, _ in settled])
    for row, resolved in sorted(settled, key=lambda pair: (pair[0]["command_id"], pair[0]["id"])):
        note = Jsonb(msgspec.to_builtins(resolved))
        await tx.send("note_resolved", command_id=row["command_id"], item=row["item"], resolved=note)


def _now() -> str:
    return format_time(datetime.now(UTC))
