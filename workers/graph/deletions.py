"""What a deletion leaves behind, so that it can be undone for a while: an audit entry, and rows under its id."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.envelope import Envelope
from engramq.schemas.ids import format_time
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE, AuditAction
from engramq.workers.db import audit
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Sent, Transaction
from engramq.workers.graph.consent import Deletion
from engramq.workers.graph.intervals import interval

DELETE_EDGES: Final = sql("delete_knowledge_edges")
DELETE_NODES: Final = sql("delete_named_nodes")
TRIM: Final = sql("trim_deleted")

TRIMMED_AT_ONCE: Final = 5_000
_KEPT: Final = timedelta(days=limits.GRAPH_RESTORE_DAYS)


class _WayBack(TypedDict):
    audit_id: int
    restore_until: str
    hint: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A deletion's entry in the audit log."""

    id: int
    at: datetime

    def told(self, envelope: Envelope) -> _WayBack:
        """Return what the reply to the deletion says of the way back."""
        return _WayBack(
            audit_id=self.id, restore_until=restore_until(self.at), hint=f"`{way_back(envelope, self.id)}` undoes this."
        )


def restore_until(deleted_at: datetime) -> str:
    """Return the time from which a deletion cannot be undone any more."""
    return format_time(deleted_at + _KEPT)


def way_back(envelope: Envelope, deletion: int) -> str:
    """Return the command that undoes a deletion, for the operator's shell."""
    where = "" if envelope.namespace == DEFAULT_NAMESPACE else f" --namespace {shlex.quote(envelope.namespace)}"
    return f"engramq graph restore {deletion}{where}"


async def entered(
    tx: Transaction, envelope: Envelope, deletion: Deletion, *, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Entry:
    """Note a deletion in the audit log, before what it takes is deleted under the entry's id."""
    sent = await audit.record(tx, envelope, deletion.action, deletion.target, old=old, new=new, reason=deletion.reason)
    return await _entry(sent)


async def entered_many(
    tx: Transaction, envelope: Envelope, action: AuditAction, olds: Mapping[UUID, Mapping[str, Any]]
) -> dict[UUID, Entry]:
    """Note deletions in the audit log, one entry each, given what each target was; return the entries by target."""
    reason = audit.reason_of(envelope.command)
    sent = [
        await audit.record(tx, envelope, action, target, old=old, new={}, reason=reason) for target, old in olds.items()
    ]
    return {target: await _entry(one) for target, one in zip(olds, sent, strict=True)}


def edge_as_it_was(row: Row) -> dict[str, Any]:
    """Return what the audit log keeps of a deleted edge."""
    old = {name: row[name] for name in ("relation", "weight", "memory_sector", "sector_source")}
    old |= {name: str(row[name]) for name in ("source_id", "target_id")}
    return old | {name: text for name, text in interval(row).items() if text is not None}


async def delete_edges(tx: Transaction, entries: Mapping[UUID, Entry]) -> None:
    """Remove locked edges, and keep what they were under their entries."""
    await tx.send(DELETE_EDGES, **_columns(entries))


async def delete_nodes(tx: Transaction, entries: Mapping[UUID, Entry]) -> None:
    """Remove locked nodes that have no edges any more, and keep what they were under their entries."""
    await tx.send(DELETE_NODES, **_columns(entries))


async def trim(tx: Transaction) -> int:
    """Forget what can no longer be brought back, at most TRIMMED_AT_ONCE rows; return how many."""
    row = await tx.row(TRIM, days=limits.GRAPH_RESTORE_DAYS, limit=TRIMMED_AT_ONCE)
    return 0 if row is None else int(row["trimmed"])


def _columns(entries: Mapping[UUID, Entry]) -> dict[str, Sequence[Any]]:
    told = entries.values()
    return {"ids": list(entries), "deletions": [one.id for one in told], "times": [one.at for one in told]}


async def _entry(sent: Sent) -> Entry:
    row = await sent.fetchone()
    assert row is not None
    return Entry(row["id"], row["at"])
