"""Writes the generated modules of the Python client, as `make clients` does: `python -m tools.clients.python`."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engramq.schemas import commands

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = ROOT / "docs" / "openapi.json"
CLIENT: Final = ROOT / "client"
_REF: Final = "#/components/schemas/"
_KEY: Final = "idempotency_key"
_LEFT_OUT: Final = frozenset({"detail", "max_chars"})  # the typed replies are whole ones
_DESCRIBED: Final = "Written by `make clients` from docs/openapi.json: edit neither."


@dataclass(frozen=True, slots=True)
class Call:
    """One operation as the client has it: required parameters, optional ones with their types, and its replies.

    `replies` are names of Structs by the words of `status`; none where the server's reply is no Struct of schemas.
    """

    name: str
    method: str
    path: str
    in_path: tuple[str, ...]
    about: str
    write: bool
    required: Mapping[str, str]
    optional: Mapping[str, str]
    replies: Mapping[str, str]

    @property
    def options(self) -> str:
        """The name of the optional parameters' type."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def returns(self) -> str:
        """The type of the reply."""
        return " | ".join(f"said.{name}" for name in dict.fromkeys(self.replies.values())) or "dict[str, Any]"


def calls(document: Mapping[str, Any]) -> list[Call]:
    """Return the operations of a document, in its order."""
    shapes = document["components"]["schemas"]
    return [
        _call(path, method.upper(), said, shapes)
        for path, methods in document["paths"].items()
        for method, said in methods.items()
    ]


def _call(path: str, method: str, said: Mapping[str, Any], shapes: Mapping[str, Any]) -> Call:
    given = [
        (one["name"], one["schema"], one["required"]) for one in said.get("parameters", ()) if one["in"] != "header"
    ]
    write = any(one["in"] == "header" for one in said.get("parameters", ()))
    if "requestBody" in said:
        schema = said["requestBody"]["content"]["application/json"]["schema"]
        required = schema.get("required", ())
        given += [(name, value, name in required) for name, value in schema["properties"].items()]
    taken = [(name, _type(schema), is_required) for name, schema, is_required in given if name not in _LEFT_OUT]
    optional = {name: f"{kind} | None" for name, kind, is_required in taken if not is_required}
    if write:
        optional[_KEY] = "str | None"
    return Call(
        name=said["x-method-name"],
        method=method,
        path=path,
        in_path=tuple(name for name, _, _ in taken if f"{{{name}}}" in path),
        about=said["description"].split(". ")[0].split("\n")[0].rstrip("."),
        write=write,
        required={name: kind for name, kind, is_required in taken if is_required},
        optional=optional,
        replies=dict(_replies(said["responses"], shapes)),
    )


def _replies(responses: Mapping[str, Any], shapes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for status in ("200", "404"):
        schema = responses.get(status, {}).get("content", {}).get("application/json", {}).get("schema", {})
        for one in schema.get("anyOf", [schema] if schema else []):
            name = one["$ref"].removeprefix(_REF)
            if not hasattr(commands, name):
                continue
            words = shapes[name]["properties"]["status"]
            words = shapes[words["$ref"].removeprefix(_REF)] if "$ref" in words else words
            yield from ((word, name) for word in words["enum"])


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(word) for word in schema['enum'])}]"
    match schema["type"]:
        case "array":
            return f"Sequence[{_type(schema['items'])}]"
        case "object":
            return "Mapping[str, Any]"
        case "string" if schema.get("format") == "date-time":
            return "datetime | date | str"
        case kind:
            return {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}[kind]


def modules() -> dict[str, str]:
    """Return the generated modules' names and texts."""
    every = calls(json.loads(DOCUMENT.read_text(encoding="utf-8")))
    texts = {
        "operations.py": "".join(_operations(every)),
        "parameters.py": "".join(_parameters(every)),
        "calls.py": "".join(_methods(every, is_async=False)),
        "async_calls.py": "".join(_methods(every, is_async=True)),
    }
    return {name: _formatted(text) for name, text in texts.items()}


def _operations(every: list[Call]) -> Iterator[str]:
    yield f'"""Every operation of REST. {_DESCRIBED}"""\n\nfrom typing import Any, Final\n\n'
    yield "from engramq.client.operation import Operation\nfrom engramq.schemas import commands as said\n\n"
    for call in every:
        replies = ", ".join(f"{json.dumps(word)}: said.{name}" for word, name in call.replies.items())
        yield (
            f"{call.name.upper()}: Final[Operation[{call.returns}]] = Operation("
            f'"{call.method}", "{call.path}", {call.in_path!r}, {call.write}, {{{replies}}})\n'
        )


def _parameters(every: list[Call]) -> Iterator[str]:
    yield f'"""What calls take beside what they must have; None means: not given.\n\n{_DESCRIBED}\n"""\n\n'
    yield "from collections.abc import Mapping, Sequence\nfrom datetime import date, datetime\n"
    yield "from typing import Any, Literal, TypedDict\n\n"
    for call in every:
        if call.optional:
            fields = "".join(f"    {name}: {kind}\n" for name, kind in call.optional.items())
            yield f'class {call.options}(TypedDict, total=False):\n    """Of `{call.name}`."""\n\n{fields}\n\n'


def _methods(every: list[Call], *, is_async: bool) -> Iterator[str]:
    begin, wait = ("async def", "await ") if is_async else ("def", "")
    yield f'"""The calls of `{"Async" if is_async else ""}Memory`. {_DESCRIBED}"""\n\n'
    yield "from abc import ABC, abstractmethod\nfrom collections.abc import Mapping, Sequence\n"
    yield "from typing import Any, Literal, Unpack\n\n"
    yield "from engramq.client import operations\nfrom engramq.client import parameters as takes\n"
    yield "from engramq.client.operation import Operation, ReplyT\nfrom engramq.schemas import commands as said\n\n\n"
    yield f"class {'Async' if is_async else ''}Calls(ABC):\n"
    yield '    """One method an operation; each raises EngramqFailure."""\n\n    @abstractmethod\n'
    yield f"    {begin} _call(self, operation: Operation[ReplyT], given: Mapping[str, Any]) -> ReplyT:\n"
    yield '        """Carry a call out and return its reply."""\n\n'
    for call in every:
        takes = [f"{name}: {kind}" for name, kind in call.required.items()]
        given = [f'"{name}": {name}' for name in call.required]
        if call.optional:
            takes.append(f"**options: Unpack[takes.{call.options}]")
            given.append("**options")
        yield f"    {begin} {call.name}({', '.join(['self', *takes])}) -> {call.returns}:\n"
        yield f'        """{call.about}."""\n'
        yield f"        return {wait}self._call(operations.{call.name.upper()}, {{{', '.join(given)}}})\n\n"


def _formatted(text: str) -> str:
    """Return the text as `ruff format` and its rules for imports leave it."""
    ruff = str(Path(sys.executable).with_name("ruff"))
    for command in (("check", "--fix-only", "--select", "F401,I", "--quiet", "-"), ("format", "--quiet", "-")):
        text = subprocess.run(
            [ruff, *command, "--stdin-filename", str(CLIENT / "generated.py")],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return text


if __name__ == "__main__":
    for name, text in modules().items():
        (CLIENT / name).write_text(text, encoding="utf-8")
