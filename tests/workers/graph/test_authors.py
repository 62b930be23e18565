"""Who wrote nodes and edges, and what the audit log tells of those that were written again."""

import pytest

from engramq.schemas.commands import AddNode, GetNodeByName, ListEdges
from tests.workers.graph.facts import asked, fact, reclassified
from tests.workers.graph.harness import BOB, CAY, Harness


@pytest.mark.promise("OV-3")
async def test_an_edge_says_who_wrote_and_who_changed_it(harness: Harness) -> None:
    edge_id = (await harness.body(fact(weight=0.5)))["edge_id"]
    await harness.body(fact(weight=0.5), by=BOB)  # changes nothing

    async def authors() -> tuple[str, str]:
        (listed,) = (await harness.body(ListEdges(edge_id=edge_id)))["edges"]
        read = await harness.body(asked())
        assert (read["created_by"], read["updated_by"]) == (listed["created_by"], listed["updated_by"])
        return listed["created_by"], listed["updated_by"]

    assert await authors() == ("ada", "ada")
    await harness.body(fact(weight=0.6), by=BOB)
    assert await authors() == ("ada", "bob")
    await harness.body(reclassified("episodic"), by=CAY)
    assert await authors() == ("ada", "cay")
    harness.rows("update edges set created_by = null, updated_by = null")  # as rows of before
    assert (await harness.body(asked()))["created_by"] is None


@pytest.mark.promise("OV-3")
async def test_a_node_says_who_wrote_and_who_changed_it(harness: Harness) -> None:
    await harness.body(fact(), by=CAY)
    node_id = (await harness.body(AddNode(name="Bob", properties={"x": 1}), by=BOB))["node_id"]
    node = await harness.body(GetNodeByName(name="Bob"))
    assert (node["node_id"], node["created_by"], node["updated_by"]) == (node_id, "cay", "bob")


@pytest.mark.promise("OV-3")
async def test_what_writing_again_changes_is_audited_with_old_and_new(harness: Harness) -> None:
    edge = await harness.body(fact(weight=0.5, properties={"a": 1, "b": {"c": 2}}))
    await harness.body(fact(weight=0.5, properties={"a": 1}))
    assert harness.audit(edge["edge_id"]) == []

    await harness.body(fact(weight=0.7, properties={"b": {"c": 3}, "emotion": "joy"}), by=BOB)

    (row,) = harness.audit(edge["edge_id"])
    assert (row["actor"], row["action"]) == ("bob", "update_edge")
    assert row["old"] == {"weight": 0.5, "memory_sector": "semantic", "properties": {"b": {"c": 2}}}
    assert row["new"] == {"weight": 0.7, "memory_sector": "emotional", "properties": {"b": {"c": 3}, "emotion": "joy"}}
    await harness.body(AddNode(name="Bob", properties={"born": 1815}))
    await harness.body(AddNode(name="Bob", properties={"born": 1816}), by=BOB)
    await harness.body(AddNode(name="Bob", properties={"born": 1816}), by=CAY)
    first, second = harness.audit(edge["target_id"])
    assert (first["old"], first["new"]) == ({"properties": {}}, {"properties": {"born": 1815}})
    assert (second["actor"], second["action"]) == ("bob", "update_node")
    assert (second["old"], second["new"]) == ({"properties": {"born": 1815}}, {"properties": {"born": 1816}})
