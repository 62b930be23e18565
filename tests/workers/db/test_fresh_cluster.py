"""A worker on a PostgreSQL that no engramq has met: it migrates by itself, or names what is missing at once."""

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from bench.servers import Servers, start_servers
from engramq.deploy.local.embedded.postgres import Postgres
from engramq.schemas.settings import read_settings
from engramq.workers.app import open_store
from engramq.workers.db.database import Store
from engramq.workers.db.readiness import NotReady
from engramq.workers.db.transaction import Transaction

ROLES = "select count(*) from pg_roles where rolname = 'engramq_worker'"
OWNED = "fresh_owned"
AT_ONCE_S = 10.0
# What README and the refusal name for a superuser to run once.
STATEMENTS = ("create extension vector", "create role engramq_worker login", "grant engramq_worker to poor")


@pytest.fixture
def fresh() -> Iterator[Servers]:
    home = Path(tempfile.mkdtemp(prefix="engramq-test-"))
    running = start_servers(home, fsync=False)
    try:
        yield running
    finally:
        running.stop()
        shutil.rmtree(home, ignore_errors=True)


def administer(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


async def one(tx: Transaction) -> object:
    return await tx.row(b"select 1 as one")


def of_database(postgres: Postgres, role: str, database: str) -> str:
    return postgres.url(role).replace("/engramq?", f"/{database}?")


@pytest.mark.promise("QP-19")
async def test_a_worker_migrates_a_cluster_that_has_not_even_its_role(fresh: Servers) -> None:
    with psycopg.connect(fresh.database_url_owner) as connection:
        assert connection.execute(ROLES).fetchone() == (0,)
    async with (
        asyncio.timeout(60),
        await open_store(read_settings({"ENGRAMQ_DATABASE_URL": fresh.database_url_owner})) as store,
    ):
        assert await store.read("n", one) == {"one": 1}


@pytest.mark.promise("QP-19")
@pytest.mark.parametrize("names_owner", [False, True])
async def test_a_worker_that_may_not_names_the_statements_and_goes_on_when_they_were_run(
    fresh: Servers, caplog: pytest.LogCaptureFixture, *, names_owner: bool
) -> None:
    administer(fresh.database_url_owner, "create role poor login", f"create database {OWNED} owner poor")
    url = of_database(fresh.postgres, "poor", OWNED)
    given = {"ENGRAMQ_DATABASE_URL": url} | ({"ENGRAMQ_MIGRATE_DATABASE_URL": url} if names_owner else {})
    with caplog.at_level(logging.WARNING):
        opening = asyncio.create_task(open_store(read_settings(given)))
        async with asyncio.timeout(AT_ONCE_S):
            while not caplog.records:
                assert not opening.done()
                await asyncio.sleep(0.05)
    told = vars(caplog.records[0])["recovery"]
    assert all(statement.rpartition(" to ")[0].lower() in told.lower() for statement in STATEMENTS[2:])
    assert all(statement in told.lower() for statement in STATEMENTS[:2])
    assert not opening.done()
    administer(of_database(fresh.postgres, "engramq", OWNED), *STATEMENTS)
    async with asyncio.timeout(60), await opening as store:
        assert await store.read("n", one) == {"one": 1}


@pytest.mark.promise("QP-19")
async def test_a_worker_of_a_home_ends_where_the_owner_that_it_was_told_cannot_migrate(fresh: Servers) -> None:
    administer(fresh.database_url_owner, f"create database {OWNED}")
    own = of_database(fresh.postgres, "engramq", OWNED)
    administer(own, "create table memories (id int)")
    told = read_settings({"ENGRAMQ_DATABASE_URL": fresh.postgres.url("engramq_worker"),
                          "ENGRAMQ_MIGRATE_DATABASE_URL": own})  # fmt: skip
    async with asyncio.timeout(60):
        with pytest.raises(NotReady, match="tables that engramq did not make"):
            await open_store(told, ends_refused=True)


@pytest.mark.promise("QP-17", "QP-19")
async def test_a_role_that_does_not_exist_is_named_with_what_makes_it(fresh: Servers) -> None:
    with pytest.raises(NotReady, match="does not let the workers in") as caught:
        await Store.open(fresh.postgres.url("nobody_of_that_name"))
    assert "engramq migrate" in caught.value.recovery
