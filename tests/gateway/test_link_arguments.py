"""What the tools on links, trust and the graph refuse at the door, what it costs, and how bad items travel."""

import math
import time
from typing import Any

import pytest

from engramq.gateway.mcp.arguments import check_arguments
from engramq.gateway.mcp.schema import input_schema, listed_schema
from engramq.gateway.service import Service
from engramq.schemas.codec import decode_envelope, encode
from engramq.schemas.commands import (
    TOOLS,
    AddEdge,
    BatchLink,
    Command,
    Connect,
    Connects,
    PromoteMemory,
    QueryNeighbors,
    ReclassifySector,
)
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.limits import TAGS
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.test_references import NOTHING, call
from tests.gateway.worker_side import WorkerSide

PAIR = {"source": "a", "target": "b"}


def refusal(tool: str, **given: Any) -> tuple[FaultCode, Any]:
    with pytest.raises(EngramqError) as caught:
        check_arguments(TOOLS[tool], given)
    assert caught.value.fault.recovery
    return caught.value.fault.code, caught.value.fault.field


def links_of(*items: Any, **more: Any) -> tuple[BatchLink, ...]:
    command = check_arguments(TOOLS["connects"], {"edges": list(items), **more}).parameters
    assert isinstance(command, Connects)
    assert decode_envelope(encode(enveloped(command))).command == command
    return command.edges


def enveloped(command: Command) -> Envelope:
    return Envelope(id="i", namespace="n", principal=Principal(name="p"), command=command)


@pytest.mark.promise("CN-12")
@pytest.mark.parametrize(
    ("tool", "pair"), [("connect", PAIR), ("connect_by_query", {"source_query": "a", "target_query": "b"})]
)
def test_words_that_no_link_may_have_are_refused_by_name(tool: str, pair: dict[str, str]) -> None:
    for word in ("merge", " ", "Reinforce", "nul", 5):
        assert refusal(tool, **pair, if_exists=word) == (FaultCode.INVALID_PARAMETER, "if_exists"), word
    # Only supersede_memory writes it.
    assert refusal(tool, **pair, relation="supersedes") == (FaultCode.INVALID_PARAMETER, "relation")


@pytest.mark.promise("CN-4")
@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf, "1 kg", "1e999", True, 10**400])
def test_a_weight_that_is_no_finite_number_is_refused(weight: Any) -> None:
    assert refusal("connect", **PAIR, weight=weight) == (FaultCode.INVALID_PARAMETER, "weight")


@pytest.mark.promise("CN-4")
@pytest.mark.parametrize("weight", [-3, -0.5, 0, 1, 7, 1e300])
def test_any_finite_weight_is_let_in_to_be_clamped(weight: float) -> None:
    command = check_arguments(TOOLS["connect"], {**PAIR, "weight": weight}).parameters
    assert isinstance(command, Connect)
    assert command.weight == weight
    assert set(input_schema(TOOLS["connect"])["properties"]["weight"]) == {"type", "description"}  # no bounds


@pytest.mark.promise("CN-14")
@pytest.mark.parametrize("same", ["a", "@stored"])
def test_a_link_from_a_memory_to_itself_is_refused_before_anything_is_looked_up(same: str) -> None:
    assert refusal("connect", source=same, target=same)[0] is FaultCode.SELF_LOOP


@pytest.mark.promise("CN-33")
def test_a_bad_item_travels_as_its_fault_and_leaves_the_others_alone() -> None:
    for item, code, field in [
        (5, "invalid_parameter", "edges"),
        (None, "invalid_parameter", "edges"),
        (["a", "b"], "invalid_parameter", "edges"),
        ({}, "invalid_parameter", "source"),
        ({"source": "a"}, "invalid_parameter", "target"),
        ({"source": "a", "target": " "}, "invalid_parameter", "target"),
        ({"source": "a", "target": "b\0"}, "invalid_parameter", "target"),
        ({"source": "a", "target": "\ud800"}, "invalid_parameter", "target"),
        ({"source": "a", "target": "x" * 256}, "invalid_parameter", "target"),
        ({**PAIR, "bogus": 1}, "invalid_parameter", "bogus"),
        ({**PAIR, "fault": None}, "invalid_parameter", "fault"),
        ({**PAIR, "session": "s"}, "invalid_parameter", "session"),
        ({**PAIR, "weight": math.nan}, "invalid_parameter", "weight"),
        ({**PAIR, "weight": "one"}, "invalid_parameter", "weight"),
        ({**PAIR, "if_exists": "merge"}, "invalid_parameter", "if_exists"),
        ({**PAIR, "relation": "supersedes"}, "invalid_parameter", "relation"),
        ({**PAIR, "note": " "}, "invalid_parameter", "note"),
        ({"source": "a", "target": "a"}, "self_loop", None),
        ({"source": "@stored", "target": "@stored"}, "self_loop", None),
    ]:
        first, bad, last = links_of({**PAIR, "weight": 7}, item, PAIR)
        assert (first, last) == (BatchLink(source="a", target="b", weight=7.0), BatchLink(source="a", target="b"))
        assert bad.fault
        assert (bad.fault.code, bad.fault.field or None) == (code, field)
        assert bad.fault.error
        assert bad.fault.recovery
        assert (bad.source, bad.target) == ("", "")


@pytest.mark.promise("CN-33")
def test_no_items_are_a_batch_and_too_many_are_not() -> None:
    assert links_of() == ()
    assert len(links_of(*[PAIR] * 200, atomic=True)) == 200
    assert check_arguments(TOOLS["connects"], {"edges": PAIR}) == check_arguments(TOOLS["connects"], {"edges": [PAIR]})
    for wrong in ([PAIR] * 201, "a", None, 5):
        assert refusal("connects", edges=wrong) == (FaultCode.INVALID_PARAMETER, "edges")
    assert refusal("connects") == (FaultCode.INVALID_PARAMETER, "edges")


@pytest.mark.promise("CN-33", "CN-44")
async def test_references_work_in_the_items_of_a_batch(
    service: Service, workers: WorkerSide, breadcrumbs: None
) -> None:
    items = [
        {"source": "@stored", "target": "@recalled[0]"},
        {"source": "@recalled[1]", "target": "m-5", "note": "n"},
        *({"source": "m-5", "target": reference} for reference in NOTHING),
        {"source": "m-5"},
    ]
    await call(service, "connects", edges=items, session="s")
    (envelope,) = workers.seen
    assert isinstance(envelope.command, Connects)
    first, second, *nothing, missing = envelope.command.edges
    assert first == BatchLink(source="m-9", target="m-1")
    assert second == BatchLink(source="m-2", target="m-5", note="n")
    assert len(nothing) == len(NOTHING)
    for bad in nothing:
        assert bad.fault
        assert (bad.fault.code, bad.fault.field) == (FaultCode.INVALID_PARAMETER, "target")
        assert "@recalled[N]" in bad.fault.recovery
    assert missing.fault
    assert missing.fault.field == "target"


@pytest.mark.promise("CL-3")
def test_an_id_is_taken_by_each_of_its_names_where_it_is_verified_and_promoted_and_not_by_two() -> None:
    tool = TOOLS["memory_promote_to_trusted"]
    for name in ("record_id", "recordId", "memory_id"):
        verify = check_arguments(TOOLS["verify_memory"], {name: "m", "verification": "verified"}).parameters
        assert verify.memory_id == "m"  # type: ignore[attr-defined]
        assert check_arguments(tool, {name: "m"}).parameters == PromoteMemory(record_id="m")
        assert refusal(tool.name, **{name: " "}) == (FaultCode.INVALID_PARAMETER, "record_id")
    for item, other in (("record_id", "recordId"), ("record_id", "memory_id"), ("recordId", "memory_id")):
        assert refusal(tool.name, **{item: "m", other: "n"}) == (FaultCode.INVALID_PARAMETER, "record_id")
    assert refusal(tool.name) == (FaultCode.INVALID_PARAMETER, "record_id")
    assert refusal(tool.name, recordid="m") == (FaultCode.INVALID_PARAMETER, "record_id")
    assert not {"recordId", "memory_id"} & set(input_schema(tool)["properties"])


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


STORE = TOOLS["store_memory"]
MANY = 2_000_000
HOSTILE: dict[str, dict[str, Any]] = {
    "numbers": {"tags": [1] * MANY},
    "different numbers": {"tags": list(range(MANY // 10))},
    "empty texts": {"tags": [""] * MANY},
    "lists": {"tags": [[0]] * MANY},
    "metadata": {"metadata": {str(number): number for number in range(250_000)}},
    "nested metadata": {"metadata": {"a": [[[number]] for number in range(250_000)]}},
    "half a pair at the end": {"metadata": {"a": [0] * MANY, "b": "\ud800"}},
}


@pytest.mark.parametrize("given", HOSTILE.values(), ids=HOSTILE)
def test_a_long_value_is_refused_before_its_parts_are_read(given: dict[str, Any]) -> None:
    began = time.perf_counter()
    with pytest.raises(EngramqError):
        check_arguments(STORE, {"content": "x", **given})
    assert time.perf_counter() - began < 0.1  # it took 0.6 to 1 s


def test_tags_that_repeat_count_once() -> None:
    given = {"content": "x", "tags": [f"t{number}" for number in range(TAGS)] * 2}
    assert len(check_arguments(STORE, given).parameters.tags) == TAGS  # type: ignore[attr-defined]
