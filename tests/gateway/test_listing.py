"""What a model reads before it calls: the listed schemas, the descriptions, the instructions, and for whom."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from engramq.gateway.mcp.tools import TOOLS
from engramq.gateway.service import Service
from tests.gateway.test_server import ERAS, client_of

pytestmark = pytest.mark.anyio

PROFILES: Final = ["full", "core", "get_edge,record_outcome,connects"]
TYPES: Final = {"object", "array", "string", "integer", "number", "boolean"}
OF_EVERY_SCHEMA: Final = {"type", "description", "default"}
OF_TYPE: Final[Mapping[str, set[str]]] = {
    "object": {"properties", "required"},
    "array": {"items"},
    "string": {"enum"},
    "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "boolean": set(),
}
NOT_EMPTY: Final = ("get_edge", ("source_name", "target_name", "relation"))


def parts(schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield a schema and every schema within it, each with the names that lead to it."""
    yield path, schema
    for name, within in schema.get("properties", {}).items():
        yield from parts(within, (*path, name))
    if "items" in schema:
        yield from parts(schema["items"], (*path, "items"))


@pytest.mark.promise("AG-13")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("profile", PROFILES)
async def test_listed_schemas_stay_in_the_subset_that_every_host_takes(
    service: Service, profile: str, era: str
) -> None:
    async with client_of(service, era, profile) as client:
        listed = (await client.list_tools()).tools
    assert listed
    for tool in listed:
        assert tool.input_schema["type"] == "object"
        for path, schema in parts(tool.input_schema):
            where = (tool.name, *path)
            assert schema["type"] in TYPES, where
            allowed = OF_EVERY_SCHEMA | OF_TYPE[schema["type"]]
            if tool.name == NOT_EMPTY[0] and len(path) == 1 and path[0] in NOT_EMPTY[1]:
                assert schema["minLength"] == 1
                allowed = allowed | {"minLength"}
            assert set(schema) <= allowed, where
            assert set(schema.get("required", ())) <= set(schema.get("properties", {})), where


async def test_what_the_listing_leaves_out_is_still_refused(service: Service) -> None:
    async with client_of(service, ERAS[1]) as client:
        for tool, wrong in (
            ("store_memory", {"content": " "}),
            ("store_memory", {"content": "x", "occurred_at": "yesterday"}),
            ("search_memories", {"query": "x", "partitions": []}),
            ("record_outcome", {"memory_ids": ["m"], "signal": 1, "weight": 0}),
            ("connects", {"edges": [{}] * 201}),
            ("memory_stats", {"undeclared": 1}),
        ):
            answer = await client.call_tool(tool, wrong)
            assert answer.structured_content is not None
            assert answer.structured_content["status"] == "invalid_parameter", (tool, wrong)


def test_only_a_parameter_of_the_tool_is_listed_as_not_empty() -> None:
    assert {tool.name: tool.shown_as_not_empty for tool in TOOLS.values() if tool.shown_as_not_empty} == dict(
        [NOT_EMPTY]
    )
