"""Tables and picture of `python -m bench.scale_up`, from lines of two runs."""

from typing import Any
from xml.etree import ElementTree as ET

from bench.growth import growth_section, growth_svg

CPU = {"gateway": 1.0, "worker": 8.2, "postgres": 3.9, "redis": 0.5, "client": 9.0}


def line(measure: str, memories: int, namespaces: int = 1, **figures: Any) -> dict[str, Any]:
    machine = {"cpus": 2, "load_1m": 1.5, "processor": "a processor", "date": "2026-11-28"}
    return {"measure": measure, "memories": memories, "namespaces": namespaces, **figures, **machine}


def call(memories: int, p50_ms: float, *, tool: str = "search", calls: int = 9, **figures: Any) -> dict[str, Any]:
    times: dict[str, Any] = {"p50_ms": p50_ms, "p95_ms": 2 * p50_ms, "calls": calls, "failed": {}}
    return line("call", memories, tool=tool, callers=1, cpu_ms=CPU, **times, **figures)


LINES = [
    *(line(measure, memories, mb={"table": 2.0}) for memories in (1_000, 100_000) for measure in ("machine", "disk")),
    call(1_000, 10.0),
    call(100_000, 30.0),
    line("rebuild", 1_000, seconds=2.0, is_done=True, reached=[[0.0, 0]], postgres_cpu_s=1.0),
    line("rebuild", 100_000, seconds=60.0, is_done=False, reached=[[0.0, 0], [59.0, 42_000]], postgres_cpu_s=55.0),
]


def test_each_run_is_a_column_and_the_callers_own_cpu_is_left_out() -> None:
    page = growth_section(LINES)
    assert "| 1k | 100k |" in page
    assert "| search | 10 / 20; 14, 4 | 30 / 60; 14, 4 |" in page


def test_a_build_that_was_broken_off_says_how_far_it_came() -> None:
    assert "| 2; 1 | 42,000 rows in 60 s, then broken off |" in growth_section(LINES)


def test_calls_that_all_failed_are_told_as_such() -> None:
    failed = {**call(1_000, 0.0, tool="connect", calls=0), "failed": {"degree_limit": 3}}
    assert "none: {'degree_limit': 3}" in growth_section([*LINES, failed])


def test_the_picture_has_a_point_for_each_size() -> None:
    lines = ET.fromstring(growth_svg(LINES)).iter("{http://www.w3.org/2000/svg}polyline")
    assert [len(drawn.attrib["points"].split()) for drawn in lines if drawn.attrib["points"]] == [2]
