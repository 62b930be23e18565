"""Which texts run together, and how many runs at once: the same for all models of our own. Pure."""

import os
from collections.abc import Iterator, Sequence
from typing import Final

TEXTS_PER_RUN: Final = 32
# Padded tokens per run: beyond about 1,000 nothing is gained and attention's buffers cost (200 tokens x 32 texts runs
# at 26 texts/s instead of 65); it also bounds how long a cancelled call keeps the thread.
TOKENS_PER_RUN: Final = 1024
TOKENS_A_RUN_COSTS: Final = 6  # as much time as a run takes besides its tokens (1.5 ms, .28 ms a token, on one core)


def in_runs(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the rows of each run, shortest texts first, so that padding and the runs themselves cost least together.

    Every text of a run is padded to its longest: eight questions of 10 to 33 tokens in one run cost a third more.
    """
    rows = sorted(range(len(lengths)), key=lengths.__getitem__)
    # For so many of the first rows: the least that they cost, in tokens, and where their last run begins.
    costs, begins = [0], [0]
    for end in range(1, len(rows) + 1):
        longest = lengths[rows[end - 1]]
        most = max(1, min(TEXTS_PER_RUN, end, TOKENS_PER_RUN // max(longest, 1)))
        cost, begin = min(
            (costs[begin] + TOKENS_A_RUN_COSTS + (end - begin) * longest, begin) for begin in range(end - most, end)
        )
        costs.append(cost)
        begins.append(begin)
    runs, end = [], len(rows)
    while end:
        runs.append(rows[begins[end] : end])
        end = begins[end]
    yield from reversed(runs)


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
