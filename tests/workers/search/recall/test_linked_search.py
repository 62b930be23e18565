"""What links, outcomes and idle time do to a search, over MCP."""

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from engramq.workers.db import vectors
from engramq.workers.db.database import Store
from engramq.workers.search import candidates, search
from tests.conftest import Database
from tests.scenarios.stage import Agent, agent_of, stage_settings, staged, until

BOTH = ["trusted", "untrusted"]


@pytest.fixture
async def agent(shared_store: Store, database: Database, redis_url: str, key_prefix: str) -> AsyncIterator[Agent]:
    async with (
        staged(stage_settings(database, redis_url, key_prefix, link_threshold="1")) as stage,
        agent_of(await stage.gateway()) as connected,
    ):
        yield connected


def change(database: Database, statement: str, *values: Any) -> None:
    """Change the database as its owner."""
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        connection.execute(statement.encode(), values)


async def link(agent: Agent, source: str, target: str, **arguments: Any) -> None:
    assert (await agent.call("connect", source=source, target=target, **arguments))["status"] == "success"


async def others(agent: Agent, count: int = 8) -> None:
    """Store memories that a question about kettles does not ask for."""
    for number in range(count):
        await agent.store(f"Meeting {number} about the kettle budget is moved")


def by_id(memories: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {memory["id"]: memory for memory in memories}


KETTLE, VALVE = "The red kettle leaks at its spout", "Valve seven was replaced in March"
QUESTION = "where does the red kettle leak at its spout"


@pytest.mark.promise("CN-29")
async def test_a_linked_memory_comes_in_over_its_link_and_goes_with_it(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "CANDIDATES", 5)  # so that what matches badly is no candidate at all
    kettle, valve = (await agent.store(KETTLE))["id"], (await agent.store(VALVE))["id"]
    await others(agent)
    assert valve not in by_id(await agent.search(QUESTION, limit=50))
    await link(agent, valve, kettle, relation="contradicts", weight=0.9)
    found = await agent.search(QUESTION, limit=3, explain=True)
    assert [memory["id"] for memory in found][:2] == [kettle, valve]
    assert found[1]["via"] == {"memory_id": kettle, "relation": "contradicts", "weight": 0.9}
    assert found[1]["explain"]["links"] > 0
    assert isinstance(found[1]["similarity"], float)
    assert "via" not in found[0]
    assert "via" not in found[2]
    assert valve not in by_id(await agent.search(QUESTION, limit=50, ranking="similarity"))
    assert valve not in by_id(await agent.search(QUESTION, limit=50, min_similarity=0.2))
    await agent.call("disconnect", source=kettle, target=valve)
    assert valve not in by_id(await agent.search(QUESTION, limit=50))


@pytest.mark.promise("CN-29")
async def test_what_is_found_anyway_is_lifted_by_its_link_until_that_is_removed(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "SIZES_KEPT_S", 0.0)  # words weigh by the size, which stays the same from here on
    kettle, valve = (await agent.store(KETTLE))["id"], (await agent.store(VALVE))["id"]
    await others(agent)
    without = by_id(await agent.search(QUESTION, limit=50))
    await link(agent, kettle, valve)
    boosted = by_id(await agent.search(QUESTION, limit=50))
    assert boosted[valve]["score"] > without[valve]["score"]
    assert boosted[valve]["via"]["memory_id"] == kettle
    assert boosted[kettle]["score"] == pytest.approx(without[kettle]["score"], abs=1e-3)  # by no more than its new rank
    assert next(iter(boosted)) == kettle
    await agent.call("disconnect", source=kettle, target=valve)
    again = by_id(await agent.search(QUESTION, limit=50))
    assert {item: memory["score"] for item, memory in again.items()} == pytest.approx(
        {item: memory["score"] for item, memory in without.items()}, abs=1e-3
    )
    assert "via" not in again[valve]


async def test_what_a_search_may_not_find_does_not_come_over_a_link(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "CANDIDATES", 1)
    kettle = (await agent.store(KETTLE, thread="kitchen", occurred_at="2024-05-01T00:00:00Z"))["id"]
    valve = (await agent.store(VALVE, sector="episodic", thread="kitchen", occurred_at="2024-03-01T00:00:00Z"))["id"]
    await others(agent, 2)
    await link(agent, kettle, valve)

    async def comes(**filters: Any) -> bool:
        found = by_id(await agent.search(QUESTION, limit=50, **filters))
        return valve in found

    assert await comes()
    assert await comes(thread="kitchen")
    assert not await comes(sectors=["semantic"])
    assert not await comes(since="2024-04-01T00:00:00Z")
    await agent.call("update_memory", memory_id=valve, thread="cellar")
    assert not await comes(thread="kitchen")
    newer = (await agent.store("Valve nine took its place"))["id"]
    await agent.call("supersede_memory", old_memory_id=valve, new_memory_id=newer)
    assert not await comes()
    await agent.call("restore_memory", memory_id=valve)
    assert await comes()
    await agent.call("verify_memory", memory_id=valve, verification="rejected")
    assert not await comes()
    await agent.call("verify_memory", memory_id=valve, verification="unverified")
    assert await comes()
    await agent.call("forget_memory", memory_id=valve)
    assert not await comes()


@pytest.mark.promise("TP-21")
async def test_a_mixed_link_leads_from_trusted_to_untrusted_only_and_only_when_both_are_asked_for(
    agent: Agent,
) -> None:
    kettle, valve = [
        (await agent.store(content, partition="untrusted", verification="verified"))["id"]
        for content in (KETTLE, VALVE)
    ]
    await others(agent)
    await agent.store("A web page says that meeting seven is moved", partition="untrusted")
    await link(agent, kettle, valve)

    async def boost(question: str, memory_id: str, **arguments: Any) -> float:
        found = by_id(await agent.search(question, limit=50, explain=True, **arguments))
        return float(found[memory_id]["explain"].get("links", 0.0)) if memory_id in found else -1.0

    assert await boost(QUESTION, valve, partitions=["untrusted"]) > 0
    assert (await agent.call("memory_promote_to_trusted", record_id=kettle))["status"] == "promoted"
    assert await boost(QUESTION, valve) == -1  # not found at all
    assert await boost(QUESTION, valve, partitions=BOTH) > 0
    assert await boost("which valve was replaced in March", kettle, partitions=BOTH) == 0
    assert await boost("which valve was replaced in March", kettle) == 0


async def test_many_untrusted_memories_take_no_lift_from_trusted_ones(agent: Agent) -> None:
    kettle, valve = (await agent.store(KETTLE))["id"], (await agent.store(VALVE))["id"]
    await others(agent)
    for _ in range(search.SEEDS):
        await agent.store(QUESTION, partition="untrusted")
    await link(agent, kettle, valve)
    found = await agent.search(QUESTION, limit=50, partitions=BOTH, explain=True)
    assert [memory["partition"] for memory in found[: search.SEEDS]] == ["untrusted"] * search.SEEDS
    assert by_id(found)[valve]["explain"].get("links", 0) > 0


@pytest.mark.promise("CN-35")
async def test_what_helped_moves_up_among_what_is_nearly_alike_and_no_further(agent: Agent) -> None:
    first = await agent.store("The spare key is under the blue pot")
    second = await agent.store("The spare key is under the blue pot")
    await others(agent)
    key, also = first["id"], second["id"]

    async def order() -> list[str]:
        return [memory["id"] for memory in await agent.search("where is the spare key")][:2]

    assert await order() == [also, key]  # the newer one
    await agent.call("record_outcome", memory_ids=[key], signal=1)
    assert await order() == [key, also]
    await agent.call("record_outcome", memory_ids=[key], signal=0, weight=10)
    assert await order() == [also, key]
    for item in (key, also):
        await agent.call("record_outcome", memory_ids=[item], signal=0, weight=10)
    assert set(await order()) == {key, also}  # what matches badly stays below, however bad these were
    found = by_id(await agent.search("where is the spare key", explain=True))
    assert -0.6 <= found[key]["explain"]["usefulness"] < 0


async def test_what_lies_idle_fades_by_its_sector_in_active_hours(agent: Agent, database: Database) -> None:
    lasting = await agent.store("To open the gate turn the key twice", sector="procedural")
    fading = await agent.store("To open the gate turn the key twice", sector="episodic")
    await others(agent)

    async def found() -> dict[str, dict[str, Any]]:
        memories = await agent.search("how to open the gate", limit=2, explain=True)
        return by_id(memories)

    async def noted() -> bool:
        with psycopg.connect(database.owner_url) as connection:
            return connection.execute("select from memory_usage").rowcount == 2

    assert list(await found()) == [fading["id"], lasting["id"]]
    await until(noted)  # while the clock shows nothing yet
    change(database, "update namespaces set active_hours = 250")
    faded = await found()
    assert list(faded) == [lasting["id"], fading["id"]]
    assert faded[fading["id"]]["explain"]["recency"] == pytest.approx(-0.1, abs=0.01)
    assert -0.02 < faded[lasting["id"]]["explain"]["recency"] < 0
    change(
        database,
        "insert into memory_usage (node_id, tenant, last_active_hours) values (%s, make_tenant('default_user'), 250) "
        "on conflict (tenant, node_id) do update set last_active_hours = 250",
        fading["id"],
    )
    assert list(await found()) == [fading["id"], lasting["id"]]
