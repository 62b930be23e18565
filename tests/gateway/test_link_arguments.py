"""What the tools on links and trust take at the door, and how a bad item of a batch travels."""

import math
from typing import Any

import pytest

from engramq.gateway.mcp.arguments import check_arguments
from engramq.gateway.mcp.schema import input_schema
from engramq.gateway.service import Service
from engramq.schemas.codec import decode_envelope, encode
from engramq.schemas.commands import TOOLS, BatchLink, Command, Connect, Connects, PromoteMemory
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.faults import EngramqError, FaultCode
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
@pytest.mark.parametrize("tool", ["connect", "connect_by_query"])
@pytest.mark.parametrize("word", ["merge", " ", "Reinforce", "nul", 5])
def test_an_unknown_word_for_if_exists_is_refused_with_the_known_ones(tool: str, word: Any) -> None:
    given = PAIR if tool == "connect" else {"source_query": "a", "target_query": "b"}
    assert refusal(tool, **given, if_exists=word) == (FaultCode.INVALID_PARAMETER, "if_exists")


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


@pytest.mark.parametrize("tool", ["connect", "connect_by_query"])
def test_only_supersede_memory_writes_supersedes(tool: str) -> None:
    given = PAIR if tool == "connect" else {"source_query": "a", "target_query": "b"}
    assert refusal(tool, **given, relation="supersedes") == (FaultCode.INVALID_PARAMETER, "relation")


@pytest.mark.promise("CN-33")
@pytest.mark.parametrize(
    ("item", "code", "field"),
    [
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
    ],
)
def test_a_bad_item_travels_as_its_fault_and_leaves_the_others_alone(item: Any, code: str, field: str | None) -> None:
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
    for wrong in ([PAIR] * 201, PAIR, "a", None, 5):
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


def test_a_promotion_takes_its_id_by_either_name_and_not_by_both() -> None:
    tool = TOOLS["memory_promote_to_trusted"]
    for name in ("record_id", "recordId", "memory_id"):
        assert check_arguments(tool, {name: "m"}).parameters == PromoteMemory(record_id="m")
        assert refusal(tool.name, **{name: " "}) == (FaultCode.INVALID_PARAMETER, "record_id")
    for item, other in (("record_id", "recordId"), ("record_id", "memory_id"), ("recordId", "memory_id")):
        assert refusal(tool.name, **{item: "m", other: "n"}) == (FaultCode.INVALID_PARAMETER, "record_id")
    assert refusal(tool.name) == (FaultCode.INVALID_PARAMETER, "record_id")
    assert refusal(tool.name, recordid="m") == (FaultCode.INVALID_PARAMETER, "record_id")
    assert not {"recordId", "memory_id"} & set(input_schema(tool)["properties"])
