"""The gate for rankings: single arms and intervals, worked out by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.recall import compared, interval, read
from bench.recall_page import SECTION, section
from bench.retrieval import Arms

RUN: dict[str, Any] = {
    "bench": "recall",
    "corpus": "locomo",
    "withheld": [],
    "on": "2026-11-22",
    "cpus": 2,
    "load_1m": 3.5,
}


def told(measure: str, ranking: str, at_ten: float, **more: Any) -> dict[str, Any]:
    return RUN | {"measure": measure, "ranking": ranking, "n": 20, "R@5": 0.5, "R@10": at_ten, "MRR": 0.4} | more


LINES = [
    told("overall", "relevance", 0.8), told("overall", "bm25", 0.6), told("overall", "similarity", 0.9),
    RUN | {"measure": "ahead", "of": "bm25", "n": 20, "R@10": 0.2, "low": 0.1, "high": 0.3},
    told("category 4", "relevance", 0.9), told("category 4", "bm25", 0.5), told("category 4", "vector", 0.7),
    told("category 1", "relevance", 0.3), told("category 1", "bm25", 0.4), told("category 1", "vector", 0.2),
    told("overall", "relevance", 0.7, withheld=["speaker", "thread"], load_1m=4.0),
    told("category 1", "relevance", 0.1, withheld=["speaker", "thread"]),
]  # fmt: skip


def test_the_page_tells_each_run_with_its_day_and_load() -> None:
    page = section(LINES)
    assert "### LoCoMo, as it is\n\n20 questions; 2026-11-22, load 3.5 on 2 cores." in page
    assert "### LoCoMo, without speaker and thread" in page
    assert "| BM25 | 0.500 | 0.600 | 0.400 | +0.200 [+0.100, +0.300] |" in page


def test_the_page_shows_what_is_worst_first_and_where_another_way_is_better() -> None:
    rows = section(LINES).partition("### By kind")[2].splitlines()[4:6]
    assert rows == [
        "| LoCoMo: multi-hop | 20 | 0.300 | 0.400 (BM25) | **-0.100** |",
        "| LoCoMo: single-hop | 20 | 0.900 | 0.700 (vectors) | +0.200 |",
    ]


def test_later_lines_replace_earlier_ones_of_the_same_run() -> None:
    again = section([*LINES, told("overall", "bm25", 0.65)])
    assert "| BM25 | 0.500 | 0.650 |" in again
    assert again.count("as it is\n\n") == 1


def test_the_page_is_written_between_its_marks_alone() -> None:
    page = f"before\n{SECTION.begin}\nold\n{SECTION.end}\nafter"
    assert SECTION.replaced(page, section(LINES)) == f"before\n{section(LINES)}\nafter"
    assert SECTION.within(SECTION.replaced(page, section(LINES))) == section(LINES)
    with pytest.raises(ValueError, match="lacks"):
        SECTION.replaced("no marks", section(LINES))


def test_only_lines_that_make_the_page_are_read(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    others = ["100%  2304 rows", json.dumps({"bench": "all"}), json.dumps(LINES[3] | {"of": "before"})]
    file.write_text("\n".join([*others, json.dumps(LINES[0])]))
    assert read([file]) == [LINES[0]]


def test_an_interval_holds_the_mean_and_is_a_point_where_nothing_varies() -> None:
    assert interval([0.25] * 9) == (0.25, 0.25, 0.25)
    mean, low, high = interval([0.0, 1.0] * 50)
    assert low < mean == 0.5 < high
    assert 0.3 < low < high < 0.7


def test_two_rankings_are_compared_question_by_question() -> None:
    ours, others = {"a": {"R@10": 1.0}, "b": {"R@10": 0.5}}, {"a": {"R@10": 0.5}, "b": {"R@10": 0.0}}
    assert compared(ours, others, ["a", "b"]) == {"R@10": 0.5, "low": 0.5, "high": 0.5}


def test_each_arm_puts_memories_in_its_own_order() -> None:
    """Of two that have the word the shorter one comes first; vectors say otherwise; both together agree on a third."""
    words = [{"kettle": 1, "sing": 1}, {"kettle": 1, "sing": 1, "loud": 4}, {"kettle": 2}, {"pump": 1}]
    vectors = np.array([[0.0, 1.0], [0.6, 0.8], [0.8, 0.6], [1.0, 0.0]], dtype=np.float32)
    arms = Arms(["short", "long", "both", "far"], vectors, words)
    found = arms.rankings(["kettle"], np.array([1.0, 0.0], dtype=np.float32))
    assert found["bm25"] == ["both", "short", "long", "far"]
    assert found["vector"] == ["far", "both", "long", "short"]
    assert found["z_fusion"][0] == "both"


@pytest.mark.parametrize("asked", [[], ["nothing"]])
def test_words_that_nobody_has_leave_the_order_alone(asked: list[str]) -> None:
    arms = Arms(["a", "b"], np.eye(2, dtype=np.float32), [{"x": 1}, {"y": 1}])
    assert arms.rankings(asked, np.array([1.0, 0.0], dtype=np.float32))["bm25"] == ["a", "b"]
