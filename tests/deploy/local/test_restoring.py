"""A home is made of a backup wholly, or stays what it was; whatever would be lost or is in the way is said first."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engramq.deploy.cli import main
from engramq.deploy.local.backup import restoring
from engramq.deploy.local.backup.restoring import RestoredBackup, restore_backup, verify_backup
from engramq.deploy.local.home import DeployError, Home
from engramq.deploy.local.hooks.notes import SessionNotes
from engramq.deploy.local.ownership import lock_home
from engramq.gateway.identity.local_peer import TOKEN_FILE
from engramq.schemas.command_line import ExitCode
from engramq.workers.migrating import newest_schema
from tests.deploy.local.archives import FILES, VERSION_FILE, backup, forged, member

OLD = b"what was here before"


@pytest.fixture(autouse=True)
def _no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The databases here are a few bytes, which no PostgreSQL reads; see test_restored_code.py."""
    monkeypatch.setattr(restoring, "foreign_code", lambda _data: ())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "below" / "home")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return backup(tmp_path / "x.backup")


def brought_back(home: Home, file: Path, *, force: bool = False) -> RestoredBackup:
    return restore_backup(home, {}, file, lambda done, of: None, force=force)


def refusal(home: Home, file: Path, *, force: bool = False) -> DeployError:
    """Return why; nothing was touched."""
    before = tree(home)
    with pytest.raises(DeployError) as refused:
        brought_back(home, file, force=force)
    assert tree(home) == before
    return refused.value


def tree(home: Home) -> dict[str, bytes]:
    """Return all files of a home but its lock, and where there is none nothing."""
    return {
        str(path.relative_to(home.path)): path.read_bytes() if path.is_file() else b""
        for path in home.path.rglob("*")
        if path != home.lock
    }


def fill(home: Home) -> None:
    for place in (home.postgres / "data" / "old", home.redis / "old", home.http_token):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(OLD)


def is_whole(home: Home) -> bool:
    return all((home.path / name).read_bytes() == content for name, content in FILES.items())


@pytest.mark.promise("IM-12")
def test_a_home_is_made_that_only_its_owner_can_enter(home: Home, file: Path) -> None:
    told: list[tuple[int, int]] = []
    done = restore_backup(home, {}, file, lambda done, of: told.append((done, of)), force=False)
    assert is_whole(home)
    assert {path.stat().st_mode & 0o777 for path in home.path.rglob("*") if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in [home.path, *home.path.rglob("*")] if path.is_dir()} == {0o700}
    assert done.moved_to is None
    assert told[-1] == (done.bytes, done.bytes)
    home.ensure()  # and a stack would start from it
    assert home.http_token.name == TOKEN_FILE
    assert sorted(path.name for path in home.postgres.iterdir()) == ["data", "local.conf"]


@pytest.mark.promise("IM-12")
def test_a_home_that_holds_something_is_refused_and_with_force_moved_aside(home: Home, file: Path) -> None:
    fill(home)
    home.embedder.write_bytes(OLD)
    refused = refusal(home, file)
    assert refused.code == "home_not_empty"
    assert "--force" in refused.recovery

    done = brought_back(home, file, force=True)

    assert is_whole(home)
    assert done.moved_to is not None
    assert (done.moved_to / "postgres" / "data" / "old").read_bytes() == OLD
    assert (done.moved_to / "redis" / "old").read_bytes() == OLD
    assert (done.moved_to / "http-token").read_bytes() == OLD
    assert (done.moved_to / "embedder").read_bytes() == OLD
    assert not home.embedder.exists()  # the file is of before homes kept theirs
    assert not home.redis.exists()
    home.ensure()
    brought_back(home, file, force=True)  # and once more, beside


@pytest.mark.promise("IM-12")
def test_what_hooks_captured_after_the_backup_is_captured_again(home: Home, file: Path, tmp_path: Path) -> None:
    """Finding 3 of faults: their notes said that it was captured, and the store of the backup does not have it."""
    fill(home)
    notes = SessionNotes(home, "codex", "of-then")
    notes.transcript = str(tmp_path / "transcript.jsonl")
    Path(notes.transcript).write_text("What was said.\n")
    notes.offset = 15
    notes.write()
    assert not notes.is_behind
    brought_back(home, file, force=True)
    assert SessionNotes(home, "codex", "of-then").is_behind


def test_the_folders_of_a_home_that_never_ran_are_nothing(home: Home, file: Path) -> None:
    home.ensure()
    home.postgres.mkdir()
    assert brought_back(home, file).moved_to is None
    assert is_whole(home)


@pytest.mark.promise("IM-12")
@pytest.mark.parametrize("force", [False, True])
def test_a_home_in_use_is_refused(home: Home, file: Path, *, force: bool) -> None:
    fill(home)
    lock = lock_home(home, "a test")
    try:
        assert refusal(home, file, force=force).code == "home_in_use"
    finally:
        os.close(lock)


@pytest.mark.promise("IM-12")
@pytest.mark.parametrize(
    ("header", "code", "named"),
    [
        ({"schema": newest_schema() + 1}, "backup_newer", "9.9"),
        ({"format": 2}, "backup_newer", "9.9"),
        ({"postgresql": 17}, "other_postgres", "engramq export"),
        ({"postgresql": 19}, "other_postgres", "engramq export"),
        ({"platform": "darwin-aarch64"}, "other_platform", "engramq export"),
    ],
)
def test_what_another_release_server_or_machine_made_is_refused_before_it_is_read(
    home: Home, tmp_path: Path, header: dict[str, object], code: str, named: str
) -> None:
    file = backup(tmp_path / "x", **header)
    shutil.copy(file, tmp_path / "whole")
    os.truncate(file, file.stat().st_size - 100)
    for copy in (file, tmp_path / "whole"):
        refused = refusal(home, copy)
        assert refused.code == code
        assert named in str(refused)
    assert not home.path.exists()


def test_older_schemas_are_taken(home: Home, tmp_path: Path) -> None:
    assert brought_back(home, backup(tmp_path / "x", schema=0)).header.schema == 0


@pytest.mark.promise("IM-12")
@pytest.mark.parametrize("force", [False, True])
def test_a_cut_file_touches_nothing(home: Home, file: Path, *, force: bool) -> None:
    if force:
        fill(home)
    os.truncate(file, file.stat().st_size - 1)
    assert refusal(home, file, force=force).code == "backup_damaged"
    assert home.path.exists() == force


@pytest.mark.parametrize(
    "name", ["local.conf", "postgres/engramq.hba", "postgres/databases", "redis/appendonly.aof", "run"]
)
def test_what_does_not_belong_into_a_backup_is_refused(home: Home, tmp_path: Path, name: str) -> None:
    assert refusal(home, forged(tmp_path / "x", member(name))).code == "backup_damaged"


def test_a_backup_without_a_database_is_refused(home: Home, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FILES, VERSION_FILE)
    assert "no database" in str(refusal(home, backup(file)))


@pytest.mark.promise("IM-12")
def test_too_little_room_is_said_first(home: Home, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(file.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=restoring.FIRST_START_BYTES))
    refused = refusal(home, file)
    assert refused.code == "no_room"
    assert "64 MB are free" in str(refused)


@pytest.mark.promise("IM-12")
def test_small_files_take_whole_blocks_of_the_room(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(500):
        monkeypatch.setitem(FILES, f"postgres/data/base/small-{number}", b"x")
    file = backup(tmp_path / "small.backup")
    content = sum(len(each) for each in FILES.values())
    usage = shutil.disk_usage(tmp_path)
    enough_without_rounding = restoring.FIRST_START_BYTES + content + restoring.BLOCK * 100
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=enough_without_rounding))
    assert refusal(home, file).code == "no_room"


def test_a_database_elsewhere_and_files_that_cannot_be_read_are_refused(home: Home, file: Path) -> None:
    with pytest.raises(DeployError, match=r"docs/backup\.md"):
        restore_backup(home, {"ENGRAMQ_DATABASE_URL": "postgresql://x/y"}, file, lambda done, of: None, force=True)
    assert refusal(home, file.with_name("missing")).code == "backup_unreadable"
    assert refusal(home, file.parent).code == "backup_unreadable"


def test_an_error_while_it_writes_leaves_what_was_there(
    home: Home, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(restoring, "_write", full)
    refused = refusal(home, file, force=True)
    assert refused.code == "restore_failed"
    assert "No space left" in str(refused)


def test_a_backup_that_is_another_one_when_it_is_written_is_refused(
    home: Home, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = restoring._require_space

    def cut_meanwhile(*given: object) -> None:
        room(*given)  # type: ignore[arg-type]
        os.truncate(file, file.stat().st_size - 100)

    fill(home)
    monkeypatch.setattr(restoring, "_require_space", cut_meanwhile)
    assert refusal(home, file, force=True).code == "backup_damaged"


# For each number on a line runs `restore_backup` with force in a process that dies before its so many-th call
# of one of these, and prints how that ended. It is forked, since Python's own start takes longer than the rest.
DYING = """
import os, pathlib, sys, traceback
from engramq.deploy.local.backup import restoring
from engramq.deploy.local.home import Home
left = 0
def dying(of):
    def call(*given, **named):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return of(*given, **named)
    return call
for name in ("rename", "replace", "mkdir"):
    setattr(pathlib.Path, name, dying(getattr(pathlib.Path, name)))
restoring._write = dying(restoring._write)
restoring.sync_folder = dying(restoring.sync_folder)
restoring.foreign_code = lambda data: ()
home, file = Home(pathlib.Path(sys.argv[1])), pathlib.Path(sys.argv[2])
for line in sys.stdin:
    left = int(line)
    child = os.fork()
    if not child:
        try:
            restoring.restore_backup(home, {}, file, lambda done, of: None, force=True)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def dying(home: Home, file: Path) -> Iterator[Callable[[int], int]]:
    """Restores with force and dies before the so many-th step: the exit code is 9, or 0 where it came to its end."""
    command = [sys.executable, "-c", DYING, str(home.path), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        steps, codes = process.stdin, process.stdout
        assert steps is not None
        assert codes is not None

        def restore(step: int) -> int:
            steps.write(f"{step}\n")
            steps.flush()
            return int(codes.readline())

        yield restore


@pytest.mark.promise("IM-12")
def test_a_kill_at_any_step_leaves_the_former_home_an_unfinished_one_that_is_named_or_the_restored_one(
    home: Home, file: Path, dying: Callable[[int], int]
) -> None:
    seen = set()
    for step in range(100):
        shutil.rmtree(home.path, ignore_errors=True)
        fill(home)
        code = dying(step)
        assert code in (0, 9)
        if home.restoring.exists():
            seen.add("unfinished")
            with pytest.raises(DeployError, match="restore again") as refused:
                home.ensure()
            assert refused.value.code == "restore_unfinished"
        elif (home.postgres / "data" / "old").exists():
            seen.add("former")
        else:
            seen.add("restored")
            assert is_whole(home)
        assert list(home.path.rglob("old"))  # wherever it is
        brought_back(home, file, force=True)
        assert is_whole(home)
        home.ensure()
        if code == 0:
            break
    assert seen == {"former", "unfinished", "restored"}


def test_a_check_touches_nothing(home: Home, file: Path, tmp_path: Path) -> None:
    assert verify_backup(file, lambda done, of: None).files == len(FILES)
    os.truncate(file, 100)
    with pytest.raises(DeployError):
        verify_backup(file, lambda done, of: None)
    assert not home.path.exists()


@pytest.mark.promise("IM-12")
def test_a_pipe_is_refused_with_what_to_do(home: Home, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # nobody writes into it: whoever opened it would wait for ever
    assert "Write it to a file first" in str(refusal(home, pipe))
    with pytest.raises(DeployError, match="no regular file") as refused:
        verify_backup(pipe, lambda done, of: None)
    assert refused.value.code == "backup_unreadable"
    assert not home.path.exists()


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that cannot be read on")
def test_an_error_of_the_file_is_not_blamed_on_the_home(home: Home) -> None:
    broken = Path("/proc/self/mem")  # whose first page is none
    told = "/proc/self/mem cannot be read: Input/output error"
    with pytest.raises(DeployError, match=told) as refused:
        brought_back(home, broken)
    assert refused.value.code == "backup_unreadable"
    with pytest.raises(DeployError, match=told):
        verify_backup(broken, lambda done, of: None)


@pytest.mark.promise("IM-12")
def test_settings_that_a_backup_brings_are_named(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    auto = "postgres/data/postgresql.auto.conf"
    monkeypatch.setenv("ENGRAMQ_HOME", str(home.path))
    for content, named in ((b"# nothing\n", ()), (b"# x\narchive_command = 'x'\n", (auto,))):
        monkeypatch.setitem(FILES, auto, content)
        file = backup(tmp_path / "x")
        assert verify_backup(file, lambda done, of: None).settings == tuple(sorted((*named, "postgres/local.conf")))
        assert main(["restore", str(file), "--check"]) == ExitCode.DONE
        assert (
            f"settings of PostgreSQL ({' and '.join(sorted((*named, 'postgres/local.conf')))})"
            in capsys.readouterr().err
        )
    assert brought_back(home, file).settings == (auto, "postgres/local.conf")
    monkeypatch.delitem(FILES, "postgres/local.conf")
    monkeypatch.delitem(FILES, auto)
    assert verify_backup(backup(tmp_path / "y"), lambda done, of: None).settings == ()
