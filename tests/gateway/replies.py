"""Checks replies against the schemas that the tools promise; pipeline tests use it for every reply that they see."""

from functools import cache
from typing import Any

import jsonschema_rs  # jsonschema took a tenth of the time of these tests

from engramq.gateway.mcp.schema import output_schema
from engramq.schemas.commands import TOOLS


@cache
def _validator(tool: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(output_schema(TOOLS[tool]))


def check_reply(tool: str, body: object, *, is_error: bool) -> dict[str, Any]:
    """Return the body of a tool's reply after proving that it has a promised shape and that isError is right."""
    assert isinstance(body, dict), f"{tool} answered {type(body).__name__}"
    _validator(tool).validate(body)
    refused = body["status"] in {"error", "invalid_parameter"}
    assert is_error == refused, f"{tool}: isError is {is_error} with status {body['status']}"
    if refused:
        assert body["error"]
        assert body["recovery"]
    return body
