"""Make the JSON Schemas of the tools, of arguments and replies, from the same Structs that travel."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, UnsetType

from engramq.gateway.brief import BARE_FORMS, BRIEF_FORMS, OF_RECORD, TELLING_NULLS
from engramq.schemas import limits, vocabulary
from engramq.schemas.commands import Tool
from engramq.schemas.faults import Fault
from engramq.schemas.fields import OFFSETS, IdempotencyKey, SessionName
from engramq.schemas.records import ReferencedMemory
from engramq.schemas.vocabulary import Detail, Status

_REF: Final = "#/$defs/"
# What every host's converter of schemas takes. The door checks the rest, which would cost context and help no model.
LISTED_KEYS: Final = frozenset(
    {"type", "properties", "required", "enum", "items", "minimum", "maximum", "default", "description"}
)
# In several tools, with a name that says it all: only the docs describe them.
SAID_BY_NAME: Final = frozenset(
    {
        *("cursor", "detail", "idempotency_key", "max_chars", "session", "speaker"),
        *("stored_since", "stored_until", "until", "valid_from", "valid_until"),
    }
)
LISTED_MAXIMUM: Final = 1_000  # what is larger (a budget, a position) no model comes near
LEAST_COUNT: Final = 1  # that a number of things is no less goes without saying


class SessionParameter(msgspec.Struct, kw_only=True):
    """The parameter of every tool that leaves or reads breadcrumbs."""

    session: Annotated[SessionName, Meta(description="From begin_session")] | UnsetType = msgspec.UNSET


class Idempotency(msgspec.Struct, kw_only=True):
    """The parameter of every tool that writes."""

    idempotency_key: Annotated[IdempotencyKey, Meta(description="To repeat the call safely")] | UnsetType = (
        msgspec.UNSET
    )


class Bounded(msgspec.Struct, kw_only=True):
    """The parameter of every tool whose replies hold contents."""

    max_chars: (
        Annotated[int, Meta(ge=limits.REPLY_CHARS_MIN, le=limits.REPLY_CHARS_MAX, description="Budget of the reply")]
        | UnsetType
    ) = msgspec.UNSET


class Detailed(msgspec.Struct, kw_only=True):
    """The parameter of every tool that answers with memories."""

    detail: Annotated[Detail, Meta(description="full: every field")] | UnsetType = msgspec.UNSET


class PendingReply(msgspec.Struct, kw_only=True):
    """A write that was not answered in time; get_command gives its reply later."""

    status: Literal["pending"] = "pending"
    command_id: str
    resolved_references: dict[str, ReferencedMemory] | UnsetType = msgspec.UNSET


class ErasedSince(msgspec.Struct, kw_only=True):
    """The replay of a write whose memory has been erased since."""

    status: Literal["erased"] = "erased"
    id: str


def parameter_structs(tool: Tool) -> tuple[type[msgspec.Struct], ...]:
    """Return the Structs whose fields together are the tool's parameters, in the order of the schema."""
    extra = (
        (Detailed, tool.detailed),
        (Bounded, tool.bounded),
        (SessionParameter, tool.takes_session),
        (Idempotency, tool.write),
    )
    return (tool.parameters, *(struct for struct, taken in extra if taken))


@cache
def input_schema(tool: Tool) -> dict[str, Any]:
    """Return the whole schema of the tool's arguments, for checks and docs: nothing undeclared allowed."""
    schema = object_schema(*parameter_structs(tool))
    for name, items in tool.batches.items():
        schema["properties"][name]["items"] = object_schema(items.taken)
    return schema


@cache
def listed_schema(tool: Tool) -> dict[str, Any]:
    """Return the schema of the tool's arguments as clients see it: a subset that every host takes."""
    whole = input_schema(tool)
    schema: dict[str, Any] = _for_clients(whole)
    for name, items in tool.batches.items():
        if not items.listed:
            schema["properties"][name]["items"] = {"type": "object"}
    for name, shown in schema["properties"].items():
        if name not in tool.batches and shown.get("items", {}).get("type") == "object":
            shown["items"] = {"type": "object"}  # what is in it its description says
    for name in tool.shown_as_not_empty:
        schema["properties"][name]["minLength"] = whole["properties"][name]["minLength"]
    return schema


def object_schema(*structs: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of an object with the fields of all these Structs and no others."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for struct in structs:
        (root,), definitions = msgspec.json.schema_components([struct], ref_template=_REF + "{name}")
        schema = _inline(root, definitions)
        hidden = {_tag_of(struct), *OFFSETS.values()}
        properties |= {name: value for name, value in schema["properties"].items() if name not in hidden}
        required += [name for name in schema.get("required", ()) if name != _tag_of(struct)]
    listed: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        listed["required"] = required
    return {**listed, "additionalProperties": False}


@cache
def output_schema(tool: Tool, *, whole: bool = False) -> dict[str, Any]:
    """Return the schema that every reply of the tool fulfils: an object that is one of the shapes it can have.

    `whole`: of replies to programs, whose records have every field; agents get none that says nothing.
    The TypeScript client checks refusals against an advertised schema too, so they are among the shapes.
    """
    shorter = {**BRIEF_FORMS, **BARE_FORMS}
    briefly = [shorter[reply] for reply in tool.replies if reply in shorter]
    structs = [*tool.replies, *briefly, *((PendingReply, ErasedSince) if tool.write else ()), Fault]
    roots, definitions = msgspec.json.schema_components(structs, ref_template=_REF + "{name}")
    classes = _structs_within(structs)
    shapes = {name: _as_answered(definition, classes.get(name)) for name, definition in definitions.items()}
    for shape in shapes.values():
        if not whole and shape.get("properties", {}).keys() >= OF_RECORD:
            shape["required"] = [name for name in shape["required"] if not _may_be_left_out(name, shape)]
    fault = shapes[Fault.__name__]
    fault["properties"] = {
        "status": {"enum": [Status.ERROR.value, Status.INVALID_PARAMETER.value]},
        **fault["properties"],
    }
    fault["required"] = ["status", *fault["required"]]
    return {"type": "object", "anyOf": list(roots), "$defs": shapes}


def _may_be_left_out(name: str, shape: Mapping[str, Any]) -> bool:
    kinds = shape["properties"][name].get("anyOf", [])
    return name not in TELLING_NULLS and {"type": "null"} in kinds


def _for_clients(schema: Mapping[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in schema.items() if key in LISTED_KEYS}
    if shown.get("maximum", 0) > LISTED_MAXIMUM:
        del shown["maximum"]
    if shown.get("type") == "integer" and shown.get("minimum", 2) <= LEAST_COUNT:
        del shown["minimum"]
    if shown.get("default") is False:
        del shown["default"]
    if "properties" in shown:
        shown["properties"] = {name: _parameter_for_clients(name, value) for name, value in shown["properties"].items()}
    if "items" in shown:
        shown["items"] = _for_clients(shown["items"])
    return shown


def _parameter_for_clients(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the parameter of this name as clients see it."""
    shown = _for_clients(schema)
    if name in SAID_BY_NAME:
        shown = {key: value for key, value in shown.items() if key not in {"description", "minimum"}}
    return shown


def _tag_of(struct: type[msgspec.Struct]) -> str | None:
    return struct.__struct_config__.tag_field


def _inline(node: Any, definitions: Mapping[str, Any]) -> Any:
    """Replace references by their definitions; enums in the order of the vocabulary, titles and remarks left out."""
    if isinstance(node, list):
        return [_inline(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = node["$ref"].removeprefix(_REF)
        target = _order_words(name, definitions[name])
        return {**_inline(target, definitions), **{key: value for key, value in node.items() if key != "$ref"}}
    return {key: _inline(value, definitions) for key, value in node.items()}


def _order_words(name: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition without its title and remark; an enumeration lists its words as the vocabulary does."""
    words: type[StrEnum] | None = getattr(vocabulary, name, None)
    bare = {key: value for key, value in definition.items() if key not in {"title", "description"}}
    if words is not None and "enum" in bare:
        return {"type": "string", "enum": [word.value for word in words]}
    return bare


def _structs_within(structs: Iterable[type[msgspec.Struct]]) -> dict[str, type[msgspec.Struct]]:
    """Return every Struct that the given ones are made of, by name."""
    found: dict[str, type[msgspec.Struct]] = {}
    waiting: list[Any] = list(msgspec.inspect.multi_type_info(structs))
    while waiting:
        match waiting.pop():
            case msgspec.inspect.StructType(cls=cls, fields=fields) if cls.__name__ not in found:
                found[cls.__name__] = cls
                waiting += [field.type for field in fields]
            case msgspec.inspect.UnionType(types=types):
                waiting += types
            case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.Metadata(type=item):
                waiting.append(item)
            case msgspec.inspect.DictType(value_type=value):
                waiting.append(value)
    return found


def _as_answered(definition: Mapping[str, Any], struct: type[msgspec.Struct] | None) -> dict[str, Any]:
    """Return how a Struct looks in a reply: without its tag, and a field with a default is always there."""
    if "properties" not in definition:
        return _order_words(definition.get("title", ""), definition)
    tag = None if struct is None else _tag_of(struct)
    always = struct is not None and not struct.__struct_config__.omit_defaults
    properties = {
        name: {key: value for key, value in schema.items() if key != "default"}
        for name, schema in definition["properties"].items()
        if name != tag
    }
    present = [name for name, schema in definition["properties"].items() if always and "default" in schema]
    required = {*definition.get("required", ()), *present} - {tag}
    return {"type": "object", "properties": properties, "required": [name for name in properties if name in required]}
