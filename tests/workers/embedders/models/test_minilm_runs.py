"""In which runs our own models embed texts of any lengths: each row once, within the bounds, as cheap as can be."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engramq.workers.embedders.onnx_session import TEXTS_PER_RUN, TOKENS_A_RUN_COSTS, TOKENS_PER_RUN, in_runs

LENGTHS = st.lists(st.integers(0, 256) | st.sampled_from([2, 12, 256, 1_025, 5_000]), max_size=100)


def fits(lengths: list[int]) -> bool:
    return len(lengths) == 1 or (len(lengths) <= TEXTS_PER_RUN and len(lengths) * max(lengths) <= TOKENS_PER_RUN)


def cost(runs: list[list[int]]) -> int:
    return sum(TOKENS_A_RUN_COSTS + len(run) * max(run) for run in runs)


def as_full_as_can_be(lengths: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for length in sorted(lengths):
        if runs and fits([*runs[-1], length]):
            runs[-1].append(length)
        else:
            runs.append([length])
    return runs


@given(LENGTHS)
def test_every_row_is_in_one_run_shortest_first_and_each_run_within_the_bounds(lengths: list[int]) -> None:
    runs = list(in_runs(lengths))
    rows = [row for run in runs for row in run]
    assert sorted(rows) == list(range(len(lengths)))
    assert all(lengths[item] <= lengths[other] for item, other in pairwise(rows))
    assert all(run and fits([lengths[row] for row in run]) for run in runs)


@given(LENGTHS)
def test_runs_cost_no_more_than_filling_them_up_or_one_for_each_text(lengths: list[int]) -> None:
    made = cost([[lengths[row] for row in run] for run in in_runs(lengths)])
    assert made <= cost(as_full_as_can_be(lengths))
    assert made <= cost([[length] for length in lengths])
