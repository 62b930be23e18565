"""A home whose worker or PostgreSQL is killed in the middle of its first migration stores and finds all the same."""

import os
import signal
import subprocess
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import psycopg
import pytest

from bench.common import ENGRAMQ
from bench.servers import running_servers
from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.postgres import OWNER_ROLE, Postgres
from engramq.deploy.local.home import Home
from tests.stack.test_whole_stack import BOUND_S, Installation, installation

pytestmark = [pytest.mark.timeout(300), pytest.mark.promise("OP-3")]

__all__ = ["installation"]

# A migration that has made its tables waits at its first trigger until a session takes the lock.
HOLD = """
create function wait_for_test() returns event_trigger language plpgsql as $$ begin
    while not exists (select from pg_locks where locktype = 'advisory' and objid = 4711) loop
        perform pg_sleep(0.01);
    end loop;
end $$;
create event trigger waits_for_test on ddl_command_end when tag in ('CREATE TRIGGER') execute function wait_for_test();
"""
LET_GO = "select pg_advisory_lock(4711)"
WAITING = """
select pid from pg_stat_activity where application_name = 'engramq-migrate' and wait_event = 'PgSleep'
"""
TABLES = "select count(*) from pg_tables where schemaname = 'public'"


class Owner:
    """The owner of a home's database, who comes back while PostgreSQL does."""

    def __init__(self, home: Home) -> None:
        self.url = Postgres(home).url(OWNER_ROLE)

    def asks(self, statement: str) -> list[tuple[object, ...]]:
        with suppress(psycopg.OperationalError), psycopg.connect(self.url) as connection:
            return connection.execute(statement.encode()).fetchall()
        return []


def service_pid(installation: Installation, name: str) -> int | None:
    (pid,) = [each["pid"] for each in installation.status()["services"] if each["name"] == name]
    return int(pid) if pid else None


@pytest.mark.parametrize("name", ["worker", "postgres"])
def test_a_home_is_whole_after_a_kill_during_its_first_migration(installation: Installation, name: str) -> None:
    home = Home(Path(installation.environment["ENGRAMQ_HOME"]))
    with running_servers(home.path) as servers, psycopg.connect(servers.database_url_owner) as connection:
        connection.execute(HOLD.encode())
    owner = Owner(home)
    command = [ENGRAMQ, "store", "The spare key hangs in the shed"]
    with (
        subprocess.Popen(command, env=installation.environment, stdout=subprocess.PIPE, text=True) as store,
        ExitStack() as at_end,
    ):
        at_end.callback(store.kill)
        assert process.wait_until(lambda: bool(owner.asks(WAITING)), BOUND_S)
        killed = service_pid(installation, name)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        assert process.wait_until(lambda: service_pid(installation, name) not in (None, killed), BOUND_S)
        assert process.wait_until(lambda: bool(owner.asks(WAITING)), BOUND_S)
        assert owner.asks(TABLES) == [(0,)], "nothing of it stays"
        with closing(psycopg.connect(owner.url)) as connection:
            connection.execute(LET_GO)
            stored = store.communicate(timeout=BOUND_S)[0].strip()
        assert store.returncode == 0
    assert installation.run("search", "spare", "key").stdout.decode().startswith(stored)
