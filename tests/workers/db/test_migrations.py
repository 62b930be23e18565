"""The schema and its migrations: once, in order, under a lock; whatever is wrong with a database is said."""

import ast
import asyncio
import os
import sys
from pathlib import Path

import psycopg
import pytest

from engramq.workers.db.database import Store
from engramq.workers.db.migrate import migrate, refuse_older
from engramq.workers.db.readiness import Migration, NotReady, Reason, Schema, packaged
from tests.conftest import Database, TestServers

TABLES = "select relname from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace"
EVERYTHING = [f"{packaged().version:04}_schema"]


def later(name: str, text: str) -> Schema:
    """What a later release would have: one more migration, which is in its schema.sql too."""
    schema = packaged()
    migration = Migration(schema.version + 1, name, text)
    whole = schema.whole._replace(version=migration.version, text=f"{schema.whole.text};{text}")
    return Schema(whole, (*schema.migrations, migration))


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

    applied = await asyncio.gather(elsewhere(), elsewhere(), here(), here())
    # They take turns: each names what it has applied itself.
    assert [name for names in applied for name in ast.literal_eval(names)] == EVERYTHING
    assert rows(empty_database, "select version, name from schema_migrations") == [(packaged().version, "schema")]


@pytest.mark.promise("OP-5")
@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_of_another_encoding_is_refused_by_its_name(servers: TestServers, encoding: str) -> None:
    name = f"encoded_{encoding}_{os.getpid()}".lower()
    servers.administer(f"create database {name} template template0 encoding '{encoding}' locale 'C'")
    try:
        with pytest.raises(NotReady, match=rf"encoding is {encoding}; engramq needs UTF8"):
            await migrate(servers.url(name))
        with pytest.raises(NotReady, match=rf"encoding is {encoding}; engramq needs UTF8"):
            await Store.open(servers.url(name))
    finally:
        servers.administer(f"drop database {name} with (force)")


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
async def test_a_migration_that_fails_is_undone_and_what_came_before_it_stays(empty_database: Database) -> None:
    await migrate(empty_database.owner_url)
    with pytest.raises(NotReady, match="division by zero"):
        await migrate(empty_database.owner_url, schema=later("broken", "create table half (); select 1 / 0"))
    assert ("half",) not in rows(empty_database, TABLES)
    assert rows(empty_database, "select max(version) from schema_migrations") == [(packaged().version,)]


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
    wanting = packaged().whole._replace(text="create extension vector_of_another_world")
    with pytest.raises(NotReady, match="pgvector") as caught:
        await migrate(empty_database.owner_url, schema=Schema(wanting, ()))
    assert caught.value.reason is Reason.REFUSED


async def test_an_older_schema_is_refused_naming_the_command(empty_database: Database) -> None:
    await migrate(empty_database.owner_url)
    rows(empty_database, "delete from schema_migrations returning 1")
    with pytest.raises(NotReady, match="engramq migrate") as caught:
        await Store.open(empty_database.url)
    assert caught.value.reason is Reason.BEHIND


@pytest.mark.promise("OP-5")
async def test_a_database_of_an_earlier_release_gets_the_migrations_since_and_an_empty_one_the_whole(
    empty_database: Database,
) -> None:
    newer = later("tomorrow", "create table tomorrow ()")
    name = f"{newer.version:04}_tomorrow"
    await migrate(empty_database.owner_url)
    assert await migrate(empty_database.owner_url, schema=newer) == [name]
    assert await migrate(empty_database.owner_url, schema=newer) == []
    changed = newer._replace(migrations=(newer.migrations[0]._replace(text="create table other ()"),))
    with pytest.raises(NotReady, match="tomorrow") as caught:
        await migrate(empty_database.owner_url, schema=changed)
    assert caught.value.reason is Reason.CHANGED
    for use in (migrate(empty_database.owner_url), Store.open(empty_database.url)):
        with pytest.raises(NotReady, match="Upgrade engramq") as caught:
            await use
        assert caught.value.reason is Reason.AHEAD


@pytest.mark.promise("OP-5")
async def test_an_empty_database_gets_all_of_a_later_release_at_once(empty_database: Database) -> None:
    newer = later("tomorrow", "create table tomorrow ()")
    assert await migrate(empty_database.owner_url, schema=newer) == [f"{newer.version:04}_schema"]
    assert await migrate(empty_database.owner_url, schema=newer) == []


UNRELEASED = (
    "create table schema_migrations (version integer primary key, name text not null, checksum text not null)",
    "insert into schema_migrations select n, 'foundation', 'c' from generate_series(1, 30) n",
)
ANOTHERS = ("create table schema_migrations (version text primary key)",)
ANOTHERS_TABLES = ("create table nodes (id integer)",)


@pytest.mark.promise("OP-5")
@pytest.mark.parametrize(
    ("made", "message"),
    [(UNRELEASED, "`engramq export`.*`engramq import`"), (ANOTHERS, "did not make"), (ANOTHERS_TABLES, '"nodes"')],
)
async def test_a_database_of_another_making_is_refused_and_not_changed(
    empty_database: Database, made: tuple[str, ...], message: str
) -> None:
    with psycopg.connect(empty_database.owner_url) as connection:
        for statement in made:
            connection.execute(statement.encode())
    before = rows(empty_database, TABLES)
    with pytest.raises(NotReady, match=message):
        await migrate(empty_database.owner_url)
    assert rows(empty_database, TABLES) == before


@pytest.mark.promise("OP-5")
async def test_a_schema_that_is_not_the_one_of_this_release_is_noticed(empty_database: Database) -> None:
    await migrate(empty_database.owner_url)
    rows(empty_database, "update schema_migrations set checksum = 'other' returning 1")
    for use in (migrate(empty_database.owner_url), Store.open(empty_database.url)):
        with pytest.raises(NotReady, match="unreleased revision") as caught:
            await use
        assert caught.value.reason is Reason.CHANGED


def test_migrations_have_to_be_numbered_without_a_gap(tmp_path: Path) -> None:
    (tmp_path / "migrations").mkdir()
    for name in ("0032_a.sql", "0034_c.sql"):
        (tmp_path / "migrations" / name).write_text("select 1")
    with pytest.raises(ValueError, match="without a gap"):
        packaged(tmp_path)


def test_a_server_that_is_too_old_is_named_with_the_version_that_is_needed() -> None:
    with pytest.raises(NotReady, match=r"PostgreSQL 16\.4, which is too old\. Nothing .* PostgreSQL 17 "):
        refuse_older(160004)
    refuse_older(170000)
    refuse_older(180004)
