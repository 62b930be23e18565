"""What is not there, and links, as an agent reads them from every tool."""

from typing import Any

import pytest

from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import Thing
from tests.scenarios.stage import Agent

pytestmark = pytest.mark.promise("OV-11")

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
    ("propose_reclassification", {"edge_id": NOTHING, "new_sector": "episodic"}, Thing.EDGE, "graph_list_edges"),
    ("decide_proposal", {"proposal_id": NOTHING, "decision": "approve"}, Thing.PROPOSAL, "list_proposals"),
    ("guide", {"topic": "the sea"}, Thing.TOPIC, "topics"),
]


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


async def test_a_step_that_a_hint_names_leads_to_what_is_there(agent: Agent) -> None:
    await agent.call("graph_add_edge", **TRIPLE)
    near = await agent.call("get_node_by_name", name="nemo")
    assert (near["what"], near["suggestions"][0]["name"]) == ("node", "Nemo")
    assert "suggestions" in near["hint"]
    (edge,) = (await agent.call("graph_list_edges", node_name=near["suggestions"][0]["name"]))["edges"]
    assert (await agent.call("graph_delete_edge", edge_id=edge["edge_id"]))["status"] == "deleted"
    gone = await agent.call("graph_delete_edge", edge_id=edge["edge_id"])
    assert (gone["status"], gone["what"], gone["edge_id"]) == ("not_found", "edge", edge["edge_id"])


async def test_found_things_say_nothing_of_what_is_missing(agent: Agent) -> None:
    memory = await agent.store("The Nautilus dives at dusk")
    for tool, arguments in (
        ("get_memory", {"memory_id": memory["id"]}),
        ("update_memory", {"memory_id": memory["id"], "speaker": "Ned"}),
        ("verify_memory", {"memory_id": memory["id"], "verification": "verified"}),
        ("forget_memory", {"memory_id": memory["id"]}),
        ("restore_memory", {"memory_id": memory["id"]}),
    ):
        body = await agent.call(tool, **arguments)
        assert not {"what", "hint"} & set(body), tool


async def test_a_link_has_two_ends_and_seen_from_a_memory_the_other_one(agent: Agent) -> None:
    one, other = [(await agent.store(text))["id"] for text in ("Aronnax is a professor", "Conseil sorts fishes")]
    made = await agent.call("connect", source=one, target=other, relation="supports")
    assert (made["source_id"], made["target_id"]) == (one, other)
    for here, there, direction in ((one, other, "outgoing"), (other, one, "incoming")):
        (link,) = (await agent.call("get_memory", memory_id=here))["links"]
        assert (link["memory_id"], link["direction"]) == (there, direction)
    removed = await agent.call("disconnect", source=one, target=other)
    assert (removed["source_id"], removed["target_id"]) == (one, other)
