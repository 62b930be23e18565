"""What PostgreSQL does for a search, as EXPLAIN tells: which partitions it touches, and by which index."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from engramq.schemas.commands import ListRecentMemories, SearchMemories
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import EVERY_PROJECT, Partition, Ranking
from engramq.workers.db.database import Store
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import SMALL_ROWS, Embedding, Sizes
from engramq.workers.memories.reading import filters_of
from engramq.workers.search.candidates import (
    CANDIDATES,
    Filters,
    QuestionVectors,
    Tables,
    choose_query,
    find_candidates,
)
from engramq.workers.search.question import Question
from engramq.workers.upkeep.schedule import count_lexemes
from tests.conftest import Database, TestServers, new_database
from tests.workers.search.recall.conftest import search_in
from tools.loading import Loaded, load

pytestmark = pytest.mark.long  # thousands of rows are made once for all

DIMENSIONS = 384
LARGE = SMALL_ROWS * 3
SMALL = 300
random_vectors = np.random.default_rng(7)


def vector() -> Embedding:
    made = random_vectors.standard_normal(DIMENSIONS).astype(np.float32)
    return Embedding.of(1, made / np.linalg.norm(made))


def made(namespace: str, number: int, partition: Partition) -> Loaded:
    return Loaded(
        id=UUID(uuid7()), namespace=namespace, partition=partition, embedding=vector().half, thread=f"t{number % 100}",
        content=f"fact {number} about {random.choice(['pumps', 'valves', 'pipes'])}",
        tags=("all", f"tag{number % 100}"), project=f"project {number % 100}",
    )  # fmt: skip


LINK_ALL = b"""
insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin, declared_from)
select gen_random_uuid(), %(tenant)s, 'association', first, second, 'supports', 0.7, 'agent', first
from (select node_id as first, lead(node_id) over (order by node_id) as second from memories
      where tenant = %(tenant)s) pair
where second is not null
"""


@pytest.fixture(scope="module")
def filled_database(servers: TestServers, template: str) -> Iterator[Database]:
    """A database with a large and a small namespace; a tenth of each is untrusted. The small one's are linked."""
    sides = [Partition.UNTRUSTED, *[Partition.TRUSTED] * 9]
    rows = [made("large", number, sides[number % 10]) for number in range(LARGE)]
    rows += [made("small", number, sides[number % 10]) for number in range(SMALL)]

    async def fill() -> None:
        async with await Store.open(database.url) as store:
            model_id = await store.register_embedding_model("hash", "", DIMENSIONS)
            assert model_id == 1
            assert await load(database.owner_url, model_id, rows, memory="64MB") == LARGE + SMALL
            await store.write("small", lambda tx: tx.send(LINK_ALL))

    with new_database(servers, template) as database:
        asyncio.run(fill())
        yield database


@pytest.fixture
async def filled(
    request: pytest.FixtureRequest, servers: TestServers, filled_database: Database
) -> AsyncIterator[Store]:
    """A store on all the rows, whose sessions have read nothing yet; a test that changes them has a copy."""
    with ExitStack() as copied:
        database = filled_database
        if request.node.get_closest_marker("own_database") is not None:
            database = copied.enter_context(new_database(servers, database.name))
        async with await Store.open(database.url) as store:
            yield store


async def plan(store: Store, namespace: str, filters: Filters, *, degraded: bool = False) -> str:
    filters = replace(filters, project=filters.project or EVERY_PROJECT)

    async def explain(tx: Transaction) -> str:
        embedding = None if degraded else vector()
        query, values = await choose_query(tx, Sizes(), Question("fact 7 about pumps"), embedding, filters)
        return "\n".join(row["QUERY PLAN"] for row in await tx.rows(b"explain (analyze) " + query, **values))

    return await store.read(namespace, explain)


@pytest.mark.promise("TP-5")
@pytest.mark.parametrize("namespace", ["large", "small"])
@pytest.mark.parametrize("degraded", [False, True])
async def test_a_search_touches_only_the_partitions_that_were_asked_for(
    filled: Store, namespace: str, degraded: bool
) -> None:
    default = await plan(filled, namespace, Filters(partitions=(Partition.TRUSTED,)), degraded=degraded)
    assert "memories_trusted" in default
    assert "untrusted" not in default.replace("'{untrusted}'", "")
    other = await plan(filled, namespace, Filters(partitions=(Partition.UNTRUSTED,)), degraded=degraded)
    assert "memories_untrusted" in other
    assert "memories_trusted" not in other
    both = await plan(filled, namespace, Filters(partitions=tuple(Partition)), degraded=degraded)
    assert "memories_trusted" in both
    assert "memories_untrusted" in both


SCANS_OF_UNTRUSTED = b"""
select seq_scan + idx_scan as scans from pg_stat_xact_user_tables where relname = 'memories_untrusted'
"""


@pytest.mark.promise("TP-5")
@pytest.mark.parametrize("partition", list(Partition))
@pytest.mark.parametrize("ranking", list(Ranking))
async def test_all_that_a_search_reads_is_in_the_partition_that_was_asked_for(
    filled: Store, partition: Partition, ranking: Ranking
) -> None:
    """Also what is read about what it found, by a plan that is kept: links, neighbours, usefulness."""
    command = SearchMemories(query="fact 7 about pumps", partitions=(partition,), ranking=ranking)

    async def scans(tx: Transaction) -> int:
        assert await search_in(Tables(tx, Sizes()), command, QuestionVectors(vector()), EVERY_PROJECT)
        (row,) = await tx.rows(SCANS_OF_UNTRUSTED)
        return int(row["scans"])

    assert (await filled.read("small", scans) == 0) is (partition is Partition.TRUSTED)


async def test_a_large_namespace_is_searched_by_both_indexes_and_a_small_one_row_by_row(filled: Store) -> None:
    trusted = Filters(partitions=(Partition.TRUSTED,))
    large = await plan(filled, "large", trusted)
    assert "memories_trusted_embedding_idx" in large
    assert "memories_trusted_lexemes_idx" in large
    small = await plan(filled, "small", trusted)
    assert "embedding_idx" not in small
    one_thread = await plan(filled, "large", Filters(partitions=(Partition.TRUSTED,), thread="t7"))
    assert "embedding_idx" not in one_thread
    assert "memories_trusted_tenant_thread_position_created_at_node_id_idx" in one_thread


@pytest.mark.promise("OV-15")
@pytest.mark.parametrize(
    ("chosen", "index"),
    [
        ({"tags": ("tag7", "all")}, "memories_trusted_tag_keys_idx"),
        ({"project": "project 7"}, "memories_trusted_project_tenant_idx"),
    ],
)
async def test_memories_with_a_tag_or_of_a_project_are_looked_up_by_their_index(
    filled: Store, chosen: dict[str, Any], index: str
) -> None:
    trusted = Filters(partitions=(Partition.TRUSTED,))
    rare = await plan(filled, "large", replace(trusted, **chosen))
    assert index in rare
    assert "embedding_idx" not in rare
    assert "Seq Scan on memories" not in rare
    assert index not in await plan(filled, "large", trusted)


@pytest.mark.promise("OV-15")
async def test_a_list_of_a_tag_reads_no_more_than_the_rows_that_have_it(filled: Store) -> None:
    async def explain(tx: Transaction) -> str:
        wanted = await filters_of(tx, ListRecentMemories(tags=("tag7",)), EVERY_PROJECT) | {"ids": None}
        page: dict[str, Any] = {"before": None, "before_id": None, "limit": 50, "sorts": False}
        rows = [
            *await tx.rows(b"explain (analyze) " + sql("tagged_memories"), **wanted, limit=50),
            *await tx.rows(b"explain (analyze) " + sql("recent_memories"), **wanted, **page),
        ]
        return "\n".join(row["QUERY PLAN"] for row in rows)

    told = await filled.read("large", explain)
    assert "memories_trusted_tag_keys_idx" in told
    assert "Seq Scan on memories" not in told


async def test_both_ways_find_the_same_memories(filled: Store) -> None:
    """The index against an exact scan, on one thread and on everything."""
    question = Question("which fact is about pumps")
    every = Filters(partitions=tuple(Partition), project=EVERY_PROJECT)
    for filters in (
        replace(every, partitions=(Partition.TRUSTED,), thread="t7"),
        replace(every, tags=("tag7",)),
        every,
    ):
        embedding = vector()
        found = await filled.read(
            "large", lambda tx, e=embedding, f=filters: find_candidates(tx, Sizes(), question, e, f)  # type: ignore[misc]
        )  # fmt: skip
        assert len(set(found.ids)) == len(found)
        rows = await filled.read(
            "large",
            lambda tx, e=embedding, f=filters: tx.rows(  # type: ignore[misc]
                b"select node_id, 1 - (embedding <=> %(e)s::halfvec) as cosine from memories where "
                b"tenant = %(tenant)s and partition = any(%(p)s) and (%(t)s::text is null or thread = %(t)s) "
                b"and (%(g)s::text[] is null or tags @> %(g)s::text[]) "
                b"order by 2 desc limit 10",
                e=e.half, p=list(f.partitions), t=f.thread,
                g=None if f.tags is None else list(f.tags),
            ),
        )  # fmt: skip
        cosines = dict(zip(found.ids, found.similarity, strict=True))
        assert len(cosines.keys() & {str(row["node_id"]) for row in rows}) >= 9
        for row in rows:
            if str(row["node_id"]) in cosines:
                assert cosines[str(row["node_id"])] == pytest.approx(row["cosine"], abs=1e-6)


@pytest.mark.own_database
async def test_common_words_are_not_looked_up_but_still_count(filled: Store) -> None:
    trusted = Filters(partitions=(Partition.TRUSTED,), project=EVERY_PROJECT)
    await filled.write("large", lambda tx: count_lexemes(tx, Partition.TRUSTED))

    async def lexical(text: str, embedding: Embedding | None = None) -> dict[str, float]:
        """Return what the words count for each memory that has any."""
        question = Question(text)
        found = await filled.read("large", lambda tx: find_candidates(tx, Sizes(), question, embedding, trusted))
        return {item: score for item, score in zip(found.ids, found.lexical, strict=True) if score}

    assert len(await lexical("fact")) == CANDIDATES  # the rarest word there is
    ((only, weight),) = (await lexical("77")).items()
    several = await lexical("77 fact pumps valves pipes")  # one of the common words makes candidates enough
    assert len(several) == CANDIDATES
    assert max(several, key=lambda item: several[item]) == only
    assert several[only] > weight
    assert len(await lexical("77 fact pumps valves pipes", vector())) > CANDIDATES  # what the vector found has them too
