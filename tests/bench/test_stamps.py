"""Time stamps of calls: every function that is wrapped is there, and stages add up."""

import inspect

import pytest

from bench.common import Samples
from bench.profile import STAGES, WHOLE, of_calls, stages_of, table
from bench.stamps import POINTS, Point, Span, owner_of

MS = 1_000_000


def samples(latencies_ms: list[float]) -> Samples:
    return Samples(latencies_ms=latencies_ms, seconds=1.0)


@pytest.mark.parametrize(
    "point", [point for several in POINTS.values() for point in several], ids=lambda point: point.place
)
def test_every_point_names_a_function_of_the_product(point: Point) -> None:
    owner, name = owner_of(point)
    assert inspect.isfunction(getattr(owner, name))


def spans(start: int) -> list[Span]:
    """Return a call's spans: 1 ms for each boundary, the model 4, the transaction 6 of which ranking 2."""
    marks: list[tuple[str, int, int]] = [
        ("request", 1, 40), ("service", 2, 39), ("asked", 3, 30), ("sealed", 4, 5), ("handler", 7, 20),
        ("model", 8, 12), ("transaction", 13, 19), ("ranking", 15, 17), ("settle", 22, 23),
    ]  # fmt: skip
    return [(name, (start + begun) * MS, (start + ended) * MS) for name, begun, ended in marks]


def test_stages_follow_each_other_without_a_gap() -> None:
    stages = stages_of((0, 41 * MS), spans(0))
    assert [stages[name] for name in STAGES] == [1, 1, 1, 2, 2, 4, 4, 2, 3, 2, 8, 11]
    assert sum(stages[name] for name in STAGES) == stages[WHOLE] == 41


def test_calls_find_their_stamps_by_time_and_the_table_has_medians() -> None:
    calls = [(start * MS, (start + length) * MS) for start, length in ((0, 41), (100, 43), (200, 49))]
    profile = of_calls(calls, [spans(200), spans(0), spans(100), spans(900)])
    assert (profile[WHOLE], profile["out to the client"], profile["model"]) == (43, 13, 4)
    rows = table({"search": profile}).splitlines()
    assert rows[0].split() == ["ms,", "medians", "search"]
    assert rows[-1].split() == ["whole", "call", "43.00"]
