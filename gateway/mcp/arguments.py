"""The check at the door: from the arguments of a call to a command, or a refusal that names the parameter.

Decided before anything is enqueued: missing parameters first, in the order of the schema, then unknown ones, then each
value. What needs Redis (references, cursors) is resolved by the service afterwards.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, Final

import msgspec

from gateway.mcp.schema import input_schema, parameter_structs
from gateway.mcp.texts import json_problem, shown, size_problem, text_problem
from gateway.mcp.tools.tool import Tool
from schemas.commands import Command
from schemas.faults import EngramqError, invalid

ARGUMENTS: Final = "arguments"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Checked arguments: `parameters` is the command (or the gateway's own Struct), the rest goes into the envelope."""

    parameters: msgspec.Struct
    session: str | None
    idempotency_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a tool: its type, its schema, and the words that say what it takes."""

    name: str
    type: Any
    schema: Mapping[str, Any]
    required: bool

    @property
    def expected(self) -> str:
        """What the parameter takes, in words: 'a whole number from 1 to 50'."""
        return _expected(self.schema)

    def check(self, value: Any) -> Any:
        """Return the value as the command holds it; raises EngramqError naming the parameter."""
        if isinstance(value, float) and self.schema.get("type") == "integer" and value.is_integer():
            value = int(value)  # JSON knows one kind of number: 5.0 is an integer there
        if isinstance(value, str | list | dict):
            self._refuse_if(json_problem(value))
        try:
            checked = msgspec.convert(value, self.type)
        except msgspec.ValidationError:
            raise invalid(self.name, f"{self.name} must be {self.expected}, not {self._found(value)}.") from None
        return self._kept(checked)

    def _kept(self, checked: Any) -> Any:
        if isinstance(checked, dict):
            self._refuse_if(size_problem(checked))
        elif isinstance(checked, datetime):
            try:
                return checked.astimezone(UTC)
            except OverflowError:
                raise invalid(self.name, f"{self.name} lies outside the years 1 to 9999 in UTC.") from None
        elif isinstance(checked, tuple) and all(isinstance(item, StrEnum) for item in checked):
            return tuple(dict.fromkeys(checked))
        return checked

    def _refuse_if(self, problem: str | None) -> None:
        if problem is not None:
            raise invalid(self.name, f"{self.name} {problem}.")

    def _found(self, value: Any) -> str:
        """Say what was given instead, without repeating a long text."""
        if isinstance(value, str) and not self.schema.get("enum"):
            if len(value) > self.schema.get("maxLength", len(value)):
                return f"one of {len(value)} characters"
            if not value.strip():
                return "a blank one"
        if isinstance(value, list):
            wrong = [item for item in value if item not in self.schema.get("items", {}).get("enum", value)]
            return f"one with {shown(wrong[0])}" if wrong else f"one of {len(value)}"
        return shown(value)


@cache
def parameters_of(tool: Tool) -> Mapping[str, Parameter]:
    """Return the tool's parameters by name, in the order of its schema."""
    schema = input_schema(tool)
    fields = {field.name: field for struct in parameter_structs(tool) for field in msgspec.structs.fields(struct)}
    return {
        name: Parameter(
            name=name,
            type=fields[name].type,
            schema=properties,
            required=name in schema.get("required", ()),
        )
        for name, properties in schema["properties"].items()
    }


def check_arguments(tool: Tool, given: Any) -> Arguments:
    """Return the checked arguments of a call; raises EngramqError with `invalid_parameter` that names the parameter."""
    if not isinstance(given, Mapping):
        raise invalid(ARGUMENTS, f"arguments must be a JSON object, not {shown(given)}.")
    parameters = parameters_of(tool)
    for parameter in parameters.values():
        if parameter.required and parameter.name not in given:
            raise invalid(
                parameter.name,
                f"{parameter.name} is missing.",
                f"Give {parameter.name}: {parameter.expected}. For example: {tool.example}",
            )
    for name in given:
        if name not in parameters:
            raise _unknown(tool, name, parameters)
    checked = {name: parameter.check(given[name]) for name, parameter in parameters.items() if name in given}
    session = checked.pop("session", None)
    idempotency_key = checked.pop("idempotency_key", None)
    command = tool.parameters(**checked)
    if isinstance(command, Command):
        command.check()
    return Arguments(
        parameters=command,
        session=session,
        idempotency_key=idempotency_key,
    )


def _unknown(tool: Tool, name: Any, parameters: Mapping[str, Parameter]) -> EngramqError:
    known = f"It takes {', '.join(parameters)}." if parameters else "It takes no parameters."
    readable = isinstance(name, str) and name.strip() and len(name) <= 60 and text_problem(name) is None
    field = name if readable else shown(name)
    return invalid(field, f"{tool.name} has no parameter {shown(name)}.", known)


def _expected(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    return _EXPECTED[schema["type"]](schema)


def _expected_text(schema: Mapping[str, Any]) -> str:
    if schema.get("format") == "date-time":
        return "an RFC 3339 time with a zone, such as 2026-01-31T09:00:00Z"
    if "maxLength" not in schema:
        return "a text"
    return f"a text of 1 to {schema['maxLength']} characters that is not blank"


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    if low is None or high is None:
        return ""
    return f" from {low} to {high}" if "minimum" in schema else f" above {low} and at most {high}"


def _expected_list(schema: Mapping[str, Any]) -> str:
    least = schema.get("minItems", 0)
    amount = f"at most {schema['maxItems']}" if least == 0 else f"{least} to {schema['maxItems']}"
    items = schema["items"]
    return f"a list of {amount}, each {_expected(items)}"


_EXPECTED: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "string": _expected_text,
    "integer": lambda schema: f"a whole number{_bounds(schema)}",
    "number": lambda schema: f"a number{_bounds(schema)}",
    "boolean": lambda schema: "true or false",  # noqa: ARG005 - one shape for all
    "array": _expected_list,
    "object": lambda schema: "a JSON object",  # noqa: ARG005 - one shape for all
}
