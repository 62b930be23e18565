"""Sectors of memories from the store to the filter, through the whole pipeline."""

from typing import Any

import psycopg
import pytest

from tests.conftest import Database
from tests.scenarios.stage import Agent, until, with_settings

pytestmark = pytest.mark.long

RECIPE = "To descale the kettle: fill it with vinegar, boil it, then rinse it twice"
FEELING = "I am so relieved and happy that the exam is over, I could cry"
TALK = "Aww, thank you so much, that's so sweet! How are you doing?"
EVENT = "Yesterday at noon Ada met Tom at the station and they missed the train"


async def memory(agent: Agent, memory_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await agent.call("get_memory", memory_id=memory_id))["memory"]
    return found


async def sector(agent: Agent, memory_id: str, source: str = "auto") -> str:
    """Return the sector of a memory as soon as it comes from that source."""

    async def told() -> bool:
        return bool((await memory(agent, memory_id))["sector_source"] == source)

    await until(told)
    return str((await memory(agent, memory_id))["sector"])


@with_settings(embedder="minilm")
async def test_a_stored_memory_is_found_under_the_sector_that_the_shipped_models_tell(agent: Agent) -> None:
    expected = {RECIPE: "procedural", FEELING: "emotional", EVENT: "episodic"}
    stored = {content: await agent.store(content) for content in expected}
    assert all((item["sector"], item["sector_source"]) == ("semantic", None) for item in stored.values())
    assert {content: await sector(agent, stored[content]["id"]) for content in expected} == expected
    for content, name in expected.items():
        assert await agent.found(RECIPE, sectors=[name]) == [content]
        assert await agent.recent(sectors=[name]) == [content]
    assert await agent.recent(sectors=["semantic"]) == []
    assert (await memory(agent, stored[RECIPE]["id"]))["updated_at"] == stored[RECIPE]["updated_at"]


@with_settings(embedder="minilm")
@pytest.mark.promise("AG-1")
async def test_small_talk_is_kept_found_and_counted_and_is_in_no_sector(agent: Agent) -> None:
    talk, event = await agent.store(TALK), await agent.store(EVENT)
    assert await sector(agent, talk["id"], source="none") == "semantic"
    assert await sector(agent, event["id"]) == "episodic"
    assert 0.5 <= (await memory(agent, talk["id"]))["sector_confidence"] <= 1.0
    assert await agent.found(TALK) == [TALK, EVENT]
    assert await agent.found(TALK, sectors=["semantic"]) == await agent.recent(sectors=["semantic"]) == []
    assert await agent.found(TALK, min_sector_confidence=0.0) == [EVENT]
    assert await agent.recent() == [EVENT, TALK]
    counted = (await agent.call("memory_stats"))["by_sector"]
    assert {name: number for name, number in counted.items() if number} == {"episodic": 1, "none": 1}
    await agent.call("connect", source=talk["id"], target=event["id"], relation="supports")
    await agent.call("memory_promote_to_trusted", record_id=talk["id"])
    chosen = await agent.call("update_memory", memory_id=talk["id"], sector="emotional")
    assert (chosen["memory"]["sector"], chosen["memory"]["sector_source"]) == ("emotional", "manual")
    assert await agent.found(TALK, sectors=["emotional"], min_sector_confidence=1.0) == [TALK]


@pytest.mark.promise("RS-18", "QP-12")
async def test_a_chosen_sector_survives_every_classification(agent: Agent) -> None:
    given = await agent.store(RECIPE, sector="reflective")
    chosen = await agent.store(f"{RECIPE} again")
    assert await sector(agent, chosen["id"]) == "procedural"
    changed = await agent.call("update_memory", memory_id=chosen["id"], sector="emotional")
    assert (changed["memory"]["sector"], changed["memory"]["sector_source"]) == ("emotional", "manual")
    # What is stored later is classified later: by then the two would have been, too.
    later = await agent.store(f"{RECIPE} later")
    assert await sector(agent, later["id"]) == "procedural"
    assert await sector(agent, given["id"], source="manual") == "reflective"
    assert await sector(agent, chosen["id"], source="manual") == "emotional"


async def test_a_replay_shows_the_sector_as_it_was_at_first(agent: Agent) -> None:
    first = await agent.call("store_memory", content=RECIPE, idempotency_key="once")
    assert await sector(agent, first["stored"]["id"]) == "procedural"
    again = await agent.call("store_memory", content=RECIPE, idempotency_key="once")
    assert again["stored"] == first["stored"]


async def test_the_sweep_finishes_what_a_lost_command_left(agent: Agent, database: Database) -> None:
    stored = await agent.store(RECIPE)
    assert await sector(agent, stored["id"]) == "procedural"
    async with await psycopg.AsyncConnection.connect(database.owner_url, autocommit=True) as connection:
        await connection.execute(
            "update memories set sector = null, sector_source = null, created_at = now() - interval '1 hour'"
        )
    assert await sector(agent, stored["id"]) == "procedural"
