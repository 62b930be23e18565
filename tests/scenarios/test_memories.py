"""What an agent does with memories, through a real MCP client and the whole pipeline."""

import asyncio

import pytest

from engramq.schemas.faults import missing
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import Thing
from tests.scenarios.stage import LEGACY, MODERN, Agent, Stage, agent_of

# Of ranked results, of what is not whole, untrusted or private.
SOMETIMES = {
    "score", "similarity", "via", "explain", "truncated", "passage", "part", "parts", "followed_by", "untrusted",
    "warning", "relevance", "relevance_of", "differs_from", "visibility", "of_another",
}  # fmt: skip


@pytest.mark.promise("MT-1", "MT-2", "MT-12")
async def test_a_store_answers_with_the_memory_and_what_is_similar(agent: Agent) -> None:
    first = await agent.store("Ada drinks green tea every morning")
    body = await agent.call(
        "store_memory",
        content="Ada drinks green tea every evening",
        source="explicit",
        confidence=0.8,
        metadata={"a": [1]},
    )

    stored = body["stored"]
    assert (first["confidence"], first["source"]) == (1.0, "extracted")
    assert (stored["confidence"], stored["source"], stored["metadata"]) == (0.8, "explicit", {"a": [1]})
    assert set(stored) == set(Memory.__struct_fields__) - SOMETIMES
    assert stored["created_at"].endswith("Z")
    assert len(stored["created_at"]) == len("2026-01-01T00:00:00.000000Z")
    assert [memory["id"] for memory in body["similar_memories"]] == [first["id"]]
    assert 0.5 <= body["similar_memories"][0]["similarity"] < 1.0
    assert body["command_id"]


@pytest.mark.promise("MT-1")
async def test_identical_content_twice_is_two_memories_and_the_twin_is_reported(agent: Agent) -> None:
    first = await agent.store("The deploy key lives in the vault")
    body = await agent.call("store_memory", content="The deploy key lives in the vault")
    assert body["stored"]["id"] != first["id"]
    (twin,) = body["similar_memories"]
    assert twin["id"] == first["id"]
    assert twin["similarity"] == pytest.approx(1.0, abs=1e-3)
    assert body["notice"].startswith(f"Kept already, word for word, as {first['id']}")
    assert "notice" not in await agent.call("store_memory", content="The deploy key lives in the vault, they say")
    again = await agent.call("restore_memory", memory_id=first["id"])
    assert again["notice"] == "It was neither archived nor replaced: nothing has changed."


@pytest.mark.promise("MT-3", "MT-15", "MT-6", "MT-7")
@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_contradiction_is_seen_at_the_store_superseded_and_gone_everywhere(stage: Stage, era: str) -> None:
    async with agent_of(await stage.gateway(), era=era) as agent:
        old = await agent.store("The office Wi-Fi password is swordfish")
        body = await agent.call("store_memory", content="The office Wi-Fi password is now octopus")
        new = body["stored"]
        assert [memory["id"] for memory in body["similar_memories"]] == [old["id"]]

        superseded = await agent.call("supersede_memory", old_memory_id=old["id"], new_memory_id="@stored")

        assert superseded["status"] == "superseded"
        assert superseded["old"]["superseded_by"] == new["id"]
        assert superseded["new"]["supersedes"] == old["id"]
        assert await agent.found("office Wi-Fi password swordfish") == [new["content"]]
        assert await agent.found("office Wi-Fi password swordfish", ranking="similarity") == [new["content"]]
        assert await agent.recent() == [new["content"]]
        again = await agent.call("store_memory", content="The office Wi-Fi password is swordfish or octopus")
        assert [memory["id"] for memory in again["similar_memories"]] == [new["id"]]
        kept = await agent.call("get_memory", memory_id=old["id"])
        assert kept["memory"]["superseded_by"] == new["id"]
        links = (await agent.call("get_memory", memory_id=new["id"]))["links"]
        assert [link["relation"] for link in links if link["memory_id"] == old["id"]] in ([], ["supersedes"])
        both = await agent.found("office Wi-Fi password", include_superseded=True)
        assert old["content"] in both


@pytest.mark.promise("MT-4")
async def test_a_search_gives_five_unless_asked_best_first_and_nothing_from_nothing(agent: Agent) -> None:
    assert await agent.search("anything at all") == []
    for number in range(8):
        await agent.store(f"Kettle number {number} stands in the blue kitchen")
    five = await agent.search("Which kettle stands in the blue kitchen?")
    three = await agent.search("Which kettle stands in the blue kitchen?", limit=3)
    assert len(five) == 5
    assert len(await agent.search("Which kettle stands in the blue kitchen?", limit=50)) == 8
    assert [memory["id"] for memory in three] == [memory["id"] for memory in five[:3]]
    scores = [memory["score"] for memory in five]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.promise("MT-17", "QP-14")
@pytest.mark.parametrize("writers", [8, pytest.param(64, marks=pytest.mark.long)])
async def test_writers_at_once_each_find_what_they_were_told_is_stored(stage: Stage, writers: int) -> None:
    services = [await stage.gateway() for _ in range(2)]
    misses = []

    async def write_then_read(number: int) -> None:
        async with agent_of(services[number % 2], principal=f"agent {number}") as agent:
            word = f"quokka{number:03}x"
            stored = await agent.store(f"The secret word of writer {number} is {word}")
            by_text = [memory["id"] for memory in await agent.search(word, limit=50)]
            by_vector = [
                memory["id"]
                for memory in await agent.search(stored["content"], ranking="similarity", limit=50)
                if memory["content"] == stored["content"]
            ]
            recent = await agent.call("get_memory", memory_id=stored["id"])
            if stored["id"] not in by_text or stored["id"] not in by_vector or recent["status"] != "success":
                misses.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(writers):
            group.create_task(write_then_read(number))
    assert misses == []


@pytest.mark.promise("MT-19")
async def test_forgetting_hides_erasing_removes_and_restoring_undoes(agent: Agent) -> None:
    memory = await agent.store("The spare key is under the flowerpot")
    other = await agent.store("The spare key is with the neighbour")

    assert (await agent.call("forget_memory", memory_id=memory["id"], reason="unsafe"))["status"] == "archived"
    assert await agent.found("spare key") == [other["content"]]
    assert (await agent.call("get_memory", memory_id=memory["id"]))["memory"]["state"] == "archived"
    assert (await agent.call("restore_memory", memory_id=memory["id"]))["memory"]["state"] == "active"
    assert sorted(await agent.found("spare key")) == sorted([memory["content"], other["content"]])

    await agent.call("supersede_memory", old_memory_id=memory["id"], new_memory_id=other["id"])
    assert await agent.found("spare key") == [other["content"]]
    assert (await agent.call("restore_memory", memory_id=memory["id"]))["memory"]["superseded_by"] is None
    assert sorted(await agent.found("spare key")) == sorted([memory["content"], other["content"]])

    assert (await agent.call("forget_memory", memory_id=memory["id"], erase=True))["status"] == "erased"
    assert await agent.call("get_memory", memory_id=memory["id"]) == {
        "memory": None,
        "status": "not_found",
        **missing(Thing.MEMORY),
    }
    assert await agent.found("spare key", include_superseded=True) == [other["content"]]
    assert (await agent.call("restore_memory", memory_id=memory["id"]))["status"] == "not_found"
    assert (await agent.call("forget_memory", memory_id=memory["id"]))["status"] == "not_found"
