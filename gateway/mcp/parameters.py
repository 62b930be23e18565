"""One parameter of a tool: what it takes, in a type and in words, and the check of a value."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from engramq.gateway.mcp.lenient import ABSENT, meaning
from engramq.schemas import limits
from engramq.schemas.faults import EngramqError, invalid

_UNKEEPABLE: Final = re.compile("[\0\ud800-\udfff]")
_INTEGERS: Final = range(-(2**63), 2**64)  # what msgpack has room for


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

    def is_absent(self, given: Any) -> bool:
        """Say whether a value means: not given."""
        return meaning(self.name, self.schema, given, required=self.required) is ABSENT

    def is_said(self, given: Any) -> bool:
        """Say whether a value says anything, if one did not have to be given."""
        return meaning(self.name, self.schema, given, required=False) is not ABSENT

    def check(self, given: Any) -> Any:
        """Return the value as the command holds it, ABSENT when it means: not given.

        Raises EngramqError naming the parameter.
        """
        value = meaning(self.name, self.schema, given, required=self.required)
        if value is ABSENT:
            return ABSENT
        if isinstance(value, float) and self.schema.get("type") == "integer" and value.is_integer():
            value = int(value)  # JSON knows one kind of number: 5.0 is an integer there
        if isinstance(value, str | list | dict) and (problem := problem_in(value)) is not None:
            raise self._refusal(problem)
        if isinstance(value, list) and self.schema.get("uniqueItems") and all(isinstance(item, str) for item in value):
            value = list(dict.fromkeys(value))  # before they are counted
        try:
            checked = msgspec.convert(value, self.type)
        except msgspec.ValidationError:
            raise self._refusal(f"must be {self.expected}, not {self._found(given)}") from None
        if isinstance(checked, dict) and len(msgspec.json.encode(checked)) > limits.METADATA_BYTES:
            raise self._refusal(f"is larger than {limits.METADATA_BYTES} bytes of JSON")
        if isinstance(checked, datetime):
            try:
                return checked.astimezone(UTC)
            except OverflowError:
                raise self._refusal("lies outside the years 1 to 9999 in UTC") from None
        if isinstance(checked, tuple) and all(isinstance(item, StrEnum) for item in checked):
            return tuple(dict.fromkeys(checked))
        return checked

    def _refusal(self, problem: str) -> EngramqError:
        return invalid(self.name, f"{self.name} {problem}.")

    def _found(self, value: Any) -> str:
        """Say what was given instead, without repeating a long text."""
        if isinstance(value, str) and not self.schema.get("enum"):
            if len(value) > self.schema.get("maxLength", len(value)):
                return f"one of {len(value)} characters"
            if not value.strip():
                return "a blank one"
        if isinstance(value, list) and self.schema.get("type") == "array":
            wrong = [item for item in value if item not in self.schema.get("items", {}).get("enum", value)]
            return f"one with {shown(wrong[0])}" if wrong else f"one of {len(value)}"
        return shown(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchParameter(Parameter):
    """A list of which only the length is decided as a whole: `check_item` refuses nothing, a bad item travels with its
    fault.
    """

    check_item: Callable[[Any], Any]

    def check(self, value: Any) -> Any:
        """Return the items as the command holds them; raises EngramqError for what is no list, or too long a one."""
        least, most = self.schema.get("minItems", 0), self.schema["maxItems"]
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise self._refusal(f"must be {self.expected}, not {self._found(value)}")
        return tuple(self.check_item(item) for item in value)


def _expected(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    return _EXPECTED[schema["type"]](schema)


def _expected_text(schema: Mapping[str, Any]) -> str:
    if schema.get("format") == "date-time":
        return "a date or an RFC 3339 time, such as 2026-01-31 or 2026-01-31T09:00:00Z"
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


def _expected_object(schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return "a JSON object"
    required = schema.get("required", ())
    return "an object of " + ", ".join(name if name in required else f"{name}?" for name in schema["properties"])


_EXPECTED: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "string": _expected_text,
    "integer": lambda schema: f"a whole number{_bounds(schema)}",
    "number": lambda schema: f"a number{_bounds(schema)}",
    "boolean": lambda schema: "true or false",  # noqa: ARG005 - one shape for all
    "array": _expected_list,
    "object": _expected_object,
}


def problem_in(value: Any, levels: int = limits.METADATA_DEPTH) -> str | None:
    """Say what is wrong with a JSON value that PostgreSQL, UTF-8 or msgpack cannot hold, or None.

    That is a text with a NUL or half a surrogate pair, a number without end, or nesting more than `levels` deep.
    """
    if isinstance(value, str):
        kept = _UNKEEPABLE.search(value) is None
        return None if kept else "holds a NUL character or half of a surrogate pair, which cannot be kept"
    if isinstance(value, dict):
        parts: list[Any] = [part for item in value.items() for part in item]
    elif isinstance(value, list):
        parts = value
    else:
        return _number_problem(value)
    if levels == 0:
        return f"is nested more than {limits.METADATA_DEPTH} levels deep"
    return next((problem for part in parts if (problem := problem_in(part, levels - 1))), None)


def _number_problem(value: Any) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return "holds NaN or an infinity"
    if isinstance(value, int) and value not in _INTEGERS:
        return "holds a whole number beyond 64 bits"
    return None


def shown(value: Any) -> str:
    """Return a short, printable form of a value for an error text: never long, never a raw control character."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if abs(value) < 10**18 else "a huge number"
    text = ascii(value) if isinstance(value, str | float) else "a list" if isinstance(value, list) else "an object"
    return text if len(text) <= 60 else f"{text[:57]}..."
