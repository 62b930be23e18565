"""Send statements past the driver's cursors, and fetch their rows: what is sent together travels together.

A cursor costs a tenth of a millisecond a statement, and a look at the socket: more than the server needs for most of
ours. Here: the same connection by its libpq handle, in pipeline mode, with the driver's own conversion of values and
rows. What is sent goes out once an answer is waited for, or 64 KB are together.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import generators
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import PyFormat
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from engramq.telemetry.spans import Span, are_recorded
from engramq.workers.db.statements import Row, Session, WatchedConnection, begun


class Sent:
    """A statement on its way: `fetchall` waits for its rows, `fetchone` for the first or None."""

    __slots__ = ("_exchange", "_rows", "_span", "result")

    def __init__(self, exchange: "Exchange", span: Span | None) -> None:
        self.result: PGresult | None = None
        self._exchange, self._span = exchange, span
        self._rows: list[Row] | None = None

    async def fetchall(self) -> list[Row]:
        """Return all rows. Raises psycopg.Error, also that of a statement before."""
        if self._rows is None:
            self._rows = self._exchange.rows_of(self.result or await self._exchange.receive(self))
        return self._rows

    async def fetchone(self) -> Row | None:
        """Return the first row; raises as `fetchall` does."""
        return next(iter(await self.fetchall()), None)

    def end(self, result: PGresult | None, error: str = "") -> None:
        """Take the answer."""
        self.result = result
        if self._span is not None:
            self._span.end(error)


class Exchange:
    """Statements of one transaction, or of one round trip; `end` ends it. `prepares`: not behind a pooler."""

    def __init__(self, connection: WatchedConnection, *, prepares: bool = True) -> None:
        self.connection = connection
        self._pgconn = connection.pgconn
        self._session = connection.session = connection.session or Session(connection)
        self._prepares = prepares
        self._under_way: deque[Sent | None] = deque()  # None: what nobody waits for
        self._is_flushed = True
        self._error: psycopg.Error | None = None
        self._pgconn.enter_pipeline_mode()

    def send(self, text: bytes, values: Sequence[Any] = (), *, at_once: bool = False) -> Sent:
        """Send a statement with the values of $1, $2 and so on; its error comes with the next answer waited for.

        `at_once`: it is kept prepared from now on.
        """
        converter = self._session.converter
        given = converter.dump_sequence(values, [PyFormat.AUTO] * len(values))
        return self._send(text, given, converter.types or (), converter.formats, at_once=at_once)

    def send_texts(self, text: bytes, values: Sequence[bytes | None]) -> Sent:
        """Send a statement that is kept prepared, with values as PostgreSQL reads them."""
        return self._send(text, values, (), None, at_once=True)

    async def receive(self, sent: Sent) -> PGresult:
        """Wait for the answer of a statement; raises psycopg.Error, also that of a statement before."""
        if not self._is_flushed:
            self._pgconn.send_flush_request()
            self._is_flushed = True
        await self.connection.wait(self._fetch(sent))
        if sent.result is None:
            raise self._error or psycopg.OperationalError("the connection is lost")
        return sent.result

    async def end(self) -> None:
        """Wait for all answers, and for the server to be done; raises the first error of a statement."""
        if self._pgconn.pipeline_status:
            self._pgconn.pipeline_sync()
            self._under_way.append(None)
            try:
                await self.connection.wait(self._fetch(None))
            finally:
                for sent in filter(None, self._under_way):
                    sent.end(None, psycopg.OperationalError.__name__)
            self._pgconn.exit_pipeline_mode()
        if self._error is not None:
            raise self._error

    def rows_of(self, result: PGresult) -> list[Row]:
        """Return the rows of an answer."""
        if not result.ntuples:
            return []
        names = [(result.fname(column) or b"").decode() for column in range(result.nfields)]
        converter = self._session.converter
        converter.set_pgresult(result)
        rows = converter.load_rows(0, result.ntuples, lambda values: dict(zip(names, values, strict=False)))
        converter.set_pgresult(None)
        return rows

    def _send(
        self,
        text: bytes,
        given: Sequence[Buffer | None],
        types: tuple[int, ...],
        formats: Sequence[int] | None,
        *,
        at_once: bool,
    ) -> Sent:
        self.connection.note_sent(sum(len(value) for value in given if isinstance(value, (bytes, bytearray))))
        name = None
        if self._prepares:
            name, commands = self._session.prepare(self._pgconn, text, types, at_once=at_once)
            self._under_way.extend([None] * commands)
        if name is None:
            self._pgconn.send_query_params(text, given, types or None, formats)
        else:
            self._pgconn.send_query_prepared(name, given, formats)
        sent = Sent(self, begun(text) if are_recorded() else None)
        self._under_way.append(sent)
        self._is_flushed = False
        return sent

    def _fetch(self, last: Sent | None) -> PQGen[None]:
        """Fetch the answers up to that of a statement and what is there besides, or all."""
        yield from generators.send(self._pgconn)
        is_there = False
        while self._under_way and not (is_there and self._pgconn.is_busy()):
            results = yield from generators.fetch_many(self._pgconn)
            if not results:
                raise psycopg.OperationalError("the connection is lost")
            sent, result = self._under_way.popleft(), results[0]
            error = _error_in(result)
            self._error = self._error or error
            if sent is not None:
                sent.end(None if error else result, type(error).__name__ if error else "")
                is_there = is_there or sent is last


def _error_in(result: PGresult) -> psycopg.Error | None:
    if result.status == ExecStatus.PIPELINE_ABORTED:
        return psycopg.errors.PipelineAborted("pipeline aborted")
    if result.status != ExecStatus.FATAL_ERROR:
        return None
    error = psycopg.errors.error_from_result(result, encoding="utf-8")
    return error if error.sqlstate else psycopg.OperationalError(str(error))  # of libpq: the connection is lost
