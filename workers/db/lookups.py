"""Ask several lookups together, each with one JSON text as its answer, in one transaction and one round trip.

The driver's cursors cost a fifth of a millisecond a query, more than the server needs for a lookup. What is known
beforehand goes past them: the same connection, its libpq handle, statements that are prepared once per connection.
"""

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from engramq.workers.db.queries import Query, native
from engramq.workers.db.statements import sent_together
from engramq.workers.db.transaction import (
    BEGIN_READ_ONLY,
    COMMIT,
    NOBODY,
    Answer,
    Connection,
    Lookup,
    pooled_settings_of,
    prepared_lookups,
    settings_to_take,
)

# How lookups are asked: in a transaction that is open, or in one of their own.
Ask: TypeAlias = Callable[[Sequence[Lookup]], Awaitable[list[Answer]]]

_numbers: Final = itertools.count()  # a name is never used twice, whatever became of the first statement


async def look_up(
    connection: Connection, tenant: int, known: Mapping[str, str | int], lookups: Sequence[Lookup]
) -> list[Answer]:
    """Return the answers, from one transaction in the tenant's rows; NOBODY has none.

    `known`: what every query may name. Raises psycopg.Error; the connection is then of no more use.
    """
    known = {"tenant": tenant, **known}
    settings = settings_to_take(connection) if pooled_settings_of else None
    around = [Lookup(BEGIN_READ_ONLY, {})]
    if settings is not None:
        around.append(Lookup("take_settings", settings))
    if tenant != NOBODY:
        around.append(Lookup("enter_for_lookups", known))
    asked = [Lookup(query, {**known, **values}) for query, values in lookups]
    exchanged = [*around, *asked, Lookup(COMMIT, {})]
    # A name is noted when the statement is sent: if the server does not take it, the whole exchange fails and the
    # connection is closed. A pooler's sessions prepare nothing.
    names = prepared_lookups.setdefault(connection, {}) if settings is None else None
    try:
        with sent_together([lookup.query for lookup in exchanged]):
            results = await connection.wait(_exchange(connection.pgconn, names, exchanged))
    except BaseException:
        await connection.close()  # nobody knows what is still under way on it
        raise
    return [result.get_value(0, 0) if result.ntuples else None for result in results[len(around) : -1]]


def _exchange(pgconn: PGconn, names: dict[Query, bytes] | None, lookups: Sequence[Lookup]) -> PQGen[list[PGresult]]:
    """Send all lookups and a synchronisation, then fetch a result for each lookup. `names` None: prepare nothing."""
    pgconn.enter_pipeline_mode()
    is_answer = []  # of each result that will come: whether it is a lookup's own
    for query, values in lookups:
        text, parameters = native(query)
        given = [_text(values[parameter]) for parameter in parameters]
        if names is None:
            pgconn.send_query_params(text, given)
        else:
            name = names.get(query)
            if name is None:
                name = names[query] = b"engramq_%d" % next(_numbers)
                pgconn.send_prepare(name, text)
                is_answer.append(False)
            pgconn.send_query_prepared(name, given)
        is_answer.append(True)
    pgconn.pipeline_sync()
    yield from generators.send(pgconn)
    results = []
    for wanted in is_answer:
        (result,) = yield from generators.fetch_many(pgconn)
        if result.status == ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(result, encoding="utf-8")
        if wanted:
            results.append(result)
    yield from generators.fetch_many(pgconn)  # the synchronisation's
    pgconn.exit_pipeline_mode()
    return results


def _text(value: str | int | bool | None) -> bytes | None:
    """Return a value as PostgreSQL reads it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return b"t" if value else b"f"
    return str(value).encode()


def array(items: Sequence[str]) -> str:
    """Return ids, or other words without a special character, as PostgreSQL writes an array."""
    return "{" + ",".join(items) + "}"
