"""Count, name and take back what a principal changed of edges and nodes that others wrote.

The audit log has each change with its old and new values. Taken back is what still is as the principal wrote it; what
somebody changed since stays, and so does what two principals agreed to.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from engramq.schemas.commands import AddEdge, AddNode
from engramq.schemas.envelope import Envelope
from engramq.schemas.ids import format_time, parse_time
from engramq.schemas.vocabulary import AuditAction, SectorSource
from engramq.workers.db import audit, ledger
from engramq.workers.db.transaction import Jsonb, Row, Transaction, same
from engramq.workers.graph.reads import ENDS

_PROPERTIES: Final = "properties"
_SECTOR: Final = "memory_sector"
_OF_EDGES: Final = ("weight", _SECTOR, _PROPERTIES, *ENDS)


@dataclass(frozen=True, slots=True)
class ChangedBy:
    """The principal whose changes are meant, and from when until when; None: any time."""

    created_by: str
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """How much of others a principal changed that is there, and the first ids of each."""

    edges: int
    nodes: int
    memories: int
    edge_ids: Sequence[str]
    node_ids: Sequence[str]
    memory_ids: Sequence[str]


async def list_changed(tx: Transaction, by: ChangedBy, limit: int) -> Changed:
    """Return what of others the principal changed and nothing has taken back."""
    row = await tx.only_row("changed_count", **asdict(by))
    edges, nodes, memories = [
        [str(target["id"]) for target in await tx.rows(query, **asdict(by), limit=limit)] if row[kind] else []
        for query, kind in (("changed_edges", "edges"), ("changed_nodes", "nodes"), ("changed_memories", "memories"))
    ]
    return Changed(**row, edge_ids=edges, node_ids=nodes, memory_ids=memories)


async def next_changes(tx: Transaction, by: ChangedBy, after: int, limit: int) -> list[Row]:
    """Return the first entries from one on that tell of changes."""
    return await tx.rows("next_changes", **asdict(by), after_entry=after, limit=limit)


async def take_back(tx: Transaction, envelope: Envelope, by: ChangedBy, entries: Sequence[Row]) -> None:
    """Set back what these entries are about, as far as it still is as the principal wrote it, and note that."""
    ids = sorted({entry["target_id"] for entry in entries})
    edges = await tx.rows("lock_changed_edges", **asdict(by), ids=ids)
    nodes = await tx.rows("lock_changed_nodes", **asdict(by), ids=ids)
    changes = defaultdict[UUID, list[Row]](list)
    for change in await tx.rows("changes_of", **asdict(by), ids=[row["id"] for row in (*edges, *nodes)]):
        changes[change["target_id"]].append(change)
    for row in edges:
        await _edge_back(tx, envelope, row, changes[row["id"]])
    for row in nodes:
        await _node_back(tx, envelope, row, changes[row["id"]])


async def _edge_back(tx: Transaction, envelope: Envelope, row: Row, changes: Sequence[Row]) -> None:
    now = {name: row[name] for name in _OF_EDGES}
    noted = _note_values(now)
    undone = _undo(noted, changes, fixed={_SECTOR} if row["sector_source"] == SectorSource.MANUAL else set())
    if not undone:
        return
    before = now | {name: noted[name] for name in ("weight", _SECTOR, _PROPERTIES)} | _ends(now, noted)
    await tx.send("write_edge_back", **{**before, _PROPERTIES: Jsonb(before[_PROPERTIES])}, id=row["id"])
    await ledger.blank(tx, AddEdge, "edge_id", [row["id"]], {_PROPERTIES: {}})
    await _note(tx, envelope, row["id"], undone)


async def _node_back(tx: Transaction, envelope: Envelope, row: Row, changes: Sequence[Row]) -> None:
    noted = {_PROPERTIES: dict(row[_PROPERTIES])}
    undone = _undo(noted, changes, fixed=set())
    if undone:
        await tx.send("update_node", id=row["id"], properties=Jsonb(noted[_PROPERTIES]))
        await ledger.blank(tx, AddNode, "node_id", [row["id"]], {_PROPERTIES: {}})
        await _note(tx, envelope, row["id"], undone)


async def _note(tx: Transaction, envelope: Envelope, target: UUID, undone: Sequence[int]) -> None:
    """Note which entries were taken back; their values would be kept for good in one more place."""
    await audit.record(tx, envelope, AuditAction.TAKE_BACK, target, old={}, new={"entries": undone})


def _undo(noted: dict[str, Any], changes: Sequence[Row], fixed: set[str]) -> list[int]:
    """Set what is still as a change made it to what it was before, newest change first; return the changes' entries.

    `noted` is what is now, as the audit log has it; nothing in `fixed` is set back.
    """
    undone = []
    for change in changes:
        old, new = change["old"], change["new"]
        back = {name for name in noted.keys() & new.keys() - fixed - {_PROPERTIES} if same(noted[name], new[name])}
        noted.update({name: old[name] for name in back})
        if _undo_properties(noted[_PROPERTIES], old.get(_PROPERTIES, {}), new.get(_PROPERTIES, {})) or back:
            undone.append(change["id"])
    return undone


def _undo_properties(now: dict[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    back = [key for key in new if key in now and same(now[key], new[key])]
    for key in back:
        if key in old:
            now[key] = old[key]
        else:
            del now[key]
    return bool(back)


def _note_values(now: Mapping[str, Any]) -> dict[str, Any]:
    """Return an edge's values as the audit log has them: times are texts there."""
    times = {name: None if now[name] is None else format_time(now[name]) for name in ENDS}
    return {**now, **times, _PROPERTIES: dict(now[_PROPERTIES])}


def _ends(now: Mapping[str, Any], noted: Mapping[str, Any]) -> dict[str, datetime | None]:
    """Return the interval that was; the one that is when others have changed an end so that it would be backwards."""
    start, end = (None if noted[name] is None else parse_time(noted[name]) for name in ENDS)
    if start is not None and end is not None and start >= end:
        return {name: now[name] for name in ENDS}
    return dict(zip(ENDS, (start, end), strict=True))
