"""Sessions of the database that are no good any more: closed, not lent again; what a server refuses is named."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
import pytest

from engramq.schemas.faults import EngramqError, FaultCode
from engramq.workers.db.database import DatabaseHealth, Store
from engramq.workers.db.errors import Meaning, describe_refusal, meaning_of_error, refusal_of_database
from engramq.workers.db.readiness import NotReady
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.contract import ResultUnknown
from tests.conftest import Database, TestServers
from tests.refusals import refused

pytestmark = pytest.mark.own_database

NAMESPACE = "n"
CALLERS = 24  # more than a pool has sessions
SOON_S = 5.0  # on a busy machine; what waits for a session to become good waits longer
NOTE = (
    b"insert into audit_log (tenant, namespace, actor, action) "
    b"values (%(tenant)s, %(namespace)s, 'a', 'x') returning id"
)
END_OTHERS = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and application_name like 'engramq-worker%%'
"""


async def write(tx: Transaction) -> None:
    await tx.row(NOTE)
    await tx.rows(b"select pg_sleep(0.01)")  # so that callers take several sessions


async def who(tx: Transaction) -> int:
    row = await tx.row(b"select pg_backend_pid() as pid")
    assert row is not None
    return int(row["pid"])


async def attempt(store: Store) -> str:
    """Write once; return how that was refused, nothing when it was not."""
    try:
        await store.write(NAMESPACE, write)
    except EngramqError as refusal:
        fault = refusal.fault
        return fault.error if fault.code is FaultCode.UNAVAILABLE and fault.retry_after_s else f"not so: {fault}"
    except ResultUnknown as unknown:
        return str(unknown)
    return ""


@contextmanager
def read_only(database: Database) -> Iterator[None]:
    """Let no session that begins now write."""
    database.rows(f"alter database {database.name} set default_transaction_read_only = on")
    database.rows(END_OTHERS)
    try:
        yield
    finally:
        with psycopg.connect(database.owner_url, autocommit=True) as connection:  # whatever its own sessions may
            connection.execute("set default_transaction_read_only = off")
            connection.execute(f"alter database {database.name} reset default_transaction_read_only".encode())


@pytest.mark.promise("SC-7", "QP-17")
async def test_a_database_that_was_read_only_serves_writes_at_once_when_it_is_writable(
    store: Store, database: Database
) -> None:
    await store.write(NAMESPACE, write)
    written = 1
    with read_only(database):
        for _ in range(3):
            began = time.monotonic()
            told = await asyncio.gather(*(attempt(store) for _ in range(CALLERS)))
            assert set(told) == {"The database is read-only."}
            assert time.monotonic() - began < SOON_S
            assert await store.read(NAMESPACE, who), "reads go on"
    began = time.monotonic()
    while refusals := [told for told in await asyncio.gather(*(attempt(store) for _ in range(CALLERS))) if told]:
        assert set(refusals) == {"The database is read-only."}
        written += CALLERS - len(refusals)
        assert time.monotonic() - began < SOON_S
    assert await asyncio.gather(*(attempt(store) for _ in range(CALLERS))) == [""] * CALLERS
    assert database.rows("select count(*) as n from audit_log")[0]["n"] == written + 2 * CALLERS


@pytest.mark.promise("SC-7")
async def test_one_session_that_may_not_write_is_closed_and_the_work_done_on_another(
    store: Store, database: Database
) -> None:
    first = await store.write(NAMESPACE, who)  # waits for its end, so that the next one has the same session
    await store.write(NAMESPACE, lambda tx: tx.rows(b"select set_config('default_transaction_read_only', 'on', false)"))
    assert await attempt(store) == ""
    assert await store.write(NAMESPACE, who) != first
    assert database.rows("select count(*) as n from audit_log")[0]["n"] == 1
    assert not database.rows("select from pg_stat_activity where pid = %s", first)


@pytest.mark.promise("SC-7", "QP-17")
async def test_a_role_that_is_let_in_no_more_is_named_and_served_again_when_it_is(
    servers: TestServers, database: Database
) -> None:
    role = f"test_{uuid4().hex[:12]}"
    servers.administer(f"create role {role} login in role engramq_worker")
    try:
        async with await Store.open(servers.url(database.name, role)) as store:
            assert await attempt(store) == ""
            servers.administer(f"alter role {role} nologin")
            database.rows(END_OTHERS)
            assert await attempt(store) == "The database does not let the workers in."
            with pytest.raises(NotReady, match=r"does not let the workers in: .*not permitted to log in"):
                await Store.open(servers.url(database.name, role))
            servers.administer(f"alter role {role} login")
            assert await attempt(store) == ""
    finally:
        database.rows(END_OTHERS)
        servers.administer(f"drop role {role}")


@pytest.mark.promise("SC-7")
async def test_sessions_that_were_cut_are_made_anew(store: Store, database: Database) -> None:
    await asyncio.gather(*(attempt(store) for _ in range(CALLERS)))
    database.rows(END_OTHERS)
    assert await asyncio.gather(*(attempt(store) for _ in range(CALLERS))) == [""] * CALLERS


async def test_no_connection_is_kept_beyond_its_age(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await Store.open(database.url) as store:
        assert await store.write(NAMESPACE, who) == await store.write(NAMESPACE, who)
    monkeypatch.setattr("engramq.workers.db.pool.MAX_AGE_S", 0.0)
    async with await Store.open(database.url) as store:
        assert await store.write(NAMESPACE, who) != await store.write(NAMESPACE, who)
        assert store._pool._until == {}


@pytest.mark.promise("QP-17")
@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (psycopg.errors.DiskFull("x"), "The database's disk is full."),
        (psycopg.errors.OutOfMemory("x"), "The database is out of memory."),
        (psycopg.errors.TooManyConnections("x"), "The database has no connection left."),
        (psycopg.errors.IoError("x"), "The database cannot use its disk (58030)."),
        (psycopg.errors.InvalidPassword("x"), "The database refused the workers' password."),
        (psycopg.errors.ReadOnlySqlTransaction("x"), "The database is read-only."),
        (
            psycopg.OperationalError('FATAL:  password authentication failed for user "ada"'),
            "The database refused the workers' password.",
        ),
        (psycopg.OperationalError("fe_sendauth: no password supplied"), "The database refused the workers' password."),
        (psycopg.OperationalError('FATAL:  database "x" does not exist'), "The database does not exist on its server."),
    ],
)
def test_what_a_server_refuses_is_named(problem: psycopg.Error, name: str) -> None:
    assert describe_refusal(problem) == name
    assert meaning_of_error(problem) in {Meaning.EXHAUSTED, Meaning.UNFIT}
    fault = refusal_of_database(problem).fault
    assert (fault.code, fault.error) == (FaultCode.UNAVAILABLE, name)
    assert "Nothing was applied" in fault.recovery
    assert fault.retry_after_s


@pytest.mark.parametrize("words", ["connection refused", "FATAL:  the database system is starting up"])
def test_a_server_that_is_away_or_restarts_is_waited_for(words: str) -> None:
    problem = psycopg.OperationalError(words)
    assert (meaning_of_error(problem), describe_refusal(problem)) == (Meaning.GONE, "")


@pytest.mark.promise("QP-17")
async def test_the_database_tells_what_it_refuses_without_a_write(
    store: Store, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramq.workers.db.pool.DOUBT_S", 0.0)
    assert await store.health() == DatabaseHealth()
    with read_only(database):
        assert await store.health() == DatabaseHealth("The database is read-only.")
    assert await store.health() == DatabaseHealth()


@pytest.mark.promise("QP-17")
async def test_a_refusal_is_logged_once_and_told_until_a_write_is_taken(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_tx: Transaction) -> Awaitable[None]:
        raise psycopg.errors.DiskFull("x")

    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            with refused(FaultCode.UNAVAILABLE):
                await store.write(NAMESPACE, full)
    assert [vars(record)["error"] for record in caplog.records] == ["The database's disk is full."]
    assert await store.health() == DatabaseHealth("The database's disk is full.")
    await store.write(NAMESPACE, write)
    assert await store.health() == DatabaseHealth()
