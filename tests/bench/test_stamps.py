"""Time stamps of calls: every function that is wrapped is there, and stages add up."""

import asyncio
import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.common import Samples
from bench.profile import STAGES, WHOLE, of_calls, stages_of, table
from bench.stamps import POINTS, Point, Span, Stamps, owner_of, spans_in

MS = 1_000_000


def samples(latencies_ms: list[float]) -> Samples:
    return Samples(latencies_ms=latencies_ms, seconds=1.0)


@pytest.mark.parametrize(
    "point", [point for several in POINTS.values() for point in several], ids=lambda one: one.place
)
def test_every_point_names_a_function_of_the_product(point: Point) -> None:
    owner, name = owner_of(point)
    assert inspect.isfunction(getattr(owner, name))


class Served:
    """Two commands that run in turns, each with a part of its own."""

    async def run(self, job: SimpleNamespace) -> str:
        await asyncio.sleep(0)
        return self.part(job.id)

    def part(self, command_id: str) -> str:
        return command_id


@pytest.mark.anyio
async def test_spans_belong_to_the_command_around_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("run", "part"):
        monkeypatch.setattr(Served, name, getattr(Served, name))  # undone at the end
    stamps, here = Stamps(), f"{__name__}:Served"
    monkeypatch.setattr("bench.stamps.importlib.import_module", lambda _: SimpleNamespace(Served=Served))
    stamps.wrap([Point(f"{here}.run", "handler", opens=True, ids=lambda given: (given[1].id,)),
                 Point(f"{here}.part", "part")])  # fmt: skip
    one, other = (Served().run(SimpleNamespace(id=name)) for name in ("one", "other"))
    assert list(await asyncio.gather(one, other)) == ["one", "other"]
    assert Served().part("outside of any") == "outside of any"
    stamps.write(tmp_path / "1.jsonl")
    found = spans_in(tmp_path)
    assert {name: sorted(span[0] for span in spans) for name, spans in found.items()} == {
        "one": ["handler", "part"],
        "other": ["handler", "part"],
    }
    for spans in found.values():
        (handler,) = [span for span in spans if span[0] == "handler"]
        (part,) = [span for span in spans if span[0] == "part"]
        assert handler[1] <= part[1] <= part[2] <= handler[2]


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


def test_what_runs_beside_the_model_counts_once() -> None:
    beside = [*spans(0), ("transaction", 9 * MS, 13 * MS)]
    stages = stages_of((0, 41 * MS), beside)
    assert (stages["model"], stages["transaction"], stages["ranking"], stages["rest of the handler"]) == (4, 5, 2, 2)
    assert sum(stages[name] for name in STAGES) == 41


def test_calls_find_their_stamps_by_time_and_the_table_has_medians() -> None:
    calls = [(start * MS, (start + length) * MS) for start, length in ((0, 41), (100, 43), (200, 49))]
    profile = of_calls(calls, [spans(200), spans(0), spans(100), spans(900)])
    assert (profile[WHOLE], profile["out to the client"], profile["model"]) == (43, 13, 4)
    rows = table({"search": profile}).splitlines()
    assert rows[0].split() == ["ms,", "medians", "search"]
    assert rows[-1].split() == ["whole", "call", "43.00"]
