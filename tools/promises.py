"""Write docs/promises.md: every promise as a sentence, with the test files that name it.

`python -m tools.promises > docs/promises.md`, or `make generate`, renews the page. The sentences are in
tests/architecture/promises.toml; tests name a promise by `@pytest.mark.promise("MT-1")` or, for a whole file, by
`pytestmark`.
"""

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SENTENCES: Final = ROOT / "tests" / "architecture" / "promises.toml"
TITLE: Final = "title"
LATER: Final = "later"
HEAD: Final = """\
# Promises

This page lists engramq's promises and the tests that prove them. A promise without a test fails the build; so does a
test that names a promise which is not here. The number behind a file counts its tests of that promise. `make generate`
makes this page.
"""


@dataclass(frozen=True)
class Promise:
    """A promise such as MT-1. `is_later`: it is not kept yet, and waits for work that is planned."""

    number: str
    sentence: str
    is_later: bool


def promises() -> dict[str, list[Promise]]:
    """Return the promises of each family, by the family's heading."""
    families = tomllib.loads(SENTENCES.read_text(encoding="utf-8"))
    return {
        f"{name}: {family[TITLE]}": [
            Promise(f"{name}-{number}", sentence, int(number) in family.get(LATER, ()))
            for number, sentence in family.items()
            if number not in (TITLE, LATER)
        ]
        for name, family in families.items()
    }


def marks(path: Path) -> Iterator[tuple[str, int]]:
    """Yield (promise, tests) for each mark in a test file: all its tests for the mark of a whole file, else one.

    Raises ValueError for a mark that names no literal text.
    """
    source = path.read_text(encoding="utf-8")
    if ".promise(" not in source:
        return
    file = ast.parse(source, str(path))
    tests = sum(map(_is_test, ast.walk(file)))
    for part in file.body:
        names = [target.id for target in getattr(part, "targets", ()) if isinstance(target, ast.Name)]
        for number in _list_numbers(part, path):
            yield number, tests if names == ["pytestmark"] else 1


def _is_test(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")


def _list_numbers(part: ast.AST, path: Path) -> Iterator[str]:
    for node in ast.walk(part):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "promise"):
            continue
        for argument in node.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise ValueError(f"{path}:{node.lineno}: name promises by literal text")
            yield argument.value


@cache
def evidence() -> dict[str, Counter[str]]:
    """Return for each promise that a test names how many tests of each file name it."""
    named: dict[str, Counter[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for number, tests in marks(path):
            named.setdefault(number, Counter())[path.relative_to(ROOT).as_posix()] += tests
    return named


def page() -> str:
    """Return docs/promises.md."""
    named = evidence()
    rows = ["| number | promise | tests |", "|---|---|---|"]
    for heading, family in promises().items():
        rows.append(f"| | **{heading}** | |")
        rows += [f"| {promise.number} | {promise.sentence} | {_files(promise, named)} |" for promise in family]
    return "\n".join([HEAD, *rows, ""])


def _files(promise: Promise, named: Mapping[str, Counter[str]]) -> str:
    if promise.is_later:
        return "not yet"
    files = named.get(promise.number, Counter())
    return ", ".join(
        f"[{file.removeprefix('tests/')}](../{file})" + (f" ({count})" if count > 1 else "")
        for file, count in sorted(files.items())
    )


if __name__ == "__main__":
    sys.stdout.write(page())
