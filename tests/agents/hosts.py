"""The hosts whose agents are played, and what their models write for parameters that they have no use for."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Fill(StrEnum):
    """What a model gives for a parameter that a call does not need.

    OMITTED: nothing. DEFAULTS: the default that the schema tells, if any. NULL: null. BLANK: the default, else empty
    text, else null, as where a strict schema wants a text.
    """

    OMITTED = "omitted"
    DEFAULTS = "defaults"
    NULL = "null"
    BLANK = "blank"


@dataclass(frozen=True)
class Host:
    """A program that agents run in: how it connects, and how its model fills calls in."""

    name: str
    over_http: bool
    fill: Fill


HOSTS: Final = (
    Host("claude-code", over_http=False, fill=Fill.OMITTED),
    Host("gemini-cli", over_http=False, fill=Fill.DEFAULTS),
    Host("openai-agents", over_http=True, fill=Fill.NULL),
    Host("ai-sdk", over_http=True, fill=Fill.NULL),
)


def filled(schema: Mapping[str, Any], given: Mapping[str, Any], fill: Fill) -> dict[str, Any]:
    """Return the arguments of a call with what the model writes for the rest of the tool's parameters."""
    rest = {name: item for name, item in schema.get("properties", {}).items() if name not in given}
    match fill:
        case Fill.OMITTED:
            return dict(given)
        case Fill.NULL:
            return {**dict.fromkeys(rest), **given}
        case Fill.DEFAULTS:
            return {**{name: item["default"] for name, item in rest.items() if "default" in item}, **given}
        case Fill.BLANK:
            return {**{name: item.get("default", _blank(item)) for name, item in rest.items()}, **given}


def _blank(schema: Mapping[str, Any]) -> str | None:
    return "" if schema.get("type") == "string" and "enum" not in schema else None
