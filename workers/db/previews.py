"""What a reply names in one line each: memories by how they begin, nodes, edges and links."""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.contents import preview_of
from engramq.schemas.records import GraphPreview, MemoryPreview
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

BEGINNINGS: Final = sql("memory_beginnings")
BEGINNING_CHARS: Final = 4 * limits.PREVIEW_CHARS  # of a content, to make its preview of: white space shrinks
NODES: Final = sql("node_titles")
EDGES: Final = sql("edge_ends")

END_CHARS: Final = 60  # of each end, which may be the content of a memory
END_BEGINNING_CHARS: Final = 4 * END_CHARS


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
            id=str(memory_id),
            preview=preview_of(beginnings[memory_id], characters) if memory_id in beginnings else None,
        )
        for memory_id in ids
    ]


async def node_previews(tx: Transaction, ids: Sequence[UUID]) -> list[GraphPreview]:
    """Return `label: name` of nodes, in this order; null of what is gone."""
    rows = await tx.rows(NODES, ids=list(ids)) if ids else []
    return _in_order(ids, {row["id"]: preview_of(f"{row['label']}: {row['name']}", 2 * END_CHARS) for row in rows})


async def edge_previews(tx: Transaction, ids: Sequence[UUID]) -> list[GraphPreview]:
    """Return `source --RELATION--> target` of edges and links, in this order; null of what is gone."""
    rows = await tx.rows(EDGES, ids=list(ids), beginning_chars=END_BEGINNING_CHARS) if ids else []
    titles = {
        row["id"]: " ".join(
            (
                preview_of(row["source"], END_CHARS),
                f"--{preview_of(row['relation'], END_CHARS)}-->",
                preview_of(row["target"], END_CHARS),
            )
        )
        for row in rows
    }
    return _in_order(ids, titles)


def _in_order(ids: Sequence[UUID], titles: dict[UUID, str]) -> list[GraphPreview]:
    return [GraphPreview(id=str(each), preview=titles.get(each)) for each in ids]
