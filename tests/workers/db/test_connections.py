"""Workers share the connections of their server: none fails for want of one, and together they leave some to others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import psycopg
import pytest

from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE
from engramq.workers.db.database import POOL_SIZE, Store
from engramq.workers.db.pool import SPARE, Limit, Share, share_connections
from engramq.workers.db.transaction import Transaction
from tests.conftest import Database

pytestmark = pytest.mark.own_database

WORKERS = 9
CALLERS = 64
SESSIONS = "select count(*) as n from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"


def limit_connections(database: Database, most: int) -> None:
    """Let the database take no more connections; the owner of these tests, a superuser, is not bound by it."""
    database.rows(f"alter database {database.name} connection limit {most}")


def sessions(database: Database) -> int:
    return int(database.rows(SESSIONS)[0]["n"])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.02)


async def busy(tx: Transaction) -> None:
    await tx.rows(b"select pg_sleep(0.01)")


async def load(store: Store, callers: int = CALLERS) -> None:
    """Read for so many callers at once; none may fail."""
    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(store.read(DEFAULT_NAMESPACE, busy))


@asynccontextmanager
async def watched(database: Database) -> AsyncIterator[list[int]]:
    """Count the workers' connections all the while."""
    counted: list[int] = []

    async def watch() -> None:
        while True:
            counted.append(await asyncio.to_thread(sessions, database))

    watching = asyncio.create_task(watch())
    try:
        yield counted
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching


@asynccontextmanager
async def stores(database: Database, count: int) -> AsyncIterator[list[Store]]:
    async with AsyncExitStack() as owned:
        yield [await owned.enter_async_context(await Store.open(database.url)) for _ in range(count)]


@contextmanager
def held(database: Database, count: int) -> Iterator[list["psycopg.Connection[tuple[object, ...]]"]]:
    """Hold connections as another program with the workers' login would."""
    with contextlib.ExitStack() as owned:
        yield [owned.enter_context(psycopg.connect(database.url)) for _ in range(count)]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let callers wait for their turn as long as a busy machine takes for hundreds of them."""
    monkeypatch.setattr("engramq.workers.db.pool.WAIT_S", 60.0)


@pytest.mark.promise("SC-9")
@pytest.mark.long
@pytest.mark.usefixtures("patient")
async def test_nine_workers_that_are_loaded_in_turn_and_together_stay_within_what_they_share(
    database: Database,
) -> None:
    most = 40
    limit_connections(database, most)
    async with stores(database, WORKERS) as several, watched(database) as counted:
        for store in several:
            await load(store)
        async with asyncio.TaskGroup() as group:
            for store in several:
                group.create_task(load(store))
        await until(lambda: bool(counted))
    assert WORKERS < max(counted) <= most - SPARE


@pytest.mark.long
@pytest.mark.promise("SC-9")
@pytest.mark.usefixtures("patient")
async def test_a_worker_alone_gives_up_what_is_too_much_when_others_come(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramq.workers.db.pool.LOOK_S", 0.0)
    most = 28
    limit_connections(database, most)
    async with stores(database, 1) as (first,):
        await load(first, 10 * CALLERS)
        assert sessions(database) == POOL_SIZE
        async with stores(database, 5) as others:
            for store in others:
                await load(store)
            await load(first)
            await load(others[0])
            await until(lambda: sessions(database) <= most - most // 4)
        await until(lambda: sessions(database) <= most // 6)
        await load(first, 10 * CALLERS)
        assert sessions(database) == POOL_SIZE, "what the others have left is used again"


async def test_a_server_without_a_connection_left_is_waited_for(database: Database) -> None:
    limit_connections(database, 4)  # this test's own is one of them
    async with stores(database, 1) as (store,):
        await store._pool.drop_idle()
        await until(lambda: sessions(database) == 0)
        with held(database, 3) as others:
            asked = asyncio.create_task(store.read(DEFAULT_NAMESPACE, busy))
            assert not (await asyncio.wait([asked], timeout=0.5))[0]
            others[0].close()
            await asyncio.wait_for(asked, 5)


async def test_a_worker_that_gets_no_further_connection_goes_on_with_those_that_it_has(database: Database) -> None:
    async with stores(database, 1) as (store,):
        with held(database, 3):
            limit_connections(database, 5)
            await load(store)
            assert sessions(database) == 4


async def test_a_server_that_stays_full_is_told_in_the_refusal(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramq.workers.db.pool.WAIT_S", 0.3)
    limit_connections(database, 3)
    async with stores(database, 1) as (store,):
        await store._pool.drop_idle()
        await until(lambda: sessions(database) == 0)
        with held(database, 2), pytest.raises(EngramqError, match="no connection left") as refusal:
            await store.read(DEFAULT_NAMESPACE, busy)
    assert refusal.value.fault.code is FaultCode.UNAVAILABLE


async def test_connections_that_nobody_needs_are_closed_after_a_while(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramq.workers.db.pool.IDLE_S", 0.1)
    async with stores(database, 1) as (store,):
        await load(store)
        await until(lambda: sessions(database) == 1)
        await load(store)
    await until(lambda: sessions(database) == 0)


async def test_callers_that_give_up_leave_their_place_to_others(database: Database) -> None:
    async with await Store.open(database.url, pool_size=2) as store:
        for _ in range(5):
            given_up = [asyncio.create_task(store.read(DEFAULT_NAMESPACE, busy)) for _ in range(8)]
            await asyncio.sleep(0)
            await asyncio.wait(given_up, return_when=asyncio.FIRST_COMPLETED)
            for task in given_up:
                task.cancel()
            await asyncio.gather(*given_up, return_exceptions=True)
        await asyncio.wait_for(load(store), 10)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([Limit(most=97, others=0, ours=1, workers=1)], Share(87, exceeded=False)),
        ([Limit(most=97, others=3, ours=30, workers=9)], Share(9, exceeded=False)),
        ([Limit(most=97, others=0, ours=88, workers=6)], Share(14, exceeded=True)),
        ([Limit(most=97, others=90, ours=7, workers=7)], Share(1, exceeded=True)),
        ([Limit(most=20, others=1, ours=4, workers=2)], Share(7, exceeded=False)),
        ([Limit(97, 0, 4, 2), Limit(20, 0, 4, 2)], Share(7, exceeded=False)),
    ],
)
def test_workers_share_what_others_leave_and_one_is_everybodys_due(limits: list[Limit], expected: Share) -> None:
    assert share_connections(limits) == expected
