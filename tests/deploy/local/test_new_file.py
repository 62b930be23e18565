"""A file is whole and on the disk under its name, or not there."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.local.new_file import Unwritable, new_file


@pytest.mark.promise("IM-12", "TI-6")
def test_a_file_is_synced_before_it_has_its_name_and_its_folder_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x"
    synced: list[tuple[int, bool]] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, target.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    with new_file(target) as out:
        out.write(b"all of it")
    assert synced == [(target.stat().st_ino, False), (tmp_path.stat().st_ino, True)]
    assert target.read_bytes() == b"all of it"
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [target]


def test_what_fails_leaves_nothing_and_is_told_as_what_it_is(tmp_path: Path) -> None:
    def broken_off() -> None:
        with new_file(tmp_path / "x") as out:
            out.write(b"a half")
            raise PermissionError(errno.EACCES, "of something else")

    with pytest.raises(PermissionError, match="of something else"):
        broken_off()
    with pytest.raises(Unwritable, match="No such file"), new_file(tmp_path / "missing" / "x"):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "there").write_bytes(b"mine")
    with pytest.raises(Unwritable, match="there already"), new_file(tmp_path / "there"):
        raise AssertionError
    assert (tmp_path / "there").read_bytes() == b"mine"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full")
def test_a_full_disk_is_told_by_whichever_write_meets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def full(path: Any, flags: int, mode: int = 0o777) -> int:
        found = opened(path, flags, mode)
        if str(path).endswith(".partial"):
            os.dup2(device, found)
        return found

    device = opened("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(os, "open", full)
    try:
        for size in (10, 10_000_000):
            with pytest.raises(Unwritable, match="No space left"), new_file(tmp_path / "x") as out:
                out.write(b"x" * size)
        assert list(tmp_path.iterdir()) == []
    finally:
        os.close(device)
