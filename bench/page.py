"""Pages that benchmarks write: the targets of speed, the section of docs/benchmarks.md, and its picture."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape


@dataclass(frozen=True, slots=True)
class Generated:
    """The section that a command, `python -m <name> --write`, writes."""

    name: str

    @property
    def begin(self) -> str:
        """The remark before it."""
        return f"<!-- {self.name}: begin (written by `python -m {self.name} --write`, never by hand) -->"

    @property
    def end(self) -> str:
        """The remark after it."""
        return f"<!-- {self.name}: end -->"

    def write(self, page: Path, new: str) -> None:
        """Replace the section in a page; raises ValueError when it has no place for one."""
        before, begin, rest = page.read_text(encoding="utf-8").partition(self.begin)
        _, end, after = rest.partition(self.end)
        if not (begin and end):
            raise ValueError(f"{page} lacks {self.begin} or {self.end}")
        page.write_text(before + new + after, encoding="utf-8")

    def within(self, page: str) -> str:
        """Return the section of a page, remarks included."""
        return page[page.index(self.begin) : page.index(self.end) + len(self.end)]


@dataclass(frozen=True, slots=True)
class Target:
    """A measure, and its bound from above or below."""

    text: str
    bound: float
    at_least: bool = False

    def is_met(self, value: float) -> bool:
        """Say whether a measured value is good enough."""
        return value >= self.bound if self.at_least else value <= self.bound

    def effort(self, value: float) -> float:
        """Return the value as a share of the target, 1 being the target and less being better; inf for nothing done."""
        if self.at_least:
            return self.bound / value if value else float("inf")
        return value / self.bound if self.bound else value


TARGETS: Final[Mapping[str, Target]] = {
    "search_p50": Target("search p50, 1 caller / (embedding + all SQL of a search alone)", 1.3),
    "search_p95": Target("search p95, 1 caller, in units of 60 ms", 1.0),
    "search_growth": Target("search p50, 1 caller / that at 100k", 2.0),
    "store_p50": Target("store p50, 1 caller / (embedding + synced insert)", 1.5),
    "searches_over_r": Target("searches/s, 8 callers / R", 0.7, at_least=True),
    "stores_over_r": Target("stores/s, 8 callers / R", 0.7, at_least=True),
    "search_cpu": Target("CPU of a search, 8 callers, all processes / its float32 embedding", 1.5),
    "following_cpu": Target("CPU of what follows a store / CPU of the store", 0.5),
    "get_edge_p50": Target("get_edge p50 / a call that needs no worker", 2.5),
    "search_p99_64": Target("search p99, 64 callers, in units of 2 s", 1.0),
    "store_p99_64": Target("store p99, 64 callers, in units of 2 s", 1.0),
    "search_p99_256": Target("search p99, 256 callers, in units of 2 s", 1.0),
    "store_p99_256": Target("store p99, 256 callers, in units of 2 s", 1.0),
    "searches_256_over_64": Target("searches/s, 256 / 64 callers", 1.0, at_least=True),
    "stores_256_over_64": Target("stores/s, 256 / 64 callers", 1.0, at_least=True),
    "failed": Target("calls that failed, shed ones not counted, 64 and 256 callers", 0.0),
    "import_rate": Target("imported rows/s / the embedder's batch rate", 0.6, at_least=True),
    "import_over_mem0": Target("imported rows/s / adds/s of the mem0 library, one by one", 4.0, at_least=True),
    "import_p95": Target("search p95 during an import / before it", 3.0),
    "workers_2_over_1": Target("stores/s, 64 callers, two workers / one", 1.7, at_least=True),
}


SECTION: Final = Generated("bench.all")
GROWN_FROM: Final = 100_000  # memories
KINDS: Final = ("gateway", "worker", "postgres", "redis", "client", "front", "supervisor")

Line = dict[str, Any]


def read_printed(files: Iterable[Path], bench: str) -> list[Line]:
    """Return the lines of these files that a benchmark printed, in their order."""
    texts = [text for file in files for text in file.read_text(encoding="utf-8").splitlines()]
    return [line for text in texts if text.startswith("{") and (line := json.loads(text)).get("bench") == bench]


def section(lines: Sequence[Line], plot: str) -> str:
    """Return the section, markers included; `lines`: as `latest` returns them; `plot`: the picture's name."""
    parts = [SECTION.begin, _machine(lines), f"![Ratios, each as a share of its target]({plot})", _ratios(lines)]
    return "\n\n".join([*parts, _calls(lines), _memory(lines), SECTION.end])


def latest(lines: Iterable[Line]) -> list[Line]:
    """Return the last line of each measurement, in the order in which they were printed."""
    last: dict[tuple[Any, ...], Line] = {}
    for line in lines:
        key = tuple(line.get(part) for part in ("measure", "memories", "row", "tool", "callers"))
        last.pop(key, None)
        last[key] = line
    return list(last.values())


def ratios_of(lines: Sequence[Line]) -> dict[tuple[str, int], float]:
    """Return the ratio of each row at each size; failures of all tools are added up. `lines`: as `latest` returns them.

    How a search grows with the memories is told by no line: sizes may be measured in several runs.
    """
    found: dict[tuple[str, int], float] = {}
    for line in lines:
        if line["measure"] == "ratio":
            key = line["row"], line["memories"]
            found[key] = found.get(key, 0.0) + line["ratio"]
    p50s = {line["memories"]: line["p50_ms"] for line in lines if _is_single_search(line)}
    for memories in p50s:
        if memories > GROWN_FROM in p50s:
            found["search_growth", memories] = p50s[memories] / p50s[GROWN_FROM]
    return found


def _is_single_search(line: Line) -> bool:
    return (line["measure"], line.get("tool"), line.get("callers")) == ("calls", "search", 1)


def sizes_of(lines: Iterable[Line]) -> list[int]:
    """Return the numbers of memories that were measured, ascending."""
    return sorted({line["memories"] for line in lines})


def size_name(memories: int) -> str:
    """Return a number of memories as people write it."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if memories >= unit and memories % unit == 0:
            return f"{memories // unit}{name}"
    return str(memories)


def _machine(lines: Sequence[Line]) -> str:
    machine: Line = next((line for line in lines if line["measure"] == "machine"), {})
    loads = [line["load_1m"] for line in lines]
    where = f"{machine.get('processor', 'unknown processor')}, {lines[0]['cpus']} cores, {machine.get('memory_gb')} GB"
    rounds = max((line["rounds"] for line in lines if line["measure"] == "ratio"), default=0)
    return (
        f"Measured on {where}, load {min(loads)} to {max(loads)} (the benchmark's own included); "
        f"medians of {rounds} rounds, an import once. R is the float32 model alone, texts of 24 tokens a second, two "
        "runs of one thread. In bold: the target is missed."
    )


def _ratios(lines: Sequence[Line]) -> str:
    sizes, ratios = sizes_of(lines), ratios_of(lines)
    rows = [
        [target.text, _bound(target), *(_ratio(target, ratios.get((name, size))) for size in sizes)]
        for name, target in TARGETS.items()
        if any((name, size) in ratios for size in sizes)
    ]
    return table(["ratio", "target", *map(size_name, sizes)], rows)


def _bound(target: Target) -> str:
    return f"at {'least' if target.at_least else 'most'} {target.bound:g}"


def _ratio(target: Target, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if target.is_met(value) else f"**{value:.2f}**"


def _calls(lines: Sequence[Line]) -> str:
    printed = (line for line in lines if line["measure"] == "calls")
    calls = sorted(printed, key=lambda line: (line["tool"], line["memories"], line["callers"]))
    kinds = [kind for kind in KINDS if any(kind in line["cpu_ms"] for line in calls)]
    rows = [
        [
            line["tool"],
            size_name(line["memories"]),
            str(line["callers"]),
            " / ".join(f"{line[f'p{share}_ms']:.1f}" for share in (50, 95, 99)),
            f"{line['per_s']:.0f}",
            f"{line['errors']} / {line['shed']}",
            *(f"{line['cpu_ms'][kind]:.1f}" if kind in line["cpu_ms"] else "" for kind in kinds),
            f"{sum(line['cpu_ms'].values()):.1f}",
        ]
        for line in calls
    ]
    heads = ["tool", "memories", "callers", "p50 / p95 / p99 in ms", "calls/s", "failed / shed", *kinds, "sum"]
    return "The last columns are the CPU of a call in ms, by process.\n\n" + table(heads, rows)


def _memory(lines: Sequence[Line]) -> str:
    told = {line["memories"]: line["pss_mb"] for line in lines if line["measure"] == "memory"}
    kinds = [kind for kind in KINDS if any(kind in sizes for sizes in told.values())]
    rows = [
        [size_name(size), *(f"{sizes.get(kind, 0.0):.0f}" for kind in kinds), f"{sum(sizes.values()):.0f}"]
        for size, sizes in sorted(told.items())
    ]
    return "Memory after all that, in MB (proportional set sizes):\n\n" + table(["memories", *kinds, "sum"], rows)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


LABELS: Final = 430  # pixels left of the bars
UNIT: Final = 180  # pixels of one target
MOST: Final = 2.5  # targets that are drawn; longer bars are cut, and say how long they are
BAR: Final = 9
GAP: Final = 10
TOP: Final = 46
BOTTOM: Final = 30
COLOURS: Final = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d", "#bab0ac")
TICKS: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)


def svg(lines: Sequence[Line]) -> str:
    """Return the picture of these lines."""
    sizes, ratios = sizes_of(lines), ratios_of(lines)
    rows = [name for name in TARGETS if TARGETS[name].bound and any((name, size) in ratios for size in sizes)]
    step = BAR * len(sizes) + GAP
    height, width = TOP + step * len(rows) + BOTTOM, round(LABELS + UNIT * MOST + 60)
    drawn = [_legend(sizes)]
    drawn += [_tick(at, height) for at in TICKS]
    for place, name in enumerate(rows):
        top = TOP + place * step
        drawn.append(text(LABELS - 8, top + step / 2, TARGETS[name].text, anchor="end"))
        drawn += [
            _bar(top + BAR * number, TARGETS[name].effort(ratios[name, size]), COLOURS[number % len(COLOURS)])
            for number, size in enumerate(sizes)
            if (name, size) in ratios
        ]
    drawn.append(text(LABELS, height - 8, "measured as a share of the target; where more is better, the inverse"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    style = 'font-family="sans-serif" font-size="11" fill="#222">'
    background = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    return "\n".join([head + style, background, *drawn, "</svg>", ""])


def _legend(sizes: Sequence[int]) -> str:
    parts = []
    for number, size in enumerate(sizes):
        left = LABELS + 110 * number
        parts.append(f'<rect x="{left}" y="8" width="10" height="10" fill="{COLOURS[number % len(COLOURS)]}"/>')
        parts.append(text(left + 14, 17, f"{size_name(size)} memories"))
    return "\n".join(parts)


def _tick(at: float, height: int) -> str:
    left = LABELS + UNIT * at
    stroke = 'stroke="#c00" stroke-width="1.5"' if at == 1 else 'stroke="#ddd"'
    line = f'<line x1="{left:g}" y1="{TOP - 6}" x2="{left:g}" y2="{height - BOTTOM}" {stroke}/>'
    return line + "\n" + text(left, TOP - 10, f"{at:g}", anchor="middle")


def _bar(top: float, effort: float, colour: str) -> str:
    shown = min(effort, MOST)
    bar = f'<rect x="{LABELS}" y="{top:g}" width="{UNIT * shown:.1f}" height="{BAR - 1}" fill="{colour}"/>'
    return bar if effort <= MOST else bar + "\n" + text(LABELS + UNIT * MOST + 4, top + BAR - 1, f"{effort:.1f}")


def text(left: float, bottom: float, text: str, *, anchor: str = "start") -> str:
    return f'<text x="{left:g}" y="{bottom:g}" text-anchor="{anchor}">{escape(text)}</text>'
