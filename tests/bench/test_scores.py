"""The figures of the retrieval benchmark, worked out by hand on a small made-up set."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.retrieval import by_namespace, means, prepared, score

IDS = [f"d{number}" for number in range(60)]


def test_a_ranking_is_scored_as_by_hand() -> None:
    figures = score(["d9", "d1", "d9", "d8", "d2"], {"d1", "d2", "d3"})
    # Places 1 and 3 (from 0) of the ranking without its repetition.
    gained = 1 / math.log2(3) + 1 / math.log2(5)
    best = 1 + 1 / math.log2(3) + 1 / 2
    expected = {"R@5": 2 / 3, "R@10": 2 / 3, "R@20": 2 / 3, "R@50": 2 / 3, "nDCG@10": gained / best, "MRR": 1 / 2}
    assert figures == pytest.approx(expected, abs=1e-12)


def test_means_are_by_category_and_overall_without_the_adversarial_one() -> None:
    scored = [(1, {"R@5": 1.0}), (1, {"R@5": 0.0}), (4, {"R@5": 1.0}), (5, {"R@5": 0.0})]
    assert means(scored) == {
        "category 1": {"n": 2, "R@5": 0.5},
        "category 4": {"n": 1, "R@5": 1.0},
        "category 5": {"n": 1, "R@5": 0.0},
        "overall": {"n": 3, "R@5": 2 / 3},
    }


@given(st.permutations(IDS), st.sets(st.sampled_from(IDS), min_size=1))
def test_figures_lie_between_0_and_1_and_a_perfect_ranking_has_1(ranking: list[str], evidence: set[str]) -> None:
    figures = score(ranking, evidence)
    assert all(0 <= figure <= 1 + 1e-12 for figure in figures.values())
    assert figures["R@5"] <= figures["R@10"] <= figures["R@20"] <= figures["R@50"]
    perfect = score(sorted(ranking, key=lambda memory: memory not in evidence), evidence)
    assert perfect["nDCG@10"] == pytest.approx(1)
    assert perfect["MRR"] == 1
    assert all(figures[name] <= perfect[name] + 1e-12 for name in figures)


def test_what_is_withheld_is_not_imported_and_positions_go_with_their_thread() -> None:
    row = {"namespace": "n", "external_id": "x", "content": "c", "speaker": "s", "thread": "t", "position": 1}
    assert prepared([row], frozenset({"speaker"})) == [{**{k: v for k, v in row.items() if k != "speaker"}}]
    assert prepared([row], frozenset({"thread"})) == [
        {"namespace": "n", "external_id": "x", "content": "c", "speaker": "s"}
    ]
    (moved,) = prepared([row], frozenset(), one_namespace="default_user")
    assert (moved["namespace"], moved["external_id"]) == ("default_user", "n\tx")
    assert by_namespace([row, {**row, "namespace": "m"}]) == {"n": [row], "m": [{**row, "namespace": "m"}]}
