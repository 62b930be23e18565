"""The check of a call's arguments: they become a command, or a refusal that names the parameter.

Decided before anything is enqueued: missing parameters first, in the order of the schema, then unknown ones, then each
value. What needs Redis (references, cursors) is resolved by the service afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import msgspec

from engramq.gateway.mcp.parameters import ABSENT, BatchParameter, Parameter, meaning, problem_in, shown
from engramq.gateway.mcp.schema import input_schema, object_schema, parameter_structs
from engramq.schemas.commands import Items, Tool
from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.vocabulary import Detail

_ANY_OBJECT: Final = {"type": "object"}
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
    listed = _listed(input_schema(tool), *parameter_structs(tool))
    for name, items in tool.batches.items():
        whole = listed[name]
        listed[name] = BatchParameter(
            name=name,
            type=whole.type,
            schema=whole.schema,
            required=whole.required,
            check_item=partial(_item, tool, name, items, _listed(object_schema(items.taken), items.taken)),
        )
    return listed


def check_arguments(tool: Tool, given: Any) -> Arguments:
    """Return the checked arguments of a call; raises EngramqError with `invalid_parameter` that names the parameter."""
    if not isinstance(given, Mapping):
        raise invalid(ARGUMENTS, f"arguments must be a JSON object, not {shown(given)}.")
    if tool.aliases:
        given = _with_own_names(tool, given)
    checked = _checked(tool.name, tool.example, parameters_of(tool), given)
    around = {name: checked.pop(name, None) for name in AROUND}
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


def _checked(what: str, example: str, parameters: Mapping[str, Parameter], given: Mapping[Any, Any]) -> dict[str, Any]:
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
            raise _unknown(what, name, parameters)
    checked = {name: parameter.check(given[name]) for name, parameter in parameters.items() if name in given}
    return {name: value for name, value in checked.items() if value is not ABSENT}


def _unknown(what: str, name: Any, parameters: Mapping[str, Parameter]) -> EngramqError:
    known = f"It takes {', '.join(parameters)}." if parameters else "It takes no parameters."
    readable = isinstance(name, str) and name.strip() and len(name) <= 60 and problem_in(name) is None
    field = name if readable else shown(name)
    return invalid(field, f"{what} has no parameter {shown(name)}.", known)


def _item(tool: Tool, name: str, items: Items, parameters: Mapping[str, Parameter], given: Any) -> Any:
    """Return an item of a batch as it travels: checked as if it were the arguments of a call, or with its fault."""
    given = meaning(name, _ANY_OBJECT, given, required=True)
    try:
        if not isinstance(given, Mapping):
            raise invalid(name, f"An item of {name} must be a JSON object, not {shown(given)}.")
        item = items.kept(**_checked(f"An item of {name}", tool.example, parameters, given))
        item.check()
    except EngramqError as refusal:
        item = items.kept(fault=refusal.fault)
    return item


def _listed(schema: Mapping[str, Any], *structs: type[msgspec.Struct]) -> dict[str, Parameter]:
    fields = {field.name: field for struct in structs for field in msgspec.structs.fields(struct)}
    return {
        name: Parameter(
            name=name,
            type=fields[name].type,
            schema=properties,
            required=name in schema.get("required", ()),
        )
        for name, properties in schema["properties"].items()
    }
