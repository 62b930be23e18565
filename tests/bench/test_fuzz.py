"""The calls of the fuzz: the same for the same seed, of every tool, and most of them as the schemas want them."""

import json
from collections import Counter
from pathlib import Path

import jsonschema

from bench.fuzz import SHOWN, Arguments, Tally
from engramq.gateway.mcp.schema import input_schema
from engramq.schemas.commands import TOOLS

ID = "0190b6a1-8c1e-7d2a-9f00-3c5b7e9d1a42"


def test_calls_depend_on_the_seed_alone_and_can_be_sent() -> None:
    first, second, third = Arguments("1/7"), Arguments("1/7"), Arguments("1/8")
    made = [json.dumps(first.call()) for _ in range(200)]
    assert made == [json.dumps(second.call()) for _ in range(200)]
    assert made != [json.dumps(third.call()) for _ in range(200)]


def test_every_tool_is_called_and_more_than_half_of_the_calls_fit() -> None:
    calls = [Arguments(f"1/{block}").call() for block in range(3_000)]
    assert {name for name, _ in calls} == set(TOOLS)
    validators = {name: jsonschema.Draft202012Validator(input_schema(tool)) for name, tool in TOOLS.items()}
    fitting = Counter(validators[name].is_valid(given) for name, given in calls)
    assert fitting[True] > fitting[False] > 500, fitting


def test_a_tally_goes_on_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "fuzz.json"
    tally = Tally.of(file, "1")
    for _ in range(2 * SHOWN):
        tally.count("get_memory", {"memory_id": "x"}, "internal", 0.1)
    tally.count("get_memory", [], "protocol -32602", 0.1)
    tally.keep(file)
    again = Tally.of(file, "2")
    assert (again.seed, again.calls, again.internal, len(again.failures)) == ("1", 2 * SHOWN + 1, 2 * SHOWN, SHOWN)
    assert again == tally
