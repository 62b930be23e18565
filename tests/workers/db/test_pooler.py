"""Sessions that each transaction sets, as behind a pooler; here they are the server's own."""

import asyncio
import time

import psycopg
import pytest

from engramq.schemas.faults import FaultCode
from engramq.workers.db.conninfo import SESSION, worker_conninfo
from engramq.workers.db.database import Store
from engramq.workers.db.errors import Meaning, SettingsMissing, meaning_of_error
from engramq.workers.db.readiness import NotReady
from engramq.workers.db.transaction import Lookup, Transaction, settings_to_take
from tests.conftest import Database
from tests.refusals import refused

HELD = (
    b"select current_user as role, (select json_object_agg(name, current_setting(name)) "
    b"from unnest(%(names)s::text[]) as name) as settings"
)
PREPARED = "select count(*)::int as n from pg_prepared_statements"
ECHO = Lookup(b"select json_build_object('tenant', %(tenant)s::int, 'it', current_setting('lock_timeout'))::text", {})


async def held(tx: Transaction) -> tuple[str, dict[str, str]]:
    row = await tx.row(HELD, names=list(SESSION))
    assert row is not None
    return row["role"], row["settings"]


async def prepared(tx: Transaction) -> int:
    """Ask the same often enough for the driver to prepare it; return how many statements are prepared then."""
    for _ in range(8):
        await tx.rows(b"select 1")
    row = await tx.row(PREPARED.encode())
    assert row is not None
    return int(row["n"])


@pytest.mark.promise("SC-1")
@pytest.mark.usefixtures("behind_a_pooler")
async def test_each_transaction_sets_its_session_and_none_prepares_anything(database: Database) -> None:
    async with await Store.open(database.owner_url) as store:
        for _ in range(3):
            for use in (store.write, store.read):
                assert await use("n", held) == ("engramq_worker", SESSION)
            (answer,) = await store.look_up("n", [ECHO])
            assert b'"5s"' in (answer if isinstance(answer, bytes) else str(answer).encode())
            assert await store.read("n", prepared) == 0
        assert await store.namespaces() == ["n"]
        async with store._pool.connection() as connection:
            left = await (await connection.execute(b"select current_setting('statement_timeout') as s")).fetchone()
            assert left != {"s": SESSION["statement_timeout"]}, "nothing is left to the next transaction"


@pytest.mark.usefixtures("behind_a_pooler")
async def test_a_failed_transaction_leaves_what_others_have_prepared_in_the_session(database: Database) -> None:
    async def fail(tx: Transaction) -> None:
        await tx.rows(b"select 1 / %(zero)s::int", zero=0)

    async with await Store.open(database.owner_url, pool_size=1) as store:
        await store.write("n", held)  # the namespace gets its number
        async with store._pool.connection() as connection:
            await connection.execute("prepare of_others as select 1")
        with pytest.raises(psycopg.errors.DivisionByZero):
            await store.write("n", fail)
        assert await store.read("n", prepared) == 1


async def test_a_session_of_ones_own_is_recognised_and_prepares_as_ever(database: Database) -> None:
    async with await Store.open(database.url) as store:
        assert store._pool._through is None
        assert await store.write("n", prepared) > 0
        async with store._pool.connection() as connection:
            assert settings_to_take(connection) is None


@pytest.mark.promise("SC-1")
async def test_a_later_session_that_lacks_the_settings_is_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await Store.open(database.url) as store:
        await store.write("n", held)
        monkeypatch.setattr(store._pool, "_conninfo", database.url)
        await store._pool.doubt(time.monotonic())
        with refused(FaultCode.UNAVAILABLE):
            await store.write("n", held)
        assert store._refusals.latest == "The database does not take the workers' settings."
    assert meaning_of_error(SettingsMissing(["jit"])) is Meaning.EXHAUSTED


@pytest.mark.promise("SC-1")
async def test_a_setting_that_does_not_hold_fails_the_transaction_before_its_effect(database: Database) -> None:
    names, wanted = "{lock_timeout,jit}", "{5s,on}"
    with psycopg.connect(worker_conninfo(database.url), autocommit=True) as connection:
        with connection.transaction():
            connection.execute("select take_settings(%s::text[], %s::text[])", [names, wanted])
            assert connection.execute("select current_setting('jit')").fetchone() == ("on",)
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("select take_settings(%s::text[], %s::text[])", [names, "{5000ms,on}"])
    assert caught.value.sqlstate == "EQ002"


@pytest.mark.own_database
@pytest.mark.usefixtures("behind_a_pooler")
async def test_a_role_that_may_not_become_the_workers_is_told(database: Database) -> None:
    database.rows("create role nobody_of_ours login")
    database.rows("grant select on schema_migrations to nobody_of_ours")
    try:
        url = database.url.replace("://engramq_worker@", "://nobody_of_ours@")
        with pytest.raises(NotReady, match=r"does not let the workers in.*granted engramq_worker to"):
            await Store.open(url)
    finally:
        database.rows("revoke all on schema_migrations from nobody_of_ours")
        database.rows("drop role nobody_of_ours")


@pytest.mark.usefixtures("behind_a_pooler")
async def test_many_at_once_share_few_sessions(database: Database) -> None:
    async with await Store.open(database.owner_url, pool_size=2) as store:
        found = await asyncio.gather(*(store.write("n", held) for _ in range(30)))
    assert set(map(str, found)) == {str(("engramq_worker", SESSION))}
