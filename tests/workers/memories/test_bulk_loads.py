"""Rows of a large import stay out of the vector index until it is built anew, and are found at every moment."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from engramq.schemas.commands import BatchImported, ImportBatch, ImportRecord, Promoted, PromoteMemory
from engramq.schemas.faults import EngramqError
from engramq.schemas.vocabulary import Partition
from engramq.workers.db import loads, vectors
from engramq.workers.db.loads import LOADS_MAX, index_loads
from engramq.workers.db.queries import sized_sql, sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding, Sizes, send_nearest
from engramq.workers.links.similarity import Unlinked, neighbors
from engramq.workers.memories import import_rows
from engramq.workers.memories.import_rows import BulkLoads
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.question import Question
from tests.workers.conftest import World

pytestmark = pytest.mark.own_database

BATCH = 20
BOUND_S = 20.0
DIMENSIONS = 384
US, OTHERS = "default_user", "other"
LEFT_OUT = "not (load_id is null or load_covered(tenant, load_id, partition, model_id))"
TRUSTED = (Partition.TRUSTED,)


@pytest.fixture
async def loading(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which every search goes by the index, and which leaves imports out from their second batch on."""
    monkeypatch.setattr(vectors, "SMALL_ROWS", -1)
    monkeypatch.setattr(vectors, "EXACT_ROWS", -1)
    for setting in ("enable_seqscan", "enable_sort"):  # the table is too small for the planner to take the index
        world.rows(f"alter database {world.database.name} set {setting} = off")
        world.rows(f"set {setting} = off")
    await world.store._pool.drop_idle()
    world.use(BulkLoads(Sizes(), large_rows=BATCH))
    return world


async def load(world: World, word: str, namespace: str = US, **fields: Any) -> None:
    records = tuple(ImportRecord(content=f"{word} number {number}", **fields) for number in range(BATCH))
    reply = await world.ask(BatchImported, ImportBatch(records=records), namespace=namespace)
    assert reply.stored == BATCH


async def loaded(world: World) -> None:
    """Import a batch that is indexed, and one that is not."""
    await load(world, "early")
    await load(world, "late")
    assert left_out(world) == BATCH


async def embedding(world: World, content: str) -> Embedding:
    return Embedding.of(1, (await world.model.embed([content]))[0])


async def found(world: World, content: str, namespace: str = US) -> bool:
    """Say whether each of the three queries that go by the index finds a memory."""
    given, sizes = await embedding(world, content), Sizes()
    query = "select node_id as id from memories where content = %s and tenant = tenant_of(%s)"
    wanted: UUID = world.rows(query, content, namespace)[0]["id"]

    async def look(tx: Transaction) -> bool:
        rows = await (await send_nearest(tx, sizes, given, Partition.TRUSTED, k=5)).fetchall()
        candidates = await find_candidates(tx, sizes, Question("?"), given, Filters(partitions=TRUSTED))
        memory = Unlinked(wanted, Partition.TRUSTED, None, 1, DIMENSIONS, 1)
        near = await neighbors(tx, sizes, memory, least=-1.0)
        values = {
            "model_id": 1,
            "partitions": ["trusted"],
            "partition": "trusted",
            "include_superseded": False,
            "as_of": None,
            "k": 1,
            "farthest": 2.0,
        }
        nearest = await tx.row(sized_sql("neighbors_exact", DIMENSIONS), id=wanted, **values)
        assert nearest is not None
        best = max(item.similarity for item in near)
        return (
            rows[0]["id"] == wanted
            and candidates.ids.count(str(wanted)) == 1
            and best >= 1 - nearest["distance"] - 1e-3
        )

    return await world.store.read(namespace, look)


def left_out(world: World) -> int:
    return int(world.rows(f"select count(*) as n from memories where {LEFT_OUT}")[0]["n"])


async def indexed(world: World, partition: Partition = Partition.TRUSTED) -> int:
    """Return how many rows the vector index itself has, read from its one end to the other."""
    vector = (await embedding(world, "anything")).text
    query = (
        "select count(*) as n from (select 1 from memories where model_id = 1 and not repeated "
        f"and (load_id is null or load_covered(tenant, load_id, partition, model_id)) and partition = '{partition}' "
        "order by embedding::halfvec(384) <=> %s::halfvec(384) limit 100000) found"
    )
    world.rows("set hnsw.iterative_scan = relaxed_order")
    world.rows("set hnsw.ef_search = 1000")
    plan = "\n".join(row["QUERY PLAN"] for row in world.rows(f"explain {query}", vector))
    assert f"memories_{partition}_embedding" in plan
    assert "load_covered" not in plan  # nothing but the index decides
    return int(world.rows(query, vector)[0]["n"])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not condition():
            await asyncio.sleep(0.01)


def invalid(world: World) -> int:
    return len(world.rows("select 1 from pg_index where not indisvalid"))


@pytest.mark.promise("IM-11")
async def test_what_comes_after_the_first_rows_is_left_out_and_found_nevertheless(loading: World) -> None:
    await loaded(loading)
    assert await indexed(loading) == BATCH
    assert await found(loading, "late number 7")
    assert await found(loading, "early number 7")


@pytest.mark.promise("IM-11")
async def test_at_the_end_of_a_load_the_index_has_all_rows(loading: World) -> None:
    await loaded(loading)
    assert await index_loads(loading.store, idle_s=0.0) == 1
    assert (left_out(loading), loading.count("loads"), invalid(loading)) == (0, 0, 0)
    assert await indexed(loading) == 2 * BATCH
    assert await found(loading, "late number 7")
    assert await index_loads(loading.store, idle_s=0.0) == 0


@pytest.mark.promise("IX-2")
async def test_at_the_end_of_a_load_joins_are_estimated_within_ten_times(loading: World) -> None:
    await loaded(loading)
    assert await index_loads(loading.store, idle_s=0.0) == 1
    statistics = loading.rows("select reltuples from pg_class where oid = 'memories'::regclass")
    assert statistics[0]["reltuples"] == 2 * BATCH
    for query in (
        "explain select from memories m join memories o on o.content = m.content",
        "explain select m.content from memories m group by m.content",
    ):
        estimated = int(loading.rows(query)[0]["QUERY PLAN"].partition("rows=")[2].partition(" ")[0])
        assert BATCH / 5 <= estimated <= 20 * BATCH, query


async def test_while_a_load_goes_on_its_index_is_not_built(loading: World) -> None:
    await loaded(loading)
    assert await index_loads(loading.store, idle_s=60.0) == 0
    assert left_out(loading) == BATCH


async def test_a_load_of_many_rows_is_over_before_the_import_is(loading: World) -> None:
    await loaded(loading)
    assert await index_loads(loading.store, idle_s=60.0, most=BATCH) == 1
    await load(loading, "later")
    assert left_out(loading) == BATCH
    assert await found(loading, "later number 7")


@pytest.mark.promise("IM-11")
async def test_other_tenants_keep_the_index(loading: World) -> None:
    await load(loading, "others", namespace=OTHERS)
    await loaded(loading)
    assert await indexed(loading) == 2 * BATCH
    values: dict[str, Any] = {
        "model_id": 1,
        "partitions": ["trusted"],
        "partition": "trusted",
        "include_superseded": False,
        "as_of": None,
        "project": None,
        "k": 5,
    }
    values |= {"embedding": (await embedding(loading, "others number 7")).half, "farthest": 2.0}
    query = b"explain (analyze) " + sized_sql("nearest_by_index", DIMENSIONS)
    for namespace, scanned in ((OTHERS, 0), (US, BATCH)):
        rows = await loading.store.read(namespace, lambda tx: tx.rows(query, **values))
        plan = "\n".join(row["QUERY PLAN"] for row in rows)
        assert "using memories_trusted_embedding" in plan
        assert "load_covered" not in plan
        by_load = next(line for line in plan.splitlines() if "load_id_tenant" in line and "actual" in line)
        assert f"rows={scanned}.00" in by_load
    assert await found(loading, "others number 7", OTHERS)


@pytest.mark.promise("IM-11")
async def test_a_build_that_is_killed_is_finished_later_and_others_are_served_meanwhile(loading: World) -> None:
    await loaded(loading)
    with psycopg.connect(loading.database.owner_url) as writer:
        # Somebody is in the middle of writing: the build waits for them, with a new index already there.
        writer.execute("update memories set confidence = confidence where content = 'early number 1'")
        building = asyncio.create_task(index_loads(loading.store, idle_s=0.0))
        await until(lambda: invalid(loading) == 1)
        assert await found(loading, "late number 7")
        assert (await loading.keep("late number 7 again")).similar_memories[0].content == "late number 7"
        await load(loading, "later")  # it opens a load of its own: the other one is closed
        assert await index_loads(loading.store, idle_s=0.0) == 0  # one builds at a time
        killed = loading.rows(
            "select pg_terminate_backend(pid, 5000) as gone from pg_stat_activity where query like 'reindex index%%' "
            "and datname = current_database()"
        )
        assert killed == [{"gone": True}]
        with pytest.raises(EngramqError):
            await building
    assert invalid(loading) == 1
    assert await found(loading, "late number 7")
    assert await found(loading, "later number 7")
    assert await index_loads(loading.store, idle_s=0.0) == 2
    assert (loading.count("loads"), invalid(loading)) == (0, 0)
    assert await indexed(loading) == 3 * BATCH + 1


@pytest.mark.promise("IM-11")
@pytest.mark.long
async def test_while_loads_come_and_are_built_every_row_is_found(loading: World) -> None:
    batches, done = 12, asyncio.Event()

    async def build() -> None:
        while not done.is_set():
            await index_loads(loading.store, idle_s=0.0)

    async with asyncio.TaskGroup() as group:
        group.create_task(build())
        for number in range(batches):
            await load(loading, f"batch-{number}b")
            for looked_at in range(number + 1):
                assert await found(loading, f"batch-{looked_at}b number 3"), (number, looked_at)
            # Rows are written anew by and by, whether they are in the index or not.
            loading.rows(
                "update memories set lexemes = lexemes, thread = 'moved' where content like %s", f"batch-{number}b%"
            )
        done.set()
    await index_loads(loading.store, idle_s=0.0)
    assert loading.count("loads") == 0
    assert await indexed(loading) == batches * BATCH


async def test_what_leaves_its_partition_before_the_build_is_in_the_index_of_the_other(loading: World) -> None:
    await load(loading, "early", source_type="research")
    await load(loading, "late", source_type="research", verification="verified")
    assert left_out(loading) == BATCH
    row = loading.rows("select node_id as id from memories where content = 'late number 7'")
    await loading.ask(Promoted, PromoteMemory(record_id=str(row[0]["id"])))
    assert await indexed(loading) == 1
    assert await index_loads(loading.store, idle_s=0.0) == 1
    assert await indexed(loading) == 1
    assert await indexed(loading, Partition.UNTRUSTED) == 2 * BATCH - 1


async def test_a_tenant_whose_loads_are_never_built_gets_no_more_of_them(loading: World) -> None:
    for number in range(LOADS_MAX + 2):
        await load(loading, f"batch-{number}b")
        loading.rows("update loads set covered = true")
    assert loading.count("loads") == LOADS_MAX
    assert await indexed(loading) == 2 * BATCH
    assert await index_loads(loading.store) == LOADS_MAX
    assert await indexed(loading) == (LOADS_MAX + 2) * BATCH


async def test_a_load_that_nobody_ends_is_full_at_some_point(loading: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "FULL_ROWS", BATCH)
    await loaded(loading)
    await load(loading, "later")
    assert (left_out(loading), await indexed(loading)) == (BATCH, 2 * BATCH)


async def test_where_everybody_has_much_more_rows_go_into_the_index_one_by_one(
    loading: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_rows, "LOAD_ROWS", BATCH // 10)
    await load(loading, "early")
    loading.rows("analyze memories_trusted")  # which tells how many rows everybody has
    await load(loading, "late")
    await load(loading, "later")
    assert (left_out(loading), await indexed(loading)) == (0, 3 * BATCH)


async def test_an_index_that_is_built_by_hand_or_by_a_restore_lacks_nothing(loading: World) -> None:
    await loaded(loading)
    # In a thread: reads that have been answered still have to end.
    await asyncio.to_thread(loading.rows, "reindex table memories_trusted")
    assert await indexed(loading) == BATCH
    assert await found(loading, "late number 7")
    # As where rows of memories are restored before those of loads: an unknown load keeps nothing out.
    loading.rows("delete from loads")
    await asyncio.to_thread(loading.rows, "drop index memories_embedding_1")
    loading.rows("select make_vector_index(1::smallint)")
    assert await indexed(loading) == 2 * BATCH
    assert await found(loading, "late number 7")


@pytest.mark.parametrize(("given", "used"), [("64MB", "256MB"), ("1GB", "1GB")])
async def test_a_build_has_the_memory_that_its_server_gives_for_builds(loading: World, given: str, used: str) -> None:
    builds = (("build_settings", {"timeout": loads.BUILD_MAX}), ("rewrite_settings", {"lock_timeout": "1s"}))
    for settings, values in builds:
        with psycopg.connect(loading.database.url, options=f"-c maintenance_work_mem={given}") as session:
            session.execute(sql(settings), values)
            assert session.execute("show maintenance_work_mem").fetchone() == (used,)
