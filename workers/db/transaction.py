"""Run queries and transactions on a connection, with the settings that a session behind a pooler lacks.

A transaction works in one namespace and in pipeline mode: what is sent together travels together. BEGIN, the entry and
the first queries share a round trip; the last queries share one with COMMIT.

A pooler lends a server's session for one transaction. Settings and prepared statements of the transaction before are
gone, or somebody else's; so each transaction sets what it needs, in the round trip of its first queries, and the server
fails it when a setting does not hold. A session of the worker's own was set when it began (see conninfo.py): here it
costs nothing.

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
from engramq.workers.db.errors import Meaning, meaning_of_error
from engramq.workers.db.queries import Query, native, sql
from engramq.workers.db.statements import Row as Row
from engramq.workers.db.statements import Sent as Sent
from engramq.workers.db.statements import StatementExchange, WatchedConnection
from engramq.workers.db.viewers import PUBLIC, Viewer
from engramq.workers.queue.contract import Lease

Jsonb = psycopg_json.Jsonb
Connection = psycopg.AsyncConnection[Row]
AtEnd = Callable[[bool], None]  # gets whether what a transaction wrote is kept: False when it was surely rolled back

BEGIN: Final = sql("begin")
BEGIN_READ_ONLY: Final = sql("begin_read_only")
BEGIN_SNAPSHOT: Final = sql("begin_snapshot")
COMMIT: Final = sql("commit")
ENTER_NODES: Final = native(sql("enter_tenant_on_nodes")).text  # with a place for the number
ISO_DATES: Final = sql("iso_dates")
LOOK_UP: Final = sql("look_up")

_INTEGERS: Final = range(-(2**63), 2**64)  # what msgpack has room for
_FEW_DIGITS: Final = 25  # more than those have; int() of many digits is slow

NOBODY: Final = Int4(0)  # what a namespace without a number reads as: no row has it


# How long the lease must hold when COMMIT is sent. A process that is paused just then may still commit later: what it
# does is harmless then too, since its command id is in the ledger, or its writes name the state that they expect.
COMMIT_LEASE_S: Final = 2.5

# Limits of exports and other long jobs: none for a transaction, ten minutes a statement. A statement may have to pass
# millions of rows of other kinds before its page is full: of a million memories an export ended at 30 s.
AT_LENGTH: Final = {
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "statement_timeout": "10min",
}
_NO_CHANGES: Final[Mapping[str, str]] = {}

# Settings of each transaction of a connection through a pooler.
pooled_settings_of: Final[WeakKeyDictionary[Connection, Mapping[str, str]]] = WeakKeyDictionary()


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


LookupResult: TypeAlias = str | bytes | None  # JSON; None where the query found nothing


async def execute(
    connection: Connection, query: Query, values: Mapping[str, Any], *, prepare: bool | None = None
) -> psycopg.AsyncCursor[Row]:
    """Execute a query with the values of its parameters, which are written %(name)s, on a connection of a pool."""
    text, parameters = native(query)
    return await connection.execute(text, [values[name] for name in parameters], prepare=prepare)


def send(exchange: StatementExchange, query: Query, values: Mapping[str, Any]) -> Sent:
    """Send a query with the values of its parameters."""
    text, parameters = native(query)
    return exchange.send(text, [values[name] for name in parameters])


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
    connection: WatchedConnection, query: Query, values: Mapping[str, Any], changes: Mapping[str, str] = _NO_CHANGES
) -> list[Row]:
    """Return the rows of a query that is a transaction of its own; `changes` count behind a pooler alone.

    Raises psycopg.Error.
    """
    settings = settings_to_take(connection, changes)
    exchange = StatementExchange(connection, prepares=settings is None)
    try:
        if settings is not None:
            exchange.send(BEGIN)
            send(exchange, "take_settings", settings)
        sent = send(exchange, query, values)
        if settings is not None:
            exchange.send(COMMIT)
        await exchange.end()
        return await sent.fetchall()
    except BaseException:
        await exchange.close()
        raise


@dataclass(slots=True)
class Transaction:
    """An open transaction.

    Every query gets its tenant as %(tenant)s, the tenant's name as %(namespace)s, and the writing principal, or engramq
    itself, as %(writer)s. `at_end` learns how a write ended. `viewer`: whose private rows it sees.
    """

    exchange: StatementExchange
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
        return self.exchange.send(text, [known[name] for name in parameters], at_once=self.by_keys)

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
            literal = composing.Literal(owner).as_string(self.exchange.connection)
            self.exchange.send(f"set local app.{name} to {literal}".encode(), is_built=True)

    async def limit_statements(self, seconds: float) -> None:
        """Let each statement that follows take at most so long; the server then ends it with QueryCanceled."""
        await self.send("statements_take_most", timeout=f"{max(1, int(seconds * 1000))}ms")

    async def rows(self, query: Query, **values: Any) -> list[Row]:
        """Return all rows of a query."""
        return await (await self.send(query, **values)).fetchall()

    async def look_up(self, asked: Sequence[Lookup]) -> list[LookupResult]:
        """Return the answers of several lookups; they are under way together."""
        sent = [await self.send(query, **values) for query, values in asked]
        rows = [await cursor.fetchone() for cursor in sent]
        return [None if row is None else next(iter(row.values())) for row in rows]

    async def row(self, query: Query, **values: Any) -> Row | None:
        """Return the first row of a query, None when there is none."""
        rows = await (await self.send(query, **values)).fetchall()
        return rows[0] if rows else None

    async def only_row(self, query: Query, **values: Any) -> Row:
        """Return the row of a query that always has one."""
        row = await self.row(query, **values)
        assert row is not None
        return row


@asynccontextmanager
async def transaction(
    connection: WatchedConnection,
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
    settings = settings_to_take(connection, AT_LENGTH if at_length else _NO_CHANGES) if pooled_settings_of else None
    exchange = StatementExchange(connection, prepares=settings is None)
    committing = False
    try:
        exchange.send(BEGIN_SNAPSHOT if snapshot else BEGIN_READ_ONLY if read_only else BEGIN, at_once=True)
        if settings is not None:
            send(exchange, "take_settings", settings)
        opened = Transaction(exchange, namespace, tenant, sharded=sharded, viewer=viewer, by_keys=by_keys)
        if tenant != NOBODY:  # a transaction that has entered none sees nothing
            if sharded:  # Citus tells its nodes what a statement sets, not what a function does
                # First, since the directory that `enter_tenant` reads may be a node's, behind row-level security.
                exchange.send(ENTER_NODES % int(tenant), is_built=True)
                await opened._show_private()
            await opened.send("enter_for_lookups" if by_keys else "enter_tenant")
        yield opened
        if opened.lease is not None:
            opened.lease.require(COMMIT_LEASE_S)
        committing = not read_only
        committed = exchange.send(COMMIT, at_once=True)
        await exchange.end()
    except Exception as error:
        # COMMIT comes in the same pipeline as what failed, so the server skips it.
        with suppress(psycopg.Error):
            await exchange.end()
        if committing and _may_have_committed(connection, error):
            raise CommitUnknown from error
        if isinstance(error, psycopg.errors.InvalidSqlStatementName):
            await connection.close()  # somebody dropped statements that are counted on
        await _roll_back(connection)
        raise
    except BaseException:
        await exchange.close()  # cancelled: nobody may wait for the server now
        raise
    if committed.result is None or committed.result.command_status != COMMIT.upper():
        raise psycopg.errors.InFailedSqlTransaction("the transaction had failed before its end")


def _may_have_committed(connection: Connection, error: Exception) -> bool:
    """Say whether COMMIT may have been carried out. A pooler answers in the place of a server that is lost."""
    if not isinstance(error, psycopg.Error | OSError):
        return False
    return connection.broken or (connection in pooled_settings_of and meaning_of_error(error) is Meaning.GONE)


async def _roll_back(connection: WatchedConnection) -> None:
    """Roll the transaction back. Where the server has refused something it may not have prepared what it was to, or a
    table may have changed: all statements that are prepared are dropped. A pooler's session has others' alone.
    """
    status, command = connection.info.transaction_status, b"rollback"
    if connection.closed or status == psycopg.pq.TransactionStatus.IDLE:
        return
    if status == psycopg.pq.TransactionStatus.INERROR and connection not in pooled_settings_of:
        connection.session = None
        command = b"rollback; deallocate all"
    with suppress(psycopg.Error):
        connection.pgconn.send_query(command)
        await connection.wait(generators.execute(connection.pgconn))
