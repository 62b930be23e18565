"""All edges of a node, what walks tell of parallel ones and of homonyms, and what makes an edge constitutive."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from engramq.schemas.commands import FindPath, ListEdges, QueryNeighbors
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.vocabulary import Following
from engramq.workers.db import queries
from engramq.workers.db.queries import Library
from engramq.workers.graph.edge_rules import MARKS, is_constitutive
from tests.refusals import refused
from tests.workers.graph.facts import OPEN, UNKNOWN_ID, fact
from tests.workers.graph.harness import Harness

FACTS = (
    ("Ada", "KNOWS", "Bob", 0.3),
    ("Ada", "LOVES", "Bob", 0.9),
    ("Ada", "REPORTS_TO", "Bob", 0.5),
    ("Bob", "FEARS", "Ada", 0.5),
    ("Ada", "QUESTIONS", "Ada", 0.7),
    ("Bob", "LIKES", "Cay", 1.0),
)


async def written(harness: Harness, facts: Sequence[tuple[str, str, str, float]] = FACTS) -> dict[str, str]:
    """Write facts; return the ids of their edges by relation."""
    bodies = [await harness.body(fact(*triple, weight=weight)) for *triple, weight in facts]
    return {body["relation"]: body["edge_id"] for body in bodies}


async def pages(harness: Harness, **asked: Any) -> list[dict[str, Any]]:
    """Return the edges of all pages."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        body = await harness.body(ListEdges(**asked, **cursor))
        assert body["count"] == len(body["edges"])
        found += body["edges"]
        if body["next_cursor"] is None:
            return found
        cursor = {"cursor": body["next_cursor"]}


@pytest.mark.promise("OV-8")
@pytest.mark.parametrize("limit", [1, 2, 50])
async def test_every_edge_of_a_node_is_listed_once(harness: Harness, limit: int) -> None:
    ids = await written(harness)
    edges = await pages(harness, node_name="Ada", limit=limit)
    assert [edge["relation"] for edge in edges] == ["LOVES", "QUESTIONS", "REPORTS_TO", "FEARS", "KNOWS"]
    assert [edge["edge_id"] for edge in edges] == [ids[edge["relation"]] for edge in edges]
    loop = edges[1]
    assert loop["source"] == loop["target"]
    assert (loop["source"]["name"], loop["source"]["label"]) == ("Ada", "Entity")


@pytest.mark.promise("OV-8")
@pytest.mark.parametrize("limit", [1, 50])
async def test_direction_and_relation_choose_edges(harness: Harness, limit: int) -> None:
    await written(harness)
    for asked, relations in (
        ({"direction": Following.OUTGOING}, ["LOVES", "QUESTIONS", "REPORTS_TO", "KNOWS"]),
        ({"direction": Following.INCOMING}, ["QUESTIONS", "FEARS"]),
        ({"relation": "KNOWS"}, ["KNOWS"]),
        ({"relation": "knows"}, []),
    ):
        edges = await pages(harness, node_name="Ada", limit=limit, **asked)
        assert [edge["relation"] for edge in edges] == relations


@pytest.mark.promise("OV-8")
async def test_one_edge_is_read_by_its_id(harness: Harness) -> None:
    added = await harness.body(fact(properties={"since": 1833}))
    body = await harness.body(ListEdges(edge_id=added["edge_id"]))
    assert (body["node"], body["count"], body["next_cursor"]) == (None, 1, None)
    (edge,) = body["edges"]
    assert (edge["edge_id"], edge["properties"]) == (added["edge_id"], {"since": 1833})
    assert (edge["source"]["node_id"], edge["target"]["name"]) == (added["source_id"], "Bob")
    for asked, what in (
        (ListEdges(edge_id=UNKNOWN_ID), "edge"),
        (ListEdges(edge_id="x"), "edge"),
        (ListEdges(node_name="ada"), "node"),
    ):
        missing = await harness.body(asked)
        assert (missing["status"], missing["what"]) == ("not_found", what)
    elsewhere = await harness.body(ListEdges(edge_id=added["edge_id"]), namespace="elsewhere")
    assert elsewhere["status"] == "not_found"


@pytest.mark.promise("OV-8")
@pytest.mark.parametrize("asked", [ListEdges(), ListEdges(node_name="Ada", edge_id=UNKNOWN_ID)])
def test_a_node_or_an_edge_is_asked_for_and_not_both(asked: ListEdges) -> None:
    with pytest.raises(EngramqError) as wrong:
        asked.check()
    assert wrong.value.fault.field == "node_name"


@pytest.mark.promise("OV-8")
async def test_a_text_that_is_no_position_is_refused(harness: Harness) -> None:
    await written(harness)
    for cursor in ("x", "0.5|x", f"x|{UNKNOWN_ID}"):
        with refused(FaultCode.INVALID_PARAMETER):
            await harness.body(ListEdges(node_name="Ada", cursor=cursor))


@pytest.mark.promise("OV-8")
async def test_a_neighbour_tells_of_all_edges_that_reach_it(harness: Harness) -> None:
    ids = await written(harness)
    (bob,) = (await harness.body(QueryNeighbors(node_name="Ada")))["neighbors"]
    assert bob["edges"] == [
        {"edge_id": ids[relation], "relation": relation, "weight": weight, "direction": direction, **OPEN}
        for relation, weight, direction in (
            ("LOVES", 0.9, "outgoing"),
            ("REPORTS_TO", 0.5, "outgoing"),
            ("FEARS", 0.5, "incoming"),
            ("KNOWS", 0.3, "outgoing"),
        )
    ]
    assert (bob["relation"], bob["edge_id"], bob["weight"]) == ("LOVES", ids["LOVES"], 0.9)
    far = (await harness.body(QueryNeighbors(node_name="Ada", depth=2)))["neighbors"][1]
    assert (far["name"], [edge["relation"] for edge in far["edges"]]) == ("Cay", ["LIKES"])
    (back,) = (await harness.body(QueryNeighbors(node_name="Ada", direction=Following.INCOMING)))["neighbors"]
    assert [edge["relation"] for edge in back["edges"]] == ["FEARS"]


@pytest.mark.promise("OV-8")
async def test_of_many_parallel_edges_the_rest_is_counted(harness: Harness) -> None:
    await written(harness, [("Ada", f"R{number}", "Bob", number / 100) for number in range(23)])
    (bob,) = (await harness.body(QueryNeighbors(node_name="Ada")))["neighbors"]
    assert (len(bob["edges"]), bob["more_edges"], bob["relation"]) == (20, 3, "R22")


@pytest.mark.promise("OV-9")
async def test_homonyms_in_walks_and_lists_are_told(harness: Harness) -> None:
    await harness.body(fact("Ada", "KNOWS", "Bob", source_label="Person"))
    await harness.body(fact("Ada", "SAILS_TO", "London", source_label="Ship"))

    near = await harness.body(QueryNeighbors(node_name="Ada"))
    listed = await harness.body(ListEdges(node_name="Ada"))
    for body in (near, listed):
        assert body["match_count"] == 2
        assert [(candidate["field"], candidate["label"]) for candidate in body["candidates"]] == [
            ("node_name", "Person"), ("node_name", "Ship"),
        ]  # fmt: skip
        assert body["hint"].endswith("give label.")
    path = await harness.body(FindPath(start_node="London", end_node="Ada"))
    assert (path["path_found"], path["match_count"]) == (False, 2)
    assert [(candidate["field"], candidate["label"]) for candidate in path["candidates"]] == [
        ("end_node", "Person"),
        ("end_node", "Ship"),
    ]
    assert path["hint"].endswith("give end_label.")

    chosen = await harness.body(FindPath(start_node="London", end_node="Ada", end_label="Ship"))
    assert (chosen["path_found"], chosen["match_count"], chosen["candidates"]) == (True, 1, [])
    assert "hint" not in chosen
    assert (await harness.body(QueryNeighbors(node_name="Ada", label="Ship")))["match_count"] == 1


VALUES = ("true", "false", "null", "1", "0", '"true"', '"constitutive"', '"Constitutive"', '""', "[]", "[true]", "{}")


async def test_sql_and_python_agree(harness: Harness) -> None:
    fragment = Library(queries._FOLDER).fragments["constitutive"]
    cases = ["{}", '{"other": true}', *(f'{{"{mark}": {value}}}' for mark in MARKS for value in VALUES)]
    cases += [f'{{"{MARKS[0]}": {item}, "{MARKS[1]}": {other}}}' for item in VALUES for other in VALUES]
    text = json.dumps(cases).replace("'", "''")
    rows = harness.rows(
        f"select x.properties, coalesce({fragment}, false) as marked "
        f"from (select jsonb_array_elements_text('{text}')::jsonb as properties) x"
    )
    assert len(rows) == len(cases)
    assert [row["properties"] for row in rows if row["marked"] is not is_constitutive(row["properties"])] == []
    assert {row["marked"] for row in rows} == {True, False}
