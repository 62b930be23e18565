"""Commands that work on the database follow a namespace to where it has moved; what lists all asks all databases."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest

from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.settings import Settings, read_settings
from engramq.schemas.vocabulary import Scope
from engramq.workers.cli import webhook_command
from engramq.workers.cli.audit_command import show_audit
from engramq.workers.cli.move_command import move_tenant
from engramq.workers.cli.restore_export import restore_export
from engramq.workers.cli.rewrite_command import rewrite_files
from engramq.workers.cli.tenant_command import configure_tenant, export_tenant, list_tenants
from engramq.workers.cli.token_command import create_token, list_tokens, revoke_token
from tests.conftest import Database, TestServers
from tests.tenancy.tables import SECRET, Tenant, furnish

pytestmark = pytest.mark.own_database


@pytest.fixture
def moved(database: Database, second: Database) -> Tenant:
    """`ada` has gone to the second database; `ben` is in the first."""
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        furnish(connection, "ben")
        tenant = furnish(connection, "ada")
    move_tenant(settings_of(database, second), "ada", to="second", dry_run=False, abort=False, as_json=True)
    return tenant


@pytest.fixture
def settings(database: Database, second: Database, moved: Tenant, capsys: pytest.CaptureFixture[str]) -> Settings:
    capsys.readouterr()  # what the move has said
    return settings_of(database, second)


def settings_of(database: Database, second: Database, **more: str) -> Settings:
    return read_settings(
        {"ENGRAMQ_DATABASE_URL": database.owner_url, "ENGRAMQ_DATABASES": f"second={second.owner_url}", **more}
    )


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[Any]]:
    return lambda: [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]


def test_tokens_are_made_listed_and_revoked_where_they_count(
    settings: Settings, database: Database, second: Database, moved: Tenant, told: Callable[[], list[Any]]
) -> None:
    create_token(settings, namespace="ada", as_json=True, principal="eve", scopes=[Scope.READ])
    (made,) = told()
    counted = "select count(*) as n from tokens where id = %s"
    assert (database.rows(counted, made["id"]), second.rows(counted, made["id"])) == ([{"n": 0}], [{"n": 1}])
    list_tokens(settings, namespace="ada", as_json=True)
    assert {one["id"] for one in told()} == {made["id"], str(moved.ids["token"])}
    list_tokens(settings, namespace=None, as_json=True)
    assert {one["namespace"] for one in told()} == {"ada", "ben"}
    assert revoke_token(settings, moved.ids["token"], as_json=True) is ExitCode.DONE
    revoked = "select revoked_at is not null as gone from tokens where id = %s"
    assert second.rows(revoked, moved.ids["token"]) == [{"gone": True}]
    assert revoke_token(settings, UUID(int=1), as_json=True) is ExitCode.FAILED


def test_tenants_are_listed_and_configured_in_all_databases(
    settings: Settings, second: Database, told: Callable[[], list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    list_tenants(settings, empty=False, as_json=True)
    assert {(one["namespace"], one.get("database"), one["memories"]) for one in told()} == {
        ("ben", None, 4), ("ada", "second", 4),
    }  # fmt: skip
    list_tenants(settings, empty=False, as_json=False)
    assert [line.rpartition("  ")[2] for line in capsys.readouterr().out.splitlines()] == [
        "english", "in database second",
    ]  # fmt: skip
    configure_tenant(settings, "ada", language="german", as_json=True)
    assert told()[0]["language"] == "german"
    assert second.rows("select language from namespaces where namespace = 'ada'") == [{"language": "german"}]
    with pytest.raises(CommandFailed, match="There is no namespace 'nobody'"):
        configure_tenant(settings, "nobody", language=None, as_json=True)


def test_what_a_namespace_holds_and_who_did_what_is_read_where_it_is(
    settings: Settings, told: Callable[[], list[Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_audit(settings, namespace="ada", limit=10, as_json=True)
    assert told()[-1]["action"] == "move_tenant"
    target = tmp_path / "ada.jsonl"
    export_tenant(settings, "ada", target, audit=True, embeddings=True)
    assert f"{SECRET} of ada" in target.read_text(encoding="utf-8")
    with pytest.raises(CommandFailed, match="'ada'"):  # there is something already, there
        restore_export(settings, target, namespace=None, dry_run=True, tell=lambda *_: None)
    restore_export(settings, target, namespace="copy", dry_run=True, tell=lambda *_: None)
    assert "fits namespace 'copy'" in capsys.readouterr().out


def test_webhooks_are_kept_where_the_namespace_is(
    settings: Settings, moved: Tenant, told: Callable[[], list[Any]]
) -> None:
    webhook_command.list_webhooks(settings, "ada", as_json=True)
    assert [one["id"] for one in told()] == [str(moved.ids["webhook"])]
    webhook_command.list_dead(settings, "ada", as_json=True)
    assert [one["id"] for one in told()] == [str(moved.ids["message"])]
    assert webhook_command.retry_messages(settings, "ada", moved.ids["message"]) is ExitCode.DONE
    assert webhook_command.remove_webhook(settings, "ada", moved.ids["webhook"]) is ExitCode.DONE


def test_a_further_database_that_is_away_is_named(
    database: Database, second: Database, settings: Settings, told: Callable[[], list[Any]]
) -> None:
    away = read_settings(
        {"ENGRAMQ_DATABASE_URL": database.owner_url, "ENGRAMQ_DATABASES": "second=postgresql://localhost:1/x"}
    )
    with pytest.raises(CommandFailed, match="Database 'second' of ENGRAMQ_DATABASES"):
        list_tokens(away, namespace="ada", as_json=True)
    list_tokens(away, namespace="ben", as_json=True)  # which is not there
    assert {one["namespace"] for one in told()} == {"ben"}


def test_files_of_all_databases_are_written_anew(
    database: Database, second: Database, settings: Settings, servers: TestServers, told: Callable[[], list[Any]]
) -> None:
    with_redis = settings_of(database, second, ENGRAMQ_REDIS_URL=servers.redis_url)
    rewrite_files(with_redis, with_wal=False, as_json=True)
    places = {one.get("database") for one in told()[0]["tables"] if one["name"] == "memories_trusted"}
    assert places == {None, "second"}
