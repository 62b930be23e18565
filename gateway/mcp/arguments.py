"""Check the arguments of a call: they become a command, or a refusal that names the parameter.

Missing parameters are refused first, in the order of the schema, then unknown ones, then wrong values. `meanings` first
reads values that a client sent in another form. References and cursors need Redis: the service resolves them later.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from enum import StrEnum
from functools import cache, partial
from typing import Any, Final

import msgspec

from engramq.gateway.mcp.meanings import ABSENT, OBJECT, value_meant
from engramq.gateway.mcp.schema import input_schema, object_schema, parameter_structs
from engramq.schemas import limits
from engramq.schemas.commands import Items, Tool
from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.fields import OFFSETS, compose_letters, distinct_tags, refuse_control_characters
from engramq.schemas.vocabulary import Detail

_UNKEEPABLE: Final = re.compile("[\0\ud800-\udfff]")
_INTEGERS: Final = range(-(2**63), 2**64)  # what msgpack has room for

# A client that repeats tags means each once; one that sends more than this means nothing.
_REPEATED: Final = 10  # times as many items as are taken
_PARTS_MAX: Final = limits.METADATA_BYTES // 2  # of one value, however nested: each takes two bytes of JSON or more

_TOO_LARGE: Final = f"is larger than {limits.METADATA_BYTES} bytes of JSON"

_WITHIN: Final = re.compile(r"at `\$(\[\d+\]\.\w+)`\Z", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a tool: its type, its schema, and the words that say what it takes."""

    name: str
    type: Any
    schema: Mapping[str, Any]
    required: bool

    @property
    def expected(self) -> str:
        """The values that the parameter takes, in words: 'a whole number from 1 to 50'."""
        return _describe_type(self.schema)

    def is_absent(self, given: Any) -> bool:
        """Say whether a value means: not given."""
        return value_meant(self.name, self.schema, given, required=self.required) is ABSENT

    def is_said(self, given: Any) -> bool:
        """Say whether a value says anything, if one did not have to be given."""
        return value_meant(self.name, self.schema, given, required=False) is not ABSENT

    def check(self, given: Any, zone: tzinfo = UTC) -> Any:
        """Return the value as the command holds it, ABSENT when it means: not given.

        A time without an offset is one of `zone`. Raises EngramqError naming the parameter.
        """
        value = value_meant(self.name, self.schema, given, required=self.required, zone=zone)
        if value is ABSENT:
            return ABSENT
        if isinstance(value, float) and self.schema.get("type") == "integer" and value.is_integer():
            value = int(value)  # JSON knows one kind of number: 5.0 is an integer there
        if isinstance(value, list | dict):
            self._bound(value)  # before anything looks at each part
        if isinstance(value, str | list | dict):
            if (problem := problem_in(value)) is not None:
                raise self._refusal(problem)
            value = compose_letters(value)
        if isinstance(value, list) and self.schema.get("uniqueItems") and all(isinstance(item, str) for item in value):
            value = distinct_tags(value)  # before they are counted
        try:
            checked = msgspec.convert(value, self.type)
        except msgspec.ValidationError as problem:
            wrong = f"must be {self.expected}, not {_place(problem) or self._description(value)}"
            raise self._refusal(wrong, self._word_wanted(value)) from None
        if isinstance(checked, dict) and len(msgspec.json.encode(checked)) > limits.METADATA_BYTES:
            raise self._refusal(_TOO_LARGE)
        if isinstance(checked, datetime):
            try:
                utc = checked.astimezone(UTC)
                return checked if self.name in OFFSETS else utc
            except OverflowError:
                raise self._refusal("lies outside the years 1 to 9999 in UTC") from None
        if isinstance(checked, tuple) and all(isinstance(item, StrEnum) for item in checked):
            return tuple(dict.fromkeys(checked))
        return checked

    def _bound(self, value: list[Any] | dict[Any, Any]) -> None:
        """Return if a list or an object has no more parts than it may; raises EngramqError."""
        most = self.schema.get("maxItems", _PARTS_MAX)
        if isinstance(value, list) and len(value) > most * (_REPEATED if self.schema.get("uniqueItems") else 1):
            raise self._refusal(f"must be {self.expected}, not one of {len(value)}")
        if has_more_parts(value, _PARTS_MAX):
            raise self._refusal(_TOO_LARGE)

    def _refusal(self, problem: str, recovery: str | None = None) -> EngramqError:
        return invalid(self.name, f"{self.name} {problem}.", recovery)

    def _word_wanted(self, value: Any) -> str | None:
        """Say which word of an enumeration was meant, if one was written in other capitals."""
        words = self.schema.get("enum") or self.schema.get("items", {}).get("enum", ())
        given = value if isinstance(value, list) else [value]
        meant = [item.lower() for item in given if isinstance(item, str) and item not in words]
        wanted = next((word for word in meant if word in words), None)
        return f"Write {wanted!r}: the words of {self.name} are written exactly so." if wanted else None

    def _description(self, value: Any) -> str:
        """Say what was given instead, without repeating a long text."""
        if isinstance(value, str) and not self.schema.get("enum"):
            if len(value) > self.schema.get("maxLength", len(value)):
                return f"one of {len(value)} characters"
            if not value.strip():
                return "spaces alone" if value else "an empty text"
        if isinstance(value, list) and self.schema.get("type") == "array":
            fields = self.schema["items"].get("properties")
            odd = [item for item in value if isinstance(item, list) or (fields and not isinstance(item, dict))]
            odd += [name for item in value if isinstance(item, dict) for name in item if name not in (fields or item)]
            if odd:
                return f"one with {describe_value(odd[0])} in it"
            wrong = [item for item in value if item not in self.schema.get("items", {}).get("enum", value)]
            most = self.schema.get("items", {}).get("maxLength", limits.CONTENT_CHARS)
            unfit = [len(item) for item in value if isinstance(item, str) and not (item.strip() and len(item) <= most)]
            if not wrong and unfit:
                return f"one with a text of {unfit[0]} characters" if unfit[0] > most else "one with an empty text"
            return f"one with {describe_value(wrong[0])}" if wrong else f"one of {len(value)}"
        return describe_value(value)


def _place(problem: msgspec.ValidationError) -> str:
    """Say where within an item of a list something is wrong, nothing where the value itself is."""
    found = _WITHIN.search(str(problem))
    return f"one in which {found[1]} is wrong" if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchParameter(Parameter):
    """A list of which only the length is decided as a whole: `check_item` refuses nothing, a bad item travels with its
    fault.
    """

    check_item: Callable[[Any, tzinfo], Any]

    def check(self, value: Any, zone: tzinfo = UTC) -> Any:
        """Return the items as the command holds them; raises EngramqError for what is no list, or too long a one."""
        value = value_meant(self.name, self.schema, value, required=self.required)
        if value is ABSENT:
            return ABSENT
        least, most = self.schema.get("minItems", 0), self.schema["maxItems"]
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise self._refusal(f"must be {self.expected}, not {self._description(value)}")
        return tuple(self.check_item(item, zone) for item in value)


def _describe_type(schema: Mapping[str, Any]) -> str:
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
    return f"a list of {amount}, each {_describe_type(items)}"


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


def has_more_parts(value: Any, most: int) -> bool:
    """Say whether a JSON value has more parts than so many, at all levels together; looks at no more of them."""
    waiting, parts = [value], 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | dict):
            parts += len(part)
            if parts > most:
                return True
            waiting += part.values() if isinstance(part, dict) else part
    return False


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


def describe_value(value: Any) -> str:
    """Return a short, printable form of a value for an error text: never long, never a raw control character."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if abs(value) < 10**18 else "a huge number"
    text = ascii(value) if isinstance(value, str | float) else "a list" if isinstance(value, list) else "an object"
    return text if len(text) <= 60 else f"{text[:57]}..."


def field_named(name: Any) -> str:
    """Return a name that a caller made up as a refusal may hold it: as it is, or described where it is long or odd."""
    is_plain = isinstance(name, str) and name.strip() and len(name) <= 60 and problem_in(name) is None
    return name if is_plain else describe_value(name)


_ANY_OBJECT: Final = {"type": OBJECT}
ARGUMENTS: Final = "arguments"
AROUND: Final = ("session", "idempotency_key", "detail", "max_chars")  # of a call, not of its command


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Checked arguments: `parameters` is the command (or the gateway's own Struct).

    `session` and `idempotency_key` go into the envelope, `detail` and `max_chars` say how the reply is rendered.
    """

    parameters: msgspec.Struct
    session: str | None
    idempotency_key: str | None
    detail: Detail | None
    max_chars: int | None


@cache
def parameters_of(tool: Tool) -> Mapping[str, Parameter]:
    """Return the tool's parameters by name, in the order of its schema."""
    listed = _parameters_in(input_schema(tool), *parameter_structs(tool))
    for name, items in tool.batches.items():
        whole = listed[name]
        listed[name] = BatchParameter(
            name=name,
            type=whole.type,
            schema=whole.schema,
            required=whole.required,
            check_item=partial(_item, tool, name, items, _parameters_in(object_schema(items.taken), items.taken)),
        )
    return listed


def check_arguments(tool: Tool, given: Any, zone: tzinfo = UTC) -> Arguments:
    """Return the checked arguments of a call; raises EngramqError with `invalid_parameter` that names the parameter.

    `zone`: of times that are given without an offset.
    """
    given = value_meant(ARGUMENTS, _ANY_OBJECT, given, required=True)
    if not isinstance(given, Mapping):
        raise invalid(ARGUMENTS, f"arguments must be a JSON object, not {describe_value(given)}.")
    if tool.aliases:
        given = _with_own_names(tool, given)
    checked = _values(tool.name, tool.example, parameters_of(tool), given, zone)
    around = {name: checked.pop(name, None) for name in AROUND}
    refuse_control_characters(session=around["session"])
    parameters: Any = tool.parameters(**checked)
    if tool.checks:
        parameters.check()
    return Arguments(parameters=parameters, **around)


def without_absent(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without those whose value means: not given."""
    parameters = parameters_of(tool)
    return {
        name: value
        for name, value in given.items()
        if (known := parameters.get(name)) is None or not known.is_absent(value)
    }


def _with_own_names(tool: Tool, given: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return the arguments with parameters that came by an alias under their own names."""
    takes = parameters_of(tool)
    given = {
        name: value
        for name, value in given.items()
        if name not in tool.aliases or takes[tool.aliases[name]].is_said(value)
    }
    said = {name for name in takes if takes[name].is_said(given.get(name))}
    for alias, name in tool.aliases.items():
        if alias in given and name in said:
            raise invalid(name, f"{name} was given twice: {alias} is another word for it.", f"Give {name} alone.")
        said |= {name} if alias in given else set()
    named = {name: value for name, value in given.items() if name not in tool.aliases}
    return named | {tool.aliases[name]: value for name, value in given.items() if name in tool.aliases}


def _values(
    what: str, example: str, parameters: Mapping[str, Parameter], given: Mapping[Any, Any], zone: tzinfo
) -> dict[str, Any]:
    """Return the values by name; `what` takes the parameters, and `example` shows how."""
    for parameter in parameters.values():
        if parameter.required and parameter.name not in given:
            raise invalid(
                parameter.name,
                f"{parameter.name} is missing.",
                f"Give {parameter.name}: {parameter.expected}. For example: {example}",
            )
    for name in given:
        if name not in parameters:
            raise _refuse_unknown(what, name, parameters)
    checked = {name: parameter.check(given[name], zone) for name, parameter in parameters.items() if name in given}
    values = {name: value for name, value in checked.items() if value is not ABSENT}
    for name in OFFSETS.keys() & values.keys():
        values[OFFSETS[name]] = values[name].utcoffset() // timedelta(minutes=1)
        values[name] = values[name].astimezone(UTC)
    return values


def _refuse_unknown(what: str, name: Any, parameters: Mapping[str, Parameter]) -> EngramqError:
    said, names = describe_value(name), list(parameters)
    near = [known for known in names if str(name) in known.split("_")] or get_close_matches(said, names, 1)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    takes = f"{meant}It takes {', '.join(names) or 'no parameters'}."
    return invalid(field_named(name), f"{what} has no parameter {said}.", takes)


def _item(tool: Tool, name: str, items: Items, parameters: Mapping[str, Parameter], given: Any, zone: tzinfo) -> Any:
    """Return an item of a batch as it travels: checked as if it were the arguments of a call, or with its fault."""
    given = value_meant(name, _ANY_OBJECT, given, required=True)
    try:
        if not isinstance(given, Mapping):
            raise invalid(name, f"An item of {name} must be a JSON object, not {describe_value(given)}.")
        item = items.kept(**_values(f"An item of {name}", tool.example, parameters, given, zone))
        item.check()
    except EngramqError as refusal:
        item = items.kept(fault=refusal.fault)
    return item


def _parameters_in(schema: Mapping[str, Any], *structs: type[msgspec.Struct]) -> dict[str, Parameter]:
    fields = {field.name: field for struct in structs for field in msgspec.structs.fields(struct)}
    return {
        name: Parameter(
            name=name, type=fields[name].type, schema=properties, required=name in schema.get("required", ())
        )
        for name, properties in schema["properties"].items()
    }
