"""`engramq service`: what it writes, read as systemd and launchd read it, and which of their commands it runs."""

import plistlib
import sys
from pathlib import Path

import pytest

from engramq.deploy.cli import main, service

pytestmark = pytest.mark.promise("OP-1")

ODD = 'a "quoted" 100% \\ name'


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user whose service managers only note what they are told."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("systemctl", "launchctl"):
        fails = f"[ ! -e {tmp_path}/fails ] || {{ echo no bus >&2; exit 1; }}"
        script = f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/commands\n{fails}\n'
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("ENGRAMQ_HOME", str(tmp_path / "user" / "my memory"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path / "user"


def commands(user: Path) -> list[str]:
    noted = user.with_name("commands")
    lines = noted.read_text().splitlines() if noted.exists() else []
    noted.unlink(missing_ok=True)
    return lines


def test_a_unit_is_written_shown_started_and_removed(
    user: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("ENGRAMQ_PRINCIPAL", ODD)
    monkeypatch.setenv("ENGRAMQ_EMBEDDER_KEY", "s3cret")
    path = user / ".config" / "systemd" / "user" / "engramq.service"
    assert main(["service", "install", "--print"]) == 0
    assert (path.exists(), commands(user)) == (False, [])
    assert main(["service", "install"]) == 0
    shown = capsys.readouterr()
    text = path.read_text()
    assert text in shown.out
    assert "s3cret" not in shown.out + shown.err + text
    assert "ENGRAMQ_EMBEDDER_KEY_FILE" in shown.err
    assert f'Environment="ENGRAMQ_HOME={user}/my memory"' in text
    assert 'Environment="ENGRAMQ_PRINCIPAL=a \\"quoted\\" 100%% \\\\ name"' in text
    assert [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith("Exec")] == ['"up"', '"down"']
    assert commands(user) == ["systemctl --user daemon-reload", "systemctl --user enable --now engramq.service"]
    monkeypatch.delenv("ENGRAMQ_PRINCIPAL")
    assert main(["service", "install"]) == 0
    assert "PRINCIPAL" not in path.read_text()
    assert list(path.parent.iterdir()) == [path]
    assert commands(user)[0] == "systemctl --user disable --now engramq.service"
    assert main(["service", "remove"]) == 0
    assert not path.exists()
    assert commands(user) == ["systemctl --user disable --now engramq.service", "systemctl --user daemon-reload"]
    assert main(["service", "remove"]) == 0
    assert "There is no" in capsys.readouterr().out


def test_an_agent_of_macos_is_written_as_launchd_reads_it(
    user: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("ENGRAMQ_PRINCIPAL", ODD)
    path = user / "Library" / "LaunchAgents" / f"{service.LABEL}.plist"
    assert main(["service", "install"]) == 0
    assert path.read_text() in capsys.readouterr().out
    agent = plistlib.loads(path.read_bytes())
    assert agent["ProgramArguments"][-1] == "up"
    assert agent["EnvironmentVariables"] == {"ENGRAMQ_HOME": f"{user}/my memory", "ENGRAMQ_PRINCIPAL": ODD}
    assert (agent["RunAtLoad"], agent["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert Path(agent["StandardOutPath"]).parent.is_dir()
    (begun,) = commands(user)
    assert begun.startswith("launchctl bootstrap gui/")
    assert main(["service", "remove"]) == 0
    assert not path.exists()
    assert commands(user)[0].startswith("launchctl bootout gui/")


def test_a_unit_of_somebody_elses_is_left_alone(
    user: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    path = user / ".config" / "systemd" / "user" / "engramq.service"
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\nExecStart=/my/own\n")
    for word in ("install", "remove"):
        assert main(["service", word]) == 1
        assert "was not written by engramq service install" in capsys.readouterr().err
    assert path.read_text() == "[Service]\nExecStart=/my/own\n"
    assert commands(user) == []


def test_what_the_service_manager_says_is_told(
    user: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    user.with_name("fails").touch()
    assert main(["service", "install"]) == 1
    assert "systemctl --user daemon-reload failed: no bus" in capsys.readouterr().err
    assert main(["service", "remove"]) == 1, "the file has gone, and systemd was not told"
    assert not (user / ".config" / "systemd" / "user" / "engramq.service").exists()
