"""What searches find together: counted on links, and linked when it is found together in three sessions."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from engramq.schemas.ids import pair_of, uuid7
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.co_retrieval import PairCount, note_pairs
from tests.conftest import Database
from tests.running import opened
from tests.scenarios.stage import Stage, agent_of, stage_settings, staged, until
from tests.workers.conftest import World, world
from tests.workers.links.automatic.harness import Harness

__all__ = ["world"]

# They share one word, which a search finds both by, and are not similar.
LIGHTHOUSE = "granite lighthouse keeper wakes before northern gales"
RECIPE = "granite mortar grinds cumin coriander pepper seeds"
MONEY = "granite countertop invoice paid twice by mistake"
SESSION = 'fix "a, {b}"'  # as a caller may name it
PAIR = (LIGHTHOUSE, RECIPE)


async def searched(harness: Harness, **arguments: Any) -> None:
    """Search for what both have in common, and wait until it was noted."""
    before = harness.rows("select coalesce(sum(access_count), 0) as n from memory_usage")[0]["n"]
    found = await harness.agent.search("granite", **arguments)
    assert len(found) >= 2

    async def noted() -> bool:
        (row,) = harness.rows("select coalesce(sum(access_count), 0) as n from memory_usage")
        return bool(row["n"] >= before + len(found))

    await until(noted)


async def in_a_session(harness: Harness, **arguments: Any) -> None:
    await harness.agent.call("begin_session", session=SESSION)
    await searched(harness, session=SESSION, **arguments)


@pytest.mark.promise("CN-37")
@pytest.mark.long
async def test_a_pair_that_is_found_in_three_sessions_is_linked(harness: Harness) -> None:
    one, other = [await harness.agent.store(content) for content in PAIR]
    await in_a_session(harness)
    await searched(harness, session=SESSION)
    await until(lambda: harness.sees("select 1 from co_retrievals where cardinality(instances) = 1"))
    await in_a_session(harness)
    await until(lambda: harness.sees("select 1 from co_retrievals where cardinality(instances) = 2"))
    assert harness.links() == {}
    await in_a_session(harness)
    await until(lambda: harness.sees("select 1 from edges"))
    (link,) = harness.links().items()
    assert link[0] == {one["id"], other["id"]}
    assert (link[1]["relation"], link[1]["origin"], link[1]["weight"]) == ("co_occurs", "co_retrieval", 0.55)
    assert not await harness.sees("select 1 from co_retrievals")


async def test_each_further_search_counts_on_the_link_and_changes_no_weight(harness: Harness) -> None:
    one, other = [await harness.agent.store(content) for content in PAIR]
    await harness.agent.call("connect", source=one["id"], target=other["id"], relation="supports")
    harness.rows("update namespaces set active_hours = 7")
    for _ in range(2):
        await searched(harness)
    await until(lambda: harness.sees("select 1 from edges where reinforcement_count = 2"))
    (link,) = harness.links().values()
    assert (link["weight"], link["origin"]) == (0.75, "agent")
    assert link["last_active_hours"] >= 7
    assert not await harness.sees("select 1 from co_retrievals")


@pytest.mark.long
async def test_a_link_that_was_taken_away_is_not_made_again(harness: Harness) -> None:
    one, other = [await harness.agent.store(content) for content in PAIR]
    harness.rows("insert into link_tombstones values (make_tenant('default_user'), %s, %s)", one["id"], other["id"])
    third = await harness.agent.store(MONEY)
    for _ in range(3):
        await in_a_session(harness)
    await until(lambda: harness.sees("select 1 from edges having count(*) = 2"))
    assert all(third["id"] in pair for pair in harness.links())


@pytest.mark.long
async def test_without_room_no_link_is_made_and_the_pair_begins_anew(database: Database, redis_url: str) -> None:
    settings = stage_settings(database, redis_url, f"{database.name}-room", degree_cap="1")
    async with staged(settings) as stage, agent_of(await stage.gateway()) as agent:
        harness = Harness(agent, database)
        one, _ = [await agent.store(content) for content in PAIR]
        apart = await agent.store("wholly different")
        await agent.call("connect", source=one["id"], target=apart["id"], relation="supports")
        for _ in range(2):
            await in_a_session(harness)
        await until(lambda: harness.sees("select 1 from co_retrievals where cardinality(instances) = 2"))
        await in_a_session(harness)
        await until(lambda: harness.sees("select 1 having not exists (select from co_retrievals)"))
        assert len(harness.links()) == 1


async def test_an_untrusted_principal_moves_untrusted_memories_only(stage: Stage, harness: Harness) -> None:
    for partition in ("trusted", "untrusted"):
        for content in PAIR:
            await harness.agent.store(content, partition=partition)
    async with agent_of(await stage.gateway(), principal="crawler", untrusted=True) as crawler:
        assert len(await crawler.search("granite", partitions=["trusted", "untrusted"])) == 4
    await until(lambda: harness.sees("select 1 from co_retrievals"))
    await until(lambda: harness.sees("select 1 from memory_usage"))
    used = harness.rows("select distinct m.partition from memory_usage u join memories m using (node_id)")
    assert used == [{"partition": "untrusted"}], "its searches keep no trusted memory from fading"
    pairs = harness.rows(
        "select m.partition, o.partition as other from co_retrievals c "
        "join memories m on m.node_id = c.low_id join memories o on o.node_id = c.high_id"
    )
    assert pairs == [{"partition": "untrusted", "other": "untrusted"}]


async def test_erased_memories_are_left_out(harness: Harness) -> None:
    one, _ = [await harness.agent.store(content) for content in PAIR]
    await searched(harness)
    await until(lambda: harness.sees("select 1 from co_retrievals"))
    await harness.agent.call("forget_memory", memory_id=one["id"], erase=True)
    assert not await harness.sees("select 1 from co_retrievals")


async def test_counting_waits_for_an_erasure_without_being_in_its_way(world: World) -> None:
    one, *others = [UUID((await world.keep(content)).stored.id) for content in (*PAIR, MONEY)]
    linked, pair = (pair_of(one, other) for other in others)
    world.rows(
        "insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin) "
        "values (%s, make_tenant(%s), 'association', %s, %s, 'similar', 0.7, 'agent')",
        *(UUID(uuid7()), DEFAULT_NAMESPACE, *linked),
    )

    async def count(tx: Transaction) -> None:
        together = {(str(low), str(high)): PairCount(times=1, instances={"a:1"}) for low, high in (linked, pair)}
        await note_pairs(tx, together)

    async def waits() -> bool:
        return bool(world.rows("select pid from pg_locks where not granted"))

    async with asyncio.TaskGroup() as group, opened(world.store, DEFAULT_NAMESPACE) as tx:
        await tx.row(b"select id from nodes where id = %(id)s for update", id=one)
        group.create_task(world.store.write(DEFAULT_NAMESPACE, count))
        await until(waits)
        # Erasing goes on to the links of the memory, and must not find them held by who waits for it.
        assert await tx.row(b"select id from edges where source_id = %(id)s for update skip locked", id=one)
    assert world.rows("select reinforcement_count as times from edges") == [{"times": 1}]
