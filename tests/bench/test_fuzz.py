"""The calls of the fuzz: of every tool, and most of them as the schemas want them."""

from collections import Counter

import jsonschema

from bench.fuzz import Arguments
from engramq.gateway.mcp.schema import input_schema
from engramq.schemas.commands import TOOLS

ID = "0190b6a1-8c1e-7d2a-9f00-3c5b7e9d1a42"


def test_every_tool_is_called_and_more_than_half_of_the_calls_fit() -> None:
    calls = [Arguments(f"1/{block}").call() for block in range(3_000)]
    assert {name for name, _ in calls} == set(TOOLS)
    validators = {name: jsonschema.Draft202012Validator(input_schema(tool)) for name, tool in TOOLS.items()}
    fitting = Counter(validators[name].is_valid(given) for name, given in calls)
    assert fitting[True] > fitting[False] > 500, fitting
