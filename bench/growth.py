"""Tables and picture of what `python -m bench.scale_up` has measured, a column for each run."""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from bench.page import COLOURS, Generated, Line, read_printed, size_name, table, text

SECTION: Final = Generated("bench.scale_up")
DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGE: Final = DOCS / "scaling.md"
PLOT: Final = DOCS / "scaling.svg"
Run = tuple[int, int]  # memories, namespaces
DRAWN: Final = ("search", "store", "connect", "list", "neighbours, depth 2", "stats")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 340, 50, 40, 20, 160
LEAST_MS, MOST_MS = 1.0, 10_000.0  # what the picture shows


def show(files: Sequence[Path], *, write: bool) -> None:
    """Print the tables of the lines in these files, or write page and picture."""
    lines = read_printed(files, "scale_up")
    if not write:
        print(growth_section(lines))
        return
    PLOT.write_text(growth_svg(lines), encoding="utf-8")
    SECTION.write(PAGE, growth_section(lines))


def growth_section(lines: Sequence[Line]) -> str:
    """Return the generated section: calls, then whatever else was measured."""
    runs = sorted({_run(line) for line in lines if line["measure"] == "disk"}, key=lambda run: (run[1], run[0]))
    machine = next(line for line in lines if line["measure"] == "machine")
    told = (
        f"Measured on {machine['date']} by `python -m bench.scale_up --memories N --namespaces K` on {machine['cpus']} "
        f"shared cores ({machine['processor']}), with other work on them. Texts and vectors are made up, what "
        "is asked and stored is embedded for real; one caller unless the line says more."
    )
    heads = ["p50 / p95 in ms; CPU ms, of these PostgreSQL's", *map(_name, runs)]
    calls = [(f"{line['tool']}, {line['callers']} callers" if line["callers"] > 1 else line["tool"], line)
             for line in lines if line["measure"] == "call"]  # fmt: skip
    rows = [
        [name, *(_cell((line for other, line in calls if other == name), run, _call) for run in runs)]
        for name in dict.fromkeys(name for name, _ in calls)
    ]
    others = [
        [label, *(_cell((line for line in lines if line["measure"] == measure), run, shown) for run in runs)]
        for label, measure, shown in FIGURES
    ]
    return "\n\n".join([SECTION.begin, told, table(heads, rows), "![p50 over size](scaling.svg)",
                        table(["", *map(_name, runs)], others), SECTION.end])  # fmt: skip


def _run(line: Line) -> Run:
    return line["memories"], line.get("namespaces", 1)


def _name(run: Run) -> str:
    memories, namespaces = run
    return size_name(memories) if namespaces == 1 else f"{namespaces:,} of {size_name(memories // namespaces)}"


def _cell(lines: Iterable[Line], run: Run, shown: Callable[[Line], str]) -> str:
    return next((shown(line) for line in lines if _run(line) == run), "")


def _call(line: Line) -> str:
    times = f"{line['p50_ms']:.0f} / {line['p95_ms']:.0f}"
    if "cpu_ms" not in line:
        return times
    if not line["calls"]:
        return f"none: {line['failed']}"
    spent = {kind: cpu for kind, cpu in line["cpu_ms"].items() if kind != "client"}
    return f"{times}; {sum(spent.values()):.0f}, {spent['postgres']:.0f}"


def _each(name: str, form: str) -> Callable[[Line], str]:
    return lambda line: ", ".join(f"{kind} {figure:{form}}" for kind, figure in line[name].items())


def _seconds(line: Line) -> str:
    return f"{line['seconds']:,.1f}"


def _rebuilt(line: Line) -> str:
    if line["is_done"]:
        return f"{line['seconds']:,.0f}; {line['postgres_cpu_s']:,.0f}"
    return f"{line['reached'][-1][1]:,} rows in {line['seconds']:,.0f} s, then broken off"


def _with_file(line: Line) -> str:
    return f"{line['seconds']:,.1f}; {line['file_mb']:,.0f} MB"


# (row, the measure that it is of, its cell)
FIGURES: Final[Sequence[tuple[str, str, Callable[[Line], str]]]] = (
    ("load average", "memory", lambda line: str(line["load_1m"])),
    ("loaded, with indexes, s", "load", _seconds),
    ("of this the vector index, s", "filled", lambda line: f"{line['index_s'].get('memories_embedding_1', 0):,.0f}"),
    ("vector index built anew as upkeep does, s; PostgreSQL's CPU s", "rebuild", _rebuilt),
    ("on disk, MB", "disk", _each("mb", ",.0f")),
    ("worker and gateway started, first search answered, s", "first_search", _seconds),
    ("memory after the calls, MB", "memory", _each("mb", ",.0f")),
    ("export of a namespace, s", "export", _with_file),
    ("backup, s", "backup", _with_file),
    ("restore, s", "restore", _with_file),
    ("start of what was restored, s", "start", _seconds),
    ("then the first search, s", "start_search", _seconds),
    ("CPU in the first minutes, % of a core", "after_start", _each("percent_of_a_core", ".2f")),
    ("CPU afterwards, idle, % of a core", "idle", _each("percent_of_a_core", ".2f")),
    ("memory then, MB", "idle_memory", _each("mb", ",.0f")),
)


def growth_svg(lines: Sequence[Line]) -> str:
    """Return the picture of p50 over size, both logarithmic, of one caller in one namespace."""
    sizes = sorted({line["memories"] for line in lines if line["measure"] == "call" and line["namespaces"] == 1})
    ends = math.log10(sizes[0]), math.log10(max(sizes[-1], 10 * sizes[0]))

    def across(memories: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(memories) - ends[0]) / (ends[1] - ends[0])

    def down(milliseconds: float) -> float:
        share = math.log(max(milliseconds, LEAST_MS) / LEAST_MS) / math.log(MOST_MS / LEAST_MS)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(share, 1.0)

    drawn = [text(across(size), HEIGHT - BOTTOM + 18, size_name(size), anchor="middle") for size in sizes]
    for power in range(5):
        height = down(10.0**power)
        drawn.append(f'<line x1="{LEFT}" y1="{height:g}" x2="{WIDTH - RIGHT}" y2="{height:g}" stroke="#ddd"/>')
        drawn.append(text(LEFT - 6, height + 4, f"{10**power:,} ms", anchor="end"))
    for number, tool in enumerate(DRAWN):
        points = sorted((line["memories"], line["p50_ms"]) for line in lines if line["measure"] == "call"
                        and (line["tool"], line["callers"], line["namespaces"]) == (tool, 1, 1))  # fmt: skip
        path = " ".join(f"{across(size):.1f},{down(p50):.1f}" for size, p50 in points)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[number]}" stroke-width="2"/>')
        if points:
            drawn.append(text(WIDTH - RIGHT + 8, down(points[-1][1]) + 4, tool))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
    style = 'font-family="sans-serif" font-size="11" fill="#222">'
    return "\n".join([head + style, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', *drawn, "</svg>", ""])
