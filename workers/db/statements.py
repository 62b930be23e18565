"""Know of a connection what it keeps and since when somebody waits for it; record statements as spans, by their names.

A statement is under way from when it is sent until it is answered: in a pipeline several are at once.
"""

import itertools
import time
from collections import OrderedDict
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.adapt import Transformer
from psycopg.pq.abc import PGconn

from engramq.telemetry.spans import Span, SpanKind, part
from engramq.workers.db.queries import Query, name_of

Row: TypeAlias = dict[str, Any]

WAIT_INTERVAL_S: Final = 0.1  # between two looks of psycopg for an interrupt; its own default
SLOWEST_BYTES_S: Final = 131_072  # of a line that counts as alive: 1 Mbit/s
SYSTEM: Final = {"db.system.name": "postgresql"}
KEPT_MAX: Final = 300  # statements that a connection keeps prepared, or counts
KEPT_FROM: Final = 5  # executions of a statement that is not kept from the first one on

_numbers: Final = itertools.count()  # a name is never used twice, whatever became of the first statement


class Session:
    """What a connection keeps: its converter of values, its prepared statements, and how often others were executed."""

    def __init__(self, connection: "WatchedConnection") -> None:
        self.converter = Transformer(connection)
        self._known: OrderedDict[tuple[bytes, tuple[int, ...]], bytes | int] = OrderedDict()

    def prepare(
        self, pgconn: PGconn, text: bytes, types: tuple[int, ...], *, at_once: bool
    ) -> tuple[bytes | None, int]:
        """Return the name of a statement, None: it has none yet; and how many commands were sent for that."""
        known, commands = self._known.pop((text, types), 0), 0
        if isinstance(known, int):
            known += 1
            if at_once or known > KEPT_FROM:
                known = b"engramq_%d" % next(_numbers)
                pgconn.send_prepare(known, text, types)
                commands = 1
        self._known[text, types] = known
        if len(self._known) > KEPT_MAX:
            _, oldest = self._known.popitem(last=False)
            if isinstance(oldest, bytes):
                pgconn.send_close_prepared(oldest)
                commands += 1
        return (known if isinstance(known, bytes) else None), commands


class WatchedConnection(psycopg.AsyncConnection[Row]):
    """A connection that says since when somebody waits for its answer, by time.monotonic; None while nobody does.

    Time that a long statement takes on a slow line counts as no wait: the server that still reads one looks like one
    that got nothing.
    """

    waits_since: float | None = None
    session: Session | None = None  # made by the first exchange; None: nothing is prepared
    _sent_by: float = 0.0  # when a slow line has carried all that was sent

    def note_sent(self, length: int) -> None:
        """Note that so many bytes were sent."""
        self._sent_by = max(self._sent_by, time.monotonic()) + length / SLOWEST_BYTES_S

    async def wait(self, gen: PQGen[RV], interval: float = WAIT_INTERVAL_S, timeout: float | None = None) -> RV:
        """Wait for what the server answers."""
        self.waits_since = max(time.monotonic(), self._sent_by)
        try:
            return await super().wait(gen, interval, timeout)
        finally:
            self.waits_since = None


def begun(query: Query) -> Span:
    """Return the span of a query that is sent now, as PostgreSQL takes it."""
    return part(name_of(query), SpanKind.CLIENT, SYSTEM)
