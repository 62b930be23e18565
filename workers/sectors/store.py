"""Sectors of memories: which lack one, and writing what was found out.

Every index of memories is spared when a sector is written, provided that the new version of the row fits into the page
of the old one. A page has room for one new version at least, and the room is won back by the next transaction, not by
the same: so rows of one page are written in turns, a transaction each. (Of 3,000 rows, 30 % were spared without turns
and all of them with, at a quarter of the time.)
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from engramq.schemas.vocabulary import Sector
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import unpacked

CONFIDENCE_DIGITS: Final = 2  # as shown: a filter by what was shown finds what showed it
CONTENTS: Final = sql("unclassified_contents")
CLASSIFY: Final = sql("classify_memories")
COMMIT_WITHOUT_WAITING: Final = sql("commit_without_waiting")


@dataclass(frozen=True, slots=True)
class Unclassified:
    """A memory without a sector. `vector` float32 [dimensions], None when the sector model does not know its maker."""

    id: UUID
    content: str
    fingerprint: int  # of the content
    vector: NDArray[np.float32] | None
    turn: int


@dataclass(frozen=True, slots=True)
class Classified:
    """What a memory of that content was found to be, None when it fits no sector. `confidence`: 0 to 1."""

    memory: Unclassified
    sector: Sector | None
    confidence: float


async def unclassified(tx: Transaction, ids: Sequence[UUID], *, embedders: Collection[str]) -> list[Unclassified]:
    """Return those of these memories that lack a sector and are not pending, by id."""
    rows = await tx.rows(CONTENTS, ids=list(ids), embedders=list(embedders))
    return [
        Unclassified(
            row["id"],
            row["content"],
            row["fingerprint"],
            None if row["vector"] is None else unpacked(row["vector"]),
            row["turn"],
        )
        for row in rows
    ]


async def classify(tx: Transaction, found: Sequence[Classified]) -> int:
    """Write the sectors of memories of one turn (by id) that still lack one; return how many did."""
    await tx.send(COMMIT_WITHOUT_WAITING)
    rows = await tx.rows(
        CLASSIFY,
        ids=[one.memory.id for one in found],
        fingerprints=[one.memory.fingerprint for one in found],
        sectors=[one.sector and one.sector.value for one in found],
        confidences=[round(one.confidence, CONFIDENCE_DIGITS) for one in found],
    )
    return len(rows)
