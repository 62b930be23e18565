"""What a base backup of the cluster needs of the database: its log kept meanwhile, and what it is a backup of."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg.rows import dict_row

from engramq.workers.db.conninfo import owner_conninfo
from engramq.workers.db.queries import sql
from engramq.workers.db.readiness import NotReady, require_own_session
from engramq.workers.db.transaction import Connection, execute

KEEP_LOG: Final = sql("keep_log")
ABOUT: Final = sql("about_cluster")
SCHEMA: Final = sql("schema_number")


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is saved: the number of its last migration (0: none), the server's major version, all databases' bytes."""

    schema: int
    postgresql: int
    bytes: int


@asynccontextmanager
async def log_kept(database_url: str) -> AsyncIterator[Cluster]:
    """Have the server keep its write-ahead log for as long as the block lasts; takes a superuser.

    Yields what is saved. Raises NotReady.
    """
    try:
        connection = await psycopg.AsyncConnection.connect(
            owner_conninfo(database_url), autocommit=True, row_factory=dict_row, cursor_factory=psycopg.AsyncRawCursor
        )
    except (psycopg.Error, OSError) as error:
        raise NotReady.unreachable(error) from error
    async with connection:
        try:
            await require_own_session(connection)
            await execute(connection, KEEP_LOG, {"slot": f"engramq_backup_{secrets.token_hex(8)}"})
            schema = await _schema(connection)
            about = await (await execute(connection, ABOUT, {})).fetchone()
        except psycopg.Error as error:
            told = (error.diag.message_primary or str(error)).strip()
            raise NotReady(f"The database cannot be saved: {told}.", "See the server's log.") from error
        assert about is not None
        yield Cluster(schema, about["postgresql"], about["bytes"])


async def _schema(connection: Connection) -> int:
    try:
        row = await (await execute(connection, SCHEMA, {})).fetchone()
    except psycopg.errors.UndefinedTable:
        return 0
    return int(row["number"]) if row else 0
