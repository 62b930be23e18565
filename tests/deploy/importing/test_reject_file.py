"""The file that tells of rejected rows is written beside and renamed: security finding 5."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from engramq.deploy.importing.records import Rejection
from engramq.deploy.importing.sending import CannotReject, RejectFile

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
