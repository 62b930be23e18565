"""Lookups in one round trip: what they answer, and what becomes of the connection when one fails."""

import asyncio

import psycopg
import pytest

from engramq.schemas.faults import EngramqError
from engramq.workers.db.database import POOL_SIZE, Store
from engramq.workers.db.lookups import array
from engramq.workers.db.transaction import Lookup, Transaction
from tests.conftest import Database

ECHO = b"select json_build_array(%(text)s::text, %(number)s::int, %(truth)s::boolean, %(list)s::text[])::text"
TENANT = b"select json_build_object('tenant', nullif(current_setting('app.tenant', true), ''))::text"
BROKEN = b"select (1 / %(zero)s::int)::text"
VALUES = {"text": "naïve 'quoted' \\ \U0001f600", "number": -7, "truth": True, "list": array(["a", "b"])}


async def touch(tx: Transaction) -> None:
    """Give the namespace its number."""


async def test_values_travel_and_no_row_is_no_answer(store: Store) -> None:
    nothing = Lookup(b"select 'x' where %(text)s::text is null", VALUES)
    for _ in range(3):  # prepared once, used again
        answer, none, null = await store.look_up("a", [Lookup(ECHO, VALUES), nothing, Lookup(b"select null::text", {})])
        assert isinstance(answer, bytes)
        assert answer.decode() == '["naïve \'quoted\' \\\\ \U0001f600", -7, true, ["a","b"]]'
        assert none is None
        assert null is None


async def test_it_is_one_read_only_transaction_in_the_namespaces_rows(store: Store) -> None:
    assert await store.look_up("nobody", [Lookup(TENANT, {})]) == [b'{"tenant" : null}']
    await store.write("somebody", touch)
    (answer,) = await store.look_up("somebody", [Lookup(TENANT, {})])
    assert answer not in (None, b'{"tenant" : null}')
    (kind,) = await store.look_up("somebody", [Lookup(b"select current_setting('transaction_read_only')", {})])
    assert kind == b"on"


async def test_a_failing_lookup_raises_and_the_next_one_works(store: Store) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        await store.look_up("a", [Lookup(ECHO, VALUES), Lookup(BROKEN, {"zero": 0}), Lookup(ECHO, VALUES)])
    assert await store.look_up("a", [Lookup(BROKEN, {"zero": 1})]) == [b"1"]


async def test_a_text_with_a_nul_is_refused_and_never_cut(store: Store) -> None:
    with pytest.raises(psycopg.DataError):
        await store.look_up("a", [Lookup(ECHO, {**VALUES, "text": "before\0after"})])
    assert len(await store.look_up("a", [Lookup(ECHO, VALUES)])) == 1


async def test_statements_outlive_a_transaction_that_was_undone(store: Store) -> None:
    async def refuse(tx: Transaction) -> None:
        await tx.rows(b"select 1 as one")
        raise RuntimeError("no")

    for _ in range(3):
        assert len(await store.look_up("a", [Lookup(ECHO, VALUES)])) == 1
        with pytest.raises(RuntimeError):
            await store.write("a", refuse)


async def test_statements_that_somebody_dropped_are_prepared_again(own_store: Store) -> None:
    """In sessions of its own: each that has its COMMIT prepared fails once, and a command is tried eleven times."""

    async def drop(tx: Transaction) -> None:
        await tx.rows(b"select 1 as one")
        await tx.rows(b"deallocate all")

    for _ in range(2):
        assert len(await own_store.look_up("a", [Lookup(ECHO, VALUES)])) == 1
        await own_store.write("a", drop)


async def test_a_pool_whose_sessions_were_all_reset_serves_the_next_command(own_store: Store) -> None:
    met = asyncio.Barrier(POOL_SIZE)

    async def meet(tx: Transaction) -> None:
        await tx.rows(b"select 1 as one")
        await met.wait()

    for _ in range(3):  # what a session has prepared before counts
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            for _ in range(POOL_SIZE):
                group.create_task(own_store.write("a", meet))
    idle = [connection for connection, _ in own_store._pool._idle]
    assert len(idle) == POOL_SIZE
    for connection in idle:
        await connection.execute(b"deallocate all")
    await own_store.write("a", lambda tx: tx.rows(b"select 1 as one"))


@pytest.mark.long
async def test_a_killed_connection_is_replaced_and_a_stopped_server_is_said_to_be_away(
    store: Store, database: Database
) -> None:
    assert len(await store.look_up("a", [Lookup(ECHO, VALUES)])) == 1
    database.rows("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'engramq_worker'")
    assert len(await store.look_up("a", [Lookup(ECHO, VALUES)])) == 1
    with pytest.raises(EngramqError):
        await store.look_up("a", [Lookup(b"select pg_terminate_backend(pg_backend_pid())::text", {})])


async def test_a_caller_that_gives_up_leaves_no_half_read_connection(store: Store) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await store.look_up("a", [Lookup(b"select pg_sleep(20)::text", {})])
    assert len(await store.look_up("a", [Lookup(ECHO, VALUES)])) == 1


async def test_a_statement_that_was_first_sent_behind_a_failure_works_afterwards(store: Store) -> None:
    """The driver takes it for prepared although the server has skipped it."""

    async def used(tx: Transaction) -> None:
        assert await tx.rows(b"select 7 as seven") == [{"seven": 7}]

    async def behind_a_failure(tx: Transaction) -> None:
        await tx.send(BROKEN, zero=0)
        await tx.rows(b"select 7 as seven")

    for _ in range(5):  # the sixth use prepares it
        await store.write("a", used)
    for _ in range(2):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await store.write("a", behind_a_failure)
        await store.write("a", used)
        assert len(await store.look_up("a", [Lookup(ECHO, VALUES)])) == 1
