"""Emptying what is said about a memory."""

import pytest

from engramq.schemas.commands import UpdateMemory
from engramq.schemas.faults import EngramqError
from tests.scenarios.conftest import agent, settings, stage
from tests.scenarios.stage import Agent
from tests.workers.conftest import World

__all__ = ["agent", "settings", "stage"]


@pytest.mark.promise("OV-16")
async def test_fields_and_keys_of_metadata_are_cleared(agent: Agent, world: World) -> None:
    stored = await agent.store(
        "The pump is blue", speaker="Zenzi", thread="pumps", position=3, occurred_at="2026-01-31T09:00:00Z",
        metadata={"wrong": 1, "right": 2},
    )  # fmt: skip
    assert len(await agent.search("Zenzi")) == 1
    given = {"memory_id": stored["id"], "clear": ["speaker", "thread", "wrong", "unknown"]}
    body = await agent.call("update_memory", **given, metadata={"new": 3})
    memory = body["memory"]
    assert (memory["speaker"], memory["thread"], memory["position"]) == (None, None, 3)
    assert memory["metadata"] == {"right": 2, "new": 3}
    lexemes = "select 1 from memories where lexemes::text like '%%zenzi%%'"
    assert world.rows(lexemes) == []
    body = await agent.call("update_memory", memory_id=stored["id"], clear=["metadata", "occurred_at", "position"])
    memory = body["memory"]
    assert (memory["metadata"], memory["occurred_at"], memory["position"]) == ({}, None, None)
    told = [row["new"] for row in world.rows("select new from audit_log order by id")]
    assert told[0]["cleared"] == ["speaker", "thread"]
    assert "wrong" not in str(told)


@pytest.mark.promise("OV-16")
async def test_what_is_given_cannot_be_cleared_too(agent: Agent) -> None:
    stored = await agent.store("The pump is blue", speaker="Ada")
    refused = await agent.call("update_memory", memory_id=stored["id"], speaker="Bob", clear=["speaker"])
    assert (refused["status"], refused["field"]) == ("invalid_parameter", "clear")
    assert (await agent.call("get_memory", memory_id=stored["id"]))["memory"]["speaker"] == "Ada"


@pytest.mark.promise("OV-16")
@pytest.mark.parametrize("name", ["content", "sector", "confidence", "external_id"])
async def test_what_is_never_empty_is_refused_by_name(name: str) -> None:
    with pytest.raises(EngramqError) as refused:
        UpdateMemory(memory_id="m", clear=(name,)).check()
    assert (refused.value.fault.field, name in refused.value.fault.error) == ("clear", True)
