"""Writes the generated modules of the Python client, as `make generate` does: `python -m tools.clients.python`."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engramq.schemas.commands import TOOLS, replies_by_status

ROOT: Final = Path(__file__).resolve().parents[2]
CLIENT: Final = ROOT / "client"
_KEY: Final = "idempotency_key"
_LEFT_OUT: Final = frozenset({"detail", "max_chars"})  # the typed replies are whole ones
_DESCRIBED: Final = "Written by `make generate` from docs/openapi.json: edit neither."


@dataclass(frozen=True, slots=True)
class Call:
    """One operation as the client has it: required parameters, optional ones with their types, and its replies.

    `replies` are names of Structs; none where the reply stays a dict.
    """

    name: str
    tool: str
    method: str
    path: str
    in_path: tuple[str, ...]
    about: str
    write: bool
    required: Mapping[str, str]
    optional: Mapping[str, str]
    replies: tuple[str, ...]

    @property
    def returns(self) -> str:
        """The type of the reply."""
        return " | ".join(f"replies.{name}" for name in self.replies) or "dict[str, Any]"


def calls(document: Mapping[str, Any]) -> list[Call]:
    """Return the operations of a document, in its order."""
    return [
        _call(path, method.upper(), said)
        for path, methods in document["paths"].items()
        for method, said in methods.items()
    ]


def _call(path: str, method: str, said: Mapping[str, Any]) -> Call:
    given = [
        (parameter["name"], parameter["schema"], parameter["required"])
        for parameter in said.get("parameters", ())
        if parameter["in"] != "header"
    ]
    write = any(parameter["in"] == "header" for parameter in said.get("parameters", ()))
    if "requestBody" in said:
        schema = said["requestBody"]["content"]["application/json"]["schema"]
        required = schema.get("required", ())
        given += [(name, value, name in required) for name, value in schema["properties"].items()]
    taken = [(name, _type(schema), is_required) for name, schema, is_required in given if name not in _LEFT_OUT]
    optional = {name: f"{kind} | None" for name, kind, is_required in taken if not is_required}
    if write:
        optional[_KEY] = "str | None"
    tool = TOOLS[said["operationId"]]
    return Call(
        name=said["x-method-name"],
        tool=tool.name,
        method=method,
        path=path,
        in_path=tuple(name for name, _, _ in taken if f"{{{name}}}" in path),
        about=said["description"].split(". ")[0].split("\n")[0].rstrip("."),
        write=write,
        required={name: kind for name, kind, is_required in taken if is_required},
        optional=optional,
        replies=tuple(
            dict.fromkeys(shape.__name__ for shape in replies_by_status(TOOLS[said["operationId"]]).values())
        ),
    )


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


def modules(document: str) -> dict[str, str]:
    """Return the generated modules' names and texts, for the text of a document."""
    every = calls(json.loads(document))
    return {"calls.py": _formatted("".join(_calls(every))), "methods.py": _formatted("".join(_methods(every)))}


def _calls(every: list[Call]) -> Iterator[str]:
    yield f'"""Parameters of each call; None means: not given. {_DESCRIBED}"""\n\n'
    yield "from collections.abc import Mapping, Sequence\nfrom datetime import date, datetime\n"
    yield "from typing import Any, Literal\n\n"
    yield "from engramq.client.call import ClientCall\nfrom engramq.schemas import commands as replies\n\n\n"
    for call in every:
        takes = [f"{name}: {kind}" for name, kind in call.required.items()]
        takes += ["*"] if call.optional else []
        takes += [f"{name}: {kind} = None" for name, kind in call.optional.items()]
        yield f"def {call.name}({', '.join(takes)}) -> ClientCall[{call.returns}]:\n"
        yield f'    """{call.about}."""\n    return ClientCall("{call.tool}", locals())\n\n\n'


def _methods(every: list[Call]) -> Iterator[str]:
    yield f'"""The methods of both clients. {_DESCRIBED}"""\n\n'
    yield "from engramq.client import calls\nfrom engramq.client.call import CallMethod\n\n\n"
    yield 'class Calls:\n    """One method a tool; each raises EngramqFailure."""\n\n'
    yield "".join(f"    {call.name} = CallMethod(calls.{call.name})\n" for call in every) + "\n\n"


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
