"""Writing a database's files anew: who may, who waits, and that everything is there afterwards."""

import asyncio
import json
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.servers import running_servers
from engramq.deploy.cli.rewriting import rewrite_files
from engramq.schemas.settings import read_settings
from engramq.workers.db import rewriting
from engramq.workers.db.readiness import NotReady
from engramq.workers.db.rewriting import RewriteBegun, RewritePlanned, RewriteReport, Rewritten, rewrite_database
from tests.conftest import Database

pytestmark = pytest.mark.own_database

Connection = psycopg.AsyncConnection[Any]
HOLD = b"select count(*) from memories"


@pytest.fixture
def own_cluster() -> Iterator[tuple[Path, str]]:
    """The data folder of a PostgreSQL that nobody else uses, and the URL of its owner."""
    place = Path(tempfile.mkdtemp(prefix="eq-"))
    try:
        with running_servers(place, fsync=False) as own:
            yield place / "postgres" / "data", own.database_url_owner
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
async def holder(database: Database) -> AsyncIterator[Connection]:
    """A session in a transaction that has read memories: their lock is held until it ends."""
    async with await psycopg.AsyncConnection.connect(database.owner_url) as connection:
        await connection.execute(HOLD)
        yield connection


def nothing(_told: RewriteReport) -> None:
    pass


async def test_every_table_is_written_anew_and_told_of(database: Database) -> None:
    name = "insert into namespaces (namespace) values ('acme') returning namespace"
    assert database.rows(name) == [{"namespace": "acme"}]
    before = {row["relname"]: row["relfilenode"] for row in files(database)}
    heard: list[RewriteReport] = []
    assert await rewrite_database(database.owner_url, with_wal=False, tell=heard.append) == 0
    told = [item for item in heard if isinstance(item, Rewritten)]
    begun = [item for item in heard if isinstance(item, RewriteBegun)]
    assert heard[0] == RewritePlanned(len(told), sum(item.before for item in told))
    assert [item.table for item in begun] == [*(item.name for item in told), ""]
    assert begun[-1] == RewriteBegun(step="the statistics")
    assert [item.name for item in told if item.number == item.of] == [told[-1].name]
    assert {item.name for item in told} == set(before)
    assert {"memories_trusted", "memories_untrusted", "audit_log", "ledger"} <= set(before)
    after = {row["relname"]: row["relfilenode"] for row in files(database)}
    assert [name for name in before if before[name] == after[name]] == []
    assert database.rows("select namespace from namespaces where namespace = 'acme'") == [{"namespace": "acme"}]


async def test_who_does_not_own_the_tables_is_told_and_nothing_is_done(database: Database) -> None:
    before = files(database)
    with pytest.raises(NotReady, match="may not write the tables anew"):
        await rewrite_database(database.url, with_wal=False, tell=nothing)
    assert files(database) == before


async def test_others_pass_while_somebody_holds_a_table(
    database: Database, holder: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "LOCK_WAIT_S", 0.2)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(rewrite_database(database.owner_url, with_wal=False, tell=nothing))
        async with await psycopg.AsyncConnection.connect(database.owner_url, autocommit=True) as reader:
            waiting = b"select from pg_locks where not granted and mode = 'AccessExclusiveLock'"
            async with asyncio.timeout(20):
                while (await reader.execute(waiting)).rowcount == 0:
                    await asyncio.sleep(0.01)
            began = time.monotonic()
            await reader.execute(HOLD)
            assert time.monotonic() - began < 5
        assert not work.done()
        await holder.commit()
    assert work.result() == 0


async def test_somebody_who_never_lets_go_is_named(
    database: Database, holder: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "LOCK_WAIT_S", 0.01)
    monkeypatch.setattr(rewriting, "LOCK_TRIES", 2)
    with pytest.raises(NotReady, match="holds a table"):
        await rewrite_database(database.owner_url, with_wal=False, tell=nothing)
    assert holder.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS


async def test_a_server_that_is_away_is_named() -> None:
    with pytest.raises(NotReady, match="cannot be reached"):
        await rewrite_database("postgresql://nobody@127.0.0.1:9/none", with_wal=False, tell=nothing)


@pytest.mark.promise("OV-18")
@pytest.mark.long
async def test_the_write_ahead_log_is_written_over_however_fast_that_goes(own_cluster: tuple[Path, str]) -> None:
    """Within one second too, in which PostgreSQL tells the same time of all its files."""
    data, owner_url = own_cluster
    for _ in range(8):
        before = {path.name for path in (data / "pg_wal").iterdir() if path.is_file()}
        assert await rewrite_database(owner_url, with_wal=True, tell=nothing) == 0
        assert not before & {path.name for path in (data / "pg_wal").iterdir() if path.is_file()}


@pytest.mark.promise("OV-18")
async def test_what_a_killed_rewrite_left_set_the_next_one_sets_back(own_cluster: tuple[Path, str]) -> None:
    data, owner_url = own_cluster
    written = data / "postgresql.auto.conf"
    with psycopg.connect(owner_url, autocommit=True) as owner:
        owner.execute(rewriting.WAL_NOT_KEPT)
    assert "wal_recycle" in written.read_text()
    assert await rewrite_database(owner_url, with_wal=True, tell=nothing) == 0
    assert "wal_recycle" not in written.read_text()
    with psycopg.connect(owner_url) as owner:
        assert owner.execute("show wal_recycle").fetchone() == ("on",)


def files(database: Database) -> list[dict[str, Any]]:
    return database.rows(
        "select relname, relfilenode from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace "
        "order by relname"
    )


@pytest.mark.promise("OV-18")
def test_the_command_says_what_it_is_about_to_do_what_it_is_at_and_what_was_done(
    database: Database, redis_url: str, key_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {"ENGRAMQ_DATABASE_URL": database.owner_url, "ENGRAMQ_REDIS_URL": redis_url}
    settings = read_settings(variables | {"ENGRAMQ_KEY_PREFIX": key_prefix})
    rewrite_files(settings, with_wal=False, as_json=False)
    said = capsys.readouterr()
    first, waits, *lines = said.err.splitlines()
    number = len([line for line in lines if re.match(r"\d+ of \d+: ", line)])
    assert re.fullmatch(
        rf"Writing anew, for all namespaces: {number} tables with their indexes \([\d.,]+ MB\), the statistics "
        r"and the append-only file of Redis\.",
        first,
    )
    assert waits.startswith("Calls that need a table wait while it is written.")
    assert lines[-2:] == ["The statistics ...", "The append-only file of Redis ..."]
    done, *rest = said.out.splitlines()
    assert re.match(rf"Written anew: {number} tables with their indexes \([\d.,]+ -> [\d.,]+ MB\)", done)
    assert ("append-only file of Redis" in done) is ("Redis has no append-only file." not in rest)
    assert rest[-1].startswith("The write-ahead log and backups of a server of your own")

    rewrite_files(settings, with_wal=False, as_json=True)
    said = capsys.readouterr()
    assert said.err == ""
    assert len(json.loads(said.out)["tables"]) == number
