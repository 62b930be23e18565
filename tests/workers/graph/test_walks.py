"""Neighbours and paths: what a walk finds, what it leaves out, and that it says when it was cut."""

import time
from typing import Any
from uuid import UUID

import psycopg
import pytest

from engramq.schemas.commands import FindPath, QueryNeighbors
from engramq.schemas.faults import missing
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import Following, Sector, Thing
from engramq.workers.graph import walks
from tests.workers.graph.facts import OPEN, asked, fact, reclassified
from tests.workers.graph.harness import Harness

IN_TIME_S = walks.WALK_S + 3.0  # a walk's own bound, and room for a busy machine


def names(body: dict[str, Any]) -> list[str]:
    assert body["count"] == len(body["neighbors"])
    return [neighbor["name"] for neighbor in body["neighbors"]]


async def around(harness: Harness, node: str = "a", **more: Any) -> dict[str, Any]:
    return await harness.body(QueryNeighbors(node_name=node, **more))


async def path(harness: Harness, start: str, end: str, **more: Any) -> dict[str, Any]:
    return await harness.body(FindPath(start_node=start, end_node=end, **more))


def build(harness: Harness, nodes: list[tuple[UUID, str]], edges: list[tuple[int, int]], weight: float = 1.0) -> None:
    """Write a graph of any size at once; edges by places in `nodes`."""
    harness.rows(
        "insert into nodes (id, tenant, label, name, partition) "
        "select id, tenant, 'Entity', name, 'trusted' "
        "from unnest(%s::uuid[], %s::text[]) as n (id, name), make_tenant('default_user') as tenant",
        [node for node, _ in nodes],
        [name for _, name in nodes],
    )
    harness.rows(
        "insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin, memory_sector,"
        " sector_source) select id, tenant, 'knowledge', source, target, 'R', %s, 'agent', 'semantic', 'auto'"
        " from unnest(%s::uuid[], %s::uuid[], %s::uuid[]) as e (id, source, target),"
        " make_tenant('default_user') as tenant",
        weight,
        [UUID(uuid7()) for _ in edges],
        [nodes[source][0] for source, _ in edges],
        [nodes[target][0] for _, target in edges],
    )
    harness.rows("analyze nodes, edges")  # as the server does by itself within a minute


@pytest.mark.promise("GE-17")
async def test_neighbours_come_nearest_first_up_to_the_depth(harness: Harness) -> None:
    for source, target in ("ab", "bc", "cd", "de", "ef", "fg"):
        await harness.body(fact(source, "R", target))
    assert names(await around(harness)) == ["b"]
    body = await around(harness, depth=5)
    assert names(body) == ["b", "c", "d", "e", "f"]
    assert [neighbor["distance"] for neighbor in body["neighbors"]] == [1, 2, 3, 4, 5]
    assert body["start_node"]["name"] == "a"
    assert body["truncated"] is False
    assert names(await around(harness, "d", depth=2)) == ["c", "e", "b", "f"]


@pytest.mark.promise("GE-17")
async def test_a_neighbour_tells_of_its_node_and_of_the_edge_it_was_reached_by(harness: Harness) -> None:
    await harness.body(fact("a", "LOVES", "b", weight=0.5))
    edge = await harness.body(fact("c", "KNOWS", "b", weight=0.5, properties={"of": "the edge"}))
    (_, far) = (await around(harness, depth=2))["neighbors"]
    assert far == {
        "node_id": edge["source_id"],
        "label": "Entity",
        "name": "c",
        "distance": 2,
        "edge_id": edge["edge_id"],
        "relation": "KNOWS",
        "weight": 0.5,
        "memory_sector": "semantic",
        "direction": "incoming",
        "relevance": 0.25,
        "properties": {},
        "edges": [{"edge_id": edge["edge_id"], "relation": "KNOWS", "weight": 0.5, "direction": "incoming", **OPEN}],
    }


@pytest.mark.promise("GE-17")
async def test_direction_relation_and_sectors_choose_the_edges_that_are_followed(harness: Harness) -> None:
    for said in ("a KNOWS b", "c LOVES a", "b LOVES d", "e KNOWS b"):
        source, relation, target = said.split()
        await harness.body(fact(source, relation, target))

    async def found(**more: Any) -> list[str]:
        return sorted(names(await around(harness, depth=3, **more)))

    assert await found() == ["b", "c", "d", "e"]
    assert await found(direction=Following.OUTGOING) == ["b", "d"]
    assert await found(direction=Following.INCOMING) == ["c"]
    assert await found(relation="KNOWS") == ["b", "e"]
    assert await found(relation="knows") == []
    assert await found(sectors=(Sector.EMOTIONAL,)) == ["c"]
    assert await found(sectors=(Sector.SEMANTIC,)) == ["b", "e"]
    assert await found(sectors=(Sector.SEMANTIC, Sector.EMOTIONAL)) == ["b", "c", "d", "e"]
    assert await found(sectors=()) == []
    await harness.body(reclassified("semantic", "b", "LOVES", "d"))
    assert await found(sectors=(Sector.SEMANTIC,)) == ["b", "d", "e"]


@pytest.mark.promise("GE-17")
async def test_a_limit_keeps_the_most_relevant_and_says_that_there_is_more(harness: Harness) -> None:
    for number in range(5):
        await harness.body(fact("a", "R", f"n{number}", weight=number / 5))
    body = await around(harness, limit=2)
    assert (names(body), body["truncated"]) == (["n4", "n3"], True)
    body = await around(harness, limit=5)
    assert (names(body), body["truncated"]) == (["n4", "n3", "n2", "n1", "n0"], False)


@pytest.mark.promise("GE-17")
async def test_of_parallel_edges_the_most_relevant_reaches_the_neighbour_and_a_loop_none(harness: Harness) -> None:
    await harness.body(fact("a", "WEAK", "b", weight=0.2))
    await harness.body(fact("b", "STRONG", "a", weight=0.9))
    await harness.body(fact("a", "IS", "a"))
    body = await around(harness, depth=3)
    assert [(neighbor["name"], neighbor["relation"], neighbor["direction"]) for neighbor in body["neighbors"]] == [
        ("b", "STRONG", "incoming")
    ]


@pytest.mark.promise("GE-17")
async def test_relevance_fades_by_sector_with_active_hours(harness: Harness) -> None:
    await harness.body(fact("a", "ATTENDED", "party"))
    await harness.body(fact("a", "USES", "hammer"))
    harness.rows("update namespaces set active_hours = 250")
    first, second = (await around(harness))["neighbors"]
    assert (first["name"], second["name"]) == ("hammer", "party")
    assert second["relevance"] == pytest.approx(0.5)
    assert 0.9 < first["relevance"] < 1.0
    assert (first["weight"], second["weight"]) == (1.0, 1.0)
    await harness.body(fact("a", "ATTENDED", "party"))  # told again, it is fresh again
    assert {neighbor["relevance"] for neighbor in (await around(harness))["neighbors"]} >= {1.0}


@pytest.mark.promise("GE-17", "GE-18")
async def test_a_walk_without_its_node_says_which(harness: Harness) -> None:
    await harness.body(fact("a", "R", "b"))
    for body, name in (
        (await around(harness, "x"), "x"),
        (await around(harness, "a", label="Person"), "a"),
        (await path(harness, "x", "b"), "x"),
        (await path(harness, "a", "y"), "y"),
        (await path(harness, "a", "b", end_label="Person"), "b"),
    ):
        assert body == {
            "status": "not_found",
            "error": f"Node not found: {name}",
            "node_name": name,
            **missing(Thing.NODE),
        }


@pytest.mark.promise("GE-18")
async def test_a_shortest_path_is_told_edge_by_edge(harness: Harness) -> None:
    for source, target in ("ab", "cb", "cd", "ax", "xy", "yz", "zd"):
        await harness.body(fact(source, "R", target, weight=0.5))
    body = await path(harness, "a", "d")
    assert (body["path_found"], body["path_length"], body["truncated"]) == (True, 3, False)
    assert [node["name"] for node in body["nodes"]] == ["a", "b", "c", "d"]
    assert [edge["direction"] for edge in body["edges"]] == ["outgoing", "incoming", "outgoing"]
    assert body["total_weight"] == 1.5
    first = body["edges"][0]
    assert first == {
        name: (await harness.body(asked("a", "R", "b")))[name]
        for name in ("edge_id", "source_id", "target_id", "relation", "weight", "memory_sector")
    } | {"direction": "outgoing", **OPEN}


@pytest.mark.promise("GE-18")
async def test_without_a_path_within_the_depth_there_is_none(harness: Harness) -> None:
    for source, target in ("ab", "bc", "cd", "xy"):
        await harness.body(fact(source, "R", target))
    nothing = {
        "status": "success",
        "path_found": False,
        "path_length": None,
        "nodes": [],
        "edges": [],
        "total_weight": None,
        "truncated": False,
        "match_count": 1,
        "candidates": [],
    }
    assert await path(harness, "a", "x") == nothing
    assert await path(harness, "a", "d", max_depth=2) == nothing
    assert (await path(harness, "a", "d", max_depth=3))["path_length"] == 3


@pytest.mark.promise("GE-18")
async def test_a_node_has_a_path_of_no_length_to_itself_and_cycles_end(harness: Harness) -> None:
    for source, target in ("ab", "bc", "ca"):
        await harness.body(fact(source, "R", target))
    same = await path(harness, "a", "a")
    assert (same["path_found"], same["path_length"], same["edges"], same["total_weight"]) == (True, 0, [], 0)
    assert [node["name"] for node in same["nodes"]] == ["a"]
    assert (await path(harness, "a", "c", max_depth=10))["path_length"] == 1
    assert sorted(names(await around(harness, depth=5))) == ["b", "c"]


@pytest.mark.promise("GE-18")
async def test_of_paths_of_one_length_the_heavier_is_chosen(harness: Harness) -> None:
    for middle, weight in (("light", 0.2), ("heavy", 0.8), ("mixed", 0.5)):
        await harness.body(fact("a", "R", middle, weight=weight))
        await harness.body(fact(middle, "R", "d", weight=weight))
    assert [node["name"] for node in (await path(harness, "a", "d"))["nodes"]] == ["a", "heavy", "d"]


@pytest.mark.promise("GE-18")
@pytest.mark.long
@pytest.mark.own_database
async def test_a_graph_of_ten_thousand_nodes_answers_in_time(harness: Harness) -> None:
    nodes = [(UUID(uuid7()), f"n{number}") for number in range(10_000)]
    build(harness, nodes, [(number, (number * 7 + step) % 10_000) for number in range(10_000) for step in (1, 2, 3)])
    started = time.monotonic()
    body = await path(harness, "n1", "n9999", max_depth=10)
    assert time.monotonic() - started < IN_TIME_S
    assert body["path_found"] or body["truncated"]
    assert body["truncated"] is False
    started = time.monotonic()
    near = await around(harness, "n5", depth=5, limit=500)
    assert time.monotonic() - started < IN_TIME_S
    assert (near["count"], near["truncated"]) == (500, True)


@pytest.mark.long
@pytest.mark.own_database
@pytest.mark.promise("GE-17", "GE-18")
async def test_a_hub_answers_in_time_and_says_that_it_was_cut(harness: Harness) -> None:
    nodes = [(UUID(uuid7()), f"n{number}") for number in range(30_000)]
    build(harness, nodes, [(0, number) for number in range(1, 30_000)], weight=0.5)
    await harness.body(fact("n0", "DEAREST", "n7", weight=0.9))
    await harness.body(fact("n9", "R", "leaf"))
    started = time.monotonic()
    body = await around(harness, "n0", depth=3, limit=3)
    assert time.monotonic() - started < IN_TIME_S
    assert (names(body)[0], body["count"], body["truncated"]) == ("n7", 3, True)
    for start, end, length in (("n0", "n29999", 1), ("n29999", "n0", 1), ("n1", "leaf", 3), ("n0", "leaf", 2)):
        found = await path(harness, start, end)
        assert (found["path_length"], found["truncated"]) == (length, False)
    assert time.monotonic() - started < 5 * IN_TIME_S


@pytest.mark.promise("GE-17", "GE-18")
async def test_a_walk_that_runs_out_of_time_says_that_it_was_cut(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source, target in ("ab", "bc"):
        await harness.body(fact(source, "R", target))
    monkeypatch.setattr(walks, "WALK_S", 0.0)
    assert (await around(harness))["truncated"] is True
    found = await path(harness, "a", "c")
    assert (found["path_found"], found["truncated"]) == (False, True)


@pytest.mark.long
@pytest.mark.promise("GE-17")
async def test_a_statement_that_takes_too_long_is_stopped_and_told_as_cut(harness: Harness) -> None:
    await harness.body(fact("a", "R", "b"))
    with psycopg.connect(harness.database.owner_url) as other:
        other.execute("lock table edges")  # whoever reads edges waits
        started = time.monotonic()
        body = await around(harness)
        assert time.monotonic() - started < IN_TIME_S
    assert (body["neighbors"], body["truncated"]) == ([], True)
    assert names(await around(harness)) == ["b"]


@pytest.mark.promise("GE-17")
async def test_large_properties_do_not_make_an_answer_larger_than_its_bound(harness: Harness) -> None:
    nodes = [(UUID(uuid7()), f"n{number}") for number in range(60)]
    build(harness, nodes, [(0, number) for number in range(1, 60)])
    harness.rows("update nodes set properties = jsonb_build_object('a', repeat('x', 60000))")
    body = await around(harness, "n0", limit=500)
    assert 20 < body["count"] < 40
    assert body["truncated"] is True


@pytest.mark.promise("GE-19", "GE-17", "GE-18")
async def test_a_walk_stays_in_its_namespace(harness: Harness) -> None:
    await harness.body(fact("a", "R", "b"))
    await harness.body(fact("b", "R", "c"), namespace="other")
    assert names(await around(harness, depth=5)) == ["b"]
    assert (await path(harness, "a", "c"))["node_name"] == "c"
    body = await harness.body(QueryNeighbors(node_name="b", depth=5), namespace="other")
    assert names(body) == ["c"]
