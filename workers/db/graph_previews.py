"""Nodes, edges and links in one line each, for the reader of a reply that names them."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from engramq.schemas.previews import preview_of
from engramq.schemas.records import GraphPreview
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

NODES: Final = sql("node_titles")
EDGES: Final = sql("edge_ends")

END_CHARS: Final = 60  # of each end, which may be the content of a memory
BEGINNING_CHARS: Final = 4 * END_CHARS  # to make its preview of: white space shrinks


async def node_previews(tx: Transaction, ids: Sequence[UUID]) -> list[GraphPreview]:
    """Return `label: name` of nodes, in this order; null of what is gone."""
    rows = await tx.rows(NODES, ids=list(ids)) if ids else []
    return _in_order(ids, {row["id"]: preview_of(f"{row['label']}: {row['name']}", 2 * END_CHARS) for row in rows})


async def edge_previews(tx: Transaction, ids: Sequence[UUID]) -> list[GraphPreview]:
    """Return `source --RELATION--> target` of edges and links, in this order; null of what is gone."""
    rows = await tx.rows(EDGES, ids=list(ids), beginning_chars=BEGINNING_CHARS) if ids else []
    told = {
        row["id"]: " ".join(
            (
                preview_of(row["source"], END_CHARS),
                f"--{preview_of(row['relation'], END_CHARS)}-->",
                preview_of(row["target"], END_CHARS),
            )
        )
        for row in rows
    }
    return _in_order(ids, told)


def _in_order(ids: Sequence[UUID], told: dict[UUID, str]) -> list[GraphPreview]:
    return [GraphPreview(id=str(one), preview=told.get(one)) for one in ids]
