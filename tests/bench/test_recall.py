"""The gate for rankings: single arms and intervals, worked out by hand."""

import numpy as np

from bench.recall import compared, interval
from bench.retrieval import Arms


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
