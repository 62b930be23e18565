"""How large the code is: `python -m bench.size`.

Prints one JSON line for each package of the product, for the product, tests and bench: files and lines of Python,
functions with the lines of the median and the longest, functions above 40 lines, modules below 60, share of imports.
Files that git ignores are not counted.
"""

import ast
import statistics
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from bench.common import emit

ROOT: Final = Path(__file__).resolve().parents[1]
BENCH: Final = "size"
PRODUCT: Final = (
    "schemas", "gateway", "workers", "deploy", "telemetry", "evidence", "client", "integrations", "engramq",
)  # fmt: skip
LONG_LINES: Final = 40  # of a function
SMALL_LINES: Final = 60  # of a module


@dataclass
class Size:
    """The sums of several modules."""

    modules: list[int] = field(default_factory=list)  # lines of each
    functions: list[int] = field(default_factory=list)
    imports: int = 0

    @classmethod
    def of(cls, files: Iterable[Path]) -> Self:
        """Measure these files."""
        size = cls()
        for file in files:
            size.add(file.read_text(encoding="utf-8"))
        return size

    def add(self, source: str) -> None:
        """Count one module."""
        self.modules.append(len(source.splitlines()))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions.append(_lines(node))
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self.imports += _lines(node)

    def figures(self) -> dict[str, Any]:
        """Return what is reported."""
        lines = sum(self.modules)
        return {
            "files": len(self.modules),
            "lines": lines,
            "median_module": statistics.median(self.modules or [0]),
            "longest_module": max(self.modules, default=0),
            "small_modules": sum(0 < length < SMALL_LINES for length in self.modules),
            "functions": len(self.functions),
            "median_function": statistics.median(self.functions or [0]),
            "longest_function": max(self.functions, default=0),
            "long_functions": sum(length > LONG_LINES for length in self.functions),
            "imports_percent": 100 * self.imports / max(1, lines),
        }


def python_files(*folders: str) -> list[Path]:
    """Return the Python files that git knows below these folders, not those behind links."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    files = [ROOT / name for name in listed.stdout.splitlines() if name.endswith(".py")]
    return [file for file in files if file.is_file() and not file.is_symlink()]


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Import | ast.ImportFrom) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def main() -> None:
    """Print the lines."""
    for package in PRODUCT:
        emit(BENCH, package, **Size.of(python_files(package)).figures())
    emit(BENCH, "product", **Size.of(python_files(*PRODUCT)).figures())
    for package in ("tests", "bench", "tools"):
        emit(BENCH, package, **Size.of(python_files(package)).figures())


if __name__ == "__main__":
    main()
