"""The beginnings of memories that a reply names, for its reader to know them by."""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.previews import preview_of
from engramq.schemas.records import MemoryPreview
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

BEGINNINGS: Final = sql("memory_beginnings")

BEGINNING_CHARS: Final = 4 * limits.PREVIEW_CHARS  # of a content, to make its preview of: white space shrinks


async def previews(
    tx: Transaction, ids: Sequence[UUID], partitions: Collection[Partition], characters: int = limits.PREVIEW_CHARS
) -> list[MemoryPreview]:
    """Return previews of these memories, in this order; null of what is gone or in none of these partitions."""
    if not ids:
        return []
    rows = await tx.rows(BEGINNINGS, ids=list(ids), partitions=list(partitions), beginning_chars=BEGINNING_CHARS)
    beginnings: dict[UUID, str] = {row["id"]: row["beginning"] for row in rows}
    return [
        MemoryPreview(
            id=str(one),
            preview=preview_of(beginnings[one], characters) if one in beginnings else None,
        )
        for one in ids
    ]
