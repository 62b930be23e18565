"""A transaction in one namespace, in pipeline mode: what is sent together travels together.

BEGIN, the entry and the first queries share a round trip; the last queries share one with COMMIT.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg import generators
from psycopg.types.numeric import Int4

from engramq.schemas.vocabulary import DEFAULT_LANGUAGE, SYSTEM_PRINCIPAL
from engramq.workers.db import lookups
from engramq.workers.db.errors import Meaning, meaning
from engramq.workers.db.lookups import BEGIN_READ_ONLY, Answer, Lookup
from engramq.workers.db.pool import Connection, Row, execute, settings_of
from engramq.workers.db.queries import native, sql
from engramq.workers.db.session import AT_LENGTH, BEGIN, COMMIT, NO_CHANGES, ask, take_settings
from engramq.workers.queue.contract import Lease

BEGIN_SNAPSHOT: Final = sql("begin_snapshot")
ENTER: Final = sql("enter_tenant")
ENTER_NODES: Final = native(sql("enter_tenant_on_nodes")).text  # with a place for the number
NOTHING: Final = sql("nothing")
LOOK_UP: Final = sql("look_up")
FIND: Final = sql("find_tenant")
MAKE: Final = sql("make_tenant")

NOBODY: Final = Int4(0)  # what a namespace without a number reads as: no row has it
STRANGER: Final = "EQ001"  # the SQLSTATE of `enter_tenant`
KEPT: Final = 100_000  # namespaces; about 150 bytes each

# How long the lease must hold when COMMIT is sent. A process that is paused just then may still commit later: what it
# does is harmless then too, since its command id is in the ledger, or its writes name the state that they expect.
COMMIT_LEASE_S: Final = 2.5


class Tenants:
    """Which number a namespace has: every key of its rows begins with it. One per process.

    A number never changes and is never given again, so what is remembered holds for as long as the database is the
    same. That it is, each transaction finds out as it enters (`enter_tenant`); the error is dealt with here.
    """

    def __init__(self, language: str = DEFAULT_LANGUAGE) -> None:
        """`language`: of namespaces that are new."""
        self._language = language
        self._known: dict[str, Int4] = {}

    async def of(self, connection: Connection, namespace: str, *, make: bool) -> Int4:
        """Return the number of a namespace; one that has none gets one if it is to be made, else it is NOBODY's.

        Asks the database, outside any transaction, only when the number is not known. Raises psycopg.Error.
        """
        known = self._known.get(namespace)
        if known is not None:
            return known
        values = {"namespace": namespace} | ({"language": self._language} if make else {})
        rows = await ask(connection, MAKE if make else FIND, values)
        row = next(iter(rows), None)
        if row is None or row["tenant"] is None:
            return NOBODY
        if len(self._known) >= KEPT:
            del self._known[next(iter(self._known))]
        found = self._known[namespace] = Int4(row["tenant"])
        return found

    @contextmanager
    def doubting(self, namespace: str) -> Iterator[None]:
        """Forget a number that turns out to be not this namespace's: the database was emptied or brought back."""
        try:
            yield
        except psycopg.Error as error:
            if error.sqlstate == STRANGER:
                self._known.pop(namespace, None)
            raise


class CommitUnknown(Exception):
    """The connection was lost while COMMIT was under way: whether it happened is not known."""


# A query on its way: `fetchall` waits for its rows, `fetchone` for the first one or None.
Sent = psycopg.AsyncCursor[Row]

# Told whether what a transaction wrote is kept: False when it was undone for sure.
AtEnd = Callable[[bool], None]


@dataclass(slots=True)
class Transaction:
    """An open transaction; every query gets its tenant as %(tenant)s, the name of it as %(namespace)s, and who writes
    as %(writer)s: the principal of the command, or engramq itself. `at_end` is told how a write ended.
    """

    connection: Connection
    namespace: str
    tenant: Int4
    writer: str = SYSTEM_PRINCIPAL
    lease: Lease | None = None  # set by whoever must not commit without it
    sharded: bool = False  # over a cluster of Citus
    at_end: list[AtEnd] = field(default_factory=list)

    async def send(self, query: bytes, **values: Any) -> Sent:
        """Send a query without waiting for it. Its error comes with the next answer that is waited for."""
        known = {"tenant": self.tenant, "namespace": self.namespace, "writer": self.writer}
        return await execute(self.connection, query, {**known, **values})

    async def rows(self, query: bytes, **values: Any) -> list[Row]:
        """Return all rows of a query."""
        return await (await self.send(query, **values)).fetchall()

    async def look_up(self, asked: Sequence[Lookup]) -> list[Answer]:
        """Return the answers of several lookups; they are under way together."""
        sent = [await self.send(query, **values) for query, values in asked]
        rows = [await one.fetchone() for one in sent]
        return [None if row is None else next(iter(row.values())) for row in rows]

    async def row(self, query: bytes, **values: Any) -> Row | None:
        """Return the first row of a query, None when there is none."""
        return await (await self.send(query, **values)).fetchone()


@asynccontextmanager
async def transaction(
    connection: Connection,
    namespace: str,
    tenant: Int4,
    *,
    read_only: bool,
    snapshot: bool = False,
    at_length: bool = False,
    sharded: bool = False,
) -> AsyncIterator[Transaction]:
    """Run the block in a transaction that commits at its end, unless the block raises.

    `snapshot`: a read-only one whose statements all see one moment. `at_length`: one that may take long, and wait.
    `sharded`: over a cluster of Citus.

    Raises psycopg.Error, with the SQLSTATE STRANGER when the number is not this namespace's; CommitUnknown instead when
    the connection was lost during COMMIT; LeaseLost.
    """
    pipeline = connection.pipeline()
    await pipeline.__aenter__()
    committing = False
    committed: psycopg.AsyncCursor[Row] | None = None
    try:
        begin = BEGIN_SNAPSHOT if snapshot else BEGIN_READ_ONLY if read_only else BEGIN
        await connection.execute(begin, prepare=False)
        await take_settings(connection, AT_LENGTH if at_length else NO_CHANGES)
        opened = Transaction(connection, namespace, tenant, sharded=sharded)
        if tenant != NOBODY:  # who has entered nothing sees nothing
            await opened.send(ENTER)
            if sharded:  # Citus tells its nodes what a statement sets, not what a function does
                await connection.execute(ENTER_NODES % int(tenant), prepare=False)
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
    return connection.broken or (settings_of(connection) is not None and meaning(error) is Meaning.GONE)


async def _roll_back(connection: Connection) -> None:
    """Undo what was done.

    The driver drops all prepared statements after a ROLLBACK, in case it undid a table's change. Where the server has
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
            lookups.forget(connection)
