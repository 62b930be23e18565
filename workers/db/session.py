"""What a session must be set to where it is not the worker's own: behind a pooler.

A pooler lends a server's session for one transaction. What was set or prepared in the one before is gone, or somebody
else's; so each transaction sets what it needs, in the round trip of what follows, and the server fails it when that
does not hold. A session of the worker's own was set when it began (see conninfo.py): here it costs nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

from engramq.workers.db.pool import Connection, Row, execute, settings_of
from engramq.workers.db.queries import sql

BEGIN: Final = sql("begin")
COMMIT: Final = sql("commit")
TAKE_SETTINGS: Final = sql("take_settings")

# For who reads everything, or writes it, alone: as long as it takes, with pauses in between.
AT_LENGTH: Final = {"transaction_timeout": "0", "idle_in_transaction_session_timeout": "0"}
NO_CHANGES: Final[Mapping[str, str]] = {}


def settings_query(connection: Connection, changes: Mapping[str, str] = NO_CHANGES) -> dict[str, str] | None:
    """Return the values of TAKE_SETTINGS for the next transaction of a connection; None where it needs none."""
    settings = settings_of(connection)
    if settings is None:
        return None
    wanted = {**changes, **{name: value for name, value in settings.items() if name not in changes}}
    return {"names": _array(wanted), "wanted": _array(wanted.values())}


async def take_settings(connection: Connection, changes: Mapping[str, str] = NO_CHANGES) -> None:
    """Set what the open transaction needs, `changes` in place of what is usual; sent without waiting for it."""
    values = settings_query(connection, changes)
    if values is not None:
        await execute(connection, TAKE_SETTINGS, values, prepare=False)


async def ask(
    connection: Connection, query: bytes, values: Mapping[str, Any], changes: Mapping[str, str] = NO_CHANGES
) -> list[Row]:
    """Return the rows of a query that is a transaction of its own; `changes` count behind a pooler alone.

    Raises psycopg.Error.
    """
    if settings_of(connection) is None:
        return await (await execute(connection, query, values)).fetchall()
    try:
        async with connection.pipeline():
            await connection.execute(BEGIN, prepare=False)
            await take_settings(connection, changes)
            found = await execute(connection, query, values)
            await connection.execute(COMMIT, prepare=False)
        return await found.fetchall()
    except BaseException:
        await connection.close()  # in a transaction that has failed, or nobody knows where
        raise


def _array(items: Any) -> str:
    """Return texts as PostgreSQL writes an array; names and values of settings have no quotes."""
    return "{" + ",".join(f'"{one}"' for one in items) + "}"
