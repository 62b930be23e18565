"""Everything that the targets of speed name, in one run, ratios first.

    python -m bench.all [--sizes 1000,10000,100000] [--callers 1,8,64,256] [--rounds 5] [--seconds 2] [--rows 2000]
                        [--parts searches,stores,...] [--quick] [--write] [--from FILE ...]

For each size a stack of its own is filled with made-up memories; what is asked and stored is embedded for real. Prints
one JSON line for each measurement. --write puts what was measured into docs: a section of benchmarks.md, the picture
benchmarks.svg, and the lines themselves, benchmarks.jsonl. With --from nothing is measured: lines that were printed
before, of several runs if need be, are shown as a table, or written with --write.

With MEM0_PYTHON, a Python that has the mem0 library (see mem0_adds.py), an import is compared with 200 of its adds, or
as many as it does in a minute.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench.at_size import (
    Load,
    Site,
    measure_edges,
    measure_following,
    measure_front,
    measure_import,
    measure_scaling,
    measure_searches,
    measure_stores,
    site,
)
from bench.common import pss_mb
from bench.measured import Report, numbers, tell_machine
from bench.page import SECTION, Line, latest, read_printed, section, svg

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGE: Final = DOCS / "benchmarks.md"
PLOT: Final = DOCS / "benchmarks.svg"
LINES: Final = DOCS / "benchmarks.jsonl"
QUICK: Final = Load(callers=(1, 8), rounds=2, seconds=0.5, alone=15)
QUICK_ROWS: Final = 200
ALONE: Final = 25  # calls of each part by itself in a round
PARTS: Final[Mapping[str, Callable[[Site, Load], None]]] = {
    "searches": measure_searches,
    "front": measure_front,  # before the stores, after which the namespace may have outgrown its copy
    "stores": measure_stores,
    "edges": measure_edges,
    "following": measure_following,
    "scaling": measure_scaling,
}
IMPORT: Final = "import"


def measure(memories: int, load: Load, rows: int, parts: list[str]) -> list[Line]:
    """Measure these parts on a stack with so many memories; return the lines, which are printed as they come."""
    report = Report(memories)
    tell_machine(report)
    with site(report) as at:
        for part in parts:
            if part != IMPORT:
                PARTS[part](at, load)
        if IMPORT in parts:
            measure_import(at, rows)
        kinds = {name: kind for name, kind in at.stack.kinds.items() if name != "client"}
        sizes = {name: round(pss_mb(kind.all_pids()), 1) for name, kind in kinds.items()}
        report.tell("memory", total_mb=sum(sizes.values()), pss_mb=sizes)
    return report.lines


def read(files: list[Path]) -> list[Line]:
    """Return the last line of each measurement that this benchmark printed into these files, in their order."""
    return latest(line for line in read_printed(files, "all") if "memories" in line)


def write(lines: list[Line]) -> None:
    """Write page, picture and lines."""
    LINES.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    PLOT.write_text(svg(lines), encoding="utf-8")
    SECTION.write(PAGE, section(lines, PLOT.name))


def main() -> None:
    """Measure, or show what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", help="default: 1000,10000,100000")
    parser.add_argument("--callers", default="1,8,64,256")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement with callers")
    parser.add_argument("--rows", type=int, default=2_000, help="of an import")
    parser.add_argument("--parts", default=",".join([*PARTS, IMPORT]))
    parser.add_argument("--quick", action="store_true", help="1,000 memories, few rounds: about a minute")
    parser.add_argument("--write", action="store_true", help="into docs")
    parser.add_argument("--from", dest="files", type=Path, nargs="+", metavar="FILE", default=[])
    chosen = parser.parse_args()
    parts = chosen.parts.split(",")
    if unknown := set(parts) - {*PARTS, IMPORT}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    load = Load(numbers(chosen.callers), chosen.rounds, chosen.seconds, ALONE)
    rows, sizes = chosen.rows, numbers(chosen.sizes or "1000,10000,100000")
    if chosen.quick:
        load, rows, sizes = QUICK, QUICK_ROWS, numbers(chosen.sizes or "1000")
    if chosen.files:
        lines = read(chosen.files)
    else:
        lines = [line for memories in sizes for line in measure(memories, load, rows, parts)]
    if chosen.write:
        write(lines)
    elif chosen.files:
        print(section(lines, PLOT.name))


if __name__ == "__main__":
    main()
