"""Ask several lookups together, each with one JSON text as its answer, in one transaction and one round trip.

Their values travel as text, and their answers are read as they come.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import psycopg

from engramq.workers.db.queries import native
from engramq.workers.db.statements import StatementExchange, WatchedConnection
from engramq.workers.db.transaction import (
    BEGIN_READ_ONLY,
    COMMIT,
    NOBODY,
    Lookup,
    LookupResult,
    pooled_settings_of,
    settings_to_take,
)

# How lookups are asked: in a transaction that is open, or in one of their own.
Ask: TypeAlias = Callable[[Sequence[Lookup]], Awaitable[list[LookupResult]]]


async def answer_lookups(
    connection: WatchedConnection, tenant: int, known: Mapping[str, str | int], lookups: Sequence[Lookup]
) -> list[LookupResult]:
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
    exchange = StatementExchange(connection, prepares=settings is None)
    try:
        sent = []
        for query, values in exchanged:
            text, parameters = native(query)
            given = [_text(values[name]) for name in parameters]
            sent.append(exchange.send(text, given, at_once=True, are_texts=True))
        await exchange.end()
    except BaseException:
        await exchange.close()
        raise
    results = [each.result for each in sent[len(around) : -1]]
    return [result.get_value(0, 0) if result is not None and result.ntuples else None for result in results]


def _text(value: str | int | bool | None) -> bytes | None:
    """Return a value as PostgreSQL reads it; raises psycopg.DataError for a text with a NUL, which would end there."""
    if value is None:
        return None
    if isinstance(value, bool):
        return b"t" if value else b"f"
    text = str(value).encode()
    if b"\0" in text:
        raise psycopg.DataError("PostgreSQL text cannot contain NUL")
    return text


def array(items: Sequence[str]) -> str:
    """Return ids, or other words without a special character, as PostgreSQL writes an array."""
    return "{" + ",".join(items) + "}"
