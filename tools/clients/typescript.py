"""The generated calls of the TypeScript client, made of docs/openapi.json.

Its types, src/schema.ts, are written by openapi-typescript from the same document.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from engramq.gateway.brief import BARE_FORMS, BRIEF_FORMS
from engramq.gateway.mcp.schema import ErasedSince
from tools.clients.python import ROOT, Call, calls

CALLS: Final = ROOT / "typescript" / "src" / "calls.ts"
_SHORTER: Final = {ErasedSince.__name__} | {
    shape.__name__ for forms in (BRIEF_FORMS, BARE_FORMS) for shape in forms.values()
}
_REF: Final = "#/components/schemas/"
_HEAD: Final = """\
/** The calls of `Memory`. Written by `make generate` from docs/openapi.json: edit neither. */

import type { Operation, Options } from "./operation.js";
import type { components } from "./schema.js";

type Said = components["schemas"];

"""


def written(text: str) -> str:
    """Return the module's text, for the text of a document."""
    document = json.loads(text)
    said = {
        operation["x-method-name"]: operation
        for methods in document["paths"].values()
        for operation in methods.values()
    }
    every = [(call, said[call.name], _replies(said[call.name])) for call in calls(document)]
    shapes = document["components"]["schemas"]
    return _HEAD + "".join(_operations(every, shapes)) + "".join(_methods(every))


_Described = tuple[Call, Mapping[str, Any], list[str]]


def _replies(said: Mapping[str, Any]) -> list[str]:
    """Return the names of an operation's whole replies."""
    found: list[str] = []
    for status in ("200", "404"):
        schema = said["responses"].get(status, {}).get("content", {}).get("application/json", {}).get("schema", {})
        found += [shape["$ref"].removeprefix(_REF) for shape in schema.get("anyOf", [schema] if schema else [])]
    return [name for name in dict.fromkeys(found) if name not in _SHORTER]


def _operations(every: list[_Described], shapes: Mapping[str, Any]) -> Iterator[str]:
    yield "export const OPERATIONS = {\n"
    for call, said, replies in every:
        words: dict[str, None] = {}
        for name in replies:
            status = shapes[name]["properties"]["status"]
            status = shapes[status["$ref"].removeprefix(_REF)] if "$ref" in status else status
            words |= dict.fromkeys(status["enum"])
        yield f"  {said['operationId']}: {{\n    method: {json.dumps(call.method)},\n"
        yield f"    path: {json.dumps(call.path)},\n"
        yield f"    write: {json.dumps(call.write)},\n    statuses: {json.dumps(list(words))},\n  }},\n"
    yield "} as const satisfies Record<string, Operation>;\n\n"


def _methods(every: list[_Described]) -> Iterator[str]:
    yield "/** One method an operation; each rejects with an EngramqFailure when it has no reply. */\n"
    yield "export abstract class Calls {\n  /** Carry a call out and return its reply. */\n"
    yield "  protected abstract call(operation: Operation, given: Readonly<Record<string, unknown>>): Promise<never>;\n"
    for call, said, replies in every:
        tool, required = said["operationId"], list(call.required)
        names = " | ".join(json.dumps(name) for name in required) or "never"
        takes = [f"{name}: Options<{json.dumps(tool)}, never>[{json.dumps(name)}]" for name in required]
        takes.append(f"options: Options<{json.dumps(tool)}, {names}> = {{}}")
        given = "".join(f"{name}, " for name in required)
        reply = " | ".join(f"Said[{json.dumps(name)}]" for name in replies)
        yield f"\n  /** {call.about}. */\n  {_camel(call.name)}(\n"
        yield "".join(f"    {parameter},\n" for parameter in takes)
        yield f"  ): Promise<{reply}> {{\n    return this.call(OPERATIONS.{tool}, {{ {given}...options }});\n  }}\n"
    yield "}\n"


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
