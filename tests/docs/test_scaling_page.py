"""docs/scaling.md, "Sizing": its worked example follows from the table of measured figures in it."""

import pytest

from bench.scale import CASES, FIGURES, SECTION, example_table, need, read_figures
from tests.architecture.source import ROOT

PAGE = ROOT / "docs" / "scaling.md"


@pytest.fixture(scope="module")
def section() -> str:
    return SECTION.within(PAGE.read_text())


@pytest.mark.promise("SC-12")
def test_the_worked_example_follows_from_the_measured_figures(section: str) -> None:
    figures = read_figures(section)
    assert set(figures) == set(FIGURES)
    assert all(figure > 0 for figure in figures.values()), figures
    assert example_table(figures) in section, "run: python -m bench.scale --write"


def test_a_figure_that_changes_changes_the_example(section: str) -> None:
    figures = read_figures(section)
    for name in FIGURES:
        if name != "redis_bytes":  # what waits is bounded, not a matter of how many memories there are
            assert need(figures | {name: 2 * figures[name]}, *CASES[-1]) != need(figures, *CASES[-1]), name
