"""Run queries and transactions on a connection, with the settings that a session behind a pooler lacks.

A transaction works in one namespace and in pipeline mode: what is sent together travels together. BEGIN, the entry and
the first queries share a round trip; the last queries share one with COMMIT.

A pooler lends a server's session for one transaction. What was set or prepared in the one before is gone, or somebody
else's; so each transaction sets what it needs, in the round trip of what follows, and the server fails it when that
does not hold. A session of the worker's own was set when it began (see conninfo.py): here it costs nothing.

JSON values are written (`Jsonb`), read back (`loads`) and compared (`same`) as jsonb does it.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import psycopg
from psycopg import generators
from psycopg import sql as composing
from psycopg.types import json as psycopg_json
from psycopg.types.numeric import Int4

from engramq.schemas.vocabulary import SYSTEM_PRINCIPAL
from engramq.workers.db.errors import Meaning, meaning
from engramq.workers.db.queries import Query, native, sql
from engramq.workers.db.viewers import PUBLIC, Viewer
from engramq.workers.queue.contract import Lease

Row = dict[str, Any]
Jsonb = psycopg_json.Jsonb
Connection = psycopg.AsyncConnection[Row]
Sent = psycopg.AsyncCursor[Row]  # a query on its way: `fetchall` waits for its rows, `fetchone` for the first or None
AtEnd = Callable[[bool], None]  # gets whether what a transaction wrote is kept: False when it was surely rolled back

BEGIN: Final = sql("begin")
BEGIN_READ_ONLY: Final = sql("begin_read_only")
BEGIN_SNAPSHOT: Final = sql("begin_snapshot")
COMMIT: Final = sql("commit")
ENTER_NODES: Final = native(sql("enter_tenant_on_nodes")).text  # with a place for the number
ISO_DATES: Final = sql("iso_dates")
NOTHING: Final = sql("nothing")
LOOK_UP: Final = sql("look_up")

_INTEGERS: Final = range(-(2**63), 2**64)  # what msgpack has room for
_FEW_DIGITS: Final = 25  # more than those have; int() of many digits is slow

NOBODY: Final = Int4(0)  # what a namespace without a number reads as: no row has it


# How long the lease must hold when COMMIT is sent. A process that is paused just then may still commit later: what it
# does is harmless then too, since its command id is in the ledger, or its writes name the state that they expect.
COMMIT_LEASE_S: Final = 2.5

# For who reads everything, or writes it, alone: as long as it takes, with pauses in between. A statement may have to
# pass millions of rows of other kinds before its page is full: of a million memories an export ended at 30 s.
AT_LENGTH: Final = {
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "statement_timeout": "10min",
}
_NO_CHANGES: Final[Mapping[str, str]] = {}

# What each transaction of a connection has to set; of those through a pooler alone.
pooled_settings_of: Final[WeakKeyDictionary[Connection, Mapping[str, str]]] = WeakKeyDictionary()
# The names of the statements that lookups.py has prepared on a connection.
prepared_lookups: Final[WeakKeyDictionary[Connection, dict[Query, bytes]]] = WeakKeyDictionary()


def loads(data: str | bytes | bytearray) -> Any:
    """Parse JSON. jsonb writes 1e300 with all its digits; a whole number beyond 64 bits is made a float again."""
    return json.loads(data, parse_int=_number)


def same(left: Any, right: Any) -> bool:
    """Say whether two JSON values are equal to jsonb: 1 is 1.0 but not true, and the order of keys does not matter."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return Decimal(repr(left)) == Decimal(repr(right))  # as they are written: jsonb has no binary fractions
    return bool(left == right)


def _number(text: str) -> int | float:
    if len(text) < _FEW_DIGITS:
        value = int(text)
        if value in _INTEGERS:
            return value
    return float(text)


class CommitUnknown(Exception):
    """The connection was lost while COMMIT was under way: whether it happened is not known."""


class Lookup(NamedTuple):
    """A query that answers with one row of one JSON text. Its values are text, whole numbers, truths or null."""

    query: Query
    values: Mapping[str, Any]


Answer: TypeAlias = str | bytes | None  # JSON; None where the query found nothing


async def execute(
    connection: Connection, query: Query, values: Mapping[str, Any], *, prepare: bool | None = None
) -> Sent:
    """Execute a query with the values of its parameters, which are written %(name)s, on a connection of a pool."""
    text, parameters = native(query)
    return await connection.execute(text, [values[name] for name in parameters], prepare=prepare)


def settings_to_take(connection: Connection, changes: Mapping[str, str] = _NO_CHANGES) -> dict[str, str] | None:
    """Return the values of TAKE_SETTINGS for the next transaction of a connection; None where it needs none.

    `changes` are set in place of what is usual.
    """
    settings = pooled_settings_of.get(connection)
    if settings is None:
        return None
    wanted = {**changes, **{name: value for name, value in settings.items() if name not in changes}}
    # As PostgreSQL writes an array; names and values of settings have no quotes.
    names, values = ("{" + ",".join(f'"{word}"' for word in words) + "}" for words in (wanted, wanted.values()))
    return {"names": names, "wanted": values}


async def ask(
    connection: Connection, query: Query, values: Mapping[str, Any], changes: Mapping[str, str] = _NO_CHANGES
) -> list[Row]:
    """Return the rows of a query that is a transaction of its own; `changes` count behind a pooler alone.

    Raises psycopg.Error.
    """
    settings = settings_to_take(connection, changes)
    if settings is None:
        return await (await execute(connection, query, values)).fetchall()
    try:
        async with connection.pipeline():
            await connection.execute(BEGIN, prepare=False)
            await execute(connection, "take_settings", settings, prepare=False)
            cursor = await execute(connection, query, values)
            await connection.execute(COMMIT, prepare=False)
        return await cursor.fetchall()
    except BaseException:
        await connection.close()  # in a transaction that has failed, or nobody knows where
        raise


@dataclass(slots=True)
class Transaction:
    """An open transaction.

    Every query gets its tenant as %(tenant)s, the tenant's name as %(namespace)s, and the writing principal, or engramq
    itself, as %(writer)s. `at_end` learns how a write ended. `viewer`: whose private rows it sees.
    """

    connection: Connection
    namespace: str
    tenant: Int4
    writer: str = SYSTEM_PRINCIPAL
    lease: Lease | None = None  # set where nothing may be committed without it
    sharded: bool = False  # over a cluster of Citus
    viewer: Viewer = PUBLIC
    by_keys: bool = False  # its plans are kept, from the first statement on
    at_end: list[AtEnd] = field(default_factory=list)

    async def send(self, query: Query, **values: Any) -> Sent:
        """Send a query without waiting for it. Its error comes with the next answer that is waited for."""
        known = {"tenant": self.tenant, "namespace": self.namespace, "writer": self.writer, **self.viewer._asdict()}
        known |= values
        text, parameters = native(query)
        return await self.connection.execute(text, [known[name] for name in parameters], prepare=self.by_keys or None)

    @asynccontextmanager
    async def seeing(self, viewer: Viewer) -> AsyncIterator[None]:
        """See what this one sees, until the end of the block."""
        before, self.viewer = self.viewer, viewer
        await self._show_private()
        yield
        self.viewer = before  # where the block raises, the transaction is over
        await self._show_private()

    async def _show_private(self) -> None:
        if not self.sharded:
            await self.send("show_private")
            return
        for name, owner in self.viewer._asdict().items():
            literal = composing.Literal(owner).as_string(self.connection)
            await self.connection.execute(f"set local app.{name} to {literal}".encode(), prepare=False)

    async def limit_statements(self, seconds: float) -> None:
        """Let each statement that follows take at most so long; the server then ends it with QueryCanceled."""
        await self.send("statements_take_most", timeout=f"{max(1, int(seconds * 1000))}ms")

    async def rows(self, query: Query, **values: Any) -> list[Row]:
        """Return all rows of a query."""
        return await (await self.send(query, **values)).fetchall()

    async def look_up(self, asked: Sequence[Lookup]) -> list[Answer]:
        """Return the answers of several lookups; they are under way together."""
        sent = [await self.send(query, **values) for query, values in asked]
        rows = [await cursor.fetchone() for cursor in sent]
        return [None if row is None else next(iter(row.values())) for row in rows]

    async def row(self, query: Query, **values: Any) -> Row | None:
        """Return the first row of a query, None when there is none."""
        return await (await self.send(query, **values)).fetchone()

    async def only_row(self, query: Query, **values: Any) -> Row:
        """Return the row of a query that always has one."""
        row = await self.row(query, **values)
        assert row is not None
        return row


@asynccontextmanager
async def transaction(
    connection: Connection,
    namespace: str,
    tenant: Int4,
    *,
    read_only: bool,
    snapshot: bool = False,
    at_length: bool = False,
    by_keys: bool = False,
    sharded: bool = False,
    viewer: Viewer = PUBLIC,
) -> AsyncIterator[Transaction]:
    """Run the block in a transaction that commits at its end, unless the block raises.

    `snapshot`: a read-only one whose statements all see one moment. `at_length`: one that may take long, and wait.
    `by_keys`: its plans are made once. `sharded`: over a cluster of Citus. `viewer`: whose private rows it sees.

    Raises psycopg.Error, also when the number is not this namespace's (see `enter_tenant`); CommitUnknown instead when
    the connection was lost during COMMIT; LeaseLost.
    """
    pipeline = connection.pipeline()
    await pipeline.__aenter__()
    committing = False
    committed: psycopg.AsyncCursor[Row] | None = None
    try:
        begin = BEGIN_SNAPSHOT if snapshot else BEGIN_READ_ONLY if read_only else BEGIN
        await connection.execute(begin, prepare=False)
        changes = AT_LENGTH if at_length else _NO_CHANGES
        if pooled_settings_of and (settings := settings_to_take(connection, changes)) is not None:
            await execute(connection, "take_settings", settings, prepare=False)
        opened = Transaction(connection, namespace, tenant, sharded=sharded, viewer=viewer, by_keys=by_keys)
        if tenant != NOBODY:  # a transaction that has entered none sees nothing
            if sharded:  # Citus tells its nodes what a statement sets, not what a function does
                # First, since the directory that `enter_tenant` reads may be a node's, behind row-level security.
                await connection.execute(ENTER_NODES % int(tenant), prepare=False)
                await opened._show_private()
            await opened.send("enter_for_lookups" if by_keys else "enter_tenant")
        yield opened
        if opened.lease is not None:
            opened.lease.require(COMMIT_LEASE_S)
        committing = not read_only
        committed = await connection.execute(COMMIT, prepare=False)
        await pipeline.__aexit__(None, None, None)
    except Exception as error:
        # COMMIT comes in the same pipeline as what failed, so the server skips it.
        with suppress(psycopg.Error):
            if committed is None:
                await pipeline.__aexit__(None, None, None)
        if committing and _may_have_committed(connection, error):
            raise CommitUnknown from error
        if isinstance(error, psycopg.errors.InvalidSqlStatementName):
            await connection.close()  # somebody dropped statements that the driver counts on
        await _roll_back(connection)
        raise
    except BaseException:
        await connection.close()  # cancelled: nobody may wait for the server now
        raise
    if committed.statusmessage != COMMIT.decode().upper():
        raise psycopg.errors.InFailedSqlTransaction("the transaction had failed before its end")


def _may_have_committed(connection: Connection, error: Exception) -> bool:
    """Say whether COMMIT may have been carried out. A pooler answers in the place of a server that is lost."""
    if not isinstance(error, psycopg.Error | OSError):
        return False
    return connection.broken or (connection in pooled_settings_of and meaning(error) is Meaning.GONE)


async def _roll_back(connection: Connection) -> None:
    """Roll the transaction back.

    The driver drops all prepared statements after a ROLLBACK, in case a table had changed. Where the server has
    refused nothing, as when a handler does, that is spared: the ROLLBACK goes past the driver. Where it has, the driver
    may believe in statements that the server never saw, so they are dropped, at once, and lookups forget theirs.
    """
    status = connection.info.transaction_status
    with suppress(psycopg.Error):
        if connection.closed:
            return
        if status == psycopg.pq.TransactionStatus.INTRANS:
            connection.pgconn.send_query(b"rollback")
            await connection.wait(generators.execute(connection.pgconn))
        elif status == psycopg.pq.TransactionStatus.INERROR:
            await connection.rollback()
            await connection.execute(NOTHING, prepare=False)  # the driver drops statements before the next one
            prepared_lookups.pop(connection, None)
