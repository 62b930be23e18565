"""Looking memories up by what they say: plain cosine of the content, under the visibility rule."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from engramq.schemas.vocabulary import Partition
from engramq.workers.db.memory_rows import similarity
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding, Sizes, send_nearest

NEAR: Final = 5  # looked at, since the order that the vector index gives is only nearly right


class Found(NamedTuple):
    """The memory that matches best, and its cosine."""

    memory_id: str
    content: str
    cosine: float


async def best_matches(tx: Transaction, sizes: Sizes, embeddings: Sequence[Embedding]) -> list[Found | None]:
    """Return the nearest active trusted memory to each embedding, None where there is none."""
    sent = [await send_nearest(tx, sizes, one, (Partition.TRUSTED,), k=NEAR) for one in embeddings]
    rows = [await one.row() for one in sent]
    return [None if row is None else Found(str(row["id"]), row["content"], similarity(row["distance"])) for row in rows]
