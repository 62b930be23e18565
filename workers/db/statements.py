"""Record SQL statements as spans, by the names of their queries, where traces are recorded.

A statement is under way from when it is sent until its rows are fetched: in a pipeline several are at once. One whose
rows nobody fetches has been answered when its connection comes back to the pool.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

import psycopg
from psycopg.abc import RV, Params, PQGen

from engramq.telemetry.spans import Span, SpanKind, are_recorded, part
from engramq.workers.db.queries import Query, name_of

_Row = dict[str, Any]

WAIT_INTERVAL_S: Final = 0.1  # between two looks of psycopg for an interrupt; its own default
SLOWEST_BYTES_S: Final = 131_072  # of a line that counts as alive: 1 Mbit/s
SYSTEM: Final = {"db.system.name": "postgresql"}


class WatchedConnection(psycopg.AsyncConnection[_Row]):
    """A connection that says since when somebody waits for its answer, by time.monotonic; None while nobody does.

    What a long statement takes on a slow line counts as no wait: the server that still reads one looks like one that
    got nothing.
    """

    waits_since: float | None = None
    _sent_by: float = 0.0  # when a slow line has carried all that was sent

    async def execute(
        self, query: Any, params: Params | None = None, *, prepare: bool | None = None, binary: bool = False
    ) -> psycopg.AsyncCursor[_Row]:
        """Send a statement, and fetch its answer outside a pipeline."""
        if isinstance(params, list):
            parts = (part for value in params for part in (value if isinstance(value, list) else (value,)))
            length = sum(len(part) for part in parts if isinstance(part, (str, bytes)))
            self._sent_by = max(self._sent_by, time.monotonic()) + length / SLOWEST_BYTES_S
        return await super().execute(query, params, prepare=prepare, binary=binary)

    async def wait(self, gen: PQGen[RV], interval: float = WAIT_INTERVAL_S, timeout: float | None = None) -> RV:
        """Wait for what the server answers."""
        self.waits_since = max(time.monotonic(), self._sent_by)
        try:
            return await super().wait(gen, interval, timeout)
        finally:
            self.waits_since = None


class TracedConnection(WatchedConnection):
    """A connection that remembers which statements nobody has fetched from."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.unanswered: set[Span] = set()
        self.cursor_factory = TracedCursor

    def end_statements(self) -> None:
        """End those that are still under way: the server has answered them all."""
        for span in self.unanswered:
            span.end()
        self.unanswered.clear()


class TracedCursor(psycopg.AsyncRawCursor[_Row]):
    """A cursor whose statement is a span."""

    _span: Span | None = None

    async def execute(
        self, query: Any, params: Params | None = None, *, prepare: bool | None = None, binary: bool | None = None
    ) -> Self:
        """Send a statement, and fetch its answer outside a pipeline."""
        if isinstance(query, bytes):
            self._span = begun(query)
            self._statements_under_way().add(self._span)
        try:
            return await super().execute(query, params, prepare=prepare, binary=binary)
        except BaseException as problem:
            self._end(type(problem).__name__)
            raise

    async def fetchone(self) -> _Row | None:
        """Return the next row."""
        try:
            row = await super().fetchone()
        except BaseException as problem:
            self._end(type(problem).__name__)
            raise
        self._end()
        return row

    async def fetchall(self) -> list[_Row]:
        """Return all rows that are left."""
        try:
            rows = await super().fetchall()
        except BaseException as problem:
            self._end(type(problem).__name__)
            raise
        self._end()
        return rows

    def _statements_under_way(self) -> set[Span]:
        assert isinstance(self.connection, TracedConnection)
        return self.connection.unanswered

    def _end(self, error: str = "") -> None:
        if self._span is not None:
            self._span.end(error)
            self._statements_under_way().discard(self._span)


def begun(query: Query) -> Span:
    """Return the span of a query that is sent now, as PostgreSQL takes it."""
    return part(name_of(query), SpanKind.CLIENT, SYSTEM)


@contextmanager
def sent_together(queries: Sequence[Query]) -> Iterator[None]:
    """Record queries as spans that all last as long as the block."""
    spans = [begun(query) for query in queries] if are_recorded() else []
    error = ""
    try:
        yield
    except BaseException as problem:
        error = type(problem).__name__
        raise
    finally:
        for span in spans:
            span.end(error)
