"""docs/scaling.md, "Sizing": its worked example and its simulation follow from the table of measured figures in it."""

import re

import pytest

from bench.scale import SECTION, TIMES
from bench.scale_simulation import cores_for, simulate
from bench.scale_sizing import CASES, FIGURES, example_table, need, read_figures
from engramq.schemas.jobs import LONGEST_WAIT_S
from tests.architecture.source import ROOT

PAGE = ROOT / "docs" / "scaling.md"
ROW = re.compile(r"\| (search|store) \| (\d+) \| (\d+) \| (\d+) % \| ([\d.]+) ms \| ([\d.]+) ms \| ([\d.]+) % \|")
RATE = re.compile(r"\| (search|store) \| 1 \| 1 \| ([\d.]+) \|")


@pytest.fixture(scope="module")
def section() -> str:
    return SECTION.within(PAGE.read_text())


@pytest.mark.promise("SC-12")
def test_the_worked_example_follows_from_the_measured_figures(section: str) -> None:
    figures = read_figures(section)
    assert set(figures) == set(FIGURES)
    assert all(figure > 0 for figure in figures.values()), figures
    assert example_table(figures) in section, "run: python -m bench.scale --write"


@pytest.mark.promise("SC-12")
def test_the_simulated_waits_follow_from_the_measured_figures(section: str) -> None:
    figures, rates = read_figures(section), dict(RATE.findall(section))
    rows = ROW.findall(section)
    assert {row[0] for row in rows} == {"search", "store"}
    for tool in ("search", "store"):
        per_s, service_ms = next(float(row[1]) for row in rows if row[0] == tool), figures[f"{tool}_worker_ms"]
        assert per_s == pytest.approx(TIMES * float(rates[tool]), abs=1)
        assert [int(row[2]) for row in rows if row[0] == tool] == cores_for(per_s, service_ms)
    for tool, per_s, cores, busy, p50, p99, refused in rows:
        service_ms = figures[f"{tool}_worker_ms"]
        came = simulate(float(per_s), service_ms, int(cores))
        assert float(busy) == pytest.approx(
            float(per_s) * service_ms / 10 / int(cores), abs=0.6
        )  # shown without a fraction
        assert (float(p50), float(p99)) == pytest.approx((came.wait_ms(0.5), came.wait_ms(0.99)), abs=0.06)
        assert float(refused) == pytest.approx(100 * came.refused / came.calls, abs=0.06)


def test_a_figure_that_changes_changes_the_example(section: str) -> None:
    figures = read_figures(section)
    for name in FIGURES:
        if name != "redis_bytes":  # what waits is bounded, not a matter of how many memories there are
            assert need(figures | {name: 2 * figures[name]}, *CASES[-1]) != need(figures, *CASES[-1]), name


def test_a_queue_with_cores_enough_hardly_waits_and_one_without_refuses_before_it_waits_too_long() -> None:
    calm, crowded = simulate(100, 10.0, 2), simulate(300, 10.0, 2)
    assert calm.refused == 0
    assert calm.wait_ms(0.99) < 100
    assert 0.25 < crowded.refused / crowded.calls < 0.40  # a third is too much
    assert crowded.wait_ms(0.99) < 1.2 * 1000 * LONGEST_WAIT_S
    assert simulate(300, 10.0, 2) == crowded  # the same seed
