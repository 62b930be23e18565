"""New memories and their nearest neighbours: who lacks similarity links, who is near, and noting that they are made.

Noting it writes a column that no index holds, so it is done in turns like the writing of sectors: see sectors.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.memory_rows import similarity
from engramq.workers.db.queries import sized_sql, sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import TEN_EF_SEARCH, Sizes, cheaper

NEWCOMERS: Final = sql("newcomers")
WAIT_AT: Final = sql("links_wait_at")
NOTE_MADE: Final = sql("note_links_made")
COMMIT_WITHOUT_WAITING: Final = sql("commit_without_waiting")

TOGETHER_S: Final = 0.5  # longer than the transaction of a store takes
COMPARED_MAX: Final = 1_000  # memories of that time


@dataclass(frozen=True, slots=True)
class Unlinked:
    """A memory whose similarity links are still to be made, and the model that made its vector."""

    id: UUID
    partition: Partition
    model_id: int
    dimensions: int
    turn: int


@dataclass(frozen=True, slots=True)
class Nearby:
    """Two memories and the cosine similarity of their contents."""

    id: UUID
    other_id: UUID
    similarity: float


async def unlinked(tx: Transaction, ids: Sequence[UUID]) -> list[Unlinked]:
    """Return those of these memories that lack their similarity links and are active, by id."""
    rows = await tx.rows(NEWCOMERS, ids=list(ids))
    return [
        Unlinked(row["id"], Partition(row["partition"]), row["model_id"], row["dimensions"], row["turn"])
        for row in rows
    ]


async def links_wait_at(tx: Transaction, ids: Sequence[UUID]) -> bool:
    """Say whether links wait at any of these memories."""
    row = await tx.row(WAIT_AT, ids=list(ids))
    return row is not None and bool(row["waiting"])


async def stored_together(tx: Transaction, newcomers: Sequence[Unlinked], *, least: float) -> list[Nearby]:
    """Compare memories with those that were stored in the same moment; return who is at least that similar.

    All of them must have vectors of one model.
    """
    first = newcomers[0]
    rows = await tx.rows(
        sized_sql("stored_together", first.dimensions),
        ids=[one.id for one in newcomers],
        within_s=TOGETHER_S,
        compared=COMPARED_MAX,
        **_visible(first.model_id, tuple({one.partition for one in newcomers}), least),
    )
    return [Nearby(row["id"], row["other_id"], similarity(row["distance"])) for row in rows]


async def neighbors(tx: Transaction, sizes: Sizes, newcomer: Unlinked, *, least: float) -> list[Nearby]:
    """Search for the nearest memories to one of them that are at least that similar."""
    partitions = (newcomer.partition,)
    name = await cheaper(
        tx, sizes, partitions, exact="neighbors_exact", by_index="neighbors_by_index", ef_search=TEN_EF_SEARCH
    )
    values = _visible(newcomer.model_id, partitions, least)
    rows = await tx.rows(sized_sql(name, newcomer.dimensions), id=newcomer.id, **values)
    return [Nearby(newcomer.id, row["other_id"], similarity(row["distance"])) for row in rows]


async def note_made(tx: Transaction, ids: Sequence[UUID]) -> None:
    """Note that the similarity links of memories of one turn are made. COMMIT does not wait for the disk then."""
    await tx.send(COMMIT_WITHOUT_WAITING)
    await tx.send(NOTE_MADE, ids=list(ids))


def _visible(model_id: int, partitions: Sequence[Partition], least: float) -> dict[str, Any]:
    return {
        "model_id": model_id,
        "partitions": list(partitions),
        "include_superseded": False,
        "k": limits.SIMILARITY_LINKS,
        "farthest": 1.0 - least,
    }
