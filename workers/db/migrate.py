"""Migrate a database: schema.sql to an empty one, else the migrations that it lacks in order, under a lock.

Each runs in a transaction of its own, whose lock it is: who waited for it looks anew what is missing, so two that
migrate at once take turns.
"""

import asyncio
import time
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from engramq.workers.db.conninfo import owner_conninfo
from engramq.workers.db.queries import sql
from engramq.workers.db.readiness import NotReady, Reason, Schema, find_missing, packaged, require_utf8

CREATE_TABLE: Final = sql("create_schema_migrations")
WAS_MIGRATED: Final = sql("was_migrated")
LOCK: Final = sql("lock_migrations")
RECORD: Final = sql("record_migration")
TO_BE_SHARDED: Final = sql("to_be_sharded")

OLDEST: Final = 17  # the first PostgreSQL with MAINTAIN, which lets workers build indexes anew
LOCK_WAIT_S: Final = 300  # as long as another's migration may take
RETRIES: Final = 5
_PAUSE_S: Final = 0.05

# Roles belong to the whole cluster: two databases that are migrated at once can meet there.
_MET_ANOTHER: Final = (psycopg.errors.UniqueViolation, psycopg.errors.InternalError_, psycopg.errors.DuplicateObject)

Connection = psycopg.AsyncConnection[dict[str, Any]]


async def migrate(database_url: str, *, wait_s: float = 0.0, schema: Schema | None = None) -> list[str]:
    """Bring a database up to this version and return what was applied, as `0031_schema`.

    Waits at most `wait_s` for a server that cannot be reached. Safe to run twice and from several processes at once.
    Raises NotReady saying what is wrong and how to mend it.
    """
    known = schema or packaged()
    connection = await _connect(database_url, wait_s)
    try:
        async with connection:
            refuse_older(connection.info.server_version)
            require_utf8(connection)
            applied = []
            while (name := await _apply_next(connection, known)) is not None:
                applied.append(name)
            return applied
    except psycopg.Error as error:
        raise _explain(error) from error


def refuse_older(server_version: int) -> None:
    """Raise NotReady for a PostgreSQL server that is too old; `server_version` is 160004 for 16.4."""
    if server_version < OLDEST * 10_000:
        raise NotReady(
            f"The server is PostgreSQL {server_version // 10_000}.{server_version % 10_000}, which is too old.",
            f"Nothing was changed. Use PostgreSQL {OLDEST} or later.",
        )


async def to_be_sharded(database_url: str) -> bool:
    """Return whether a database has Citus, and its tables are not spread over the cluster yet; raises NotReady."""
    async with await _connect(database_url, 0.0) as connection:
        row = await (await connection.execute(TO_BE_SHARDED)).fetchone()
    return row is not None and bool(row["to_be_sharded"])


async def _connect(database_url: str, wait_s: float) -> Connection:
    until = time.monotonic() + wait_s
    while True:
        try:
            return await psycopg.AsyncConnection.connect(
                owner_conninfo(database_url), autocommit=True, row_factory=dict_row, prepare_threshold=None
            )
        except (psycopg.Error, OSError) as error:
            if time.monotonic() >= until:
                raise NotReady.unreachable(error) from error
            await asyncio.sleep(_PAUSE_S)


async def _apply_next(connection: Connection, known: Schema) -> str | None:
    """Apply the first migration that is missing and return its name, None when none is."""
    for tries_left in reversed(range(RETRIES)):
        try:
            async with connection.transaction():
                return await _apply_here(connection, known)
        except _MET_ANOTHER:
            if not tries_left:
                raise
            await asyncio.sleep(_PAUSE_S)
    raise AssertionError


async def _apply_here(connection: Connection, known: Schema) -> str | None:
    await connection.execute(LOCK, {"timeout": f"{LOCK_WAIT_S}s"})
    found = await (await connection.execute(WAS_MIGRATED)).fetchone()
    if found is None or not found["was_migrated"]:
        await connection.execute(CREATE_TABLE)
    behind = await find_missing(connection, known)
    if not behind:
        return None
    migration = behind[0]
    await connection.execute(migration.text.encode())
    await connection.execute(RECORD, migration._asdict() | {"checksum": migration.checksum})
    return f"{migration.version:04}_{migration.name}"


def _explain(error: psycopg.Error) -> NotReady:
    told = (error.diag.message_primary or str(error)).strip()
    match error:
        case psycopg.errors.FeatureNotSupported() | psycopg.errors.UndefinedFile() if "vector" in told:
            return NotReady(
                f"The PostgreSQL server has no pgvector: {told}.",
                "Install pgvector 0.8 or later on the server (Debian: postgresql-NN-pgvector), then run this again.",
            )
        case psycopg.errors.InsufficientPrivilege():
            return NotReady(
                f"This database role may not do what a migration does: {told}.",
                "Run `engramq migrate` with a URL of the database's owner. Once, a superuser has to: CREATE EXTENSION "
                "vector; CREATE ROLE engramq_worker LOGIN; GRANT engramq_worker TO the owner.",
            )
        case psycopg.errors.DuplicateTable():
            return NotReady(
                f"The database has tables that engramq did not make: {told}.",
                "Nothing was changed. Give engramq a database of its own.",
            )
        case psycopg.errors.LockNotAvailable():
            return NotReady("Another migration has been running for five minutes.", "Wait for it, or end it.")
        case psycopg.OperationalError() if not error.sqlstate or error.sqlstate.startswith(("57", "08")):
            return NotReady.unreachable(error)
        case _:
            return NotReady(
                f"A migration failed and was rolled back: {told}.",
                "Nothing of it was applied. See the server's log.",
                Reason.REFUSED,
            )
