"""A database that dies, restarts, or is in the way, for real."""

import asyncio
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import UUID

import msgspec
import psycopg
import pytest

from bench.servers import Servers, start_servers
from engramq.deploy.local.embedded import process
from engramq.schemas.commands import ForgetMemory as Forget
from engramq.schemas.commands import Forgotten
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE
from engramq.workers.db import ledger
from engramq.workers.db.conninfo import SESSION
from engramq.workers.db.database import Store
from engramq.workers.db.errors import Again
from engramq.workers.db.migrate import migrate
from engramq.workers.db.statements import StatementExchange
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.contract import Assignment, LeaseLost, ResultUnknown
from tests.assignments import assignment, repeated
from tests.conftest import Database
from tests.refusals import refused
from tests.running import run_once

pytestmark = pytest.mark.own_database

NOTE = (
    b"insert into audit_log (tenant, namespace, actor, action) "
    b"values (%(tenant)s, %(namespace)s, 'a', 'x') returning id"
)
KILL_OTHERS = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""


def ask(database: Database, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def notes(database: Database) -> object:
    return ask(database, "select count(*) from audit_log")[0][0]


async def until_async(condition: Callable[[], bool]) -> None:
    """Return when the condition, asked in a thread, holds; fails after 10 s."""
    async with asyncio.timeout(10):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.05)


async def note(tx: Transaction) -> Forgotten:
    await tx.row(NOTE)
    return Forgotten(status="archived", id="x")


async def test_a_session_that_is_killed_in_mid_transaction_is_done_again_once(store: Store, database: Database) -> None:
    tries = 0

    async def effect(tx: Transaction) -> Forgotten:
        nonlocal tries
        tries += 1
        reply = await note(tx)
        if tries == 1:
            await asyncio.to_thread(ask, database, KILL_OTHERS)
        return reply

    recorded = await run_once(store, assignment(Forget(memory_id="x")), effect)
    assert isinstance(recorded.reply, Forgotten)
    assert tries == 2
    assert notes(database) == 1


async def test_a_commit_whose_answer_was_lost_is_looked_up_not_repeated(
    store: Store, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = assignment(Forget(memory_id="x"))
    lost = 0
    run = StatementExchange.end

    async def losing(self: StatementExchange) -> None:
        """Let COMMIT happen, and lose the connection before its answer is believed."""
        nonlocal lost
        await run(self)
        if not lost and notes(database) == 1:
            lost += 1
            self.connection.pgconn.finish()
            raise psycopg.OperationalError("the connection is lost")

    told: list[bool] = []

    async def effect(tx: Transaction) -> Forgotten:
        tx.at_end.append(told.append)
        return await note(tx)

    monkeypatch.setattr(StatementExchange, "end", losing)
    recorded = await run_once(store, once, effect)
    assert lost == 1
    assert told[0] is True  # what may be committed counts as kept
    assert True not in told[1:]
    assert recorded.replayed is False
    assert notes(database) == 1


async def test_a_worker_that_was_paused_in_its_transaction_leaves_nothing(store: Store, database: Database) -> None:
    """The server ends a session that idles in a transaction before the lease of whoever is paused runs out."""
    paused = assignment(Forget(memory_id="x"))
    tries = 0

    async def effect(tx: Transaction) -> Forgotten:
        nonlocal tries
        tries += 1
        await tx.row(b"select set_config('idle_in_transaction_session_timeout', '50ms', true)")
        reply = await note(tx)
        while any(
            state == "idle in transaction"
            for (state,) in await asyncio.to_thread(
                ask, database, "select state from pg_stat_activity where datname = current_database()"
            )
        ):
            pass
        paused.lease.lost = True
        return reply

    with pytest.raises(LeaseLost):
        await run_once(store, paused, effect)
    assert notes(database) == 0
    assert tries == 1
    await run_once(store, repeated(paused), note)
    assert notes(database) == 1


async def test_the_server_ends_the_transaction_of_a_worker_that_stays_away(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SESSION, "transaction_timeout", "300ms")
    others = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    tries = 0

    async def effect(tx: Transaction) -> int:
        nonlocal tries
        tries += 1
        await tx.row(NOTE)
        if tries == 1:  # in mid-pipeline: a session that waits for its next query is not idle
            await until_async(lambda: ask(database, others)[0][0] == 0)
        return tries

    async with await Store.open(database.url) as store:
        assert await store.write(DEFAULT_NAMESPACE, effect) == 2
    assert notes(database) == 1


async def test_a_conflict_is_tried_again_and_then_refused_with_nothing_applied(
    store: Store, database: Database
) -> None:
    tries = 0

    async def always_in_the_way(tx: Transaction) -> Forgotten:
        nonlocal tries
        tries += 1
        await note(tx)
        raise Again

    with refused(FaultCode.UNAVAILABLE):
        await run_once(store, assignment(Forget(memory_id="x")), always_in_the_way)
    assert tries == 11
    assert notes(database) == 0


async def test_what_a_conflict_asks_for_is_done_first_and_who_waits_for_the_end_is_told_of_each_try(
    store: Store,
) -> None:
    seen: list[object] = []

    async def first() -> None:
        seen.append("first")

    async def effect(tx: Transaction) -> None:
        tx.at_end.append(seen.append)
        if len(seen) < 4:
            raise Again(first=first)

    await store.write("n", effect)
    assert seen == [False, "first", False, "first", True]
    with pytest.raises(psycopg.errors.DivisionByZero):
        await store.write("n", mistaken_end(seen))
    assert seen[5:] == [False]


def mistaken_end(seen: list[object]) -> Callable[[Transaction], Awaitable[None]]:
    async def effect(tx: Transaction) -> None:
        tx.at_end.append(seen.append)
        await tx.send(b"select 1 / 0")  # whose error comes with COMMIT

    return effect


async def test_a_deadlock_is_resolved_by_trying_again(store: Store, database: Database) -> None:
    lock = b"select pg_advisory_xact_lock(%(key)s)"
    met = asyncio.Barrier(2)
    first_tries = 0

    async def take(first: int, second: int) -> None:
        async def work(tx: Transaction) -> None:
            nonlocal first_tries
            await tx.row(lock, key=first)
            first_tries += 1
            if first_tries <= 2:
                await met.wait()
            await tx.row(lock, key=second)
            await note(tx)

        await store.write("n", work)

    await asyncio.gather(take(1, 2), take(2, 1))
    assert first_tries == 3
    assert notes(database) == 2


@pytest.mark.promise("QP-21")
@pytest.mark.parametrize(("patience_s", "is_kept"), [(0.0, True), (10.0, False)])
async def test_a_repeat_that_was_told_pending_is_known_by_its_own_id(
    store: Store, patience_s: float, is_kept: bool
) -> None:
    first = assignment(Forget(memory_id="x"), idempotency_key=uuid7())
    again = Assignment(msgspec.structs.replace(first.envelope, id=uuid7()), first.lease, patience_s)
    await run_once(store, first, note)
    assert (await run_once(store, again, note)).replayed
    entries = [
        await store.read(DEFAULT_NAMESPACE, partial(ledger.find, command_id=UUID(each.envelope.id)))
        for each in (first, again)
    ]
    answers = [None if entry is None else entry.answer for entry in entries]
    assert answers == [answers[0], answers[0] if is_kept else None]
    assert answers[0] is not None


async def test_a_mistake_of_ours_is_let_through(store: Store, database: Database) -> None:
    async def mistaken(tx: Transaction) -> Forgotten:
        await note(tx)
        await tx.row(b"select 1 / 0")
        raise AssertionError

    with pytest.raises(psycopg.errors.DivisionByZero):
        await run_once(store, assignment(Forget(memory_id="x")), mistaken)
    assert notes(database) == 0
    await run_once(store, assignment(Forget(memory_id="x")), note)
    assert notes(database) == 1


async def test_a_query_whose_answer_nobody_waited_for_undoes_the_transaction_too(
    store: Store, database: Database
) -> None:
    async def careless(tx: Transaction) -> None:
        await tx.send(NOTE)
        await tx.send(b"select 1 / 0")
        await tx.send(NOTE)

    with pytest.raises(psycopg.errors.DivisionByZero):
        await store.write("n", careless)
    assert notes(database) == 0


async def test_a_cancelled_transaction_leaves_nothing_and_frees_its_connection(database: Database) -> None:
    async with await Store.open(database.url, pool_size=1) as store:
        begun = asyncio.Event()

        async def endless(tx: Transaction) -> None:
            await note(tx)
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(store.write("n", endless))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.write("n", note)
    assert notes(database) == 1


async def test_a_read_may_not_write_and_is_refused_soon(store: Store, database: Database) -> None:
    began = time.monotonic()
    with refused(FaultCode.UNAVAILABLE):
        await store.read("n", note)
    assert time.monotonic() - began < 1
    assert notes(database) == 0


@pytest.fixture(scope="module")
def own_servers() -> Iterator[Servers]:
    """A PostgreSQL that a test may stop."""
    home = Path(tempfile.mkdtemp(prefix="engramq-test-", dir="/tmp"))
    running = start_servers(home)  # with fsync: what it acknowledged has to be there after kill -9
    try:
        yield running
    finally:
        running.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
async def fragile(own_servers: Servers) -> AsyncIterator[Store]:
    await migrate(own_servers.database_url_owner)
    async with await Store.open(own_servers.database_url_owner) as store:
        yield store


async def start_again(servers: Servers) -> None:
    servers.postgres.mend()
    servers.postgres_process = process.start(servers.postgres.launch(), servers.home.logs / "postgres.log")
    assert await asyncio.to_thread(process.wait_until, servers.postgres.is_ready, 30.0)


def stop(servers: Servers) -> None:
    """Let it fall at once with all its sessions; after kill -9 of the server alone these may go on for a moment."""
    servers.postgres_process.send_signal(signal.SIGQUIT)
    servers.postgres_process.wait(10)


@pytest.mark.promise("QP-5")
async def test_writes_wait_for_a_postgresql_that_restarts_and_take_effect_once(
    fragile: Store, own_servers: Servers
) -> None:
    await asyncio.gather(*(fragile.read("n", lambda tx: tx.row(b"select 1")) for _ in range(8)))
    stop(own_servers)
    writes = [asyncio.create_task(run_once(fragile, assignment(Forget(memory_id="x")), note)) for _ in range(4)]
    await asyncio.sleep(0)
    await start_again(own_servers)
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    refusals = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert all(isinstance(refusal, EngramqError | ResultUnknown) for refusal in refusals)
    written = await fragile.read(DEFAULT_NAMESPACE, lambda tx: tx.rows(b"select command_id from audit_log"))
    ended = await fragile.read(DEFAULT_NAMESPACE, lambda tx: tx.rows(b"select command_id from ledger"))
    assert len(written) == len(ended) >= len(outcomes) - len(refusals)


@pytest.mark.long
@pytest.mark.promise("QP-5")
async def test_without_postgresql_nothing_is_applied_and_the_refusal_says_so(
    fragile: Store, own_servers: Servers
) -> None:
    before = await fragile.read("n", lambda tx: tx.row(b"select count(*) as n from audit_log"))
    refusing = assignment(Forget(memory_id="x"))
    stop(own_servers)
    try:
        with refused(FaultCode.UNAVAILABLE) as faults:
            await run_once(fragile, refusing, note)
        assert "Nothing was applied" in faults[0].recovery
        assert faults[0].retry_after_s
        with refused(FaultCode.UNAVAILABLE):
            await fragile.read("n", lambda tx: tx.row(b"select 1"))
    finally:
        await start_again(own_servers)
    assert await fragile.read("n", lambda tx: tx.row(b"select count(*) as n from audit_log")) == before
