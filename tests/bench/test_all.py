"""The table of all targets: what becomes of the lines, and where CPU is counted. No time is measured here."""

import os
import subprocess
import sys
from typing import Any

import pytest

from bench.common import Kind, cpu_by_kind, peak_rss_mb, pss_mb, with_descendants
from bench.measured import Report, Round, medians
from bench.page import latest, section
from tests.bench.test_yardsticks import samples

MACHINE = {"cpus": 2, "machine": "x86_64", "load_1m": 0.5}


def line(measure: str, memories: int = 1_000, **figures: Any) -> dict[str, Any]:
    return {"bench": "all", "measure": measure, "memories": memories, **figures, **MACHINE}


def ratio(row: str, value: float, memories: int = 1_000, **parts: Any) -> dict[str, Any]:
    return line("ratio", memories, row=row, ratio=value, rounds=5, **parts)


def calls(tool: str, callers: int, cpu_ms: dict[str, float], **figures: Any) -> dict[str, Any]:
    shown = {"p50_ms": 10.0, "p95_ms": 20.04, "p99_ms": 30.0, "per_s": 99.6, "errors": 0, "shed": 7}
    return line("calls", tool=tool, callers=callers, cpu_ms=cpu_ms, **(shown | figures))


LINES = [
    line("machine", processor="Some & Co", memory_gb=24.0),
    ratio("search_p50", 1.9),
    ratio("search_p50", 1.25, rounds_of="a later run"),
    ratio("search_p50", 1.4, 100_000),
    ratio("searches_over_r", 0.5),
    ratio("failed", 1, tool="search", callers=64),
    ratio("failed", 2, tool="store", callers=64),
    ratio("import_p95", 30.0),
    calls("search", 8, {"gateway": 1.5, "worker": 12.0, "client": 0.5}),
    line("memory", pss_mb={"gateway": 50.0, "worker": 150.4}),
]


def test_the_table_shows_the_last_ratio_of_each_size_and_marks_what_misses_its_target() -> None:
    rows = section(latest(LINES), "plot.svg").splitlines()
    assert "| ratio | target | 1k | 100k |" in rows
    assert "| search p50, 1 caller / (embedding + all SQL of a search alone) | at most 1.3 | 1.25 | **1.40** |" in rows
    assert "| searches/s, 8 callers / R | at least 0.7 | **0.50** |  |" in rows
    heads = "| tool | memories | callers | p50 / p95 / p99 in ms | calls/s | failed / shed"
    assert f"{heads} | gateway | worker | client | sum |" in rows
    assert "| search | 1k | 8 | 10.0 / 20.0 / 30.0 | 100 | 0 / 7 | 1.5 | 12.0 | 0.5 | 14.0 |" in rows
    assert "| 1k | 50 | 150 | 200 |" in rows
    assert any("Some & Co, 2 cores, 24.0 GB, load 0.5 to 0.5" in row for row in rows)


def test_a_report_prints_medians_with_their_targets_and_keeps_them(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(1_000)
    report.ratio("store_p50", [1.4, 9.0, 1.2], insert_p50_ms=2.0)
    report.calls("store", 1, [Round(samples([4.0]), {"worker": 2.0}), Round(samples([6.0]), {"worker": 3.0})])
    first, second = report.lines
    assert (first["ratio"], first["target"], first["is_met"], first["rounds"]) == (1.4, 1.5, True, 3)
    assert (second["p50_ms"], second["cpu_ms"], second["calls"]) == (5.0, {"worker": 2.5}, 2)
    assert capsys.readouterr().out.count('"bench": "all"') == 2
    assert medians([{"a": 1.0}, {"a": 3.0}]) == {"a": 2.0}


def test_cpu_of_processes_below_one_is_its_own_and_stays_when_they_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < .1: pass\n"
    below = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\nprint('ended', flush=True)\ninput()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", below], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ended\n"
        assert child.pid in with_descendants([os.getpid()])
        used = cpu_by_kind({"below": Kind((child.pid,)), "alone": Kind((child.pid,), alone=True)})
        assert used["below"] >= used["alone"] + 0.09
        assert cpu_by_kind({"below": Kind((child.pid,))}, without=[child.pid]) == {"below": 0}
        assert 1 < pss_mb([child.pid]) < peak_rss_mb([child.pid])
        child.communicate("\n")
    assert pss_mb([child.pid]) == 0
