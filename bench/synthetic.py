"""Made-up memories, texts and graphs for measuring size, not quality, and a store filled with them."""

import asyncio
import random
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector import HalfVector

from bench.common import PrivateStack, emit
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import (
    DEFAULT_LANGUAGE,
    DEFAULT_NAMESPACE,
    ENTITY_LABEL,
    Layer,
    Origin,
    Partition,
    Sector,
    SectorSource,
)
from engramq.workers.db.database import Store
from engramq.workers.db.queries import sql
from engramq.workers.db.vectors import HalfBytes
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.upkeep import schedule
from tools.loading import Loaded, load

DIMENSIONS: Final = 384
WORDS: Final = 50_000  # of the vocabulary
STOP_WORDS: Final = 25  # ranks that are left out of a language's Zipf curve, since full text leaves them out too
LENGTH: Final = (8, 30)  # words of a memory
PER_CLUSTER: Final = 50  # memories about one thing
SPREAD: Final = 0.75  # length of the noise added to a cluster's unit vector
SECTORS: Final = tuple(Sector)
THREAD: Final = 25  # memories of a thread
BLOCK: Final = 10_000
ROOMY: Final = 700_000  # memories whose vector index is built within 1 GB
FIRST_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)


class Corpus:
    """As many memories as asked for, the same ones for the same seed, and queries about them."""

    def __init__(self, size: int, *, seed: int = 1, shares: dict[str, float] | None = None) -> None:
        """`shares` divides the memories among namespaces; the shares add up to 1."""
        self.size = size
        self._random = np.random.default_rng(seed)
        self._shares = shares or {"bench": 1.0}
        self._centres = _unit(self._random.standard_normal((max(1, size // PER_CLUSTER), DIMENSIONS)))
        weights = 1.0 / np.arange(STOP_WORDS + 1, STOP_WORDS + WORDS + 1)
        self._cumulative = np.cumsum(weights / weights.sum())

    def memories(self) -> Iterator[Loaded]:
        """Make the memories one after another."""
        names, shares = list(self._shares), np.array(list(self._shares.values()))
        made = 0
        while made < self.size:
            count = min(BLOCK, self.size - made)
            vectors = self._vectors(count)
            owners = self._random.choice(len(names), count, p=shares / shares.sum())
            sectors = self._random.integers(0, len(SECTORS), count)
            for offset in range(count):
                number = made + offset
                yield Loaded(
                    id=UUID(uuid7()),
                    namespace=names[owners[offset]],
                    content=self.text(),
                    embedding=half(vectors[offset]),
                    sector=SECTORS[sectors[offset]],
                    speaker=f"speaker{number % 7}",
                    occurred_at=FIRST_DAY + timedelta(minutes=number),
                    thread=f"thread-{number // THREAD}",
                    position=number % THREAD,
                )
            made += count

    def text(self, least: int = LENGTH[0], most: int = LENGTH[1]) -> str:
        """Make a text of so many words."""
        count = int(self._random.integers(least, most + 1))
        ranks = np.searchsorted(self._cumulative, self._random.random(count))
        return " ".join(word(int(rank)) for rank in ranks)

    def query(self) -> tuple[str, NDArray[np.float32]]:
        """Make a question: a few words, and a vector near one cluster."""
        return self.text(3, 8), self._vectors(1)[0]

    def _vectors(self, count: int) -> NDArray[np.float32]:
        centres = self._centres[self._random.integers(0, len(self._centres), count)]
        noise = self._random.standard_normal((count, DIMENSIONS)) * (SPREAD / DIMENSIONS**0.5)
        return _unit(centres + noise)


def half(vector: NDArray[np.float32]) -> HalfBytes:
    """Return a vector as the store keeps it."""
    return HalfBytes(HalfVector(vector).to_binary())


@cache
def word(rank: int) -> str:
    """Return the word of a rank: pronounceable, and no two alike after stemming."""
    syllables = []
    rank += 1_000
    while rank:
        rank, part = divmod(rank, 100)
        syllables.append("bdfgklmnprtvz"[part % 10] + "aiou"[part // 10 % 4] + "kmnprtx"[part // 10 // 4 * 3 % 7])
    return "".join(syllables)


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


_WORDS = re.findall(
    r"\w+",
    "the of and to in is that for it was on are as with they at be this from have by one had not but what all were "
    "when we there can an your which their said if do will each about how up out them then she many some so these "
    "would other into has more her two like him see time could no make than first been its who now people my made "
    "over did down only way find use may water long little very after words called just where most know",
)
_SPECIAL_TOKENS = 2


class Texts:
    """Never the same text twice, so that no cache answers."""

    def __init__(self) -> None:
        self._random = random.Random(17)

    def of(self, tokens: int) -> str:
        return " ".join(self._random.choices(_WORDS, k=tokens - _SPECIAL_TOKENS))

    def mixed(self, count: int) -> list[str]:
        """Lengths as in conversations: many short, few long."""
        return [self.of(min(240, 5 + int(self._random.expovariate(1 / 40)))) for _ in range(count)]


RELATIONS: Final = ("KNOWS", "DISCUSSED", "USES", "LOVES", "ATTENDED")
SKEW: Final = 2.0  # how unevenly ends are chosen: place = nodes * random ** SKEW
COPY_NODES: Final = b"copy nodes (id, tenant, label, name, partition) from stdin"
COPY_EDGES: Final = (
    b"copy edges (id, tenant, layer, source_id, target_id, relation, weight, origin, memory_sector, sector_source) "
    b"from stdin"
)
MAKE_TENANT: Final = sql("make_tenant")

LINKS: Final = 4  # that agents have asserted for each memory, about; the other end is one of the next few
REACH: Final = 20
LINK: Final = b"""
with placed as (select id, tenant, row_number() over (partition by tenant order by id) as place from nodes)
insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin)
select gen_random_uuid(), a.tenant, 'association', least(a.id, b.id), greatest(a.id, b.id), 'supports', 0.75, 'agent'
from (select placed.*, step, random() as dice from placed cross join generate_series(1, %(reach)s) as step) a
join placed b on b.tenant = a.tenant and b.place = a.place + a.step
where a.dice < %(links)s::float8 / %(reach)s
"""

Triple = tuple[int, int, str]


class Graph:
    """A random graph, by places; node names are `n` and the place."""

    def __init__(self, nodes: int, edges: int, namespace: str = DEFAULT_NAMESPACE) -> None:
        self.namespace = namespace
        self.tenant = 0  # known when it is loaded
        self.random = random.Random(7)
        self.ids = [UUID(uuid7()) for _ in range(nodes)]
        chosen: set[Triple] = set()
        while len(chosen) < edges:
            chosen.add((self.place(), self.place(), self.random.choice(RELATIONS)))
        self.edges = sorted(chosen)

    def place(self) -> int:
        return int(len(self.ids) * self.random.random() ** SKEW)

    def load(self, connection: psycopg.Connection[Any]) -> None:
        (row,) = connection.execute(MAKE_TENANT, {"namespace": self.namespace, "language": DEFAULT_LANGUAGE})
        self.tenant = int(row[0])
        with connection.cursor() as cursor:
            with cursor.copy(COPY_NODES) as copy:
                for place, node in enumerate(self.ids):
                    copy.write_row((node, self.tenant, ENTITY_LABEL, f"n{place}", Partition.TRUSTED))
            with cursor.copy(COPY_EDGES) as copy:
                for source, target, relation in self.edges:
                    copy.write_row(self._edge(self.ids[source], self.ids[target], relation))

    def triple(self) -> dict[str, Any]:
        """Return the arguments of get_edge for one of the edges."""
        source, target, relation = self.random.choice(self.edges)
        return {"source_name": f"n{source}", "target_name": f"n{target}", "relation": relation}

    def _edge(self, source: UUID, target: UUID, relation: str) -> tuple[Any, ...]:
        weight = round(self.random.uniform(0.2, 1.0), 3)
        kind = (Origin.AGENT, Sector.SEMANTIC, SectorSource.AUTO)
        return (UUID(uuid7()), self.tenant, Layer.KNOWLEDGE, source, target, relation, weight, *kind)


async def fill(stack: PrivateStack, corpus: Corpus, bench: str) -> int:
    """Load the corpus as if MiniLM had made its vectors; return the model's id."""
    started = time.perf_counter()
    embedder = MiniLmEmbedder()
    await embedder.warm()  # what is faster here is what a new store begins with
    spec = embedder.spec
    await embedder.aclose()
    async with await Store.open(stack.database_url) as store:
        model_id = await store.register_embedding_model(spec.name, spec.sha256, DIMENSIONS)
        built: dict[str, float] = {}
        memory = "2GB" if corpus.size > ROOMY else "1GB"
        count = await load(
            stack.owner_url, model_id, corpus.memories(), linked=True, memory=memory, built=built.__setitem__
        )
        for namespace in await store.namespaces():
            if await store.read(namespace, lambda tx: schedule.is_worth_counting(tx, Partition.TRUSTED)):
                await store.write(namespace, lambda tx: schedule.count_lexemes(tx, Partition.TRUSTED))
    seconds = time.perf_counter() - started
    emit(bench, "filled", synthetic=True, memories=count, seconds=seconds, model=spec.name, sha256=spec.sha256[:12],
         index_s={name: round(taken, 1) for name, taken in built.items()})  # fmt: skip
    return model_id


def filled(stack: PrivateStack, corpus: Corpus, bench: str) -> int:
    """Do as `fill` does, outside any event loop."""
    return asyncio.run(fill(stack, corpus, bench))


def link(owner_url: str) -> int:
    """Assert links between the memories of each namespace; return how many."""
    with psycopg.connect(owner_url) as connection, connection.cursor() as cursor:
        cursor.execute(LINK, {"links": LINKS / 2, "reach": REACH})
        count = cursor.rowcount
        cursor.execute(b"analyze edges")
    return count
