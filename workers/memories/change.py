"""Changes of one memory: update, archive, erase, restore."""

from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import UpdateMemory
from engramq.schemas.commands.changes import CHANGEABLE
from engramq.schemas.faults import invalid
from engramq.schemas.fields import refuse_backwards
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import MemoryState, SectorSource
from engramq.workers.db.json_values import Jsonb
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.links.deferred import forget_notes
from engramq.workers.memories import supersession

UPDATE: Final = sql("update_memory")
ARCHIVE: Final = sql("archive")
UNARCHIVE: Final = sql("unarchive")
ERASE: Final = sql("erase_nodes")
CONTENT_OF: Final = sql("content_of")

BEGINNING: Final = "valid_from"
# Values of these say nothing of what a memory contains, so the audit log may hold them.
TELLABLE: Final = (
    "sector", "sector_source", "confidence", "position", "valid_from", "valid_until", "expires_at"
)  # fmt: skip


async def update(tx: Transaction, row: Row, memory: Memory, change: UpdateMemory) -> None:
    """Change a locked memory with this row; raises EngramqError naming what would be too large, or end backwards."""
    given = {name: getattr(change, name) for name in CHANGEABLE if getattr(change, name) is not UNSET}
    values: dict[str, Any] = dict.fromkeys(CHANGEABLE) | given
    if "metadata" in given:
        kept = {name: value for name, value in memory.metadata.items() if name not in change.cleared_keys()}
        if not fits(kept, given["metadata"]):
            raise invalid("metadata", f"metadata: merged it would be more than {limits.METADATA_BYTES} bytes of JSON.")
        values["metadata"] = Jsonb(given["metadata"])
    values["tags"] = _tags(memory, change)
    values["retagged"] = bool({"add_tags", "remove_tags"} & given.keys())
    values["sector_source"] = SectorSource.MANUAL if "sector" in given else None
    cleared = change.cleared_fields()
    refuse_backwards_with(row, given, cleared)
    values["renamed"] = bool({"speaker", "occurred_at"} & {*given, *cleared})
    await tx.send(UPDATE, id=UUID(memory.id), cleared=list(cleared), keys=list(change.cleared_keys()), **values)
    if BEGINNING in {*given, *cleared}:
        await supersession.move_end(tx, UUID(memory.id))


def _tags(memory: Memory, change: UpdateMemory) -> list[str] | None:
    """Return the tags after an update, None for none; raises EngramqError naming add_tags when they are too many."""
    gone = set(change.remove_tags or ())
    tags = list(dict.fromkeys((*(tag for tag in memory.tags if tag not in gone), *(change.add_tags or ()))))
    if len(tags) > limits.TAGS:
        raise invalid("add_tags", f"add_tags: with those that are there it would be more than {limits.TAGS} tags.")
    return tags or None


def refuse_backwards_with(row: Row, given: Mapping[str, Any], cleared: Collection[str] = ()) -> None:
    """Raise EngramqError when a memory with this row would end before it begins once what is given is written.

    An end that it has by being replaced is nobody's word, and counts for nothing here.
    """
    names = (BEGINNING, "valid_until")
    if {*names} & given.keys():
        ends = {name: row[name] for name in names} | dict(given) | dict.fromkeys(cleared)
        refuse_backwards(*(ends[name] for name in names))


def fits(metadata: dict[str, Any], more: dict[str, Any]) -> bool:
    """Say whether metadata with more merged into it are within the limit."""
    return len(msgspec.json.encode({**metadata, **more})) <= limits.METADATA_BYTES


def is_change(change: UpdateMemory) -> bool:
    """Say whether an update has anything to change."""
    return bool(change.clear) or any(getattr(change, name) is not UNSET for name in CHANGEABLE)


async def archive(tx: Transaction, memory_id: UUID) -> None:
    """Hide a locked memory."""
    await tx.send(ARCHIVE, id=memory_id)


async def erase(tx: Transaction, successors: Mapping[UUID, UUID | None]) -> None:
    """Remove memories that were locked with what replaced them: rows, links, counters, and their places in chains.

    `successors`: by memory, the one that replaces it and stays, None where there is no such.
    """
    staying = {gone: successor for gone, successor in successors.items() if successor is not None}
    for gone, successor in staying.items():
        await supersession.close_chain(tx, gone, successor)
    await supersession.let_go(tx, successors)
    await forget_notes(tx, successors)
    await tx.send(ERASE, ids=list(successors))
    for successor in sorted(set(staying.values())):
        await supersession.point_to_previous(tx, successor)


async def restore(tx: Transaction, row: Row) -> dict[str, Any]:
    """Undo archive and supersession of a memory that was locked with its successor; return what changed, new values."""
    changed: dict[str, Any] = {}
    if row["state"] == MemoryState.ARCHIVED:
        restored = await tx.row(UNARCHIVE, id=row["id"])
        assert restored is not None
        changed["state"] = restored["state"]
        if restored["expires_at"] != row["expires_at"]:
            changed["expires_at"] = None
    if row["is_superseded"]:
        await supersession.undo(tx, row["id"], row["superseded_by"])
        changed["superseded_by" if row["superseded_by"] else "superseded_at"] = None
    return changed


async def content_of(tx: Transaction, memory_id: UUID) -> Row | None:
    """Return (content, created_by) of a memory, None when it is not there."""
    return await tx.row(CONTENT_OF, id=memory_id)
