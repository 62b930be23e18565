"""The demo's decisions are those of the pages; what is refused, or not done in time, ends it with a word."""

import signal
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.cli import demo, main, tool_client, tour
from engramq.deploy.cli.tour import FOLDER, Tour, read_decisions, supersessions
from engramq.schemas.command_line import CommandFailed, ExitCode
from tests.architecture.source import ROOT

pytestmark = pytest.mark.promise("RC-13")

ID = "0199c1de-0000-7000-8000-000000000000"


def test_the_package_brings_every_decision_with_its_day_and_page() -> None:
    assert FOLDER.resolve() == ROOT / "docs" / "decisions"
    entries = [
        line
        for page in FOLDER.glob("*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("- 20")
    ]
    decisions = list(read_decisions())
    assert len(decisions) == len(entries) > 250
    assert all("**" not in decision.text and len(decision.text) > 30 for decision in decisions)
    assert {decision.page for decision in decisions} < {page.stem for page in FOLDER.glob("*.md")}


def test_each_superseded_decision_names_one_that_stands() -> None:
    decisions = list(read_decisions())
    pairs = list(supersessions(decisions))
    superseded = (FOLDER / "superseded.md").read_text(encoding="utf-8").count("\n- 20")
    assert len(pairs) == superseded > 0
    assert all(decisions[old].day <= decisions[new].day for old, new in pairs)


class Answering(tool_client.ToolClient):
    """Answers every call alike."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self.reply = reply

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self.reply


@pytest.mark.parametrize(
    ("reply", "said", "code"),
    [
        ({"status": "pending", "command_id": ID}, f"not done yet (command {ID})", ExitCode.MIDWAY),
        (
            {"status": "error", "error": "The disk is full.", "recovery": "Make room."},
            "The disk is full. Make room.",
            1,
        ),
    ],
)
def test_a_refused_or_pending_store_ends_the_tour_with_a_clear_word(
    reply: dict[str, Any], said: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour, "home_client", lambda _environment: nullcontext(Answering(reply)))
    monkeypatch.setattr(tool_client, "SETTLED_S", 0.0)
    shown = Tour({}, "http://127.0.0.1:1", lambda _wait_for: None)
    for going in (shown.fill, shown.show):
        with pytest.raises(CommandFailed) as refused:
            going()
        assert said in str(refused.value)
        assert refused.value.code == code


def test_a_home_that_cannot_start_is_removed_and_the_reason_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> None:
        raise CommandFailed("PostgreSQL cannot be started.")

    monkeypatch.setattr(demo, "hold_stack", refused)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(tmp_path / prefix))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    (tmp_path / "engramq-demo-").mkdir()
    assert main(["demo"]) == ExitCode.FAILED
    assert "engramq demo: PostgreSQL cannot be started." in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
