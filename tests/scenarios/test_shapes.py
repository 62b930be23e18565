"""What is not there, and links, as an agent reads them from every tool, and the promised shape whatever is sent."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from engramq.gateway.identity.authorization import local_caller
from engramq.gateway.service import Call, Service
from engramq.schemas.commands import TOOLS, Tool
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import Thing
from tests.gateway.fitting import calls
from tests.gateway.replies import check_reply
from tests.scenarios.stage import Agent, Stage

NOTHING = uuid7()
TRIPLE = {"source_name": "Nemo", "target_name": "Nautilus", "relation": "COMMANDS"}
ABSENT: list[tuple[str, dict[str, Any], Thing, str]] = [
    ("get_memory", {"memory_id": NOTHING}, Thing.MEMORY, "search_memories"),
    ("update_memory", {"memory_id": NOTHING, "speaker": "Ada"}, Thing.MEMORY, "search_memories"),
    ("forget_memory", {"memory_id": NOTHING}, Thing.MEMORY, "search_memories"),
    ("forget_memory", {"memory_id": "no id", "erase": True}, Thing.MEMORY, "search_memories"),
    ("restore_memory", {"memory_id": NOTHING}, Thing.MEMORY, "search_memories"),
    ("verify_memory", {"memory_id": NOTHING, "verification": "verified"}, Thing.MEMORY, "search_memories"),
    ("verify_memory", {"memory_id": "no id", "verification": "verified"}, Thing.MEMORY, "search_memories"),
    ("get_node_by_name", {"name": "Nemo"}, Thing.NODE, "graph_add_node"),
    ("graph_list_edges", {"node_name": "Nemo"}, Thing.NODE, "get_node_by_name"),
    ("graph_list_edges", {"edge_id": NOTHING}, Thing.EDGE, "node_name"),
    ("graph_query_neighbors", {"node_name": "Nemo"}, Thing.NODE, "get_node_by_name"),
    ("graph_find_path", {"start_node": "Nemo", "end_node": "Ned"}, Thing.NODE, "get_node_by_name"),
    ("graph_delete_edge", {"edge_id": NOTHING}, Thing.EDGE, "graph_list_edges"),
    ("graph_delete_node", {"node_id": NOTHING}, Thing.NODE, "get_node_by_name"),
    ("reclassify_memory_sector", {**TRIPLE, "new_sector": "episodic"}, Thing.EDGE, "graph_list_edges"),
    ("reclassify_memory_sector", {**TRIPLE, "new_sector": "episodic", "edge_id": NOTHING}, Thing.EDGE, "edge_id"),
    ("decide_proposal", {"proposal_id": NOTHING, "decision": "approve"}, Thing.PROPOSAL, "list_proposals"),
    ("guide", {"topic": "the sea"}, Thing.TOPIC, "topics"),
]


@pytest.mark.promise("OV-11")
async def test_every_tool_says_alike_what_is_not_there(agent: Agent) -> None:
    for tool, arguments, what, step in ABSENT:
        body = await agent.call(tool, **arguments)
        assert (tool, body["status"], body["what"]) == (tool, "not_found", what)
        assert step in body["hint"], tool
    edge = await agent.call("get_edge", **TRIPLE)
    assert edge == {"edge": None, "status": "not_found"}
    link = await agent.call("disconnect", source=NOTHING, target=uuid7())
    assert (link["action"], link["what"]) == ("not_found", "link")
    assert "get_memory" in link["hint"]


@pytest.mark.promise("OV-11")
async def test_found_things_say_nothing_of_what_is_missing(agent: Agent) -> None:
    memory = await agent.store("The Nautilus dives at dusk")
    for tool, arguments in (
        ("get_memory", {"memory_id": memory["id"]}),
        ("update_memory", {"memory_id": memory["id"], "speaker": "Ned"}),
        ("verify_memory", {"memory_id": memory["id"], "verification": "verified"}),
        ("forget_memory", {"memory_id": memory["id"]}),
        ("restore_memory", {"memory_id": memory["id"]}),
    ):
        assert not {"what", "hint"} & set(await agent.call(tool, **arguments)), tool


SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
ME = local_caller("ns", "me")


@pytest.fixture
async def busy(stage: Stage) -> Service:
    """A gateway in whose session something was stored and found."""
    service = await stage.gateway()
    for number in range(3):
        await ask(service, "store_memory", {"content": f"Kettle number {number} stands in the blue kitchen"})
    await ask(service, "search_memories", {"query": "Which kettle?"})
    return service


async def ask(service: Service, tool: str, arguments: Any) -> dict[str, Any]:
    reply = await service.call(Call(tool=TOOLS[tool], arguments=arguments, caller=ME))
    return check_reply(tool, reply.body, is_error=reply.is_error)


@pytest.mark.promise("SE-4", "SE-5")
@settings(suppress_health_check=SLOW)
@given(sent=calls())
async def test_whatever_is_sent_is_answered(busy: Service, sent: tuple[Tool, Any]) -> None:
    tool, arguments = sent
    body = await ask(busy, tool.name, arguments)
    assert body.get("code") not in {"internal", "unavailable"}, body
    assert body["status"] != "pending", body
