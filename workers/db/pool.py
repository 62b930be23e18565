"""A bounded set of connections that one process shares.

psycopg_pool reconnects with a back-off that grows to minutes, so that a minute's outage is followed by a minute of
refusals. This pool connects when a connection is wanted: it is back as soon as the server is.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads

from engramq.workers.db import json_values
from engramq.workers.db.errors import unavailable
from engramq.workers.db.queries import native

Row = dict[str, Any]
Connection = psycopg.AsyncConnection[Row]

WAIT_S: Final = 8.0  # for a free connection; below the time that a caller waits for its reply
PREPARED_MAX: Final = 300
IDLE_TRANSACTION: Final = psycopg.pq.TransactionStatus.IDLE


class Pool:
    """At most `size` connections, made on demand, the most recently used taken first."""

    def __init__(self, conninfo: str, size: int) -> None:
        self._conninfo = conninfo
        self._room = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection outside any transaction; one that comes back otherwise is closed.

        Raises psycopg.Error or OSError when there is none to be had, EngramqError when all are busy for too long.
        """
        try:
            async with asyncio.timeout(WAIT_S):
                await self._room.acquire()
        except TimeoutError:
            raise unavailable() from None
        try:
            connection = self._idle.pop() if self._idle else await self._connect()
            try:
                yield connection
            finally:
                await self._take_back(connection)
        finally:
            self._room.release()

    async def drop_idle(self) -> None:
        """Close the connections that nobody uses: when one was found dead the others probably are."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def aclose(self) -> None:
        """Close every connection; those on loan when they come back."""
        self._closed = True
        await self.drop_idle()

    async def _connect(self) -> Connection:
        connection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True, row_factory=dict_row)
        connection.prepared_max = PREPARED_MAX
        connection.cursor_factory = psycopg.AsyncRawCursor
        set_json_loads(json_values.loads, connection)
        return connection

    async def _take_back(self, connection: Connection) -> None:
        whole = not connection.closed and connection.info.transaction_status == IDLE_TRANSACTION
        if whole and connection.info.pipeline_status == psycopg.pq.PipelineStatus.OFF and not self._closed:
            self._idle.append(connection)
        else:
            await connection.close()


async def execute(
    connection: Connection, query: bytes, values: Mapping[str, Any], *, prepare: bool | None = None
) -> psycopg.AsyncCursor[Row]:
    """Execute a query with the values of its parameters, which are written %(name)s, on a connection of a pool."""
    text, parameters = native(query)
    return await connection.execute(text, [values[name] for name in parameters], prepare=prepare)
