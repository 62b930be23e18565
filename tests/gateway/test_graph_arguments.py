"""What the graph's tools refuse at the door, by name, before anything is looked up."""

from typing import Any

import pytest

from engramq.gateway.mcp.arguments import check_arguments
from engramq.gateway.mcp.schema import listed_schema
from engramq.schemas.commands import TOOLS, AddEdge, QueryNeighbors, ReclassifySector
from engramq.schemas.faults import EngramqError, FaultCode
from tests.gateway.test_arguments import MINIMAL


@pytest.mark.promise("GE-6")
@pytest.mark.parametrize(
    ("tool", "name", "wrong"),
    [
        ("get_edge", "source_name", "x" * 256),
        ("graph_add_edge", "weight", 1.01),
        ("graph_add_edge", "weight", -0.01),
        ("graph_add_edge", "weight", "1.5"),
        ("graph_add_edge", "properties", {"last_reclassification": None}),
        ("graph_query_neighbors", "depth", 0),
        ("graph_query_neighbors", "depth", 6),
        ("graph_query_neighbors", "limit", 0),
        ("graph_query_neighbors", "limit", 501),
        ("graph_find_path", "max_depth", 0),
        ("graph_find_path", "max_depth", 11),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(tool: str, name: str, wrong: Any) -> None:
    with pytest.raises(EngramqError) as caught:
        check_arguments(TOOLS[tool], {**MINIMAL[tool], name: wrong})
    assert (caught.value.fault.code, caught.value.fault.field) == (FaultCode.INVALID_PARAMETER, name)
    assert caught.value.fault.recovery


@pytest.mark.promise("GE-15")
def test_get_edge_lists_three_texts_of_at_least_one_character() -> None:
    schema = listed_schema(TOOLS["get_edge"])
    assert schema["required"] == ["source_name", "target_name", "relation"]
    for name in schema["required"]:
        assert (schema["properties"][name]["type"], schema["properties"][name]["minLength"]) == ("string", 1)
    assert TOOLS["get_edge"].read_only


@pytest.mark.promise("RS-2")
@pytest.mark.parametrize("wrong", ["", " ", "Emotional", "x" * 5_000])
def test_any_text_is_let_through_as_a_sector_since_it_has_an_answer_of_its_own(wrong: str) -> None:
    tool = TOOLS["reclassify_memory_sector"]
    command = check_arguments(tool, {**MINIMAL[tool.name], "new_sector": wrong}).parameters
    assert isinstance(command, ReclassifySector)
    assert command.new_sector == wrong


def test_defaults_and_whole_numbers_are_taken() -> None:
    edge = check_arguments(TOOLS["graph_add_edge"], {**MINIMAL["graph_add_edge"], "weight": 1}).parameters
    assert isinstance(edge, AddEdge)
    assert isinstance(edge.weight, float)
    asked = check_arguments(TOOLS["graph_query_neighbors"], {"node_name": "Ada", "sectors": []}).parameters
    assert asked == QueryNeighbors(node_name="Ada", depth=1, limit=50, sectors=())
