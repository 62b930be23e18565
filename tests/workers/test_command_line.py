"""`engramq migrate` and `engramq worker`, as they are called."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from engramq.deploy.cli import main
from engramq.deploy.local.supervisor.silence import Heartbeat
from engramq.schemas.command_line import ExitCode
from engramq.schemas.settings import Settings, SettingsError, read_settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.app import run, serve_kinds
from engramq.workers.db.readiness import packaged
from engramq.workers.migrating import require_database
from tests.conftest import Database, TestServers

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


def say(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name in [name for name in os.environ if name.startswith("ENGRAMQ_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(f"ENGRAMQ_{name}", value)


@pytest.mark.promise("OP-5")
def test_migrate_says_what_it_applied_and_then_that_there_is_nothing(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    say(monkeypatch, DATABASE_URL=empty_database.owner_url)
    assert main(["migrate"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "applied 0031_schema"
    assert main(["migrate", "--wait", "1"]) == 0
    assert capsys.readouterr().out == "nothing to apply: the database is up to date\n"


@pytest.mark.promise("AG-20")
def test_a_worker_does_not_start_with_a_model_that_it_cannot_reach(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    say(monkeypatch, DATABASE_URL=NOWHERE, REDIS_URL="redis://127.0.0.1:1/0", EMBEDDER="openai:m")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(["worker", "--all"]) == ExitCode.MISUSED
    assert "neither ENGRAMQ_EMBEDDER_URL nor ENGRAMQ_EMBEDDER_KEY" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "url", "code", "told"),
    [
        (["migrate"], NOWHERE, 1, "cannot be reached"),
        (["migrate", "--wait", "0.1"], NOWHERE, 1, "cannot be reached"),
        (["audit"], NOWHERE, 1, "cannot be reached"),
        (["token", "list"], NOWHERE, 1, "engramq token: PostgreSQL cannot be reached"),
        (["migrate"], "mysql://x", 2, "ENGRAMQ_DATABASE_URL"),
    ],
)
def test_a_command_that_cannot_be_done_says_why(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    url: str,
    code: int,
    told: str,
) -> None:
    say(monkeypatch, DATABASE_URL=url)
    assert main(arguments) == code
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "url", "told"),
    [
        (require_database, "", "ENGRAMQ_DATABASE_URL"),
        (lambda settings: serve_kinds(tuple(WorkerKind), settings), NOWHERE, "ENGRAMQ_REDIS_URL"),
        (lambda settings: serve_kinds(tuple(WorkerKind), settings), "", "ENGRAMQ_DATABASE_URL"),
    ],
)
def test_a_command_that_is_given_no_server_names_it(command: Callable[[Settings], None], url: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        command(read_settings({"ENGRAMQ_DATABASE_URL": url}))


@pytest.fixture
def later(servers: TestServers) -> Iterator[Database]:
    """A database that is not there yet."""
    name = f"engramq_test_{uuid4().hex[:12]}"
    yield Database(name, servers.url(name), servers.url(name))
    servers.administer(f"drop database if exists {name} with (force)")


async def test_a_worker_waits_for_its_database_and_migrates_it_where_it_may(
    later: Database, servers: TestServers, redis_url: str, key_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = read_settings(
        {
            "ENGRAMQ_DATABASE_URL": later.owner_url,
            "ENGRAMQ_REDIS_URL": redis_url,
            "ENGRAMQ_KEY_PREFIX": key_prefix,
            "ENGRAMQ_EMBEDDER": "hash",
        }
    )
    stop, ready = asyncio.Event(), asyncio.Event()
    said = asyncio.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == "Waiting for the database":
                said.set()

    listener = Listener()
    logging.getLogger("engramq.workers.app").addHandler(listener)
    try:
        serving = asyncio.create_task(run((WorkerKind.UPKEEP,), settings, stop=stop, ready=ready, handle_signals=False))
        await asyncio.wait_for(said.wait(), 20)
        servers.administer(f"create database {later.name}")
        await asyncio.wait_for(ready.wait(), 20)
        stop.set()
        await asyncio.wait_for(serving, 20)
    finally:
        logging.getLogger("engramq.workers.app").removeHandler(listener)
    with psycopg.connect(later.owner_url) as connection:
        applied = connection.execute("select version from schema_migrations order by version").fetchall()
    assert applied == [(packaged().version,)]


async def test_a_worker_says_that_it_serves_once_its_workers_listen(
    database: Database,
    redis_url: str,
    key_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    heartbeat = Heartbeat(tmp_path / "alive")
    heartbeat.listen()
    for name, value in heartbeat.variables().items():
        monkeypatch.setenv(name, value)
    given = {"ENGRAMQ_DATABASE_URL": database.url, "ENGRAMQ_KEY_PREFIX": key_prefix, "ENGRAMQ_EMBEDDER": "hash"}

    async def until(url: str, happened: Callable[[], bool]) -> None:
        stop, settings = asyncio.Event(), read_settings(given | {"ENGRAMQ_REDIS_URL": url})
        serving = asyncio.create_task(run((WorkerKind.UPKEEP,), settings, stop=stop, handle_signals=False))
        async with asyncio.timeout(20):
            while not happened():
                assert not serving.done()
                await asyncio.sleep(0)
            stop.set()
            await serving

    with closing(heartbeat):
        await until("redis://127.0.0.1:1/0", lambda: "Redis is not there yet" in caplog.text)
        assert heartbeat.was_heard()
        assert not heartbeat.said_ready()
        await until(redis_url, heartbeat.said_ready)


async def test_a_worker_process_of_several_kinds_serves_until_it_is_asked_to_stop(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "ENGRAMQ_DATABASE_URL": database.url,
        "ENGRAMQ_REDIS_URL": redis_url,
        "ENGRAMQ_KEY_PREFIX": key_prefix,
        "ENGRAMQ_EMBEDDER": "hash",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "engramq",
        "worker",
        "embedding",
        "upkeep",
        "embedding",
        env=environment,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        line = json.loads(await asyncio.wait_for(process.stderr.readline(), 30))
        assert (line["message"], line["kinds"]) == ("Workers serve", ["embedding", "upkeep"])
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
