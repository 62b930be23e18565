"""The list of the newest memories as a queue for reviewers: by what is known of a memory, hidden or not."""

from typing import Any

import pytest

from tests.scenarios.stage import Agent, Stage, agent_of


@pytest.mark.promise("OV-14")
async def test_forgotten_and_rejected_memories_are_found_again(agent: Agent) -> None:
    kept, forgotten, rejected, both = [
        (await agent.store(f"The {name} fact"))["id"] for name in ("kept", "forgotten", "rejected", "doubly hidden")
    ]
    for item in (forgotten, both):
        await agent.call("forget_memory", memory_id=item)
    for item in (rejected, both):
        await agent.call("verify_memory", memory_id=item, verification="rejected")

    async def listed(**filters: Any) -> list[str]:
        page = await agent.call("list_recent_memories", **filters)
        return [memory["id"] for memory in page["memories"]]

    assert await listed() == [kept]
    assert await listed(states=[], verifications=[]) == [kept]
    assert await listed(states=["archived"]) == [forgotten]
    assert await listed(verifications=["rejected"]) == [rejected]
    assert await listed(states=["archived"], verifications=["rejected"]) == [both]
    every = {"states": ["pending", "active", "archived"], "verifications": ["unverified", "rejected"]}
    assert await listed(**every) == [both, rejected, forgotten, kept]
    assert await listed(states=["active"], verifications=["unverified", "unverified"]) == [kept]

    restored = await agent.call("restore_memory", memory_id=(await listed(states=["archived"]))[0])
    assert restored["memory"]["content"] == "The forgotten fact"
    assert await listed() == [forgotten, kept]


@pytest.mark.promise("OV-14")
async def test_a_replaced_memory_that_was_forgotten_takes_both_words(agent: Agent) -> None:
    old, new = await agent.store("The stand-up is at 9"), await agent.store("The stand-up is at 10")
    await agent.call("supersede_memory", old_memory_id=old["id"], new_memory_id=new["id"])
    await agent.call("forget_memory", memory_id=old["id"])
    assert await agent.recent(states=["archived"]) == []
    assert await agent.recent(include_superseded=True) == [new["content"]]
    assert await agent.recent(states=["archived"], include_superseded=True) == [old["content"]]


@pytest.mark.promise("OV-13")
async def test_a_list_is_narrowed_by_what_is_known_of_a_memory(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service) as agent, agent_of(service, principal="bob") as bob:
        first = await agent.store("In a thread", thread="t1", position=1)
        await agent.store("In another thread", thread="t2")
        await agent.store("With an id", external_id="note-1")
        await bob.store("By bob")
        research = await bob.store("From the web", source_type="research")
        untrusted = {"partitions": ["trusted", "untrusted"]}

        assert await agent.recent(thread="t1") == ["In a thread"]
        assert await agent.recent(external_id="note-1") == ["With an id"]
        assert await agent.recent(external_id="note-2") == []
        assert await agent.recent(created_by="bob") == ["By bob"]
        assert await agent.recent(created_by="bob", **untrusted) == ["From the web", "By bob"]
        assert await agent.recent(source_type="research", **untrusted) == ["From the web"]
        assert await agent.recent(source_type="research") == []
        await agent.call("verify_memory", memory_id=research["id"], verification="verified")
        assert await agent.recent(verifications=["verified"], **untrusted) == ["From the web"]
        await agent.call("verify_memory", memory_id=first["id"], verification="approved")
        assert await agent.recent(verifications=["verified", "approved"]) == ["In a thread"]
        assert await agent.recent(verifications=["approved"], thread="t2") == []


@pytest.mark.promise("OV-13", "OV-14")
async def test_a_cursor_walks_the_archive_and_no_other_list(agent: Agent) -> None:
    ids = [(await agent.store(f"Entry {number}"))["id"] for number in range(5)]
    for item in ids[:4]:
        await agent.call("forget_memory", memory_id=item)
    arguments: dict[str, Any] = {"states": ["archived"], "limit": 2}
    page = await agent.call("list_recent_memories", **arguments)
    rest = await agent.call("list_recent_memories", **arguments, cursor=page["next_cursor"])
    assert [memory["id"] for memory in page["memories"] + rest["memories"]] == ids[3::-1]
    assert rest["next_cursor"] is None
    for other in ({}, {"states": ["archived", "active"]}, {**arguments, "verifications": ["unverified"]}):
        assert await agent.refusal_of("list_recent_memories", **{**other, "cursor": page["next_cursor"]}) == "cursor"


@pytest.mark.promise("OV-13")
async def test_a_filter_that_means_nothing_is_refused_by_name(agent: Agent) -> None:
    wrong: dict[str, Any] = {"states": ["forgotten"], "verifications": "sure", "thread": " "}
    for name, value in wrong.items():
        assert await agent.refusal_of("list_recent_memories", **{name: value}) == name
