"""Write the files of a whole database anew, and keep the log of a cluster while its files are copied.

Files are written anew so that they hold no byte of what was erased: tables, indexes, statistics, the log.

A row that was deleted leaves its bytes in its page, in index pages, in statistics and in the write-ahead log until each
is written over; a rewrite takes them out for sure. Each table is locked while it is written: its users wait.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg.rows import dict_row

from engramq.workers.db.conninfo import owner_conninfo
from engramq.workers.db.queries import sql
from engramq.workers.db.readiness import NotReady, Reason, require_own_session
from engramq.workers.db.transaction import Connection, Row, execute

ANALYZE: Final = sql("analyze_everything")
STATISTICS: Final = sql("rewrite_statistics")
CHECKPOINT: Final = sql("checkpoint")
WAL_NOT_KEPT: Final = sql("wal_not_kept")
WAL_KEPT: Final = sql("wal_kept")

LOCK_WAIT_S: Final = 2.0  # others queue up behind us meanwhile: well below their own bound
LOCK_TRIES: Final = 60
LOCK_PAUSE_S: Final = 0.5
BUILD_WAIT_S: Final = 600.0
WAL_ROUNDS: Final = 10


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One table that was written anew: its size in bytes before and after, and its place among how many."""

    name: str
    before: int
    after: int
    number: int
    of: int
    taken_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RewriteBegun:
    """The rewriting that begins now.

    `table` is its name with its size in bytes, else it is a `step` that is about no table.
    """

    step: str = ""
    table: str = ""
    bytes: int = 0
    number: int = 0
    of: int = 0


@dataclass(frozen=True, slots=True)
class RewritePlanned:
    """The planned rewriting: how many tables, of how many bytes."""

    tables: int
    bytes: int


RewriteReport = RewritePlanned | RewriteBegun | Rewritten


async def rewrite_database(database_url: str, *, with_wal: bool, tell: Callable[[RewriteReport], None]) -> int:
    """Write all tables with their indexes anew; `with_wal`: the write-ahead log too, which takes a superuser.

    Tells what it is at. Return how many segments of the log from before are left, which replication slots or archives
    hold. Raises NotReady saying what is in the way; what was written until then stays so, and the same again begins
    anew.
    """
    connection = await _connect(database_url)
    try:
        async with connection:
            await require_own_session(connection)
            await _rewrite_tables(connection, tell)
            if not with_wal:
                return 0
            tell(RewriteBegun(step="the write-ahead log"))
            return await _rewrite_wal(connection)
    except psycopg.Error as error:
        raise _explain(error) from error


async def _connect(database_url: str) -> Connection:
    """Connect as the owner; raises NotReady."""
    try:
        return await psycopg.AsyncConnection.connect(
            owner_conninfo(database_url), autocommit=True, row_factory=dict_row, cursor_factory=psycopg.AsyncRawCursor
        )
    except (psycopg.Error, OSError) as error:
        raise NotReady.unreachable(error) from error


async def _rewrite_tables(connection: Connection, tell: Callable[[RewriteReport], None]) -> None:
    await execute(connection, "rewrite_settings", {"lock_timeout": f"{LOCK_WAIT_S}s"})
    await _keep_builds_away(connection)
    tables = await (await execute(connection, "tables_to_rewrite", {})).fetchall()
    if not all(table["may"] for table in tables):
        raise NotReady(
            "This database role may not write the tables anew.",
            "Give a URL of the owner of the database and its tables, as for `engramq migrate`.",
        )
    tell(RewritePlanned(len(tables), sum(table["bytes"] for table in tables)))
    for number, table in enumerate(tables, start=1):
        began = time.monotonic()
        tell(RewriteBegun(table=table["name"], bytes=table["bytes"], number=number, of=len(tables)))
        await _patiently(connection, table["command"].encode())
        size = await (await execute(connection, "size_of_table", {"name": table["name"]})).fetchone()
        after, taken_s = size["bytes"] if size else 0, time.monotonic() - began
        tell(Rewritten(table["name"], table["bytes"], after, number, len(tables), taken_s))
    tell(RewriteBegun(step="the statistics"))
    can = await (await execute(connection, "can_clear_statistics", {})).fetchone()
    if can is not None and can["possible"]:
        await execute(connection, "clear_statistics", {})
    await connection.execute(ANALYZE, prepare=False)
    await _patiently(connection, STATISTICS)


async def _keep_builds_away(connection: Connection) -> None:
    async with asyncio.timeout(BUILD_WAIT_S):
        while True:
            row = await (await execute(connection, "wait_for_builds", {})).fetchone()
            if row is not None and row["locked"]:
                return
            await asyncio.sleep(LOCK_PAUSE_S)


async def _patiently(connection: Connection, command: bytes) -> None:
    """Run what takes a table for itself; let others pass when somebody holds it for long."""
    for tries_left in reversed(range(LOCK_TRIES)):
        try:
            await connection.execute(command, prepare=False)
        except psycopg.errors.LockNotAvailable:
            if not tries_left:
                raise
            await asyncio.sleep(LOCK_PAUSE_S)
        else:
            return


async def _rewrite_wal(connection: Connection) -> int:
    """Write zeros over all segments that are kept for later, have those from before removed; return what is left."""
    await connection.execute(WAL_NOT_KEPT, prepare=False)
    try:
        await execute(connection, "reload", {})
        last = await (await execute(connection, "last_segment", {})).fetchone()
        assert last is not None
        await execute(connection, "next_segment", {})
        left = await _segments(connection, last)
        for _ in range(WAL_ROUNDS):
            if not left["old"]:
                break
            for _ in range(left["waiting"] + 1):
                await execute(connection, "next_segment", {})
            await connection.execute(CHECKPOINT, prepare=False)
            left = await _segments(connection, last)
        return int(left["old"])
    finally:
        await connection.execute(WAL_KEPT, prepare=False)
        await execute(connection, "reload", {})


async def _segments(connection: Connection, last: Row) -> Row:
    row = await (await execute(connection, "segments_of_before", {"last": last["name"]})).fetchone()
    assert row is not None
    return row


def _explain(error: psycopg.Error) -> NotReady:
    told = (error.diag.message_primary or str(error)).strip()
    match error:
        case psycopg.errors.LockNotAvailable():
            return NotReady(
                "Somebody holds a table for longer than a minute.", "End that session, then run this again."
            )
        case psycopg.errors.InsufficientPrivilege():
            return NotReady(
                f"This database role may not do what is needed: {told}.",
                "Give a URL of the owner of the database and its tables, as for `engramq migrate`.",
            )
        case psycopg.errors.DiskFull():
            return NotReady(f"The disk is full: {told}.", "A table needs its own size once more while it is written.")
        case psycopg.OperationalError() if not error.sqlstate or error.sqlstate.startswith(("57", "08")):
            return NotReady.unreachable(error)
        case _:
            return NotReady(f"The database was not written anew: {told}.", "See the server's log.", Reason.REFUSED)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The saved cluster: number of its last migration (0: none), server's major version, bytes of all databases."""

    schema: int
    postgresql: int
    bytes: int


@asynccontextmanager
async def log_kept(database_url: str) -> AsyncIterator[Cluster]:
    """Have the server keep its write-ahead log for as long as the block lasts; takes a superuser.

    Yields what is saved. Raises NotReady.
    """
    connection = await _connect(database_url)
    async with connection:
        try:
            await require_own_session(connection)
            await execute(connection, "keep_log", {"slot": f"engramq_backup_{secrets.token_hex(8)}"})
            schema = await _schema(connection)
            about = await (await execute(connection, "about_cluster", {})).fetchone()
        except psycopg.Error as error:
            told = (error.diag.message_primary or str(error)).strip()
            raise NotReady(f"The database cannot be saved: {told}.", "See the server's log.") from error
        assert about is not None
        yield Cluster(schema, about["postgresql"], about["bytes"])


async def _schema(connection: Connection) -> int:
    try:
        row = await (await execute(connection, "schema_number", {})).fetchone()
    except psycopg.errors.UndefinedTable:
        return 0
    return int(row["number"]) if row else 0
