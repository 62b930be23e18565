"""The audit log as administrators read it: by a tool and by a command."""

import json
from typing import Any

import pytest

from engramq.schemas.commands import Verified, VerifyMemory
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import Scope, Verification
from tests.scenarios.stage import Agent, Stage, agent_of
from tests.terminal import Terminal, terminal
from tests.workers.conftest import World

__all__ = ["terminal"]


async def eventful(agent: Agent) -> tuple[str, str, str]:
    """Return a memory to which all happens that is audited, one that shares it, and one to which nothing happens."""
    ada, bob, other = [(await agent.store(name))["id"] for name in ("Ada is here", "Bob is gone", "Nothing happens")]
    await agent.call("connect", source=bob, target=ada, relation="supports")
    await agent.call("record_outcome", memory_ids=[ada], signal=0.9, note="it helped")
    await agent.call("disconnect", source=ada, target=bob, reason="a mistake")
    await agent.call("verify_memory", memory_id=ada, verification="verified", reason="seen")
    await agent.call("supersede_memory", old_memory_id=bob, new_memory_id=ada)
    return ada, bob, other


EXPECTED = ["supersede", "verify", "disconnect", "outcome", "connect"]


def actions(body: dict[str, Any]) -> list[str]:
    return [entry["action"] for entry in body["entries"]]


@pytest.mark.promise("OV-10")
async def test_the_entries_of_a_memory_have_its_links_and_outcomes(agent: Agent, terminal: Terminal) -> None:
    ada, bob, other = await eventful(agent)
    await agent.call("forget_memory", memory_id=other, reason="done")
    body = await agent.call("audit", target=ada)
    assert actions(body) == EXPECTED
    assert body["next_cursor"] is None
    assert [entry["reason"] for entry in body["entries"]] == [None, "seen", "a mistake", "it helped", None]
    assert actions(await agent.call("audit", target=bob)) == ["supersede", "disconnect", "connect"]
    assert actions(await agent.call("audit", target=other)) == ["archive"]
    told = await terminal.entries("--target", ada)
    assert [{name: entry[name] for name in body["entries"][0]} for entry in told] == body["entries"][::-1]
    for unknown in (uuid7(), "no id"):
        assert actions(await agent.call("audit", target=unknown)) == []


@pytest.mark.promise("OV-10")
async def test_the_entries_of_a_node_have_its_edges(agent: Agent) -> None:
    edge = await agent.call("graph_add_edge", source_name="Ada", target_name="Engine", relation="DESIGNED")
    await agent.call("graph_add_edge", source_name="Ada", target_name="Engine", relation="DESIGNED", weight=0.5)
    for target in (edge["edge_id"], edge["source_id"], edge["target_id"]):
        assert actions(await agent.call("audit", target=target)) == ["update_edge"], target
    await agent.call("graph_delete_edge", edge_id=edge["edge_id"], reason="false")
    for target in (edge["edge_id"], edge["source_id"], edge["target_id"]):
        found = actions(await agent.call("audit", target=target))
        assert found[0] == "delete_edge", target


@pytest.mark.promise("OV-10")
async def test_entries_are_chosen_by_actor_action_and_time(agent: Agent, stage: Stage) -> None:
    await eventful(agent)
    async with agent_of(await stage.gateway(), principal="bob") as bob:
        await eventful(bob)
        assert actions(await agent.call("audit", actor="bob")) == EXPECTED
        mine = await agent.call("audit", actor="I/O", action="verify")
        assert [(entry["actor"], entry["action"]) for entry in mine["entries"]] == [("I/O", "verify")]
        everything = (await agent.call("audit"))["entries"]
        assert len(everything) == 2 * len(EXPECTED)
        at = everything[4]["at"]
        since = (await agent.call("audit", since=at))["entries"]
        until = (await agent.call("audit", until=at))["entries"]
        assert (since, until) == (everything[:5], everything[4:])
        refused = await agent.call("audit", action="dance")
        assert (refused["status"], refused["field"]) == ("invalid_parameter", "action")
        assert "supersede" in refused["recovery"]


@pytest.mark.promise("OV-10")
async def test_a_cursor_shows_every_entry_once_whatever_comes_meanwhile(agent: Agent) -> None:
    await eventful(agent)
    whole = (await agent.call("audit"))["entries"]
    pages: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        body = await agent.call("audit", limit=2, **cursor)
        pages += body["entries"]
        if body["next_cursor"] is None:
            break
        cursor = {"cursor": body["next_cursor"]}
        await eventful(agent)
    assert pages == whole
    for wrong in ("nonsense", "1"):
        assert (await agent.call("audit", cursor=wrong))["field"] == "cursor"


@pytest.mark.promise("OV-10", "AG-4")
async def test_a_page_that_is_too_long_ends_early_and_goes_on_there(agent: Agent, world: World) -> None:
    memory_id = (await agent.store("much reviewed"))["id"]
    for number in range(12):
        command = VerifyMemory(memory_id=memory_id, verification=Verification.VERIFIED, reason=f"{number} {'x ' * 200}")
        await world.ask(Verified, command)
    first = await agent.call("audit", max_chars=3_000)
    shown = len(first["entries"])
    assert 0 < shown < 12
    assert first["omitted"] == 12 - shown
    assert len(json.dumps(first, separators=(",", ":"))) <= 3_000
    rest = await agent.call("audit", cursor=first["next_cursor"])
    assert [entry["reason"].split()[0] for entry in rest["entries"]] == [
        str(item) for item in range(11 - shown, -1, -1)
    ]


@pytest.mark.promise("OV-10")
async def test_who_lacks_the_scope_is_refused(stage: Stage) -> None:
    scopes = tuple(item for item in Scope if item is not Scope.ADMIN)
    async with agent_of(await stage.gateway(), scopes=scopes) as agent:
        assert (await agent.call("audit"))["code"] == "forbidden"


@pytest.mark.promise("OV-10")
async def test_another_namespace_has_entries_of_its_own(stage: Stage, agent: Agent) -> None:
    ada, *_ = await eventful(agent)
    async with agent_of(await stage.gateway(), namespace="elsewhere") as other:
        assert (await other.call("audit"))["entries"] == []
        assert (await other.call("audit", target=ada))["entries"] == []
