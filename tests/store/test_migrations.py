"""Migrations: once, in order, under a lock; whatever is wrong with a database is said."""

import ast
import asyncio
import os
import sys
from pathlib import Path

import psycopg
import pytest

from engramq.workers.db.database import Store
from engramq.workers.db.migrate import migrate
from engramq.workers.db.readiness import Migration, NotReady, Reason, packaged
from tests.conftest import Database, TestServers

pytestmark = pytest.mark.anyio

TABLES = "select relname from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace"
EVERYTHING = [f"{one.version:04}_{one.name}" for one in packaged()]


def rows(database: Database, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


@pytest.mark.promise("OP-5", "TP-2")
async def test_a_fresh_database_gets_everything_and_a_second_run_nothing(empty_database: Database) -> None:
    assert await migrate(empty_database.owner_url) == EVERYTHING
    assert await migrate(empty_database.owner_url) == []
    names = {name for (name,) in rows(empty_database, TABLES)}
    assert {"memories", "memories_trusted", "memories_untrusted", "nodes", "edges", "ledger", "audit_log"} <= names
    async with await Store.open(empty_database.url) as store:
        assert await store.namespaces() == []


@pytest.mark.promise("OP-5")
async def test_two_processes_and_two_tasks_at_once_apply_it_once(empty_database: Database) -> None:
    program = (
        "import asyncio, sys; from engramq.workers.db.migrate import migrate as m; print(asyncio.run(m(sys.argv[1])))"
    )
    command = [sys.executable, "-c", program, empty_database.owner_url]

    async def elsewhere() -> str:
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        return out.decode().strip()

    async def here() -> str:
        return str(await migrate(empty_database.owner_url))

    told = await asyncio.gather(elsewhere(), elsewhere(), here(), here())
    # They take turns: each names what it has applied itself.
    assert sorted(name for one in told for name in ast.literal_eval(one)) == EVERYTHING
    assert rows(empty_database, "select count(*) from schema_migrations") == [(len(EVERYTHING),)]


async def test_two_databases_of_one_cluster_can_be_migrated_at_once(
    empty_database: Database, servers: TestServers
) -> None:
    name = f"{empty_database.name}_b"
    servers.administer(f"create database {name}")
    try:
        told = await asyncio.gather(migrate(empty_database.owner_url), migrate(servers.url(name)))
        assert list(told) == [EVERYTHING, EVERYTHING]
    finally:
        servers.administer(f"drop database {name} with (force)")


@pytest.mark.promise("OP-5")
async def test_a_migration_that_fails_is_undone_and_those_before_it_stay(empty_database: Database) -> None:
    broken = Migration(len(EVERYTHING) + 1, "broken", "create table half (); select 1 / 0")
    with pytest.raises(NotReady, match="division by zero"):
        await migrate(empty_database.owner_url, migrations=(*packaged(), broken))
    assert ("half",) not in rows(empty_database, TABLES)
    assert rows(empty_database, "select max(version) from schema_migrations") == [(len(EVERYTHING),)]


async def test_only_the_owner_may_migrate(empty_database: Database, database: Database) -> None:
    assert empty_database.url != empty_database.owner_url or os.environ.get("ENGRAMQ_TEST_DATABASE_URL")
    with psycopg.connect(database.owner_url, autocommit=True) as connection:  # the role is there now
        connection.execute("select 1")
    with pytest.raises(NotReady, match="owner") as caught:
        await migrate(empty_database.url)
    assert caught.value.reason is Reason.REFUSED


async def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    nowhere = f"postgresql://somebody@/engramq?host={tmp_path}"
    with pytest.raises(NotReady, match="ENGRAMQ_DATABASE_URL") as caught:
        await migrate(nowhere)
    assert caught.value.reason is Reason.UNREACHABLE
    with pytest.raises(NotReady) as caught:
        await Store.open(nowhere)
    assert caught.value.reason is Reason.UNREACHABLE


async def test_a_server_without_the_extension_is_told_what_to_install(empty_database: Database) -> None:
    wanting = Migration(1, "wanting", "create extension vector_of_another_world")
    with pytest.raises(NotReady, match="pgvector") as caught:
        await migrate(empty_database.owner_url, migrations=(wanting,))
    assert caught.value.reason is Reason.REFUSED


async def test_an_older_schema_is_refused_naming_the_command(empty_database: Database) -> None:
    await migrate(empty_database.owner_url)
    rows(empty_database, "delete from schema_migrations returning 1")
    with pytest.raises(NotReady, match="engramq migrate") as caught:
        await Store.open(empty_database.url)
    assert caught.value.reason is Reason.BEHIND


@pytest.mark.promise("OP-5")
async def test_a_newer_schema_is_refused_by_migrate_and_by_workers(empty_database: Database) -> None:
    newer = Migration(len(EVERYTHING) + 1, "newer", "create table tomorrow ()")
    assert await migrate(empty_database.owner_url, migrations=(*packaged(), newer)) == [
        *EVERYTHING,
        f"{newer.version:04}_newer",
    ]
    for use in (migrate(empty_database.owner_url), Store.open(empty_database.url)):
        with pytest.raises(NotReady, match="Upgrade engramq") as caught:
            await use
        assert caught.value.reason is Reason.AHEAD


async def test_a_migration_that_was_changed_afterwards_is_noticed(empty_database: Database) -> None:
    await migrate(empty_database.owner_url)
    rows(empty_database, "update schema_migrations set checksum = 'other' returning 1")
    with pytest.raises(NotReady) as caught:
        await migrate(empty_database.owner_url)
    assert caught.value.reason is Reason.CHANGED


def test_migrations_have_to_be_numbered_without_a_gap(tmp_path: Path) -> None:
    for name in ("0001_a.sql", "0003_c.sql"):
        (tmp_path / name).write_text("select 1")
    with pytest.raises(ValueError, match="without a gap"):
        packaged(tmp_path)
