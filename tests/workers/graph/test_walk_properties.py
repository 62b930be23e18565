"""Walks over random graphs, against the plainest search that there is."""

import itertools
from collections import deque
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engramq.schemas.commands import FindPath, QueryNeighbors
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import Following
from tests.workers.graph.harness import Harness
from tests.workers.graph.test_walks import build

NODES = 9
PLACES = st.integers(0, NODES - 1)
GRAPHS = st.lists(st.tuples(PLACES, PLACES), max_size=16, unique=True)
NAMES = itertools.count()


def distances(edges: list[tuple[int, int]], start: int, following: Following) -> dict[int, int]:
    """Return the distance from `start` of every node that can be reached."""
    found, waiting = {start: 0}, deque([start])
    while waiting:
        here = waiting.popleft()
        ahead = [target for source, target in edges if source == here and following is not Following.INCOMING]
        ahead += [source for source, target in edges if target == here and following is not Following.OUTGOING]
        for there in ahead:
            if there not in found:
                found[there] = found[here] + 1
                waiting.append(there)
    return found


def write(harness: Harness, edges: list[tuple[int, int]]) -> str:
    """Write the graph under names of its own and return their beginning."""
    prefix = f"g{next(NAMES)}-"
    build(harness, [(UUID(uuid7()), f"{prefix}{number}") for number in range(NODES)], edges)
    return prefix


SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.promise("GE-17")
@SETTINGS
@given(GRAPHS, st.integers(1, 5), st.sampled_from(Following))
async def test_neighbours_are_those_of_a_plain_search(
    harness: Harness, edges: list[tuple[int, int]], depth: int, following: Following
) -> None:
    prefix = write(harness, edges)
    body = await harness.body(QueryNeighbors(node_name=f"{prefix}0", depth=depth, direction=following))
    expected = {
        f"{prefix}{node}": distance
        for node, distance in distances(edges, 0, following).items()
        if 0 < distance <= depth
    }
    assert {neighbor["name"]: neighbor["distance"] for neighbor in body["neighbors"]} == expected
    assert (body["count"], body["truncated"]) == (len(expected), False)
    order = [(neighbor["distance"], -neighbor["relevance"]) for neighbor in body["neighbors"]]
    assert order == sorted(order)


@pytest.mark.promise("GE-18")
@SETTINGS
@given(GRAPHS, PLACES, st.integers(1, 10))
async def test_a_path_is_as_short_as_a_plain_search_finds_and_hangs_together(
    harness: Harness, edges: list[tuple[int, int]], end: int, depth: int
) -> None:
    prefix = write(harness, edges)
    body = await harness.body(FindPath(start_node=f"{prefix}0", end_node=f"{prefix}{end}", max_depth=depth))
    length = distances(edges, 0, Following.BOTH).get(end)
    assert body["truncated"] is False
    if length is None or length > depth:
        assert body["path_found"] is False
        return
    assert (body["path_found"], body["path_length"], len(body["edges"])) == (True, length, length)
    walked = [node["node_id"] for node in body["nodes"]]
    assert [body["nodes"][0]["name"], body["nodes"][-1]["name"]] == [f"{prefix}0", f"{prefix}{end}"]
    for (here, there), edge in zip(itertools.pairwise(walked), body["edges"], strict=True):
        assert {edge["source_id"], edge["target_id"]} == {here, there}
        assert edge["direction"] == ("outgoing" if edge["source_id"] == here else "incoming")
    assert body["total_weight"] == pytest.approx(sum(edge["weight"] for edge in body["edges"]))
