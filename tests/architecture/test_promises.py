"""Every promise that we say is kept has a test that names it, and every named promise exists."""

import ast

from tests.architecture.promises import ALL, KEPT, LATER, sort_key, well_formed
from tests.architecture.source import modules


def named_promises() -> dict[str, list[str]]:
    """Return the tests (module:line) that name each promise."""
    tests: dict[str, list[str]] = {}
    for module in modules("tests"):
        for node in ast.walk(module.tree):
            is_mark = (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "promise"
            )
            if not isinstance(node, ast.Call) or not is_mark:
                continue
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"{module.path}:{node.lineno}: name promises by literal text"
                assert isinstance(argument.value, str)
                tests.setdefault(argument.value, []).append(f"{module.name}:{node.lineno}")
    return tests


def test_every_kept_promise_has_a_test() -> None:
    missing = sorted(KEPT - set(named_promises()), key=sort_key)
    assert missing == []


def test_every_named_promise_exists() -> None:
    named = named_promises()
    assert well_formed(named)
    assert sorted(set(named) - ALL) == []


def test_every_promise_is_kept_or_says_what_it_waits_for() -> None:
    later = set().union(*LATER.values())
    assert sorted(ALL - KEPT - later, key=sort_key) == []
    assert sorted(KEPT & later, key=sort_key) == []
