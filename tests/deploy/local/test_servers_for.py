"""Commands of gateway and workers join the home's stack, except as what would write other vectors."""

import contextlib
import os
import re
from pathlib import Path

import pytest

from engramq import deploy
from engramq.deploy.local import stack_hold
from engramq.deploy.local.home import DeployError, Home
from engramq.deploy.local.servers_for import _NEEDS, servers_for
from engramq.deploy.local.stack_hold import hold_stack
from engramq.deploy.local.supervisor.stack import default_stack
from engramq.schemas.command_line import ExitCode
from engramq.schemas.settings import SettingsError
from tests.deploy.fake_engramq import FAKE_STACK
from tests.deploy.helpers import BOUND_S


@pytest.fixture(autouse=True)
def _fake_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the fake stack wherever a supervisor is started."""
    monkeypatch.setattr(stack_hold, "SUPERVISOR_COMMAND", FAKE_STACK)


def test_a_worker_of_another_embedder_is_refused_and_commands_that_embed_nothing_go_on(
    home: Home, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.closing(hold_stack(home, "stdio", environment, BOUND_S)):
        monkeypatch.setattr(os, "environ", environment | {"ENGRAMQ_EMBEDDER": "hash"})
        with pytest.raises(DeployError, match="ENGRAMQ_EMBEDDER"), servers_for("worker"):
            pass
        for command in ("import", "purge", "audit", "token", "migrate"):
            monkeypatch.setattr(os, "environ", environment | {"ENGRAMQ_EMBEDDER": "hash"})
            with servers_for(command) as settings:
                assert settings.redis_url
            assert "ENGRAMQ_EMBEDDER" in capsys.readouterr().err
        monkeypatch.setattr(os, "environ", dict(environment))
        with servers_for("worker") as settings:
            assert settings.database_url
        assert "ENGRAMQ_REDIS_URL" not in os.environ


@pytest.mark.promise("AG-20")
def test_a_stack_does_not_start_with_a_model_that_it_cannot_reach(home: Home, environment: dict[str, str]) -> None:
    environment.pop("OPENAI_API_KEY", None)
    away = environment | {"ENGRAMQ_EMBEDDER": "openai:m"}
    for kind in ("up", "stdio", "command"):
        with pytest.raises(DeployError, match="ENGRAMQ_EMBEDDER_URL nor ENGRAMQ_EMBEDDER_KEY") as refusal:
            hold_stack(home, kind, away, BOUND_S)
        assert refusal.value.exit_code is ExitCode.MISUSED
    assert not home.supervisor_socket.exists()
    with pytest.raises(DeployError, match="ENGRAMQ_EMBEDDER_KEY"):
        default_stack(home, away)


@pytest.mark.promise("AG-20")
def test_a_client_needs_no_key_of_a_stack_that_runs(home: Home, environment: dict[str, str]) -> None:
    environment.pop("OPENAI_API_KEY", None)
    model = environment | {"ENGRAMQ_EMBEDDER": "openai:m"}
    with contextlib.closing(hold_stack(home, "stdio", model | {"OPENAI_API_KEY": "k"}, BOUND_S)):
        hold_stack(home, "stdio", model, BOUND_S).close()


def test_each_command_that_asks_for_servers_has_said_which_it_needs() -> None:
    (folder,) = deploy.__path__
    texts = [path.read_text() for path in Path(folder, "cli").glob("*.py")]
    asked = {name for text in texts for name in re.findall(r'(?:servers_for|operating)\("([^"]+)"', text)}
    assert {"webhook", "gateway", "tenant delete"} <= asked <= set(_NEEDS)


def test_what_an_option_stands_for_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"REDIS_URL": "unix:///nowhere", "PORT": "1", "HOST": "127.0.0.2"}.items():
        monkeypatch.setenv(f"ENGRAMQ_{name}", value)
    with servers_for("gateway", given={"ENGRAMQ_PORT": "2"}) as settings:
        assert (settings.host, settings.port) == ("127.0.0.2", 2)


def test_a_bad_setting_is_told_before_anything_is_started(
    home: Home, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", environment | {"ENGRAMQ_DEGREE_CAP": "many"})
    with pytest.raises(SettingsError, match="ENGRAMQ_DEGREE_CAP"), servers_for("audit"):
        pass
    assert list(home.path.iterdir()) == []


def test_what_the_owner_does_takes_the_address_past_a_pooler(monkeypatch: pytest.MonkeyPatch) -> None:
    pooled, direct = "postgresql://w@pooler/d", "postgresql://owner@db/d"
    monkeypatch.setenv("ENGRAMQ_DATABASE_URL", pooled)
    monkeypatch.setenv("ENGRAMQ_REDIS_URL", "redis://h")
    for variables, expected in (({}, pooled), ({"ENGRAMQ_MIGRATE_DATABASE_URL": direct}, direct)):
        with servers_for("migrate", given=variables) as settings:
            assert settings.database_url == expected
        with servers_for("audit", given=variables) as settings:
            assert settings.database_url == pooled
    monkeypatch.delenv("ENGRAMQ_DATABASE_URL")  # as where only migrations run, and nothing embedded is to start
    with servers_for("migrate", given={"ENGRAMQ_MIGRATE_DATABASE_URL": direct}) as settings:
        assert settings.database_url == direct
