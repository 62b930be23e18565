"""Equal vectors, one's own or somebody else's, hide nothing: they would make an island in the vector index."""

from functools import partial
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import SMALL_ROWS, Embedding, Sizes, send_nearest
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.copies import Copies
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import Candidates, rank_by_similarity
from tests.conftest import Database
from tools.loading import Loaded, load

DIMENSIONS = 384
OTHERS = SMALL_ROWS + 200
TOP = 10
pytestmark = [pytest.mark.own_database, pytest.mark.long]  # `load` makes indexes anew, of thousands of rows

IN_INDEX = 64  # equal vectors that stand in the index at the most
TRUSTED = Filters(partitions=(Partition.TRUSTED,))
NO_WORDS = Question("?")
Vector = NDArray[np.float32]


def unit(vector: NDArray[np.float64]) -> Vector:
    made: Vector = (vector / np.linalg.norm(vector)).astype(np.float32)
    return made


class Crowd:
    """Memories of which many are one text with one vector, and those that are not."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.equal = unit(self.random.standard_normal(DIMENSIONS))
        self.others: dict[str, Vector] = {}

    def memory(self, namespace: str, content: str, vector: Vector) -> Loaded:
        return Loaded(id=UUID(uuid7()), namespace=namespace, content=content, embedding=Embedding.of(1, vector).half)

    def rows(self, namespace: str, equal: int) -> list[Loaded]:
        """Make others in `own`, a few of them near the equal ones, and so many equal ones in a namespace."""
        made = []
        for number in range(OTHERS):
            apart = self.random.standard_normal(DIMENSIONS)
            vector = unit(self.equal + 0.03 * apart) if number % 50 == 0 else unit(apart)
            made.append(self.memory("own", f"Fact {number}", vector))
            self.others[str(made[-1].id)] = vector
        texts = ["The nightly build passed", "the nightly build PASSED"]  # what a model reads of both is the same
        return [*made, *(self.memory(namespace, texts[number % 2], self.equal) for number in range(equal))]

    def nearest(self, vector: Vector) -> list[str]:
        """Return the nearest others."""
        return sorted(self.others, key=lambda memory_id: -float(self.others[memory_id] @ vector))[:TOP]

    def among(self, candidates: Candidates) -> list[str]:
        """Return the nearest others among candidates."""
        found = rank_by_similarity(candidates)
        return [memory_id for row in found.order if (memory_id := candidates.ids[row]) in self.others][:TOP]


async def fill(database: Database, store: Store, rows: list[Loaded]) -> None:
    assert await store.register_embedding_model("hash", "", DIMENSIONS) == 1
    assert await load(database.owner_url, 1, rows, memory="64MB") == len(rows)


def questions(crowd: Crowd) -> list[Embedding]:
    """Make vectors of questions: at the equal ones, near them, and anywhere."""
    noise = [0.0, 0.01, 0.03, 10.0]
    return [Embedding.of(1, unit(crowd.equal + share * crowd.random.standard_normal(DIMENSIONS))) for share in noise]


def vector_of(embedding: Embedding) -> Vector:
    return np.frombuffer(embedding.half, dtype=">f2", offset=4).astype(np.float32)


@pytest.mark.promise("IX-1")
@pytest.mark.parametrize(("namespace", "equal"), [("foreign", 400), ("own", 2_000)])
async def test_equal_vectors_hide_no_others(database: Database, store: Store, namespace: str, equal: int) -> None:
    crowd, sizes = Crowd(equal), Sizes()
    await fill(database, store, crowd.rows(namespace, equal))
    outside = database.rows("select count(*) filter (where repeated) as n from memories")[0]["n"]
    assert outside == equal - IN_INDEX
    for embedding in questions(crowd):
        for scan in (False, True):
            find = partial(
                find_candidates, sizes=sizes, question=NO_WORDS, embedding=embedding, filters=TRUSTED, scan=scan
            )
            assert crowd.among(await store.read("own", find)) == crowd.nearest(vector_of(embedding))
        if namespace == "foreign":  # one's own equal ones are the nearest
            near = await store.read("own", partial(nearest_ids, sizes=sizes, embedding=embedding))
            assert near[:TOP] == crowd.nearest(vector_of(embedding))


async def nearest_ids(tx: Transaction, sizes: Sizes, embedding: Embedding) -> list[str]:
    sent = await send_nearest(tx, sizes, embedding, Partition.TRUSTED, k=TOP + 4)
    return [str(row["id"]) for row in await sent.fetchall()]


@pytest.mark.promise("IX-1")
async def test_a_copy_compares_as_few_of_a_repeated_text_as_the_tables(database: Database, store: Store) -> None:
    crowd, sizes = Crowd(1), Sizes()
    await fill(database, store, crowd.rows("own", 600))
    copies = Copies(store, sizes)
    for _ in range(2):
        await copies.prepare("own", TRUSTED.partitions)
    kept = []
    for embedding in questions(crowd):
        copy = await copies.find_current("own", TRUSTED.partitions, NO_WORDS)
        assert copy is not None
        copied = await copy.candidates(NO_WORDS, embedding, TRUSTED)
        found = await store.read(
            "own",
            partial(find_candidates, sizes=sizes, question=NO_WORDS, embedding=embedding, filters=TRUSTED, scan=True),
        )
        assert crowd.among(copied) == crowd.among(found) == crowd.nearest(vector_of(embedding))
        repeated = [set(candidates.ids) - crowd.others.keys() for candidates in (copied, found)]
        assert repeated[0] == repeated[1]
        kept.append(len(repeated[0]))
    assert kept == [10, 10, 10, 0], "newest ones where the question is near them"


@pytest.mark.promise("IX-1")
async def test_a_repeated_text_is_found_after_the_indexed_ones_have_gone(database: Database, store: Store) -> None:
    crowd, sizes = Crowd(2), Sizes()
    rows = crowd.rows("own", IN_INDEX + 4)
    await fill(database, store, rows)
    equal = [row.id for row in rows[OTHERS:]]
    archived = "update memories set state = 'archived' where node_id = any(%s) and not repeated returning 1"
    assert len(database.rows(archived, equal)) == IN_INDEX
    left = {str(row["node_id"]) for row in database.rows("select node_id from memories where repeated")}
    assert len(left) == 4
    embedding = Embedding.of(1, crowd.equal)
    found = await store.read(
        "own", partial(find_candidates, sizes=sizes, question=NO_WORDS, embedding=embedding, filters=TRUSTED)
    )
    assert len(left & set(found.ids)) == 2


@pytest.mark.promise("IX-1")
async def test_what_gets_another_vector_comes_into_the_index(database: Database, store: Store) -> None:
    crowd = Crowd(3)
    rows = crowd.rows("own", IN_INDEX + 1)
    await fill(database, store, rows)
    assert database.rows("select node_id from memories where repeated") == [{"node_id": rows[-1].id}]
    other = Embedding.of(1, unit(crowd.random.standard_normal(DIMENSIONS))).text
    database.rows("update memories set embedding = %s::halfvec where repeated returning 1", other)
    assert database.rows("select node_id from memories where repeated") == []


@pytest.mark.promise("IX-1")
async def test_an_island_that_a_restore_brought_hides_nothing(database: Database, store: Store) -> None:
    """Rows of a dump come before the indexes by which equal ones are counted: all are in the index then."""
    crowd, sizes = Crowd(4), Sizes()
    definition = database.rows("select indexdef from pg_indexes where indexname = 'memories_equal'")[0]["indexdef"]
    database.rows("drop index memories_equal")
    await fill(database, store, crowd.rows("own", 600))
    database.rows(definition)
    assert database.rows("select 1 from memories where repeated") == []
    for embedding in questions(crowd):
        find = partial(find_candidates, sizes=sizes, question=NO_WORDS, embedding=embedding, filters=TRUSTED)
        assert crowd.among(await store.read("own", find)) == crowd.nearest(vector_of(embedding))


@pytest.mark.promise("IX-1")
async def test_what_is_stored_outside_the_index_is_found_at_once(database: Database, store: Store) -> None:
    crowd, sizes = Crowd(5), Sizes()
    await fill(database, store, crowd.rows("foreign", IN_INDEX))
    find = partial(
        find_candidates, sizes=sizes, question=NO_WORDS, embedding=Embedding.of(1, crowd.equal), filters=TRUSTED
    )
    await store.read("own", find)  # which remembers that nothing is outside
    late = crowd.memory("own", "The nightly build passed", crowd.equal)
    assert await load(database.owner_url, 1, [late], memory="64MB") == 1
    assert [row["node_id"] for row in database.rows("select node_id from memories where repeated")] == [late.id]
    assert str(late.id) in (await store.read("own", find)).ids
