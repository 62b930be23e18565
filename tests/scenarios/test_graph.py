"""The knowledge graph through a real MCP client and the whole pipeline, with the times when facts hold."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import psycopg
import pytest

from tests.conftest import Database
from tests.scenarios.stage import LEGACY, MODERN, Agent, Stage, agent_of

FACT = {"source_name": "Ada", "target_name": "Bob", "relation": "KNOWS"}
NOWHERE = {"edge": None, "status": "not_found"}


@pytest.mark.promise("GE-1", "GE-2", "GE-8", "GE-9", "GE-20")
@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_fact_is_written_then_verified_then_deleted(stage: Stage, era: str) -> None:
    async with agent_of(await stage.gateway(), era=era) as agent:
        assert await agent.call("get_edge", **FACT) == NOWHERE
        written = await agent.call("graph_add_edge", **FACT, weight=0.5, properties={"où": {"x": [1, None]}})
        read = await agent.call("get_edge", **FACT)
        moment = datetime.fromisoformat(read.pop("created_at"))
        assert abs(moment - datetime.now(UTC)) < timedelta(minutes=1)
        assert isinstance(read["weight"], float)
        assert read == {
            **{name: written[name] for name in ("edge_id", "source_id", "target_id")},
            "relation": "KNOWS",
            "weight": 0.5,
            "properties": {"où": {"x": [1, None]}},
            "memory_sector": "semantic",
            "match_count": 1,
            "status": "success",
            "created_by": "I/O",
            "updated_by": "I/O",
            "valid_from": None,
            "valid_until": None,
        }
        assert (written["created"], written["weight"]) == (True, 0.5)
        near = await agent.call("graph_query_neighbors", node_name="Bob")
        assert [neighbor["name"] for neighbor in near["neighbors"]] == ["Ada"]
        assert (await agent.call("graph_find_path", start_node="Bob", end_node="Ada"))["path_length"] == 1
        assert (await agent.call("graph_query_neighbors", node_name="Bob", sectors=[]))["neighbors"] == []
        assert (await agent.call("get_node_by_name", name="ada"))["suggestions"][0]["name"] == "Ada"
        assert (await agent.call("graph_delete_edge", edge_id=written["edge_id"]))["status"] == "deleted"
        assert await agent.call("get_edge", **FACT) == NOWHERE
        assert (await agent.call("graph_delete_node", node_id=written["source_id"]))["status"] == "deleted"


@pytest.mark.promise("RS-1", "RS-2", "RS-5", "RS-17", "GE-6")
async def test_an_agent_corrects_a_sector_and_is_told_what_is_wrong(agent: Agent) -> None:
    written = await agent.call("graph_add_edge", **FACT)
    body = await agent.call("reclassify_memory_sector", **FACT, new_sector="episodic")
    assert body.pop("command_id")
    assert body == {
        "status": "success",
        "edge_id": written["edge_id"],
        "old_sector": "semantic",
        "new_sector": "episodic",
    }
    read = await agent.call("get_edge", **FACT)
    assert read["memory_sector"] == "episodic"
    assert read["properties"]["last_reclassification"]["actor"] == "I/O"
    wrong = await agent.call("reclassify_memory_sector", **FACT, new_sector="")
    assert wrong["status"] == "invalid_sector"
    missing = await agent.call("reclassify_memory_sector", **FACT | {"relation": "LIKES"}, new_sector="episodic")
    assert (missing["status"], missing["error"]) == ("not_found", "Edge not found: Ada --LIKES--> Bob")
    assert await agent.refusal_of("reclassify_memory_sector", **FACT, new_sector=5) == "new_sector"
    blank = await agent.call("get_edge", **FACT | {"target_name": "  "})
    assert (blank["status"], blank["field"]) == ("invalid_parameter", "target_name")


@pytest.mark.promise("RS-12")
async def test_eight_agents_that_race_leave_a_chain_in_the_audit_log(agent: Agent, database: Database) -> None:
    sectors = ["emotional", "episodic", "semantic", "procedural", "reflective", "emotional", "episodic", "reflective"]
    edge = await agent.call("graph_add_edge", **FACT)
    racing = (agent.call("reclassify_memory_sector", **FACT, new_sector=sector) for sector in sectors)
    assert {body["status"] for body in await asyncio.gather(*racing)} == {"success"}
    read = await agent.call("get_edge", **FACT)
    with psycopg.connect(database.owner_url) as connection:
        rows = connection.execute(
            "select old, new from audit_log where target_id = %s order by id", [edge["edge_id"]]
        ).fetchall()
    assert len(rows) == len(sectors)
    assert (rows[0][0], rows[-1][1]) == ({"memory_sector": "semantic"}, {"memory_sector": read["memory_sector"]})
    assert read["properties"]["last_reclassification"]["to_sector"] == read["memory_sector"]
    assert all(before[1] == after[0] for before, after in pairwise(rows))


@pytest.mark.promise("RS-19", "RS-21", "RS-22", "GE-23")
async def test_two_principals_consent_to_what_one_may_not_do_alone(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service, principal="ada") as ada, agent_of(service, principal="bob") as bob:
        edge = await ada.call("graph_add_edge", **FACT, properties={"edge_type": "constitutive"})
        change = {**FACT, "new_sector": "reflective"}
        refused = await ada.call("reclassify_memory_sector", **change)
        assert (refused["status"], refused["edge_id"]) == ("consent_required", edge["edge_id"])
        decision = {"proposal_id": refused["proposal_id"], "decision": "approve"}
        for _ in range(2):
            own = await ada.call("decide_proposal", **decision)
            assert (own["approvals"], own["hint"].startswith("You had approved it before")) == (1, True)
        assert (await ada.call("reclassify_memory_sector", **change))["status"] == "consent_required"
        decided = await bob.call("decide_proposal", **decision)
        assert (decided["status"], decided["state"], decided["approvals"]) == ("recorded", "approved", 2)
        assert "hint" not in decided
        for again in [await one.call("decide_proposal", **decision) for one in (ada, bob)]:
            assert again["hint"].startswith("You had approved it before, and nothing is lacking")
        assert (await ada.call("reclassify_memory_sector", **change))["status"] == "success"
        assert (await ada.call("reclassify_memory_sector", **change))["status"] == "consent_required"
        (listed,) = (await bob.call("list_proposals", state="used"))["proposals"]
        assert listed["approved_by"] == ["ada", "bob"]
        deletion = await bob.call("graph_delete_edge", edge_id=edge["edge_id"])
        assert deletion["status"] == "consent_required"
        await ada.call("decide_proposal", proposal_id=deletion["proposal_id"], decision="approve")
        assert (await bob.call("graph_delete_edge", edge_id=edge["edge_id"]))["status"] == "deleted"


@pytest.mark.promise("GE-13", "GE-21", "RS-6", "RS-7")
async def test_homonyms_are_told_apart_by_label_and_edge_id(agent: Agent) -> None:
    ids = [(await agent.call("graph_add_edge", **FACT, source_label=label))["edge_id"] for label in ("Person", "Ship")]
    assert (await agent.call("graph_add_edge", **FACT))["status"] == "ambiguous"
    read = await agent.call("get_edge", **FACT)
    assert (read["edge_id"], read["match_count"]) == (ids[0], 2)
    read = await agent.call("get_edge", **FACT, source_label="Ship")
    assert (read["edge_id"], read["match_count"]) == (ids[1], 1)
    several = await agent.call("reclassify_memory_sector", **FACT, new_sector="episodic")
    assert (several["status"], several["edge_ids"]) == ("ambiguous", ids)
    chosen = await agent.call("reclassify_memory_sector", **FACT, new_sector="episodic", edge_id=ids[1].upper())
    assert (chosen["status"], chosen["edge_id"]) == ("success", ids[1])
    sectors = [
        (await agent.call("get_edge", **FACT, source_label=label))["memory_sector"] for label in ("Person", "Ship")
    ]
    assert sectors == ["semantic", "episodic"]


@pytest.mark.promise("GE-19")
async def test_two_namespaces_share_names_and_see_nothing_of_each_other(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service, "one") as mine, agent_of(service, "two") as theirs:
        edge = await mine.call("graph_add_edge", **FACT, properties={"whose": "mine"})
        assert await theirs.call("get_edge", **FACT) == NOWHERE
        assert (await theirs.call("get_node_by_name", name="Ada"))["suggestions"] == []
        assert (await theirs.call("graph_find_path", start_node="Ada", end_node="Bob"))["status"] == "not_found"
        other = await theirs.call("graph_add_edge", **FACT, properties={"whose": "theirs"})
        assert {edge["edge_id"], edge["source_id"]}.isdisjoint({other["edge_id"], other["source_id"]})
        assert (await theirs.call("graph_delete_edge", edge_id=edge["edge_id"]))["status"] == "not_found"
        assert (await theirs.call("graph_delete_node", node_id=edge["source_id"]))["status"] == "not_found"
        for agent, whose in ((mine, "mine"), (theirs, "theirs")):
            read = await agent.call("get_edge", **FACT)
            assert (read["properties"], read["match_count"]) == ({"whose": whose}, 1)


@pytest.mark.promise("OV-8", "OV-9")
@pytest.mark.parametrize("max_chars", [500, 200_000])
async def test_a_cursor_leads_through_all_edges_of_a_node(agent: Agent, max_chars: int) -> None:
    for number in range(6):
        await agent.call(
            "graph_add_edge", **FACT | {"relation": f"R{number}"}, source_label="Person", properties={"x": "y" * 300}
        )
    await agent.call("graph_add_node", name="Ada", label="Ship")
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while len(seen) < 6:
        page = await agent.call("graph_list_edges", node_name="Ada", limit=4, max_chars=max_chars, **cursor)
        assert page["match_count"] == 2
        assert 0 < len(page["edges"]) == page["count"]
        seen += [edge["edge_id"] for edge in page["edges"]]
        cursor = {"cursor": page["next_cursor"]}
    assert page["next_cursor"] is None
    assert len(set(seen)) == 6
    assert await agent.refusal_of("graph_list_edges") == "node_name"


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
        assert await agent.refusal_of(tool, **arguments, as_of="2999-01-01") == "as_of"
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
