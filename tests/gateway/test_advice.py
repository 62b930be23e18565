"""What hints, recoveries and guides tell to call can be called so: the tool exists, and takes the parameters named.

`tests/scenarios/test_examples.py` makes the calls of examples; here each text of the product is read.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from engramq import gateway, schemas, workers
from engramq.gateway.mcp.arguments import parameters_of
from engramq.schemas.commands import TOOLS

NAMES: Final = "|".join(sorted((name for name in TOOLS), key=len, reverse=True))
CALL: Final = re.compile(rf"(?<![a-z/.])({NAMES})\(([^()]*)\)")
WITH: Final = re.compile(rf"(?<![a-z/.])({NAMES}) (?:with|takes) (?:([a-z_]+)=([\w\[\]\"]+)|([a-z]+_[a-z_]+)\b)")
PUT_IN: Final = "_"  # for what is put in when the text is written
WORDS: Final = {"true": "True", "false": "False"}


@cache
def texts() -> dict[str, str]:
    """Return where each text of the product stands that is no docstring, by the text."""
    found: dict[str, str] = {}
    for package in (gateway, schemas, workers):
        for path in Path(package.__path__[0]).rglob("*.py"):
            source = path.read_text()
            if not any(name in source for name in TOOLS):
                continue
            nodes = list(ast.walk(ast.parse(source)))
            said = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            within = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
            for node in nodes:
                if id(node) not in said | within and (text := text_of(node)):
                    found[text] = f"{path.name}:{getattr(node, 'lineno', 0)}"
    return found


def text_of(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) if isinstance(part, ast.Constant) else PUT_IN for part in parts)
    return ""


def calls() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield where a call is told, its tool and what its parameters get; None where only the name is told."""
    for text, place in texts().items():
        for tool, inside in CALL.findall(text):
            written = re.sub(r"\b(true|false)\b", lambda word: WORDS[word[1]], inside)
            call = ast.parse(f"f({written})", mode="eval").body
            assert isinstance(call, ast.Call), (place, inside)
            named = {each.id.rstrip(PUT_IN): None for each in call.args if isinstance(each, ast.Name)}
            assert len(named) == len(call.args), (place, inside)
            yield place, tool, named | {str(each.arg): value_of(each.value) for each in call.keywords}
        for tool, given, value, named_alone in WITH.findall(text):
            yield place, tool, {given or named_alone: value_of(WORDS.get(value, value)) if value else None}


def value_of(written: ast.expr | str) -> Any:
    """Return a value that is told, None for a word that stands for one, as in `memory_id=ID`."""
    try:
        value = ast.literal_eval(written)
    except ValueError:
        return None
    return None if value is ... else value


@pytest.mark.promise("CL-5")
def test_every_call_that_a_text_tells_to_make_is_one_that_its_tool_takes() -> None:
    told = list(calls())
    for place, tool, arguments in told:
        takes = parameters_of(TOOLS[tool])
        for name, value in arguments.items():
            assert name in takes, (place, tool, name)
            if value is not None:
                takes[name].check(value)
    assert {tool for _, tool, _ in told} >= TOOLS.keys() - {"connect", "guide"}
    assert {"clear": ["valid_until"]} in [arguments for _, _, arguments in told]
