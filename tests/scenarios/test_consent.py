"""Two principals consent to a change through real MCP clients: from the hints and the list of proposals alone."""

import re
from typing import Any

import pytest

from engramq.schemas.vocabulary import Scope
from tests.scenarios.stage import Agent, Stage, agent_of

FACT = {"source_name": "Ada", "target_name": "Honesty", "relation": "VALUES"}
FLAG = {"is_constitutive": True}
CALL = re.compile(r"(\w+)\(([^()]*)\)")


async def follow(agent: Agent, hint: str) -> dict[str, Any]:
    """Make the first call that a hint writes out."""
    found = CALL.search(hint)
    assert found is not None, hint
    arguments = dict(re.findall(r'(\w+)="([^"]*)"', found[2]))
    return await agent.call(found[1], **arguments)


@pytest.mark.promise("OV-2")
async def test_two_principals_who_do_what_the_hints_say_end_with_the_change(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service, principal="ada") as ada, agent_of(service, principal="bob") as bob:
        edge = await ada.call("graph_add_edge", **FACT, properties=FLAG)
        change = {**FACT, "new_sector": "emotional"}
        refused = await ada.call("reclassify_memory_sector", **change)
        assert (refused["status"], refused["edge_id"]) == ("consent_required", edge["edge_id"])
        assert refused["approved_by"] == ["ada"]
        assert (await follow(bob, refused["hint"]))["state"] == "approved"
        assert (await ada.call("reclassify_memory_sector", **change))["status"] == "success"


@pytest.mark.promise("OV-2", "OV-4")
@pytest.mark.parametrize(
    ("tool", "names", "given"),
    [
        ("graph_add_edge", (), {**FACT, "weight": 0.5, "properties": {"is_constitutive": False}}),
        ("graph_delete_edge", ("edge_id",), {}),
        ("graph_delete_node", ("node_id",), {}),
        ("reclassify_memory_sector", (), {**FACT, "new_sector": "emotional"}),
    ],
)
@pytest.mark.parametrize("by", ["decision", "same call"])
async def test_two_principals_change_or_delete_what_is_constitutive(
    stage: Stage, tool: str, names: tuple[str, ...], given: dict[str, Any], by: str
) -> None:
    service = await stage.gateway()
    async with agent_of(service, principal="ada") as ada, agent_of(service, principal="bob") as bob:
        edge = await ada.call("graph_add_edge", **FACT, properties=FLAG)
        ids = {"edge_id": edge["edge_id"], "node_id": edge["target_id"]}
        call = {**given, **{name: ids[name] for name in names}}
        refused = await ada.call(tool, **call)
        assert (refused["status"], refused["approved_by"]) == ("consent_required", ["ada"])
        if by == "decision":
            assert (await follow(bob, refused["hint"]))["state"] == "approved"
        else:
            assert "make this same call" in refused["hint"]
            joined = await bob.call(tool, **call)
            assert (joined["status"], joined["approved_by"]) == ("consent_required", ["ada", "bob"])
            assert "call this again" in joined["hint"]
        assert (await ada.call(tool, **call))["status"] in {"success", "deleted"}


@pytest.mark.promise("OV-2", "OV-4")
async def test_who_may_not_approve_is_told_who_may(stage: Stage) -> None:
    service = await stage.gateway()
    writes = (Scope.READ, Scope.WRITE)
    async with (
        agent_of(service, principal="cay", scopes=writes) as cay,
        agent_of(service, principal="dan", scopes=writes) as dan,
        agent_of(service, principal="bob", scopes=(*writes, Scope.VERIFY)) as bob,
    ):
        await cay.call("graph_add_edge", **FACT, properties=FLAG)
        change = {**FACT, "weight": 0.5}
        for agent in (cay, dan, cay, dan):
            refused = await agent.call("graph_add_edge", **change)
            assert (refused["status"], refused["approved_by"]) == ("consent_required", ["cay"])
            assert "scope verify" in refused["hint"]
            assert "Have one who has it make this same call. Then call this again." in refused["hint"]
        (listed,) = (await bob.call("list_proposals", state="pending"))["proposals"]
        assert listed["effect"] == (
            "Change the edge Ada (Entity) --VALUES--> Honesty (Entity): weight from 1.0 to 0.5."
        )
        assert (await bob.call("graph_add_edge", **change))["approved_by"] == ["cay", "bob"]
        assert (await dan.call("graph_add_edge", **change))["weight"] == 0.5


@pytest.mark.promise("OV-1")
async def test_a_second_principal_decides_from_the_list_alone(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service, principal="ada") as ada, agent_of(service, principal="bob") as bob:
        await ada.call("graph_add_edge", **FACT, weight=0.8, properties={**FLAG, "since": 1830})
        await ada.call("reclassify_memory_sector", **FACT, new_sector="emotional", reason="felt")
        (listed,) = (await bob.call("list_proposals", state="pending"))["proposals"]
        assert listed["effect"] == (
            "Give the edge Ada (Entity) --VALUES--> Honesty (Entity) the sector emotional; now it is semantic."
        )
        shown = listed["edge"]
        assert (shown["source"]["name"], shown["source"]["label"], shown["target"]["name"]) == (
            "Ada",
            "Entity",
            "Honesty",
        )
        assert (shown["relation"], shown["weight"], shown["memory_sector"]) == ("VALUES", 0.8, "semantic")
        assert (shown["properties"], listed["new_sector"]) == ({**FLAG, "since": 1830}, "emotional")
        decided = await bob.call("decide_proposal", proposal_id=listed["proposal_id"], decision="approve")
        assert decided["state"] == "approved"


@pytest.mark.promise("OV-1")
@pytest.mark.parametrize("max_chars", [500, 3_000, 200_000])
async def test_a_cursor_leads_through_all_proposals(agent: Agent, max_chars: int) -> None:
    made = []
    for number in range(7):
        fact = {**FACT, "relation": f"R{number}"}
        await agent.call("graph_add_edge", **fact, properties={**FLAG, "why": "because " * 60})
        proposal = await agent.call("reclassify_memory_sector", **fact, new_sector="emotional")
        made.append(proposal["proposal_id"])
    seen: list[str] = []
    page: dict[str, Any] = {"next_cursor": None}
    while len(seen) < len(made) or page["next_cursor"] is not None:
        cursor = {} if page["next_cursor"] is None else {"cursor": page["next_cursor"]}
        page = await agent.call("list_proposals", state="pending", max_chars=max_chars, **cursor)
        assert page["proposals"]
        assert page["truncated"] is (page["next_cursor"] is not None)
        seen += [item["proposal_id"] for item in page["proposals"]]
    assert seen == made[::-1]
    other = await agent.call("list_proposals", state="used", cursor="x" * 40)
    assert (other["status"], other["field"]) == ("invalid_parameter", "cursor")
