"""Reads the project's own source as syntax trees: what imports what, and how long things are."""

import ast
import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "schemas",
    "telemetry",
    "evidence",
    "gateway",
    "workers",
    "deploy",
    "client",
)  # what the wheel holds, as engramq.*
BESIDE = ("tests", "bench", "tools")  # what it leaves out


@dataclass(frozen=True)
class Import:
    """One import statement: the module that has it, the full name it asks for, and whether it stands in a function."""

    importer: str
    imported: str
    line: int
    text: str
    in_function: bool


@dataclass(frozen=True)
class Module:
    """One source file of ours."""

    name: str
    path: Path
    source: str

    @cached_property  # most rules look at some modules only, and parsing all takes seconds
    def tree(self) -> ast.Module:
        gc.disable()  # a tree is no garbage, and looking for any in all trees takes longer than parsing them
        try:
            return ast.parse(self.source, str(self.path))
        finally:
            gc.freeze()  # nor for tests that follow
            gc.enable()

    @cached_property  # to walk a tree takes as long as to parse it
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        return self.source.count("\n")

    @property
    def longest_block(self) -> int:
        """Return the most lines between two functions or classes of the module: no function has more."""
        starts = [at for at, line in enumerate(self.source.splitlines()) if re.match(r"(async )?def |class ", line)]
        return max((end - start for start, end in pairwise([*starts, self.lines])), default=0)


def modules(*packages: str) -> list[Module]:
    return [module for package in packages or PACKAGES for module in _modules(package)]


@cache
def _modules(package: str) -> list[Module]:
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        name = f"engramq.{name}" if package in PACKAGES else name
        found.append(parsed(name, path.read_text(encoding="utf-8"), path))
    return found


def parsed(name: str, source: str, path: Path = Path("planted.py")) -> Module:
    return Module(name, path, source)


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@cache
def imports(module: Module) -> tuple[Import, ...]:
    return tuple(_imports(module))


def _imports(module: Module) -> Iterator[Import]:
    lines = module.source.splitlines()
    functions = [node for node in module.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in module.nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        in_function = any(outer.lineno <= node.lineno <= (outer.end_lineno or 0) for outer in functions)
        for name in names:
            yield Import(module.name, name, node.lineno, lines[node.lineno - 1], in_function)


def functions(module: Module) -> Iterator[tuple[str, int, int]]:
    """Yield (name, line, length in lines) of every function, its docstring left out."""
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            documentation = node.body[0] if ast.get_docstring(node) else None
            shorter = (
                documentation.end_lineno - documentation.lineno + 1
                if documentation is not None and documentation.end_lineno is not None
                else 0
            )
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1 - shorter
