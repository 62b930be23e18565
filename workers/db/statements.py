"""Send statements past the driver's cursors, and fetch their rows: what is sent together travels together.

A cursor costs a tenth of a millisecond a statement, and a look at the socket: more than the server needs for most of
ours. Here: the same connection by its libpq handle, in pipeline mode, with the driver's own conversion of values and
rows. Statements go out once an answer is waited for, or 64 KB are together. Where traces are recorded a statement
is a span, from when it is sent until it is answered.
"""

import itertools
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import generators
from psycopg.abc import RV, Buffer, PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from engramq.telemetry.spans import CURRENT, Span, SpanKind, part
from engramq.workers.db.queries import name_of

Row: TypeAlias = dict[str, Any]

WAIT_INTERVAL_S: Final = 0.1  # between two looks of psycopg for an interrupt; its own default
SLOWEST_BYTES_S: Final = 131_072  # of a line that counts as alive: 1 Mbit/s
SYSTEM: Final = {"db.system.name": "postgresql"}
KEPT_MAX: Final = 300  # statements that a connection keeps prepared, or counts
KEPT_FROM: Final = 5  # executions of a statement that is not kept from the first one on

_WIDTHS: Final = {21: 2, 23: 4, 20: 8}  # bytes of integers, by the number of their type

_FAILED: Final = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED)
_numbers: Final = itertools.count()  # a name is never used twice, whatever became of the first statement


class SessionStatements:
    """The converter of values of a connection, and the statements that it knows, by text and types.

    A prepared statement has its name there, another one how often it was executed. The last used one comes last.
    """

    def __init__(self, connection: "WatchedConnection") -> None:
        self.converter = Transformer(connection)
        self.known: OrderedDict[tuple[bytes, tuple[int, ...]], bytes | int] = OrderedDict()
        self.types: dict[bytes, tuple[int, ...]] = {}  # that the values of a text had last

    def keep_types(self, text: bytes, values: list[Buffer | None], types: tuple[int, ...]) -> tuple[int, ...]:
        """Give values the types that those before had where only null or fewer digits differ: one statement takes both.

        Returns the types, and changes the values, which are as PostgreSQL takes them.
        """
        before = self.types.get(text, types)
        if before != types:
            kept = list(types)
            for place, (value, own, former) in enumerate(zip(values, types, before, strict=True)):
                if value is None:
                    kept[place] = former
                elif _WIDTHS.get(own, 0) == len(value) < _WIDTHS.get(former, 0):
                    number = int.from_bytes(value, "big", signed=True)
                    values[place], kept[place] = number.to_bytes(_WIDTHS[former], "big", signed=True), former
            types = tuple(kept)
        self.types[text] = types
        return types


class WatchedConnection(psycopg.AsyncConnection[Row]):
    """A connection that says since when somebody waits for its answer, by time.monotonic; None while nobody does.

    Time that a long statement takes on a slow line counts as no wait: the server that still reads one looks like one
    that got nothing.
    """

    waits_since: float | None = None
    session: SessionStatements | None = None  # made by the first exchange; None: nothing is prepared
    sent_by: float = 0.0  # when a slow line has carried all that was sent

    async def wait(self, gen: PQGen[RV], interval: float = WAIT_INTERVAL_S, timeout: float | None = None) -> RV:
        """Wait for what the server answers."""
        self.waits_since = max(time.monotonic(), self.sent_by)
        try:
            return await super().wait(gen, interval, timeout)
        finally:
            self.waits_since = None


@dataclass(slots=True, eq=False)
class Sent:
    """A statement on its way: `fetchall` waits for its rows, `fetchone` for the first or None."""

    exchange: "StatementExchange"
    span: Span | None
    result: PGresult | None = None
    _rows: list[Row] | None = None

    async def fetchall(self) -> list[Row]:
        """Return all rows. Raises psycopg.Error, also that of a statement before."""
        if self._rows is None:
            exchange = self.exchange
            if self.result is None:
                exchange.pgconn.send_flush_request()
                await exchange.connection.wait(exchange.fetch(self))
            if (result := self.result) is None:
                raise exchange.error or psycopg.OperationalError("the connection is lost")
            names = [(result.fname(column) or b"").decode() for column in range(result.nfields)]
            converter = exchange.session.converter
            converter.set_pgresult(result)
            values = converter.load_rows(0, result.ntuples, tuple) if result.ntuples else []
            converter.set_pgresult(None)
            self._rows = [dict(zip(names, row, strict=True)) for row in values]
        return self._rows

    async def fetchone(self) -> Row | None:
        """Return the first row; raises as `fetchall` does."""
        rows = await self.fetchall()
        return rows[0] if rows else None


class StatementExchange:
    """Statements of one transaction, or of one round trip; `end` ends it. `prepares`: not behind a pooler."""

    def __init__(self, connection: WatchedConnection, *, prepares: bool = True) -> None:
        self.connection = connection
        self.session = connection.session = connection.session or SessionStatements(connection)
        self.pgconn = connection.pgconn
        self._prepares = prepares
        self._under_way: deque[Sent | None] = deque()  # None: what nobody waits for
        self.error: psycopg.Error | None = None
        self.pgconn.enter_pipeline_mode()

    def send(
        self,
        text: bytes,
        values: Sequence[Any] = (),
        *,
        at_once: bool = False,
        are_texts: bool = False,
        is_built: bool = False,
    ) -> Sent:
        """Send a statement with the values of $1, $2 and so on; its error comes with the next answer waited for.

        `at_once`: it is kept prepared from now on. `are_texts`: the values are as PostgreSQL reads them. `is_built`:
        its text has a value in it, and will hardly be sent again.
        """
        given: Sequence[Buffer | None] = values
        types: tuple[int, ...] = ()
        formats: Sequence[int] | None = None
        if values and not are_texts:
            converter = self.session.converter
            given = dumped = list(converter.dump_sequence(values, [PyFormat.AUTO] * len(values)))
            types, formats = converter.types or (), converter.formats
            if self._prepares:
                types = self.session.keep_types(text, dumped, types)
        length = sum([len(value) for value in given if isinstance(value, (bytes, bytearray))])
        self.connection.sent_by = max(self.connection.sent_by, time.monotonic()) + length / SLOWEST_BYTES_S
        if is_built or not self._prepares:
            self.pgconn.send_query_params(text, given, types or None, formats)
        else:
            known = self.session.known.pop((text, types), 0)
            if isinstance(known, int):
                known = self._prepare(text, types) if at_once or known >= KEPT_FROM else known + 1
            self.session.known[text, types] = known
            if len(self.session.known) > KEPT_MAX:
                self._forget()
            if isinstance(known, int):
                self.pgconn.send_query_params(text, given, types or None, formats)
            else:
                self.pgconn.send_query_prepared(known, given, formats)
        sent = Sent(self, None if CURRENT.get() is None else part(name_of(text), SpanKind.CLIENT, SYSTEM))
        self._under_way.append(sent)
        return sent

    async def end(self) -> None:
        """Wait for all answers, and for the server to be done; raises the first error of a statement."""
        if self.pgconn.pipeline_status:
            self.pgconn.pipeline_sync()
            self._under_way.append(None)
            try:
                await self.connection.wait(self.fetch(None))
            finally:
                if self._under_way:
                    self._end_spans()
            self.pgconn.exit_pipeline_mode()
        if self.error is not None:
            raise self.error

    async def close(self) -> None:
        """Close the connection: it is in a transaction that has failed, or nobody knows what is still under way."""
        self._end_spans()
        await self.connection.close()

    def _end_spans(self) -> None:
        for sent in self._under_way:
            if sent is not None and sent.span is not None:
                sent.span.end(psycopg.OperationalError.__name__)

    def _prepare(self, text: bytes, types: tuple[int, ...]) -> bytes:
        """Prepare a statement; return its name."""
        name = b"engramq_%d" % next(_numbers)
        self.pgconn.send_prepare(name, text, types)
        self._under_way.append(None)
        return name

    def _forget(self) -> None:
        """Forget the statement that was used least lately."""
        (text, _), known = self.session.known.popitem(last=False)
        self.session.types.pop(text, None)
        if isinstance(known, bytes):
            self.pgconn.send_close_prepared(known)
            self._under_way.append(None)

    def fetch(self, last: Sent | None) -> PQGen[None]:
        """Fetch the answers up to that of a statement and what is there besides, or all."""
        yield from generators.send(self.pgconn)
        is_there = False
        while self._under_way and not (is_there and self.pgconn.is_busy()):
            results = yield from generators.fetch_many(self.pgconn)
            if not results:
                raise psycopg.OperationalError("the connection is lost")
            sent, result = self._under_way.popleft(), results[0]
            error = _error_of(result) if result.status in _FAILED else None
            self.error = self.error or error
            if sent is not None:
                sent.result = None if error else result
                if sent.span is not None:
                    sent.span.end(type(error).__name__ if error else "")
                is_there = is_there or sent is last


def _error_of(result: PGresult) -> psycopg.Error:
    if result.status == ExecStatus.PIPELINE_ABORTED:
        return psycopg.errors.PipelineAborted("pipeline aborted")
    error = psycopg.errors.error_from_result(result, encoding="utf-8")
    return error if error.sqlstate else psycopg.OperationalError(str(error))  # of libpq: the connection is lost
