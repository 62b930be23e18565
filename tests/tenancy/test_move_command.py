"""`engramq move`: names of databases, a dry run, what it says; and what other commands say of what has gone."""

import asyncio

import msgspec
import psycopg
import pytest

from engramq.deploy.cli.status import _under_way
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.settings import Settings, SettingsError, read_settings
from engramq.workers.cli.move_command import move_tenant
from engramq.workers.cli.status_command import under_way
from engramq.workers.cli.token_command import create_token
from engramq.workers.tenants.moving import Step
from tests.conftest import Database
from tests.tenancy.moving import killed_at
from tests.tenancy.tables import furnish

pytestmark = pytest.mark.own_database


@pytest.fixture
def settings(database: Database, second: Database) -> Settings:
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        furnish(connection, "ada")
    return _settings(ENGRAMQ_DATABASE_URL=database.owner_url, ENGRAMQ_DATABASES=f"second={second.owner_url}")


def _settings(**variables: str) -> Settings:
    return read_settings(variables)


def move(settings: Settings, to: str, namespace: str = "ada", *, dry_run: bool = False, abort: bool = False) -> None:
    move_tenant(settings, namespace, to=to, dry_run=dry_run, abort=abort, as_json=True)


def test_a_dry_run_moves_nothing(settings: Settings, database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    move(settings, "second", dry_run=True)
    told = msgspec.json.decode(capsys.readouterr().out)
    assert (told["status"], told["memories"], told["from"], told["to"]) == ("can_be_moved", 4, "primary", "second")
    assert database.rows("select standing, move from namespaces") == [{"standing": None, "move": None}]


def test_it_goes_by_name_or_by_url_and_says_what_it_did(
    settings: Settings, second: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    move(settings, second.owner_url)
    told = msgspec.json.decode(capsys.readouterr().out)
    assert (told["namespace"], told["status"], told["to"]) == ("ada", "moved", "second")
    assert told["rows"] > 10
    move(settings, "second")
    assert msgspec.json.decode(capsys.readouterr().out)["status"] == "there"
    move(settings, "primary")
    assert msgspec.json.decode(capsys.readouterr().out)["status"] == "moved"


def test_a_database_that_settings_do_not_name_is_refused_without_a_word_of_its_url(settings: Settings) -> None:
    with pytest.raises(CommandFailed, match="ENGRAMQ_DATABASES") as refused:
        move(settings, "postgresql://u:secret@elsewhere/x")
    assert refused.value.code is ExitCode.MISUSED
    assert "secret" not in str(refused.value)


def test_a_database_that_is_away_or_behind_is_refused_before_anything_is_held(
    settings: Settings, database: Database, second: Database
) -> None:
    second.rows("delete from schema_migrations where version = (select max(version) from schema_migrations)")
    with pytest.raises(CommandFailed, match="Run `engramq migrate`"):
        move(settings, "second")
    away = _settings(ENGRAMQ_DATABASE_URL=database.owner_url, ENGRAMQ_DATABASES="second=postgresql://localhost:1/x")
    with pytest.raises(CommandFailed, match="cannot be reached"):
        move(away, "second")
    assert database.rows("select standing, move from namespaces") == [{"standing": None, "move": None}]


def test_other_commands_say_where_a_namespace_has_gone(settings: Settings, database: Database) -> None:
    move(settings, "second")
    alone = _settings(ENGRAMQ_DATABASE_URL=database.owner_url)
    with pytest.raises(CommandFailed, match="'ada' is in database 'second': name it in ENGRAMQ_DATABASES"):
        create_token(alone, namespace="ada", as_json=True, principal="ada", scopes=["read"])
    with pytest.raises(CommandFailed, match="no namespace"):
        move(settings, "second", "nobody")


def test_status_shows_a_move_that_was_broken_off(settings: Settings, database: Database, second: Database) -> None:
    # What the shell says besides is no matter of servers that run.
    assert _under_way(settings.database_url, {"ENGRAMQ_HOST": "0.0.0.0"})["moves"] == []
    asyncio.run(killed_at(Step.HELD, "ada", database.owner_url, second.owner_url))
    there = {"namespace": "ada", "from": "primary", "to": "", "step": "arriving"}
    assert under_way(settings.database_url)["moves"] == [there | {"to": "second", "step": "held"}]
    assert under_way(second.owner_url)["moves"] == [there]
    move(settings, "second", abort=True)
    assert under_way(settings.database_url)["moves"] == under_way(second.owner_url)["moves"] == []


def test_an_abort_of_nothing_is_said(settings: Settings) -> None:
    with pytest.raises(CommandFailed, match="not being moved"):
        move(settings, "second", abort=True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("primary=postgresql://a/b", "another name than primary"),
        ("Two=postgresql://a/b", "NAME=URL pairs"),
        ("two=http://a:secret@b", "must begin with"),
        ("two=", "must give a URL for two"),
        ("two=postgresql://a/b two=postgresql://a/c", "must name two once"),
    ],
)
def test_bad_databases_are_named_without_their_urls(text: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as refused:
        _settings(ENGRAMQ_DATABASES=text)
    assert "secret" not in str(refused.value)
