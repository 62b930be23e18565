"""Know a row again that was exported from here: as it went out it is nothing new, edited it corrects its memory.

A file may name any memory. So only a row that knows what the memory said replaces it, and only on the terms of every
other replacement. Without them it is a row as any other.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.commands import Original, Receipt
from engramq.schemas.envelope import Envelope
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import Absence, ReceiptStatus
from engramq.workers.db.memory_rows import lock
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories.import_rows import KnownMemory, RoutedBatch, RoutedRow, earlier_rows, known_of, rejected
from engramq.workers.memories.supersession import supersede_locked
from engramq.workers.trust import may_displace

ID: Final = "id"
_GONE: Final = {
    Absence.SUPERSEDED: "Another memory has replaced {}: export again, and edit that one.",
    Absence.FORGOTTEN: "It corrects memory {}, which is archived: bring it back first.",
    Absence.EXPIRED: "It corrects memory {}, which is past its time: bring it back first.",
}


@dataclass(frozen=True, slots=True)
class _OriginalMemory:
    """The memory that a row names. `identity`: of the newest correction that came by a row which names it."""

    id: UUID
    identity: bytes

    @classmethod
    def by(cls, original: Original | None) -> "_OriginalMemory | None":
        """Return what an original names; None for nothing that any memory is called."""
        known = None if original is None else parse_uuid(original.memory_id)
        if known is None:
            return None
        digest = hashlib.blake2b(known.bytes, key=b"original", digest_size=limits.IDENTITY_BYTES)
        return cls(known, digest.digest())


async def find_originals(tx: Transaction, batch: RoutedBatch) -> dict[UUID, UUID]:
    """Return the memories that rows name, each with the newest correction that came by such a row, or itself."""
    named = [name for row in batch.rows.values() if (name := _OriginalMemory.by(row.original))]
    newest = await earlier_rows(tx, [name.identity for name in named])
    return {name.id: newest[name.identity].memory_id if name.identity in newest else name.id for name in named}


async def follow_originals(tx: Transaction, batch: RoutedBatch, newest: Mapping[UUID, UUID]) -> RoutedBatch:
    """Return a batch in which each row says what it replaces; rows that change nothing, or may not, have receipts.

    `newest`: as `find_originals` returns it.
    """
    if not newest:
        return batch
    ids = [*{*newest.keys(), *newest.values()}]
    known = {row[ID]: known_of(row) for row in await tx.rows("known_memories", ids=ids)}
    rows, settled, replaced = dict(batch.rows), list(batch.refused), set[UUID]()
    for index, row in batch.rows.items():
        named = _OriginalMemory.by(row.original)
        base = None if named is None else known.get(named.id)
        if named is None or base is None:  # of another store, or nobody's whom this one sees
            continue
        followed = _follow(index, row, named, base, known.get(newest[named.id], base))
        if isinstance(followed, RoutedRow) and followed.replaces in replaced:
            followed = rejected(index, "content", f"Another row corrects memory {followed.replaces}, too.")
        if isinstance(followed, Receipt):
            settled.append(followed)
            del rows[index]
            continue
        rows[index] = followed
        replaced |= {followed.replaces} if followed.replaces else set()
    return replace(batch, rows=rows, refused=settled)


def _follow(
    index: int, row: RoutedRow, named: _OriginalMemory, base: KnownMemory, newest: KnownMemory
) -> RoutedRow | Receipt:
    """Return a row as it is to be written, or its receipt."""
    original, partition = row.original, row.draft.partition
    assert original is not None
    if not original.edited:
        return _keep(index, base) if may_displace(base.partition, partition) else row
    if not original.is_of(base.content) or not may_displace(partition, newest.partition):
        return row.beside()
    if row.record.content == newest.content:
        return _keep(index, newest)
    if newest.absence in _GONE:
        return rejected(index, "content", _GONE[newest.absence].format(newest.id))
    return row.in_place_of(newest, named.identity) or rejected(
        index, "content", f"It corrects memory {newest.id}, which others see than this row says: leave that out."
    )


def _keep(index: int, known: KnownMemory) -> Receipt:
    return Receipt(index=index, status=ReceiptStatus.SKIPPED, memory_id=str(known.id), absence=known.absence)


async def replace_originals(tx: Transaction, envelope: Envelope, made: Mapping[UUID, RoutedRow]) -> int:
    """Let new memories replace what their rows correct, which is locked; return how many did."""
    replaced: Sequence[tuple[UUID, UUID]] = [(row.replaces, new) for new, row in made.items() if row.replaces]
    if replaced:
        locked = await lock(tx, *(memory_id for pair in replaced for memory_id in pair))
        for old_id, new_id in replaced:
            await supersede_locked(tx, envelope, locked[old_id], locked[new_id])
    return len(replaced)
