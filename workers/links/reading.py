"""The links of a memory, as they are read."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.previews import preview_of
from engramq.schemas.records import Link
from engramq.schemas.vocabulary import Direction, Origin, Partition
from engramq.workers.db.memory_previews import BEGINNING_CHARS
from engramq.workers.db.memory_rows import visible_now, warned
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

LINKS_OF: Final = sql("links_of")

LINKS_MAX: Final = 1_000  # a memory may have replaced any number of others


async def links_of(
    tx: Transaction, memory_id: UUID, partitions: Sequence[Partition], as_of: datetime | None = None
) -> list[Link]:
    """Return the links of a memory to active ones of these partitions that hold, heaviest first.

    `as_of`: to those that held then.
    """
    rows = await tx.rows(
        LINKS_OF,
        id=memory_id,
        **visible_now(partitions) | {"as_of": as_of},
        beginning_chars=BEGINNING_CHARS,
        limit=LINKS_MAX,
    )
    return [
        Link(
            memory_id=str(row["memory_id"]),
            preview=preview_of(row["beginning"], limits.PREVIEW_CHARS),
            relation=row["relation"],
            weight=row["weight"],
            note=row["note"],
            origin=Origin(row["origin"]),
            direction=Direction.INCOMING if row["incoming"] else Direction.OUTGOING,
            reinforcement_count=row["reinforcement_count"],
            **warned(row["partition"] == Partition.UNTRUSTED),
        )
        for row in rows
    ]
