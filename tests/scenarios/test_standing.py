"""Standing wishes, from the store to the list and beside hits, through the whole pipeline."""

from typing import Any

import pytest

from tests.scenarios.stage import Agent, Stage, agent_of, until, with_settings

pytestmark = pytest.mark.promise("PR-6")

WISH = "Always quote prices in euros when I ask about flights."
SELDOM = "From now on, write commit messages in the imperative."
PLAIN = (
    "The flight to Oslo leaves at nine",
    "Nadia prefers tea to coffee",
    "I've never been to Norway, what is it like?",
)
QUESTION = "What does a flight to Oslo cost?"


async def listed(agent: Agent, **arguments: Any) -> dict[str, str]:
    """Return the sources of standing wishes by content."""
    wishes = (await agent.call("list_standing", **arguments))["memories"]
    assert all(wish["standing"] for wish in wishes)
    return {wish["content"]: wish["standing_source"] for wish in wishes}


async def besides(agent: Agent, query: str, **arguments: Any) -> list[str]:
    body = await agent.call("search_memories", query=query, limit=1, **arguments)
    return [wish["preview"] for wish in body.get("standing", [])]


@with_settings(embedder="minilm")
@pytest.mark.long
async def test_wishes_are_recognised_listed_told_beside_hits_and_ended(agent: Agent) -> None:
    wish, seldom = await agent.store(WISH), await agent.store(SELDOM, sector="procedural")
    plain = [await agent.store(content) for content in PLAIN]
    echo = await agent.store(WISH.replace("euros", "pounds"), speaker="assistant")
    await agent.store(WISH.replace("euros", "yen"), source_type="research")

    async def are_recognised() -> bool:
        return await listed(agent) == {SELDOM: "auto", WISH: "auto"}

    await until(are_recognised)

    async def is_looked_at() -> bool:
        (page,) = (await agent.call("list_recent_memories", partitions=["untrusted"]))["memories"]
        return page["sector_source"] is not None

    await until(is_looked_at)
    known = await listed(agent, include_untrusted=True)
    assert known == {SELDOM: "auto", WISH: "auto"}, "what was looked up is nobody's wish"
    for memory in (*plain, echo):
        found = (await agent.call("get_memory", memory_id=memory["id"]))["memory"]
        assert (found["standing"], found["standing_source"]) == (None, None)
    for _ in range(4):  # from the tables, and from a copy of the namespace
        assert WISH in await besides(agent, QUESTION)
    assert await agent.found("How do I write this commit message?", limit=1) == [SELDOM]
    assert await besides(agent, "How do I write this commit message?") == []  # it is the hit

    new = await agent.store("Always quote prices in kroner when I ask about flights.", standing=True)
    await agent.call("supersede_memory", old_memory_id=wish["id"], new_memory_id=new["id"])
    await agent.call("forget_memory", memory_id=seldom["id"])
    assert await listed(agent) == {new["content"]: "given"}
    assert await besides(agent, QUESTION) == [new["content"]]
    await agent.call("update_memory", memory_id=new["id"], expires_at="2020-01-01")
    assert await listed(agent) == {}
    assert await besides(agent, QUESTION) == []


async def test_somebody_may_say_what_is_a_wish_and_take_it_back(agent: Agent) -> None:
    none, wish = await agent.store(WISH, standing=False), await agent.store(PLAIN[0], standing=True)
    rows = [{"content": "Blue is best", "standing": True, "external_id": "blue"}]
    await agent.call("import_memories", records=rows)
    assert await listed(agent) == {"Blue is best": "given", PLAIN[0]: "given"}
    await agent.call("update_memory", memory_id=wish["id"], standing=False)
    assert await listed(agent) == {"Blue is best": "given"}
    await agent.call("update_memory", memory_id=none["id"], clear=["standing"])

    async def is_recognised() -> bool:  # by its words again, without a vector of the bundled model
        return (await listed(agent)).get(WISH) == "auto"

    await until(is_recognised)


async def test_wishes_of_other_languages_are_recognised_and_questions_are_none(agent: Agent) -> None:
    wishes = "Antworte immer auf Deutsch", "Réponds toujours en français", "Usa siempre comillas dobles"
    others = "Do you always answer in German?", "Der Server ist immer langsam am Montag", "Pierre préfère le thé"
    for content in (*others, *wishes):
        await agent.store(content)

    async def are_recognised() -> bool:
        return await listed(agent) == dict.fromkeys(wishes, "auto")

    await until(are_recognised)
    assert wishes[0] in await besides(agent, others[1])
    kept = await agent.store(others[0], standing=True)
    assert kept["standing"]
    assert others[0] not in await besides(agent, others[1]), "a question that somebody keeps as a wish stands nowhere"


async def test_an_untrusted_wish_is_told_only_where_that_is_asked_for(agent: Agent) -> None:
    wish = await agent.store(WISH, source_type="research", standing=True)
    assert await listed(agent) == {}
    for partitions in (["trusted"], ["untrusted"], ["trusted", "untrusted"]):
        assert await besides(agent, WISH, partitions=partitions) == []
    assert await listed(agent, include_untrusted=True) == {WISH: "given"}
    await agent.call("verify_memory", memory_id=wish["id"], verification="verified")
    await agent.call("memory_promote_to_trusted", memory_id=wish["id"])
    assert await listed(agent) == {WISH: "given"}


async def test_a_wish_of_another_project_is_not_told(agent: Agent) -> None:
    await agent.store(WISH, standing=True, project="rover")
    await agent.store(PLAIN[0])
    assert (await listed(agent), await besides(agent, WISH)) == ({}, [])
    assert await listed(agent, project="rover") == {WISH: "given"}


async def test_a_wish_of_another_writer_has_a_name_until_somebody_verifies_it(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service, "team", "ada") as ada, agent_of(service, "team", "bob") as bob:
        theirs = (await bob.store(WISH, standing=True))["id"]
        mine = (await ada.store(SELDOM, standing=True))["id"]
        await ada.store(PLAIN[0], tags=["plain"])

        async def writers() -> dict[str, str | None]:
            found = dict[str, str | None]()
            for query in (WISH, SELDOM):
                body = await ada.call("search_memories", query=query, tags=["plain"], min_relevance=0)
                found |= {wish["id"]: wish.get("by") for wish in body["standing"]}
            return found

        assert await writers() == {theirs: "bob", mine: None}
        known = {
            wish["id"]: wish.get("created_by") for wish in (await ada.call("list_standing", detail="brief"))["memories"]
        }
        assert known == {theirs: "bob", mine: None}, "in brief a memory names its writer where that is another"
        await ada.call("verify_memory", memory_id=theirs, verification="verified")
        assert await writers() == {theirs: None, mine: None}
