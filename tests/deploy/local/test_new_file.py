"""A file is whole and on the disk under its name, or not there; secrets come from files that operators mount."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.local.home import DeployError
from engramq.deploy.local.new_file import Unwritable, new_file
from engramq.deploy.local.settings import SECRETS, take_secrets
from engramq.schemas.settings import SETTINGS


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


ENGRAMQ = str(Path(sys.executable).with_name("engramq"))
URL = "redis://:s3cret@redis.example/0"


def test_every_secret_setting_may_come_from_a_file() -> None:
    assert {setting.variable for setting in SETTINGS if setting.secret} | {"ENGRAMQ_TOKEN"} == set(SECRETS)


@pytest.mark.parametrize("content", [URL, f"{URL}\n", f"{URL}\r\n"])
def test_the_line_of_a_file_is_the_secret(tmp_path: Path, content: str) -> None:
    file = tmp_path / "url"
    file.write_bytes(content.encode())
    environment = {"ENGRAMQ_REDIS_URL_FILE": str(file), "ENGRAMQ_DATABASE_URL_FILE": "", "PATH": "/bin"}
    take_secrets(environment)
    assert environment == {"ENGRAMQ_REDIS_URL": URL, "PATH": "/bin"}


@pytest.mark.parametrize(
    ("content", "told"), [(b"", "one line"), (b"a\nb\n", "one line"), (b"\xff", "UTF-8"), (b"x" * 65_537, "one line")]
)
def test_a_file_that_holds_no_secret_is_named_without_its_content(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(DeployError, match=f"ENGRAMQ_EMBEDDER_KEY_FILE.*{told}"):
        take_secrets({"ENGRAMQ_EMBEDDER_KEY_FILE": str(file)})


def test_a_missing_file_a_relative_one_and_two_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match="No such file"):
        take_secrets({"ENGRAMQ_DATABASE_URL_FILE": str(tmp_path / "none")})
    with pytest.raises(DeployError, match="absolute"):
        take_secrets({"ENGRAMQ_DATABASE_URL_FILE": "url"})
    with pytest.raises(DeployError, match="both set"):
        take_secrets({"ENGRAMQ_REDIS_URL_FILE": "/url", "ENGRAMQ_REDIS_URL": URL})


def test_commands_read_them_and_a_hook_never_stops_its_client(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("redis://127.0.0.1:1/0\n")
    named = {"ENGRAMQ_REDIS_URL_FILE": str(file), "ENGRAMQ_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    done = subprocess.run([ENGRAMQ, "status", "--json"], env=named, capture_output=True, text=True, check=False)
    assert "Redis cannot be reached" in done.stdout, done
    away = named | {"ENGRAMQ_REDIS_URL_FILE": str(tmp_path / "away")}
    for arguments, code in ((["status"], 2), (["hook", "claude-code"], 0)):
        done = subprocess.run([ENGRAMQ, *arguments], env=away, capture_output=True, text=True, check=False, input="{}")
        assert (done.returncode, "ENGRAMQ_REDIS_URL_FILE" in done.stderr) == (code, True), done
