"""The generated section of docs/benchmarks.md: what the JSON lines of `bench.all` say, ratios first."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bench.generated import Generated
from bench.targets import TARGETS, Target

SECTION: Final = Generated("bench.all")
GROWN_FROM: Final = 100_000  # memories
KINDS: Final = ("gateway", "worker", "postgres", "redis", "client", "front", "supervisor")

Line = Mapping[str, Any]


def section(lines: Sequence[Line], plot: str) -> str:
    """Return the section, markers included; `plot` is the name of the picture beside the page."""
    parts = [SECTION.begin, _machine(lines), f"![Ratios, each as a share of its target]({plot})", _ratios(lines)]
    return "\n\n".join([*parts, _calls(lines), _cpu(lines), _memory(lines), SECTION.end])


def latest_ratios(lines: Sequence[Line]) -> dict[tuple[str, int], float]:
    """Return the ratio of each row at each size, the last one told; failures of all tools are added up.

    How a search grows with the memories is told by no line: sizes may be measured in several runs.
    """
    told = {
        (line["row"], line["memories"], line.get("tool"), line.get("callers")): line["ratio"]
        for line in lines
        if line["measure"] == "ratio"
    }
    found: dict[tuple[str, int], float] = {}
    for (row, memories, _, _), ratio in told.items():
        found[row, memories] = found.get((row, memories), 0.0) + ratio
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
    sizes, ratios = sizes_of(lines), latest_ratios(lines)
    rows = [
        [target.text, _bound(target), *(_ratio(target, ratios.get((name, size))) for size in sizes)]
        for name, target in TARGETS.items()
        if any((name, size) in ratios for size in sizes)
    ]
    return _table(["ratio", "target", *map(size_name, sizes)], rows)


def _bound(target: Target) -> str:
    return f"at {'least' if target.at_least else 'most'} {target.bound:g}"


def _ratio(target: Target, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if target.is_met(value) else f"**{value:.2f}**"


def _calls(lines: Sequence[Line]) -> str:
    rows = [
        [
            line["tool"],
            size_name(line["memories"]),
            str(line["callers"]),
            " / ".join(f"{line[f'p{share}_ms']:.1f}" for share in (50, 95, 99)),
            f"{line['per_s']:.0f}",
            f"{line['errors']} / {line['shed']}",
        ]
        for line in _latest_calls(lines)
    ]
    return _table(["tool", "memories", "callers", "p50 / p95 / p99 in ms", "calls/s", "failed / shed"], rows)


def _cpu(lines: Sequence[Line]) -> str:
    calls = _latest_calls(lines)
    kinds = [kind for kind in KINDS if any(kind in line["cpu_ms"] for line in calls)]
    rows = [
        [
            line["tool"],
            size_name(line["memories"]),
            str(line["callers"]),
            *(f"{line['cpu_ms'][kind]:.1f}" if kind in line["cpu_ms"] else "" for kind in kinds),
            f"{sum(line['cpu_ms'].values()):.1f}",
        ]
        for line in calls
    ]
    return "CPU of a call in ms, by process:\n\n" + _table(["tool", "memories", "callers", *kinds, "sum"], rows)


def _memory(lines: Sequence[Line]) -> str:
    told = {line["memories"]: line["pss_mb"] for line in lines if line["measure"] == "memory"}
    kinds = [kind for kind in KINDS if any(kind in one for one in told.values())]
    rows = [
        [size_name(size), *(f"{one.get(kind, 0.0):.0f}" for kind in kinds), f"{sum(one.values()):.0f}"]
        for size, one in sorted(told.items())
    ]
    return "Memory after all that, in MB (proportional set sizes):\n\n" + _table(["memories", *kinds, "sum"], rows)


def _latest_calls(lines: Sequence[Line]) -> list[Line]:
    told = {(line["tool"], line["memories"], line["callers"]): line for line in lines if line["measure"] == "calls"}
    return [told[key] for key in sorted(told)]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
