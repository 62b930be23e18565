"""When facts hold, as an agent tells and asks it."""

from datetime import UTC, datetime

import pytest

from tests.scenarios.stage import Agent


@pytest.mark.promise("TI-1", "TI-2", "TI-7")
async def test_an_agent_tells_and_asks_when_facts_hold(agent: Agent) -> None:
    lives = {"source_name": "Ada", "relation": "LIVES_IN"}
    await agent.call("graph_add_edge", **lives, target_name="London", valid_from="2020-01-01", valid_until="2023-05-31")
    await agent.call("graph_add_edge", **lives, target_name="Paris", valid_from="2023-06-01")

    async def homes(**when: str) -> list[list[str]]:
        listed = await agent.call("graph_list_edges", node_name="Ada", **when)
        around = await agent.call("graph_query_neighbors", node_name="Ada", **when)
        return [
            [edge["target"]["name"] for edge in listed["edges"]],
            [neighbor["name"] for neighbor in around["neighbors"]],
        ]

    assert await homes() == [["Paris"]] * 2
    assert await homes(as_of="2021-07-01") == [["London"]] * 2
    assert await homes(as_of="2023-05-31") == [["London"]] * 2  # a day as an end is a whole day
    assert await homes(as_of="2023-06-01T00:00:00Z") == [["Paris"]] * 2
    assert await homes(as_of="2019-12-31") == [[]] * 2
    assert await homes(as_of=datetime.now(UTC).date().isoformat()) == [["Paris"]] * 2
    path = {"start_node": "Ada", "end_node": "London"}
    assert (await agent.call("graph_find_path", **path))["path_found"] is False
    assert (await agent.call("graph_find_path", **path, as_of="2021-07-01"))["path_found"] is True
    for tool, arguments in (
        ("graph_list_edges", {"node_name": "Ada"}),
        ("graph_query_neighbors", {"node_name": "Ada"}),
        ("graph_find_path", path),
    ):
        refusal = await agent.call(tool, **arguments, as_of="2999-01-01")
        assert (refusal["status"], refusal["field"]) == ("invalid_parameter", "as_of")
    backwards = await agent.call("graph_add_edge", **lives, target_name="Rome", valid_from="2024", valid_until="2023")
    assert backwards["status"] == "invalid_parameter"
    backwards = await agent.call(
        "graph_add_edge", **lives, target_name="Rome", valid_from="2024-01-01", valid_until="2023-01-01"
    )
    assert (backwards["status"], backwards["field"]) == ("invalid_parameter", "valid_until")


async def test_an_edge_goes_on_with_an_end_that_never_comes(agent: Agent) -> None:
    lives = {"source_name": "Ada", "relation": "LIVES_IN", "target_name": "London"}
    await agent.call("graph_add_edge", **lives, valid_from="2020-01-01", valid_until="2023-05-31")
    assert (await agent.call("graph_list_edges", node_name="Ada"))["edges"] == []
    edge = await agent.call("graph_add_edge", **lives, valid_until="9999-12-31")
    assert (edge["valid_from"][:10], edge["valid_until"][:10]) == ("2020-01-01", "9999-12-31")
    assert len((await agent.call("graph_list_edges", node_name="Ada"))["edges"]) == 1
    assert len((await agent.call("graph_list_edges", node_name="Ada", as_of="2021-01-01"))["edges"]) == 1
