"""A server of one's own, saved and restored with the commands of docs/backup.md, by an owner who is no superuser."""

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.servers import running_servers
from engramq.deploy.local.embedded.postgres import Postgres, find_binaries
from engramq.deploy.local.home import Home
from engramq.workers.db.conninfo import WORKER_ROLE, worker_conninfo
from engramq.workers.db.migrate import migrate
from tests.architecture.source import ROOT
from tests.workers.tenants.tables import furnish, snapshot, tenant_tables

PAGE = (ROOT / "docs" / "backup.md").read_text(encoding="utf-8")
# What a superuser does once, and the options of both commands: as the page has them.
ROLES = (
    "create role engramq_worker login;",
    "create role keeper login;",
    "grant engramq_worker to keeper;",
    "create database memories owner keeper;",
)
EXTENSION = "create extension vector;"
DUMP = "pg_dump --format=custom --file=memories.dump"
RESTORE = "pg_restore --exit-on-error --no-comments --dbname="
TENANTS = ("acme", "other")
COUNT = "select count(*) from memories"


@contextmanager
def prepared_server() -> Iterator[str]:
    """Run a server on which a superuser has done what the page says; yields the owner's URL."""
    home = Home(Path(tempfile.mkdtemp(prefix="engramq-test-", dir="/tmp")))
    try:
        with running_servers(home.path, fsync=False) as servers:
            administer(servers.database_url_owner, *ROLES)
            administer(of_role(home, "engramq"), EXTENSION)
            yield of_role(home, "keeper")
    finally:
        shutil.rmtree(home.path, ignore_errors=True)


def of_role(home: Home, role: str) -> str:
    return Postgres(home).url(role).replace("@/engramq?", "@/memories?")


def administer(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as superuser:
        for statement in statements:
            superuser.execute(statement.encode())


def run(command: str, *arguments: str, folder: Path) -> None:
    program, *options = command.split()
    done = subprocess.run(
        [find_binaries() / program, *options, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def rights(connection: psycopg.Connection[Any]) -> dict[str, list[Any]]:
    """Return who may do what, what guards the rows, and which indexes and functions there are."""
    questions = {
        "tables": "select relname, relacl::text, relrowsecurity, relowner::regrole::text from pg_class "
        "where relnamespace = 'public'::regnamespace order by relname",
        "policies": "select tablename, policyname, roles::text, cmd, qual, with_check from pg_policies order by 1, 2",
        "indexes": "select indexname, indexdef from pg_indexes where schemaname = 'public' order by 1",
        "functions": "select p.oid::regprocedure::text, proacl::text, prosecdef, proconfig::text from pg_proc p "
        "left join pg_depend d on d.objid = p.oid and d.deptype = 'e' "
        "where pronamespace = 'public'::regnamespace and d.objid is null order by 1",
        "applied": "select version, checksum from schema_migrations order by version",
        "constraints": "select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint "
        "where connamespace = 'public'::regnamespace order by 1, 2",
    }
    return {name: connection.execute(question.encode()).fetchall() for name, question in questions.items()}


def contents(connection: psycopg.Connection[Any]) -> list[dict[str, list[str]]]:
    return [snapshot(connection, tenant) for tenant in TENANTS]


@pytest.mark.timeout(300)
@pytest.mark.promise("IM-12", "OP-9")
@pytest.mark.long
def test_a_dump_restored_on_a_new_server_has_all_rows_rights_and_guards(tmp_path: Path) -> None:
    with prepared_server() as url:
        asyncio.run(migrate(url))
        with psycopg.connect(url, autocommit=True) as owner:
            numbers = [furnish(owner, tenant).number for tenant in TENANTS]
            before, lawful = contents(owner), rights(owner)
            assert all(tables[name] for tables in before for name in tenant_tables(owner))
        run(DUMP, url, folder=tmp_path)

    with prepared_server() as url:
        run(f"{RESTORE}{url}", "memories.dump", folder=tmp_path)
        assert asyncio.run(migrate(url)) == []
        with psycopg.connect(url, autocommit=True) as owner:
            assert contents(owner) == before
            restored = rights(owner)
            for name, expected in lawful.items():
                assert restored[name] == expected, name
            assert furnish(owner, "third").number > max(numbers)  # sequences go on
        worker_url = url.replace("//keeper@", f"//{WORKER_ROLE}@")
        with psycopg.connect(worker_conninfo(worker_url), autocommit=True) as worker:
            assert worker.execute(COUNT.encode()).fetchone() == (0,)
            worker.execute("select set_config('app.tenant', tenant_of('acme')::text, false)")
            assert worker.execute(COUNT.encode()).fetchone() == (len(before[0]["memories"]),)


@pytest.mark.parametrize("words", [*ROLES, EXTENSION, DUMP, RESTORE])
def test_the_page_has_the_commands_that_were_tried(words: str) -> None:
    assert words in PAGE
