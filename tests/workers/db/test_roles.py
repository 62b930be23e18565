"""What the workers' role can do, and what it cannot."""

import psycopg
import pytest

from engramq.workers.db.conninfo import worker_conninfo
from engramq.workers.db.database import Store
from engramq.workers.db.readiness import NotReady
from tests.conftest import Database


@pytest.mark.promise("SE-7")
def test_the_workers_own_no_table_and_are_no_superuser(database: Database) -> None:
    with psycopg.connect(worker_conninfo(database.owner_url)) as connection:
        assert connection.execute("select current_user").fetchone() == ("engramq_worker",)
        owned = "select count(*) from pg_class c join pg_roles r on r.oid = c.relowner where r.rolname = current_user"
        assert connection.execute(owned).fetchone() == (0,)
        may = (
            "select rolsuper or rolcreaterole or rolcreatedb or rolbypassrls from pg_roles where rolname = current_user"
        )
        assert connection.execute(may.encode()).fetchone() == (False,)


@pytest.mark.promise("SE-7", "SE-10")
@pytest.mark.parametrize(
    "statement",
    [
        "update audit_log set actor = 'nobody'",
        "delete from audit_log",
        "truncate audit_log",
        "drop table memories",
        "alter table audit_log disable trigger all",
        "create table mine ()",
        "truncate memories",
        "insert into embedding_models (name, sha256, dimensions) values ('x', 'x', 1)",
        "delete from schema_migrations",
        "select * from memories_trusted",
    ],
)
def test_the_workers_may_not(database: Database, statement: str) -> None:
    with (
        psycopg.connect(worker_conninfo(database.owner_url)) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement.encode())


@pytest.mark.promise("SE-10")
def test_the_workers_may_write_and_read_the_audit_log(database: Database) -> None:
    with psycopg.connect(worker_conninfo(database.owner_url)) as connection:
        connection.execute("select set_config('app.tenant', make_tenant('n')::text, true)")
        connection.execute(
            "insert into audit_log (tenant, namespace, actor, action) values (tenant_of('n'), 'n', 'a', 'x')"
        )
        assert connection.execute("select actor from audit_log").fetchall() == [("a",)]


@pytest.mark.promise("SE-7")
async def test_a_store_does_not_open_as_a_role_that_owns_tables(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    conninfo = worker_conninfo(database.owner_url).replace("-c role=engramq_worker", "")
    monkeypatch.setattr("engramq.workers.db.database.worker_conninfo", lambda _url: conninfo)
    with pytest.raises(NotReady, match="owns tables or is a superuser"):
        await Store.open(database.owner_url)


async def test_a_setting_that_the_server_does_not_take_is_noticed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    conninfo = worker_conninfo(database.url).replace("relaxed_order", "relaxed_oder")
    monkeypatch.setattr("engramq.workers.db.database.worker_conninfo", lambda url: conninfo)
    with pytest.raises(NotReady, match=r"hnsw\.iterative_scan"):
        await Store.open(database.url)


@pytest.mark.own_database
@pytest.mark.promise("SE-6")
async def test_a_store_does_not_open_where_row_level_security_does_not_hold(database: Database) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        connection.execute("alter table edges disable row level security")
        connection.execute("alter table tokens disable row level security")
    with pytest.raises(NotReady, match=r"Row-level security does not hold the role engramq_worker on: edges, tokens\."):
        await Store.open(database.url)
