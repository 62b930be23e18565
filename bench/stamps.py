"""Time stamps of single calls inside gateway and worker: known functions are wrapped before a process begins to serve.

time.perf_counter_ns is one clock for all processes of a Linux machine. A point that has been renamed fails at once.
"""

import importlib
import inspect
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Final

from engramq.deploy.cli import main as engramq
from engramq.schemas.codec import decode_envelope

Span = tuple[str, int, int]  # the point's name, and when it began and ended, in ns


@dataclass(frozen=True, slots=True)
class Point:
    """A function that is timed. `ids` returns the commands that a call of it is about, from its arguments.

    Without them it belongs to the command of the innermost function that `opens` and calls it.
    """

    place: str
    name: str
    opens: bool = False
    ids: Callable[[Sequence[Any]], Sequence[str]] | None = None


@dataclass(slots=True, eq=False)
class _Record:
    """The stamps of one call; its command's id may come late."""

    spans: list[Span] = field(default_factory=list)
    command_id: str = ""


GATEWAY: Final = (
    # Not of the application itself: uvicorn calls that without arguments to see whether it makes one.
    Point("engramq.gateway.http:Router._route", "request", opens=True),
    Point("engramq.gateway.service:Service.call", "service"),
    Point("engramq.gateway.queue.lane:BusLane.deliver", "asked", ids=lambda given: (given[1].id,)),
    Point(
        "engramq.gateway.queue.lane:encode_job",
        "sealed",
        ids=lambda given: [decode_envelope(raw).id for raw in given[0]],
    ),
)
WORKER: Final = (
    Point("engramq.workers.runner:CommandRunner.run", "handler", opens=True, ids=lambda given: (given[1].envelope.id,)),
    Point("engramq.workers.embedders.vectorizer:Vectorizer.embed", "model"),
    Point("engramq.workers.db.database:Store.read", "transaction"),
    Point("engramq.workers.db.database:Store.look_up", "transaction"),
    Point("engramq.workers.db.database:Store.write", "transaction"),
    Point("engramq.workers.search.search:rank_by_score", "ranking"),
    Point("engramq.workers.search.search:boost_best", "ranking"),
    Point("engramq.workers.search.namespace_copy:NamespaceCopy.candidates", "ranking"),
    Point(
        "engramq.workers.queue.settlement:Settlement.add",
        "settle",
        ids=lambda given: [result.envelope.id for result in given[1]],
    ),
)
POINTS: Final = {"gateway": GATEWAY, "worker": WORKER}


class Stamps:
    """Wraps the functions of some points and keeps what they tell."""

    def __init__(self) -> None:
        self._current: ContextVar[_Record | None] = ContextVar("current", default=None)
        self._records: list[_Record] = []
        self._spans: dict[str, list[Span]] = defaultdict(list)

    def wrap(self, points: Sequence[Point]) -> None:
        """Replace each function by one that is timed; raises AttributeError when one is not there."""
        for point in points:
            owner, name = owner_of(point)
            setattr(owner, name, self._timed(getattr(owner, name), point))

    def write(self, file: Path) -> None:
        """Write the spans of each command, one JSON line each."""
        for record in self._records:
            if record.command_id:
                self._spans[record.command_id] += record.spans
        lines = [json.dumps({"id": command_id, "spans": spans}) for command_id, spans in self._spans.items()]
        file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")

    def _timed(self, function: Callable[..., Any], point: Point) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def awaited(*given: Any, **named: Any) -> Any:
                outer, begun = self._begin(point), time.perf_counter_ns()
                try:
                    return await function(*given, **named)
                finally:
                    self._end(point, given, begun, outer)

            return awaited

        @wraps(function)
        def called(*given: Any, **named: Any) -> Any:
            outer, begun = self._begin(point), time.perf_counter_ns()
            try:
                return function(*given, **named)
            finally:
                self._end(point, given, begun, outer)

        return called

    def _begin(self, point: Point) -> _Record | None:
        """Open a record if the point does; return the one around it."""
        outer = self._current.get()
        if point.opens:
            self._records.append(opened := _Record())
            self._current.set(opened)
        return outer

    def _end(self, point: Point, given: Sequence[Any], begun: int, outer: _Record | None) -> None:
        span, record = (point.name, begun, time.perf_counter_ns()), self._current.get()
        ids = () if point.ids is None else point.ids(given)
        for command_id in ids:
            self._spans[command_id].append(span)
        if record is not None and len(ids) == 1 and not record.command_id:
            record.command_id = ids[0]
        if record is not None and not ids:
            record.spans.append(span)
        if point.opens:
            self._current.set(outer)


def owner_of(point: Point) -> tuple[Any, str]:
    """Return the module or class that has the function, and the function's name there."""
    module, _, path = point.place.partition(":")
    owner: Any = importlib.import_module(module)
    *classes, name = path.split(".")
    for part in classes:
        owner = getattr(owner, part)
    return owner, name


def spans_in(folder: Path) -> dict[str, list[Span]]:
    """Return the spans of each command that the processes of a folder have written."""
    found: dict[str, list[Span]] = defaultdict(list)
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            told = json.loads(line)
            found[told["id"]] += [(name, begun, ended) for name, begun, ended in told["spans"]]
    return found


def main() -> int:
    """Serve with time stamps until asked to stop."""
    folder, *arguments = sys.argv[1:]
    stamps = Stamps()
    stamps.wrap(POINTS[arguments[0]])
    try:
        return engramq(arguments)
    finally:
        stamps.write(Path(folder) / f"{os.getpid()}.jsonl")


if __name__ == "__main__":
    raise SystemExit(main())
