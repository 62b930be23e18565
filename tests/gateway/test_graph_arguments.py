"""What the graph's tools refuse at the door, by name, before anything is looked up."""

import math
from typing import Any

import pytest

from engramq.gateway.mcp.arguments import check_arguments
from engramq.gateway.mcp.schema import listed_schema
from engramq.schemas.commands import TOOLS, AddEdge, QueryNeighbors, ReclassifySector
from engramq.schemas.faults import EngramqError, FaultCode
from tests.gateway.test_arguments import MINIMAL

ABSENT = object()


def refusal(tool: str, **changes: Any) -> tuple[FaultCode, Any, str]:
    given = {name: value for name, value in {**MINIMAL[tool], **changes}.items() if value is not ABSENT}
    with pytest.raises(EngramqError) as caught:
        check_arguments(TOOLS[tool], given)
    assert caught.value.fault.recovery
    return caught.value.fault.code, caught.value.fault.field, caught.value.fault.error


@pytest.mark.promise("GE-6")
@pytest.mark.parametrize("tool", ["get_edge", "graph_add_edge", "reclassify_memory_sector"])
@pytest.mark.parametrize("name", ["source_name", "target_name", "relation"])
@pytest.mark.parametrize(
    "wrong", [ABSENT, "", "   ", "\n\t", None, 5, True, ["Ada"], {"name": "Ada"}, "x" * 256, "a\0b"]
)
def test_each_name_is_wanted_as_a_text_that_is_not_blank(tool: str, name: str, wrong: Any) -> None:
    code, field, _ = refusal(tool, **{name: wrong})
    assert (code, field) == (FaultCode.INVALID_PARAMETER, name)


@pytest.mark.promise("GE-6")
@pytest.mark.parametrize(
    ("tool", "name", "wrong"),
    [
        ("graph_add_edge", "weight", 1.01),
        ("graph_add_edge", "weight", -0.01),
        ("graph_add_edge", "weight", math.nan),
        ("graph_add_edge", "weight", math.inf),
        ("graph_add_edge", "weight", "1.5"),
        ("graph_add_edge", "weight", True),
        ("graph_add_edge", "properties", []),
        ("graph_add_edge", "properties", {"a": math.nan}),
        ("graph_add_edge", "properties", {"a": "x" * 70_000}),
        ("graph_add_edge", "properties", {"last_reclassification": None}),
        ("graph_add_edge", "source_label", " "),
        ("graph_query_neighbors", "depth", 0),
        ("graph_query_neighbors", "depth", 6),
        ("graph_query_neighbors", "limit", 0),
        ("graph_query_neighbors", "limit", 501),
        ("graph_query_neighbors", "direction", "sideways"),
        ("graph_query_neighbors", "sectors", ["Emotional"]),
        ("graph_find_path", "max_depth", 0),
        ("graph_find_path", "max_depth", 11),
        ("graph_add_node", "name", " "),
        ("graph_add_node", "label", " "),
        ("get_node_by_name", "name", ""),
        ("graph_delete_edge", "edge_id", " "),
        ("graph_delete_node", "node_id", 5),
        ("reclassify_memory_sector", "new_sector", 5),
        ("reclassify_memory_sector", "new_sector", None),
        ("reclassify_memory_sector", "new_sector", ABSENT),
        ("reclassify_memory_sector", "edge_id", " "),
        ("reclassify_memory_sector", "actor", " "),
        ("decide_proposal", "decision", "maybe"),
        ("list_proposals", "state", "open"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(tool: str, name: str, wrong: Any) -> None:
    code, field, _ = refusal(tool, **{name: wrong})
    assert (code, field) == (FaultCode.INVALID_PARAMETER, name)


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
