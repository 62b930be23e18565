"""Checks replies against the schemas that the tools promise; pipeline tests use it for every reply that they see."""

from functools import cache
from typing import Any

import jsonschema

from engramq.gateway.mcp.schema import output_schema
from engramq.gateway.mcp.tools import TOOLS

CHECKED = 5


@cache
def _validator(tool: str) -> Any:
    # That the schemas are schemas is tested once, in test_schema: in each process it takes a second.
    schema = output_schema(TOOLS[tool])
    return jsonschema.Draft202012Validator(_without_references(schema, schema["$defs"]))


def _without_references(schema: Any, definitions: dict[str, Any]) -> Any:
    """Return a schema with what its references stand for in their places: looking them up takes a third of the time."""
    if isinstance(schema, list):
        return [_without_references(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if (reference := schema.get("$ref")) is not None:
        assert schema.keys() == {"$ref"}
        return _without_references(definitions[reference.rpartition("/")[2]], definitions)
    return {name: _without_references(part, definitions) for name, part in schema.items() if name != "$defs"}


def _some(value: object) -> object:
    """Return a value that is quick to validate: a memory takes 1 ms, and those of one list are all made alike."""
    return value[:CHECKED] if isinstance(value, list) and len(value) > CHECKED else value


def check_reply(tool: str, body: object, *, is_error: bool) -> dict[str, Any]:
    """Return the body of a tool's reply after proving that it has a promised shape and that isError is right."""
    assert isinstance(body, dict), f"{tool} answered {type(body).__name__}"
    _validator(tool).validate({name: _some(value) for name, value in body.items()})
    refused = body["status"] in {"error", "invalid_parameter"}
    assert is_error == refused, f"{tool}: isError is {is_error} with status {body['status']}"
    if refused:
        assert body["error"]
        assert body["recovery"]
    return body
