"""Write the OpenAPI document of REST from the Structs of the tools."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from engramq.gateway.mcp.arguments import parameters_of
from engramq.gateway.mcp.schema import ErasedSince, PendingReply, output_schema
from engramq.gateway.rest.requests import KEY, MISSING
from engramq.schemas.commands import TOOLS, Tool
from engramq.schemas.faults import Fault, FaultCode

VERSION: Final = "1.0.0"  # of the interface: its first number is that of /v1
_REF: Final = "#/components/schemas/"
_REJECTED: Final = "Rejected"
METHOD_NAME: Final = "x-method-name"  # of our clients
_SAMPLE_ID: Final = "018f9c3e-7a52-7c1b-9d44-5be1c2a3f{:03}"
_DESCRIPTION: Final = """\
Long-term memory for agents and programs. Each operation is a tool of the MCP server, with the same parameters, \
checks, refusals, scopes and limits, and its operationId is the tool's name.

Every answer is a JSON object with `status`, which says what happened. A refusal has `code`, `error` and `recovery`. \
A write that is not answered in time is answered 202 with `command_id`: get_command gives its reply. Send an \
`Idempotency-Key` with every write, and a repeated request is carried out once.

Replies are whole by default (`detail=full`, and the largest `max_chars`). References such as `@stored` work in calls \
that name a `session`.\
"""
_SHARED: Final[
    Mapping[str, tuple[int, str, bool]]
] = {  # status, meaning, whether a server ahead of the tools may say it
    "Invalid": (400, "A parameter cannot be used; `field` names it. Nothing has happened.", False),
    "Unauthorized": (401, "A bearer token is needed, or this one is not valid.", True),
    "Forbidden": (403, "The caller may not do this, or a quota is used up.", True),
    "Conflict": (409, "A stored thing stands in the way; `recovery` says what to do.", False),
    "KeyReused": (422, "The idempotency key was used for another request.", False),
    "TooMany": (429, "Too many calls: repeat after the seconds of Retry-After.", True),
    "Failed": (500, "The server failed at this call.", False),
    "Away": (503, "Nothing was applied: repeat after the seconds of Retry-After.", True),
}
_OF_WRITES: Final = frozenset({"Conflict", "KeyReused"})
_KEY_HEADER: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "To repeat the call safely: the same key with the same request is carried out once.",
}


@cache
def document() -> dict[str, Any]:
    """Return the whole document."""
    paths: dict[str, Any] = {}
    for tool in TOOLS.values():
        paths.setdefault(tool.path, {})[tool.method.lower()] = _describe(tool)
    return {
        "openapi": "3.1.0",
        "info": {"title": "engramq", "version": VERSION, "description": _DESCRIPTION, "license": _LICENSE},
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "responses": {name: _share_answer(*said) for name, said in _SHARED.items()},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "From `engramq token create`, or your issuer; none for the owner of a local server.",
                }
            },
        },
    }


_LICENSE: Final = {"name": "Apache 2.0", "identifier": "Apache-2.0"}


def _describe(tool: Tool) -> dict[str, Any]:
    listed = parameters_of(tool)
    example = example_of(tool)
    beside = {name: parameter.schema for name, parameter in listed.items() if name not in tool.in_path and name != KEY}
    described: dict[str, Any] = {
        "operationId": tool.name,
        METHOD_NAME: tool.client_name,
        "tags": [tool.path.split("/")[2]],
        "summary": tool.title,
        "description": f"{tool.summary}\n\nScope: `{tool.scope}`.",
        "parameters": [_parameter(name, "path", listed[name].schema, True, example) for name in tool.in_path],
    }
    if tool.has_body:
        required = [name for name in beside if listed[name].required]
        described["requestBody"] = {
            "required": bool(required),
            "content": {
                "application/json": {
                    "schema": _object(beside, required),
                    "example": {name: value for name, value in example.items() if name in beside},
                }
            },
        }
    else:
        described["parameters"] += [
            _parameter(name, "query", schema, listed[name].required, example) for name, schema in beside.items()
        ]
    if tool.write:
        schema = {name: value for name, value in listed[KEY].schema.items() if name != "description"}
        described["parameters"].append({**_KEY_HEADER, "schema": schema})
    if not described["parameters"]:
        del described["parameters"]
    described["responses"] = _responses(tool)
    return described


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    whole = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**whole, "required": required} if required else whole


def _parameter(name: str, place: str, schema: Mapping[str, Any], required: bool, example: Mapping[str, Any]) -> Any:
    parameter: dict[str, Any] = {"name": name, "in": place, "required": required}
    if "description" in schema:
        parameter["description"] = schema["description"]
    parameter["schema"] = {key: value for key, value in schema.items() if key != "description"}
    if name in example:
        parameter["example"] = example[name]
    return parameter


def example_of(tool: Tool) -> dict[str, Any]:
    """Return the arguments of the guide's example, with an id for each reference to an earlier step."""
    arguments = msgspec.to_builtins(TOOLS[tool.name].guide.example.arguments)
    names = [name for name in arguments if name != "session" or tool.name in ("begin_session", "get_breadcrumbs")]
    ids: dict[str, str] = {}
    return {name: _plain(arguments[name], ids) for name in names}


def _plain(value: Any, ids: dict[str, str]) -> Any:
    """Return a value with an id in place of each reference, the same for the same; `ids` are those so far."""
    match value:
        case str() if value.startswith(("@", "<")):
            return ids.setdefault(value, _SAMPLE_ID.format(len(ids) + 1))
        case list():
            return [_plain(item, ids) for item in value]
        case dict():
            return {name: _plain(item, ids) for name, item in value.items()}
    return value


def _responses(tool: Tool) -> dict[str, Any]:
    """Return what the operation may answer: replies by the words of their `status`, refusals as they are shared."""
    shapes = output_schema(tool, whole=True)
    roots = [root["$ref"].rpartition("/")[2] for root in shapes["anyOf"]]
    replies = {name: _words(name, shapes["$defs"]) for name in roots if name not in _APART}
    found = [name for name, words in replies.items() if words - MISSING]
    missing = [name for name, words in replies.items() if words & MISSING]
    responses = {"200": _answer("Done; `status` says what happened.", found)}
    if tool.write:
        responses["200"] = _answer("Done; `status` says what happened.", [*found, ErasedSince.__name__])
        responses["202"] = _answer("Not answered in time; get_command has the reply later.", [PendingReply.__name__])
    if missing:
        responses["404"] = _answer("The named thing does not exist.", missing)
    shared = {name: said for name, said in _SHARED.items() if tool.write or name not in _OF_WRITES}
    responses |= {str(status): {"$ref": f"#/components/responses/{name}"} for name, (status, _, _) in shared.items()}
    responses["default"] = _answer("The request was refused ahead of the operation.", [Fault.__name__, _REJECTED])
    return dict(sorted(responses.items()))


_APART: Final = frozenset({Fault.__name__, PendingReply.__name__, ErasedSince.__name__})


def _words(name: str, shapes: Mapping[str, Any]) -> frozenset[str]:
    status = shapes[name]["properties"]["status"]
    return frozenset(shapes[status["$ref"].rpartition("/")[2]]["enum"] if "$ref" in status else status["enum"])


def _answer(description: str, shapes: Iterable[str]) -> dict[str, Any]:
    schemas = [{"$ref": _REF + name} for name in shapes]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _share_answer(status: int, meaning: str, ahead: bool) -> dict[str, Any]:
    codes = ", ".join(f"`{code}`" for code in FaultCode if code.http_status == status)
    said = _answer(f"{meaning} Codes: {codes}." if codes else meaning, [*(_REJECTED for _ in range(ahead)), "Fault"])
    if status in (429, 503):
        said["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}
    return said


def _schemas() -> dict[str, Any]:
    """Return the shapes of all replies; a name means one shape."""
    found: dict[str, Any] = {
        _REJECTED: {
            "type": "object",
            "description": "A request that was refused before its operation: no token, a foreign Host, a busy server.",
            "properties": {"status": {"enum": ["error"]}, "error": {"type": "string"}, "recovery": {"type": "string"}},
            "required": ["status", "error"],
        }
    }
    for tool in TOOLS.values():
        for name, shape in output_schema(tool, whole=True)["$defs"].items():
            moved = _move_references(shape)
            if found.setdefault(name, moved) != moved:
                raise ValueError(f"{name} means two shapes")
    return dict(sorted(found.items()))


def _move_references(node: Any) -> Any:
    """Return a schema whose references are to the document's components."""
    match node:
        case dict():
            moved = {key: _move_references(value) for key, value in node.items()}
            if "$ref" in moved:
                moved["$ref"] = _REF + moved["$ref"].rpartition("/")[2]
            return moved
        case list():
            return [_move_references(item) for item in node]
    return node


def write_document() -> str:
    """Return the document as docs/openapi.json holds it."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"
