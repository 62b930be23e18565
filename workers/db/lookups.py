"""Lookups whose answer is one JSON text each: asked together, in a transaction of their own and one round trip.

The driver's cursors cost a fifth of a millisecond a query, more than the server needs for a lookup. What is known
beforehand goes past them: the same connection, its libpq handle, statements that are prepared once per connection.
"""

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.numeric import Int4

from engramq.workers.db.pool import Connection
from engramq.workers.db.queries import native, sql
from engramq.workers.db.session import COMMIT, TAKE_SETTINGS, settings_query
from engramq.workers.db.statements import sent_together

BEGIN_READ_ONLY: Final = sql("begin_read_only")
ENTER_FOR_LOOKUPS: Final = sql("enter_for_lookups")

Answer: TypeAlias = str | bytes | None  # JSON; None where the query found nothing


class Lookup(NamedTuple):
    """A query that answers with one row of one JSON text. Its values are text, whole numbers, truths or null."""

    query: bytes
    values: Mapping[str, Any]


# How lookups are asked: in a transaction that is open, or in one of their own.
Ask: TypeAlias = Callable[[Sequence[Lookup]], Awaitable[list[Answer]]]

# Names of statements by connection. A name is noted when the statement is sent: if the server does not take it, the
# whole exchange fails and the connection is closed.
_numbers: Final = itertools.count()  # a name is never used twice, whatever became of the first statement
_prepared: Final[WeakKeyDictionary[Connection, dict[bytes, bytes]]] = WeakKeyDictionary()


async def look_up(
    connection: Connection, namespace: str, tenant: Int4, lookups: Sequence[Lookup], *, entered: bool
) -> list[Answer]:
    """Return the answers, from one transaction in the tenant's rows; not `entered`, it sees nobody's.

    Raises psycopg.Error; the connection is then of no more use.
    """
    known = {"namespace": namespace, "tenant": tenant}
    around = [Lookup(ENTER_FOR_LOOKUPS, known)] if entered else []
    asked = [Lookup(query, {**known, **values}) for query, values in lookups]
    settings = settings_query(connection)
    names = _prepared.setdefault(connection, {}) if settings is None else None
    around = around if settings is None else [Lookup(TAKE_SETTINGS, settings), *around]
    steps = [Lookup(BEGIN_READ_ONLY, {}), *around, *asked, Lookup(COMMIT, {})]
    try:
        with sent_together([step.query for step in steps]):
            results = await connection.wait(_exchange(connection.pgconn, names, steps))
    except BaseException:
        await connection.close()  # nobody knows what is still under way on it
        raise
    return [result.get_value(0, 0) if result.ntuples else None for result in results[1 + len(around) : -1]]


def _exchange(pgconn: PGconn, names: dict[bytes, bytes] | None, steps: Sequence[Lookup]) -> PQGen[list[PGresult]]:
    """Send all steps and a synchronisation, then fetch a result for each step."""
    pgconn.enter_pipeline_mode()
    is_step = [one for step in steps for one in _send(pgconn, names, step)]
    pgconn.pipeline_sync()
    yield from generators.send(pgconn)
    results = []
    for wanted in is_step:
        (result,) = yield from generators.fetch_many(pgconn)
        if result.status == ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(result, encoding="utf-8")
        if wanted:
            results.append(result)
    yield from generators.fetch_many(pgconn)  # the synchronisation's
    pgconn.exit_pipeline_mode()
    return results


def _send(pgconn: PGconn, names: dict[bytes, bytes] | None, step: Lookup) -> list[bool]:
    """Queue a step; say for each result that will come whether it is the step's own. `names` None: prepare nothing."""
    text, parameters = native(step.query)
    if names is None:
        pgconn.send_query_params(text, [_text(step.values[parameter]) for parameter in parameters])
        return [True]
    name = names.get(step.query)
    first = name is None
    if name is None:
        name = names[step.query] = b"engramq_%d" % next(_numbers)
        pgconn.send_prepare(name, text)
    pgconn.send_query_prepared(name, [_text(step.values[parameter]) for parameter in parameters])
    return [False, True] if first else [True]


def _text(value: str | int | bool | None) -> bytes | None:
    """Return a value as PostgreSQL reads it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return b"t" if value else b"f"
    return str(value).encode()


def forget(connection: Connection) -> None:
    """Forget which statements are prepared on a connection whose statements were all dropped."""
    _prepared.pop(connection, None)


def array(items: Sequence[str]) -> str:
    """Return ids, or other words without a special character, as PostgreSQL writes an array."""
    return "{" + ",".join(items) + "}"
