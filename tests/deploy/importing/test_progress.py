"""How far an import is, as a bar or plain lines, and the file of rejected rows, written beside and renamed."""

import io
import re
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from engramq.deploy.cli import progress
from engramq.deploy.cli.progress import PhaseBars, ProgressBar, say_between
from engramq.deploy.importing.records import Rejection
from engramq.deploy.importing.sending import CannotReject, RejectFile
from engramq.schemas import limits
from engramq.schemas.packed_lines import PackedSource
from tests.deploy.local.hooks.test_projects import full_disk

SOURCE = b"one line\n" * 10


class Terminal(io.StringIO):
    """An error stream that somebody looks at, or with `isatty` False one that goes to a file."""

    def __init__(self, *, watched: bool) -> None:
        super().__init__()
        self._watched = watched

    def isatty(self) -> bool:
        return self._watched


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time that both our rate and click's time left are reckoned with, set by hand."""
    now = SimpleNamespace(s=1_000.0)
    monkeypatch.setattr("time.monotonic", lambda: now.s)
    monkeypatch.setattr("time.time", lambda: now.s)
    return now


def shown(
    monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace, *, watched: bool, total_bytes: int | None, step_s: float
) -> str:
    """Return what is said of ten rows that are read one by one, so many seconds apart."""
    terminal = Terminal(watched=watched)
    monkeypatch.setattr(sys, "stderr", terminal)
    source = PackedSource(io.BytesIO(SOURCE))
    with ProgressBar(source, total_bytes) as telling:
        for rows, _ in enumerate(source.lines(), start=1):
            clock.s += step_s
            telling.show(rows)
    return terminal.getvalue()


@pytest.mark.promise("IM-1")
def test_a_terminal_sees_a_bar_with_rate_and_time_left(monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace) -> None:
    said = shown(monkeypatch, clock, watched=True, total_bytes=len(SOURCE), step_s=2.0)
    assert "]   50%  00:00:10  left  5 rows  0/s" in said.split("\r")[-6]
    assert said.endswith("\n")
    assert "100%  10 rows  0/s" in said.split("\r")[-1]


def test_a_terminal_sees_rows_and_rate_of_a_pipe(monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace) -> None:
    said = shown(monkeypatch, clock, watched=True, total_bytes=None, step_s=0.25)
    assert "1 row  4/s" in said
    assert "10 rows  4/s" in said
    assert "%" not in said
    assert "left" not in said


@pytest.mark.promise("IM-1")
def test_the_bar_is_as_long_as_what_is_in_not_as_what_is_read(
    monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace
) -> None:
    """Findings D15: 29 % at 512 of 3,000 rows."""
    terminal = Terminal(watched=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressBar(SimpleNamespace(position=80), 100) as telling:
        telling.show(2, read=8)
        clock.s += 1.0
        say_between("Nothing has gone in.")
        assert "]   20%  2 rows" in terminal.getvalue().split("\r")[-2]
        assert terminal.getvalue().endswith("\r\x1b[KNothing has gone in.\n")


@pytest.mark.promise("IM-1")
def test_elsewhere_there_are_plain_lines_now_and_then(monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace) -> None:
    every_s = progress.LINE_EVERY_S / 5
    said = shown(monkeypatch, clock, watched=False, total_bytes=len(SOURCE), step_s=every_s)
    assert said.splitlines() == [
        "50%  00:00:05  left  5 rows  1/s",
        "100%  10 rows  1/s",
    ]
    said = shown(monkeypatch, clock, watched=False, total_bytes=len(SOURCE), step_s=0.1)
    assert said.splitlines() == ["100%  10 rows  10/s"], "the last word at least"


@pytest.mark.promise("IM-1", "IM-5")
def test_a_terminal_sees_a_bar_for_each_step_of_a_restoration(
    monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace
) -> None:
    terminal = Terminal(watched=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with PhaseBars() as bars:
        for step, of in (("checked", None), ("restored", 10)):
            for done in range(1, 11):
                clock.s += 2.0
                bars.show(step, done, of)
    checked, restored = terminal.getvalue().split("\n")[:2]
    assert "10 records checked  0/s" in checked
    assert "left" not in checked
    assert re.search(r"\]   50%  00:00:0\d  left  5 records restored  1/s", restored)
    assert "100%  10 records restored" in restored.split("\r")[-1]


def test_steps_that_go_fast_are_drawn_now_and_then_and_at_their_end(
    monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace
) -> None:
    terminal = Terminal(watched=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with PhaseBars() as bars:
        for done in range(1, 10_001):
            clock.s += 0.0001
            bars.show("restored", done, 10_000)
    assert 9 <= terminal.getvalue().count("records restored") <= 14
    assert "100%  10,000 records restored" in terminal.getvalue()


def test_nothing_is_said_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(watched=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    source = PackedSource(io.BytesIO(b""))
    with ProgressBar(source, 0):
        assert list(source.lines()) == []
    assert terminal.getvalue() == ""


def test_of_a_line_that_is_too_long_the_beginning_is_enough_to_say_so() -> None:
    source = PackedSource(io.BytesIO(b"x" * (3 * limits.BODY_BYTES) + b"\nnext\n"))
    assert [len(line) for line in source.lines()] == [limits.BODY_BYTES + 1, 5]
    assert source.position == 3 * limits.BODY_BYTES + 6


REJECTION = Rejection(line=2, field="confidence", reason="must be a number, not '$(id)'.")


def test_a_link_in_its_place_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "bashrc"
    elsewhere.write_text("alias ll='ls -l'\n")
    path = tmp_path / "notes.jsonl.rejects.jsonl"
    path.symlink_to(elsewhere)
    with ExitStack() as stack:
        rejects = RejectFile(path, stack)
        rejects.write(REJECTION)
        rejects.close()
    assert elsewhere.read_text() == "alias ll='ls -l'\n"
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().count("\n") == 1
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_a_link_is_removed_and_not_what_it_leads_to_where_nothing_is_rejected(tmp_path: Path) -> None:
    elsewhere, path = tmp_path / "kept", tmp_path / "rejects.jsonl"
    elsewhere.write_text("kept")
    path.symlink_to(elsewhere)
    with ExitStack() as stack:
        RejectFile(path, stack).close()
    assert (elsewhere.read_text(), path.is_symlink()) == ("kept", False)


def test_an_import_that_breaks_off_keeps_what_it_has_rejected(tmp_path: Path) -> None:
    path = tmp_path / "rejects.jsonl"
    with ExitStack() as stack:
        RejectFile(path, stack).write(REJECTION)  # never closed
    assert path.read_text().count("\n") == 1


@pytest.mark.parametrize("rows", [1, 1_000], ids=["few", "many"])
@pytest.mark.parametrize("breaks_off", [False, True], ids=["to_its_end", "broken_off"])
def test_a_full_disk_keeps_what_an_earlier_import_rejected_and_nothing_half_written(
    tmp_path: Path, rows: int, breaks_off: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rejects.jsonl"
    path.write_text("of before\n")
    with suppress(CannotReject), ExitStack() as stack, full_disk():
        rejects = RejectFile(path, stack)
        for _ in range(rows):
            rejects.write(REJECTION)
        if breaks_off:
            stack.close()
            assert "cannot be written: File too large" in capsys.readouterr().err
        else:
            with pytest.raises(CannotReject, match=r"rejects\.jsonl cannot be written"):
                rejects.close()
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"rejects.jsonl": "of before\n"}


def test_what_another_has_put_where_it_is_made_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpid", lambda: 7)
    elsewhere, path = tmp_path / "kept", tmp_path / "rejects.jsonl"
    elsewhere.write_text("kept")
    (tmp_path / ".rejects.jsonl.7.engramq").symlink_to(elsewhere)
    with ExitStack() as stack, pytest.raises(CannotReject):
        RejectFile(path, stack).write(REJECTION)
    assert elsewhere.read_text() == "kept"
