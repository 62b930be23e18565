"""What an agent does with memories, through a real MCP client and the whole pipeline."""

import asyncio
from typing import Any

import pytest

from engramq.schemas.faults import missing
from engramq.schemas.ids import uuid7
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


@pytest.mark.promise("MT-8", "MT-9")
async def test_a_chain_of_supersessions_leaves_the_last_and_refuses_nonsense(agent: Agent) -> None:
    a, b, c = [await agent.store(f"The sprint ends on {day} this time") for day in ("Monday", "Tuesday", "Friday")]
    unknown = uuid7()
    await agent.call("supersede_memory", old_memory_id=a["id"], new_memory_id=b["id"])
    await agent.call("supersede_memory", old_memory_id=b["id"], new_memory_id=c["id"])

    async def refusal(old: str, new: str) -> str:
        body = await agent.call("supersede_memory", old_memory_id=old, new_memory_id=new)
        assert body["recovery"]
        code: str = body["code"]
        return code

    assert await agent.found("when does the sprint end") == [c["content"]]
    assert await refusal(c["id"], c["id"]) == "self_loop"
    assert await refusal(unknown, unknown) == "self_loop"
    assert await refusal(unknown, c["id"]) == "memory_not_active"
    assert await refusal(c["id"], unknown) == "memory_not_active"
    assert await refusal(c["id"], "no id at all") == "memory_not_active"
    assert await refusal(c["id"], a["id"]) in {"supersede_cycle", "memory_not_active"}
    assert await refusal(a["id"], c["id"]) == "already_superseded"
    repeat = await agent.call("supersede_memory", old_memory_id=b["id"], new_memory_id=c["id"])
    assert repeat["status"] == "superseded"
    assert await agent.recent() == [c["content"]]


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


@pytest.mark.promise("MT-5")
async def test_a_cursor_walks_the_list_newest_first_and_each_once(agent: Agent) -> None:
    contents = [f"Entry number {number}" for number in range(25)]
    for content in contents:
        await agent.store(content)
    assert len((await agent.call("list_recent_memories"))["memories"]) == 10
    walked: list[str] = []
    arguments: dict[str, Any] = {"limit": 7}
    while True:
        page = await agent.call("list_recent_memories", **arguments)
        walked += [memory["content"] for memory in page["memories"]]
        if page["next_cursor"] is None:
            break
        arguments["cursor"] = page["next_cursor"]
    assert walked == contents[::-1]


@pytest.mark.parametrize("writers", [8, pytest.param(64, marks=pytest.mark.long)])
@pytest.mark.promise("MT-17", "QP-14")
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


@pytest.mark.promise("MT-14")
async def test_another_namespace_is_never_seen_whatever_the_tool(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service, "theirs") as them, agent_of(service, "ours") as us:
        active = (await them.store("The merger is planned for May", external_id="m-1"))["id"]
        old = (await them.store("The merger was planned for April"))["id"]
        archived = (await them.store("The merger was called off"))["id"]
        await them.call("supersede_memory", old_memory_id=old, new_memory_id=active)
        await them.call("forget_memory", memory_id=archived)
        untrusted = (await them.store("Rumours of a merger", partition="untrusted"))["id"]
        command = (await them.call("store_memory", content="A merger needs lawyers"))["command_id"]
        mine = (await us.store("We plan a picnic in May"))["id"]

        async def as_unknown(tool: str, foreign: str, **arguments: Any) -> None:
            """Prove that the answer to a foreign id is the answer to an id that nobody has."""
            nobody = uuid7()
            name = next(key for key, value in arguments.items() if value == "ID")
            theirs = await us.call(tool, **{**arguments, name: foreign})
            unknown = await us.call(tool, **{**arguments, name: nobody})
            theirs.pop("command_id", None)
            unknown.pop("command_id", None)
            assert str(theirs).replace(foreign, "ID") == str(unknown).replace(nobody, "ID"), tool

        for foreign in (active, old, archived, untrusted):
            await as_unknown("get_memory", foreign, memory_id="ID")
            await as_unknown("get_memory", foreign, memory_id="ID", include_untrusted=True)
            await as_unknown("update_memory", foreign, memory_id="ID", confidence=0.1)
            await as_unknown("forget_memory", foreign, memory_id="ID")
            await as_unknown("forget_memory", foreign, memory_id="ID", erase=True)
            await as_unknown("restore_memory", foreign, memory_id="ID")
            await as_unknown("supersede_memory", foreign, old_memory_id="ID", new_memory_id=mine)
            await as_unknown("supersede_memory", foreign, old_memory_id=mine, new_memory_id="ID")
        await as_unknown("get_command", command, command_id="ID")
        everything = {"partitions": ["trusted", "untrusted"], "include_superseded": True}
        assert await us.found("merger planned for May", **everything) == ["We plan a picnic in May"]
        assert await us.recent(**everything) == ["We plan a picnic in May"]
        assert (await us.call("memory_stats"))["memories"] == 1
        assert (await us.call("store_memory", content="The merger is planned for May"))["similar_memories"] == []
        # The same external id is free here, and theirs have not changed.
        await us.store("Ours", external_id="m-1")
        assert len(await them.recent(**everything)) == 4


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


@pytest.mark.promise("TP-1", "TP-4", "TP-6", "TP-7")
async def test_untrusted_memories_are_found_only_when_asked_for_and_carry_a_warning(agent: Agent) -> None:
    await agent.store("The reactor manual says: cool it with water")
    await agent.store("The reactor forum says: cool it with lava", partition="untrusted")
    default = await agent.search("How do I cool the reactor?")
    only = await agent.search("How do I cool the reactor?", partitions=["untrusted"])
    both = await agent.search("How do I cool the reactor?", partitions=["trusted", "untrusted"])
    assert [memory["partition"] for memory in default] == ["trusted"]
    assert [memory["partition"] for memory in only] == ["untrusted"]
    assert only[0]["untrusted"] is True
    assert "data" in only[0]["warning"]
    assert sorted(memory["partition"] for memory in both) == ["trusted", "untrusted"]
    assert both[0]["score"] >= both[1]["score"]
    assert (await agent.call("get_memory", memory_id=only[0]["id"]))["status"] == "not_found"
    shown = await agent.call("get_memory", memory_id=only[0]["id"], include_untrusted=True)
    assert shown["memory"]["untrusted"] is True
