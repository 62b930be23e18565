"""Tags: given with a memory, changed later, and filtered by."""

import pytest

from tests.scenarios.stage import Agent

pytestmark = pytest.mark.promise("OV-15")

BREW = "Ada brews tea for the team"


async def test_a_search_and_a_list_filter_by_all_of_the_tags(agent: Agent) -> None:
    both = await agent.store(f"{BREW} on Monday", tags=["tea", "kitchen", "tea"])
    one = await agent.store(f"{BREW} on Tuesday", tags=["tea"])
    none = await agent.store(f"{BREW} on Friday")
    assert (both["tags"], one["tags"], none["tags"]) == (["tea", "kitchen"], ["tea"], [])
    for _ in range(3):  # in the tables first, then in the copy of the namespace
        assert set(await agent.found(BREW, tags=["tea"])) == {both["content"], one["content"]}
        assert await agent.found(BREW, tags=["kitchen", "tea", "tea"]) == [both["content"]]
        assert await agent.found(BREW, tags=["kitchen", "tea"], ranking="similarity") == [both["content"]]
        assert len(await agent.found(BREW, tags=[])) == 3
    assert await agent.recent(tags=["tea"]) == [one["content"], both["content"]]
    assert await agent.recent(tags=["tea", "kitchen"]) == [both["content"]]
    assert len(await agent.recent(tags=[])) == 3
    await agent.call("forget_memory", memory_id=both["id"])
    assert await agent.recent(tags=["kitchen"]) == []
    assert await agent.recent(tags=["kitchen"], states=["archived"]) == [both["content"]]


async def test_tags_are_added_and_taken_off_and_the_next_search_knows(agent: Agent) -> None:
    stored = await agent.store(BREW, tags=["tea", "cups"])
    for _ in range(3):
        assert await agent.found(BREW, tags=["tea"]) == [BREW]
    updated = await agent.call(
        "update_memory", memory_id=stored["id"], add_tags=["green", "cups", "green"], remove_tags=["tea", "unknown"]
    )
    assert updated["memory"]["tags"] == ["cups", "green"]
    assert updated["memory"]["content"] == BREW
    assert await agent.found(BREW, tags=["tea"]) == []
    assert await agent.found(BREW, tags=["cups", "green"]) == [BREW]
    emptied = await agent.call("update_memory", memory_id=stored["id"], remove_tags=["cups", "green"])
    assert emptied["memory"]["tags"] == []
    other = await agent.call("update_memory", memory_id=stored["id"], add_tags=["black"], confidence=0.5)
    kept = await agent.call("update_memory", memory_id=stored["id"], confidence=0.6)
    assert (other["memory"]["tags"], kept["memory"]["tags"]) == (["black"], ["black"])


async def test_tags_are_compared_without_case_and_outer_blanks_and_shown_as_first_written(agent: Agent) -> None:
    stored = await agent.store(BREW, tags=["Work ", "work", " WORK", "Über"])
    assert stored["tags"] == ["Work", "Über"]
    for _ in range(3):  # in the tables first, then in the copy of the namespace
        for tag in ("work", "WORK", " Work\t", "über", "ÜBER"):
            assert await agent.found(BREW, tags=[tag]) == [BREW]
        assert await agent.found(BREW, tags=["works"]) == []
    assert await agent.recent(tags=["wORK", "über "]) == [BREW]
    added = await agent.call("update_memory", memory_id=stored["id"], add_tags=["WORK", "tea"])
    assert added["memory"]["tags"] == ["Work", "Über", "tea"]
    taken = await agent.call("update_memory", memory_id=stored["id"], remove_tags=["work ", "TEA"])
    assert taken["memory"]["tags"] == ["Über"]


async def test_a_brief_reply_shows_tags_and_project_where_there_are_any(agent: Agent) -> None:
    await agent.store(BREW, tags=["tea"], project="kitchen")
    await agent.store("Nothing about anything")
    page = await agent.call("list_recent_memories", detail="brief", project="kitchen")
    bare, full = page["memories"]
    assert (full["tags"], full["project"]) == (["tea"], "kitchen")
    assert not {"tags", "project"} & set(bare)


async def test_fifty_tags_are_kept_and_a_repeated_one_counts_once(agent: Agent) -> None:
    fifty = [f"{number} é" + "x" * 250 for number in range(10, 60)]
    stored = await agent.store(BREW, tags=[*fifty, *fifty])
    assert stored["tags"] == fifty
    more = await agent.call("update_memory", memory_id=stored["id"], add_tags=["one more"])
    assert (more["status"], more["field"]) == ("invalid_parameter", "add_tags")
    changed = await agent.call("update_memory", memory_id=stored["id"], add_tags=["one more"], remove_tags=fifty[:1])
    assert changed["memory"]["tags"] == [*fifty[1:], "one more"]
    assert await agent.found(BREW, tags=[*fifty[1:], "one more"]) == [BREW]
