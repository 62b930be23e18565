"""Find out what is wrong with a database, by connecting as a migration and then as a worker does."""

import asyncio
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from engramq.schemas.checks import Check, CheckName, degraded, failed, passed
from engramq.schemas.server_checks import database_check
from engramq.workers.db.conninfo import owner_conninfo
from engramq.workers.db.database import Store
from engramq.workers.db.errors import describe_refusal
from engramq.workers.db.queries import sql
from engramq.workers.db.readiness import NotReady, Reason, find_missing, lacks, packaged

EXTENSION: Final = sql("vector_extension")

LOOK_S: Final = 5.0  # for all looks together
OLDEST_PGVECTOR: Final = (0, 8)

Connection = psycopg.AsyncConnection[dict[str, Any]]


async def diagnose(database_url: str, language: str, *, migrates: bool = False) -> list[Check]:
    """Check that a database can be worked with, within LOOK_S: reached, pgvector, schema, role, writes.

    It skips checks that need something missing. `language`: of namespaces that are new. `migrates`: who asks is about
    to migrate it.
    """
    found: list[Check] = []
    try:
        async with asyncio.timeout(LOOK_S):
            if await _server(database_url, found, migrates=migrates):
                await _session(database_url, language, found)
    except TimeoutError:
        found.append(failed(CheckName.DATABASE, f"The database has not answered within {LOOK_S:.0f} s."))
    return found


async def _server(database_url: str, found: list[Check], *, migrates: bool) -> bool:
    """Look by the role of the URL itself, as a migration does; return whether workers can be expected to get in."""
    try:
        connection: Connection = await psycopg.AsyncConnection.connect(
            owner_conninfo(database_url), autocommit=True, row_factory=dict_row
        )
    except (psycopg.Error, OSError) as error:
        unreachable = NotReady.unreachable(error)
        found.append(failed(CheckName.DATABASE, unreachable.message, unreachable.recovery))
        return False
    async with connection:
        try:
            (extension,) = await (await connection.execute(EXTENSION)).fetchall()
            found.append(_extension_check(extension))
            schema = await _schema_check(connection, migrates=migrates)
        except psycopg.Error as error:
            told = describe_refusal(error) or f"The database has not answered as it should ({type(error).__name__})."
            found.append(failed(CheckName.DATABASE, told))
            return False
    found.append(schema or passed(CheckName.SCHEMA))
    return schema is None and all(check.state == "ok" for check in found)


def _extension_check(row: dict[str, Any]) -> Check:
    version = row["installed"] or row["available"]
    if version is None:
        return failed(CheckName.PGVECTOR, "The PostgreSQL server has no pgvector.")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_PGVECTOR:
        update = "Install pgvector 0.8 or later, then ALTER EXTENSION vector UPDATE as a superuser."
        return failed(CheckName.PGVECTOR, f"The database has pgvector {version}, which is too old.", update)
    return passed(CheckName.PGVECTOR)


async def _schema_check(connection: Connection, *, migrates: bool) -> Check | None:
    """Return what is wrong with the schema, None where nothing is."""
    try:
        behind = await find_missing(connection, packaged())
    except psycopg.errors.InsufficientPrivilege:
        return failed(CheckName.SCHEMA, "The workers' role may not read the schema's version.")
    except NotReady as problem:
        return failed(CheckName.SCHEMA, problem.message, problem.recovery)
    if not behind:
        return None
    return passed(CheckName.SCHEMA) if migrates else failed(CheckName.SCHEMA, lacks(behind))


async def _session(database_url: str, language: str, found: list[Check]) -> None:
    """Look as a worker does."""
    try:
        store = await Store.open(database_url, pool_size=1, language=language, primary=True)
    except NotReady as problem:
        if problem.reason is Reason.STANDBY:  # reads are answered by workers that were there before
            found.append(degraded(CheckName.DATABASE, problem.message, problem.recovery))
            return
        name = CheckName.SCHEMA if problem.reason is Reason.BEHIND else CheckName.DATABASE
        found.append(failed(name, problem.message, problem.recovery))
        return
    async with store:
        health = await store.health()
    found.append(database_check(health.refused, reads=health.reads))
