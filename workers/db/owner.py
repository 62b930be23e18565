"""A connection of the database's owner, past row-level security: for what no worker may do."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from engramq.workers.db.conninfo import owner_conninfo
from engramq.workers.db.pool import Connection, Row, execute
from engramq.workers.db.queries import sql
from engramq.workers.db.readiness import NotReady, check_schema, require_own_session

BEGIN: Final = sql("begin")
BEGIN_LOOKING: Final = sql("begin_looking")
COMMIT: Final = sql("commit")

OwnerError = (psycopg.Error, OSError)
DiskFull = psycopg.errors.DiskFull
Doubled = psycopg.errors.UniqueViolation


class Owner:
    """One connection, opened by `opened`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    @asynccontextmanager
    async def opened(cls, database_url: str) -> AsyncIterator["Owner"]:
        """Connect to a database of this version's schema, in a session of its server's own; raises NotReady."""
        try:
            connection = await psycopg.AsyncConnection.connect(
                owner_conninfo(database_url),
                autocommit=True,
                row_factory=dict_row,
                cursor_factory=psycopg.AsyncRawCursor,
            )
        except OwnerError as error:
            raise NotReady.unreachable(error) from error
        async with connection:
            await require_own_session(
                connection,
                "Give ENGRAMQ_DATABASE_URL and ENGRAMQ_DATABASES of this command the servers themselves; workers go "
                "through the pooler as before.",
            )
            await check_schema(connection)
            yield cls(connection)

    async def rows(self, query: bytes, **values: Any) -> list[Row]:
        """Return the rows of a named query; a dict among its values goes as JSON."""
        given = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in values.items()}
        found = await execute(self._connection, query, given)
        return await found.fetchall() if found.description else []

    async def row(self, query: bytes, **values: Any) -> Row | None:
        """Return the first row of a named query, None where there is none."""
        return next(iter(await self.rows(query, **values)), None)

    async def run(self, statement: str, values: Sequence[Any]) -> list[Row]:
        """Return the rows of a statement that the database has made up itself; its parameters are $1 and so on."""
        found = await self._connection.execute(statement.encode(), values)
        return await found.fetchall() if found.description else []

    async def run_all(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[list[Row]]:
        """Return the rows of several such statements; they are under way together."""
        async with self._connection.pipeline():
            sent = [await self._connection.execute(text.encode(), values) for text, values in statements]
        return [await one.fetchall() if one.description else [] for one in sent]

    @asynccontextmanager
    async def transaction(self, *, looking: bool = False) -> AsyncIterator[None]:
        """Run the block in a transaction; `looking`: all of it sees one moment and writes nothing."""
        await self._connection.execute(BEGIN_LOOKING if looking else BEGIN)
        try:
            yield
        except BaseException:
            if not self._connection.closed:
                await self._connection.rollback()
            raise
        await self._connection.execute(COMMIT)
