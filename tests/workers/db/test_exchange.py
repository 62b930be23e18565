"""Statements past the driver's cursors: when they travel, what becomes of an error, and what is kept prepared."""

from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from engramq.schemas.commands import Stored, StoreMemory
from engramq.telemetry.spans import SpanKind, Value, recorded_by, trace
from engramq.workers.db import statements
from engramq.workers.db.database import Store
from engramq.workers.db.statements import StatementExchange, WatchedConnection
from engramq.workers.db.transaction import Lookup, Transaction
from tests.assignments import assignment
from tests.workers.conftest import World

PREPARED = b"select statement from pg_prepared_statements where not from_sql"


async def forget(connection: WatchedConnection) -> None:
    """Have nothing prepared."""
    connection.session = None
    await connection.execute(b"deallocate all")


async def test_what_is_sent_waits_for_nothing_until_an_answer_is_wanted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = 0
    wait = WatchedConnection.wait

    async def count_wait(self: WatchedConnection, *arguments: Any, **named: Any) -> Any:
        nonlocal waits
        waits += 1
        return await wait(self, *arguments, **named)

    async def several(tx: Transaction) -> list[int]:
        sent = [await tx.send(b"select %(it)s::int as it", it=number) for number in range(9)]
        assert waits == 0
        return [row["it"] for each in sent for row in await each.fetchall()]

    await store.write("a", lambda tx: tx.rows(b"select"))  # the namespace gets its number
    monkeypatch.setattr(WatchedConnection, "wait", count_wait)
    assert await store.write("a", several) == list(range(9))
    assert waits <= 10  # for each answer at most, and COMMIT


async def test_a_store_is_one_transaction(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    exchanges = 0
    begin = StatementExchange.__init__

    def count_exchange(self: StatementExchange, *arguments: Any, **named: Any) -> None:
        nonlocal exchanges
        exchanges += 1
        begin(self, *arguments, **named)

    await world.complete(assignment(StoreMemory(content="The first gives the namespace its number.")))
    monkeypatch.setattr(StatementExchange, "__init__", count_exchange)
    reply = (await world.complete(assignment(StoreMemory(content="The crane is repaired on Monday.")))).reply
    assert (type(reply), exchanges) == (Stored, 1)


async def test_an_error_comes_with_the_next_answer_and_the_connection_serves_on(store: Store) -> None:
    async def divide(tx: Transaction) -> None:
        before = await tx.send(b"select 1 as one")
        await tx.send(b"select 1 / %(zero)s::int", zero=0)
        after = await tx.send(b"select 2 as two")
        assert await before.fetchone() == {"one": 1}
        with pytest.raises(psycopg.errors.DivisionByZero):
            await after.fetchall()
        await after.fetchall()

    for _ in range(2):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await store.write("a", divide)
        assert await store.read("a", lambda tx: tx.row(b"select 3 as three")) == {"three": 3}


async def test_a_connection_keeps_so_many_statements_prepared_and_no_more(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "KEPT_MAX", 3)
    async with store._pool.connection() as connection:
        await forget(connection)
        for number in range(6):
            exchange = StatementExchange(connection)
            exchange.send(b"select %d" % number, at_once=True)
            await exchange.end()
        kept = await (await connection.execute(PREPARED)).fetchall()
    assert sorted(row["statement"] for row in kept) == ["select 3", "select 4", "select 5"]


async def test_a_statement_is_prepared_once_it_was_executed_often(store: Store) -> None:
    async with store._pool.connection() as connection:
        await forget(connection)
        counts = []
        for _ in range(statements.KEPT_FROM + 1):
            exchange = StatementExchange(connection)
            exchange.send(b"select 7")
            await exchange.end()
            counts.append(len(await (await connection.execute(PREPARED)).fetchall()))
    assert counts == [0] * statements.KEPT_FROM + [1]


class Spans:
    """A tracer that counts the spans that have not ended."""

    def __init__(self) -> None:
        self.left: list[str] = []

    def begin(self, name: str, *_: Any) -> "OneSpan":
        self.left.append(name)
        return OneSpan(self.left, name)

    def close(self) -> None:
        """Keep nothing."""


@dataclass
class OneSpan:
    left: list[str]
    name: str
    traceparent: str = ""

    def tell(self, name: str, value: Value) -> None:
        """Keep nothing."""

    def end(self, error: str = "") -> None:
        if self.name in self.left:
            self.left.remove(self.name)


async def test_spans_of_statements_end_with_their_connection(store: Store) -> None:
    await store.look_up("a", [])
    spans = Spans()
    with recorded_by(spans), trace("the call", SpanKind.SERVER):
        with pytest.raises(KeyError):  # after other statements were sent
            await store.look_up("a", [Lookup(b"select %(missing)s::text", {})])
        assert spans.left == ["the call"]


async def test_values_of_other_widths_and_null_take_no_statement_of_their_own(store: Store) -> None:
    query = b"select $1 + 0 as it, coalesce($2, 'none') as text"
    async with store._pool.connection() as connection:
        await forget(connection)
        found = []
        for number, text in ((2**40, "a"), (1, None), (-(2**15), "b"), (None, "c"), (2**20, None), (7, "d")):
            exchange = StatementExchange(connection)
            sent = exchange.send(query, [number, text], at_once=True)
            await exchange.end()
            (row,) = await sent.fetchall()
            found.append((row["it"], row["text"]))
        kept = await (await connection.execute(PREPARED)).fetchall()
    assert found == [(2**40, "a"), (1, "none"), (-(2**15), "b"), (None, "c"), (2**20, "none"), (7, "d")]
    assert len(kept) == 1


async def test_a_text_that_is_built_takes_no_place_of_a_statement(store: Store) -> None:
    async with store._pool.connection() as connection:
        await forget(connection)
        exchange = StatementExchange(connection)
        for number in range(9):
            exchange.send(b"set local lock_timeout to %d" % number, is_built=True)
        await exchange.end()
        assert connection.session is not None
        assert not connection.session.known
