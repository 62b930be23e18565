"""Commands over the queue that cannot be done: the exit code says how, the words what to do, and no traceback."""

import json
from pathlib import Path

import pytest

from engramq.deploy.cli import main
from engramq.deploy.importing import sending
from engramq.schemas.command_line import ExitCode


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"content": "A row"}) + "\n")
    return file


@pytest.mark.parametrize("command", ["gateway", "import", "purge"])
def test_a_redis_that_is_too_old_is_not_fit(
    command: str, rows: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGRAMQ_REDIS_URL", redis_url)
    monkeypatch.setenv("ENGRAMQ_PORT", "0")
    monkeypatch.setattr("engramq.schemas.connection.OLDEST_SERVER", (99, 0))
    arguments = {"gateway": [], "import": [str(rows)], "purge": ["--thread", "t"]}[command]
    assert main([command, *arguments]) == ExitCode.FAILED
    said = capsys.readouterr().err
    assert said.startswith(f"engramq {command}: Redis ")
    assert "is too old" in said


@pytest.mark.parametrize("command", ["import", "purge"])
@pytest.mark.long
def test_a_redis_that_is_away_ends_what_began(
    command: str, rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGRAMQ_REDIS_URL", "unix:///nowhere")
    monkeypatch.setattr(sending, "GIVE_UP_S", 0.0)
    monkeypatch.setattr(sending, "START_S", 0.0)
    arguments = {"import": [str(rows)], "purge": ["--thread", "t"]}[command]
    assert main([command, *arguments]) == ExitCode.MIDWAY
    said = capsys.readouterr().err
    assert said.startswith(f"engramq {command}: ")
    assert {"import": "Run the same command again", "purge": "Nothing was applied."}[command] in said
    assert "Traceback" not in said


def test_rejects_that_cannot_be_told_of_end_an_import(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGRAMQ_REDIS_URL", "unix:///nowhere")
    rows.write_text("no json\n")
    rejects = rows.with_name("rows.jsonl.rejects.jsonl")
    rejects.mkdir()

    async def all_there(_workers: sending.ImportWorkers, _patience_s: float, **_: bool) -> None:
        """Let the import begin: no row of it is sent."""

    monkeypatch.setattr(sending.ImportWorkers, "require", all_there)
    assert main(["import", str(rows)]) == ExitCode.MIDWAY
    assert f"{rejects} cannot be written: Is a directory. Name another file with --rejects." in capsys.readouterr().err
