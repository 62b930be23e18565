"""Send vectors to PostgreSQL, and choose between the index and an exact scan to search them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg.abc import Buffer
from psycopg.adapt import Dumper

from engramq.schemas.vocabulary import EVERY_PROJECT, Partition
from engramq.workers.db.memory_rows import visible_now
from engramq.workers.db.queries import sized_sql, sql
from engramq.workers.db.transaction import Sent, Transaction
from engramq.workers.db.viewers import Viewer

SET_EF_SEARCH: Final = sql("set_ef_search")

# The vector index looks at everybody's vectors and drops what is filtered out, an exact scan looks at the namespace's
# own. Up to 10,000 rows the scan is faster and finds everything, unless the namespace is most of the table.
EXACT_ROWS: Final = 10_000
COUNTED_ROWS: Final = 20_000  # of a namespace: no larger one is copied by those that search it
SMALL_ROWS: Final = 1_500  # a scan of so few is never slower
LARGE_SHARE: Final = 0.5
SIZES_KEPT_S: Final = 10.0
SIZES_KEPT_S_A_ROW: Final = 0.007  # less for a small namespace, which soon has many times as many rows
SIZES_KEPT: Final = 10_000
TEN_EF_SEARCH: Final = 64  # hnsw.ef_search for 10 neighbours: half of the time that 100 takes
ANYTHING: Final = 2.0  # the largest cosine distance there is
NOTHING_COMPARED: Final[dict[str, Any]] = {"embedding": None, "plain": None, "model_id": None}
_HALF_HEADER_BYTES: Final = 4  # the number of dimensions, and two bytes that mean nothing


class HalfBytes(bytes):
    """A halfvec in PostgreSQL's binary form."""


class _HalfDumper(Dumper):
    """Sends HalfBytes as they are; the cast in the query says what type they have."""

    format = psycopg.pq.Format.BINARY

    def dump(self, obj: HalfBytes) -> Buffer:
        return obj


psycopg.adapters.register_dumper(HalfBytes, _HalfDumper)


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector and the model that made it.

    `apart`: of a question that names somebody, the vector without what the names are; see `Vectorizer.read_question`.
    """

    model_id: int
    dimensions: int
    half: HalfBytes
    apart: HalfBytes | None = None

    @classmethod
    def of(cls, model_id: int, vector: NDArray[np.float32]) -> "Embedding":
        """Return the embedding for a float32 vector [dimensions]."""
        return cls(model_id, len(vector), pack(vector))

    @property
    def is_blank(self) -> bool:
        """Whether it is of a text that the model cannot read: zeros, which are similar to nothing."""
        return not any(self.half[_HALF_HEADER_BYTES:])

    @property
    def meaning(self) -> HalfBytes:
        """The vector that memories are ranked by: of a question with names it is without them."""
        return self.apart or self.half

    @property
    def compared(self) -> dict[str, Any]:
        """The parameters of a search: by `embedding` it ranks, `plain` gives the cosines that it tells."""
        return {"embedding": self.meaning, "plain": self.half, "model_id": self.model_id}

    @classmethod
    def exported(cls, model_id: int, numbers: bytes) -> "Embedding":
        """Return the embedding whose numbers an export has: half floats, the high byte first."""
        dimensions = len(numbers) // 2
        return cls(model_id, dimensions, HalfBytes(dimensions.to_bytes(2) + bytes(2) + numbers))

    @property
    def text(self) -> str:
        """The vector as PostgreSQL reads it; five digits tell any two numbers of 16 bits apart."""
        numbers = unpack(self.half).astype(np.float64)
        scale = 10.0 ** (4 - np.floor(np.log10(np.abs(numbers), where=numbers != 0, out=np.zeros_like(numbers))))
        return msgspec.json.encode((np.round(numbers * scale) / scale).tolist()).decode()


def pack(vector: NDArray[np.float32]) -> HalfBytes:
    """Return numbers as a halfvec in PostgreSQL's binary form."""
    return HalfBytes(HalfVector(vector).to_binary())


def unpack(half: bytes) -> NDArray[np.float32]:
    """Return the numbers of a halfvec in PostgreSQL's binary form, float32 [dimensions]."""
    return np.frombuffer(half, dtype=">f2", offset=_HALF_HEADER_BYTES).astype(np.float32)


def unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a vector at the length of one; zeros stay."""
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector


def compare_all(embeddings: Sequence[Embedding]) -> NDArray[np.float32]:
    """Return the cosines of each of these with each of them."""
    units = np.stack([unit(unpack(embedding.half)) for embedding in embeddings])
    return units @ units.T


@dataclass(frozen=True, slots=True)
class Size:
    """Rows of a namespace (counted up to just above COUNTED_ROWS) and about how many rows everybody has.

    `has_repeated`: whether the vector index leaves some of them out, since their text stands there often enough.
    """

    own: int
    everybodys: int
    has_repeated: bool = False

    @property
    def exact(self) -> bool:
        """Whether an exact scan is the better way."""
        if self.own <= SMALL_ROWS:
            return True
        return self.own <= EXACT_ROWS and self.own < self.everybodys * LARGE_SHARE


class Sizes:
    """Sizes of namespaces, remembered for a few seconds: one per process."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Viewer, tuple[Partition, ...]], tuple[float, Size]] = {}

    async def of(self, tx: Transaction, partitions: Sequence[Partition]) -> Size:
        """Return the size of what the transaction sees in these partitions; asks the database when it must."""
        key, now = (tx.namespace, tx.viewer, tuple(sorted(partitions))), time.monotonic()
        known = self._known.get(key)
        if known is not None and now < known[0]:
            return known[1]
        row = await tx.only_row("namespace_size", partitions=list(key[2]), limit=COUNTED_ROWS + 1)
        size = Size(row["own"], max(row["own"], row["everybodys"]), row["has_repeated"])
        if len(self._known) >= SIZES_KEPT:
            self._known.clear()
        self._known[key] = (now + min(SIZES_KEPT_S, size.own * SIZES_KEPT_S_A_ROW), size)
        return size


async def cheaper(
    tx: Transaction, sizes: Sizes, partitions: Sequence[Partition], *, exact: str, by_index: str, ef_search: int | None
) -> str:
    """Return which of two queries searches these partitions more cheaply; set ef_search if the index is to."""
    if (await sizes.of(tx, partitions)).exact:
        return exact
    if ef_search is not None:
        await tx.send(SET_EF_SEARCH, ef_search=str(ef_search))
    return by_index


async def send_nearest(
    tx: Transaction,
    sizes: Sizes,
    embedding: Embedding,
    partition: Partition,
    *,
    k: int,
    farthest: float = ANYTHING,
    ef_search: int | None = None,
    project: str | None = EVERY_PROJECT,
) -> Sent:
    """Ask for the at most `k` visible active memories within that cosine distance, nearest first.

    Rows have the columns of the fragment `memory_columns` and `distance`. Vectors of other models are not compared.
    `project`: those of this one and of none; None: of none alone. `ef_search` is what the index looks at before
    it is content (hnsw.ef_search; the session's when None).
    """
    name = await cheaper(
        tx, sizes, (partition,), exact="nearest_exact", by_index="nearest_by_index", ef_search=ef_search
    )
    values: dict[str, Any] = {
        "embedding": embedding.half,
        "model_id": embedding.model_id,
        **visible_now((partition,)),
        "partition": partition,
        "project": project,
        "k": k,
        "farthest": farthest,
    }
    if name == "nearest_exact":
        return await tx.send(sized_sql(name, embedding.dimensions), **values)
    await tx.send("without_sorting")
    sent = await tx.send(sized_sql(name, embedding.dimensions, embedding.model_id), **values)
    await tx.send("with_sorting")
    return sent
