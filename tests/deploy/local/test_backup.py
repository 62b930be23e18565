"""A real home saved while it runs and while it does not; what broke off leaves neither a file nor a server."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from bench.servers import running_servers
from engramq.deploy.local import stack_hold
from engramq.deploy.local.backup import taking
from engramq.deploy.local.backup.restoring import restore_backup
from engramq.deploy.local.backup.taking import TakenBackup, back_up
from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.postgres import LOG_KEPT, OWNER_ROLE, Postgres
from engramq.deploy.local.home import DeployError, Home
from engramq.deploy.local.ownership import lock_home
from engramq.deploy.local.settings import kept_embedder, principal_of
from engramq.deploy.local.stack_hold import hold_stack
from engramq.schemas.command_line import CommandFailed
from tests.deploy.fake_engramq import FAKE_STACK
from tests.deploy.helpers import BOUND_S, await_true, service

pytestmark = pytest.mark.timeout(120)

ROWS = 2000


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "home.backup"


@pytest.fixture
def other() -> Iterator[Home]:
    place = Path(tempfile.mkdtemp(prefix="eq-"))
    yield Home(place / "restored")
    shutil.rmtree(place)


def fill(home: Home) -> None:
    with running_servers(home.path) as servers, psycopg.connect(servers.database_url_owner) as connection:
        connection.execute("create table kept (id int, filler text)")
        connection.execute("insert into kept select n, repeat(md5(n::text), 20) from generate_series(1, %s) n", [ROWS])


def ids(home: Home) -> list[int]:
    """Return what a server that starts from this home finds."""
    with running_servers(home.path) as servers, psycopg.connect(servers.database_url_owner) as connection:
        return [row[0] for row in connection.execute("select id from kept order by id")]


def saved(home: Home, target: Path, environment: dict[str, str]) -> TakenBackup:
    return back_up(home, environment, target, lambda done, of: None)


def brought_back(home: Home, target: Path) -> None:
    restore_backup(home, {}, target, lambda done, of: None, force=False)


def nothing_left(target: Path) -> bool:
    return list(target.parent.iterdir()) == []


@contextlib.contextmanager
def stack(home: Home, environment: dict[str, str]) -> Iterator[None]:
    """Run the home's PostgreSQL below a supervisor."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stack_hold, "SUPERVISOR_COMMAND", (*FAKE_STACK, "servers"))
        held = hold_stack(home, "command", environment, BOUND_S)
    with contextlib.closing(held):
        yield


@pytest.mark.promise("IM-12", "OP-9")
def test_a_home_that_does_not_run_is_saved_and_runs_no_longer_after(
    home: Home, other: Home, target: Path, environment: dict[str, str]
) -> None:
    fill(home)
    (home.postgres / "local.conf").write_text("work_mem = '17MB'\n")
    home.http_token.write_text("secret")
    home.embedder.write_text("e5\n\n")
    home.projects.write_text("{}")
    home.principal.write_text("lena")
    taken = saved(home, target, environment)
    assert target.stat().st_mode & 0o777 == 0o600
    assert taken.file_bytes == target.stat().st_size
    assert (taken.header.postgresql, taken.header.schema) == (18, 0)
    assert process.working_in(home.postgres / "data", "postgres") == []
    os.close(lock_home(home, "a test"))

    brought_back(other, target)

    assert ids(other) == list(range(1, ROWS + 1))
    assert other.http_token.read_text() == "secret"
    assert kept_embedder(other).name == "e5"
    assert other.projects.read_text() == "{}"
    assert principal_of(other, {}) == "lena"
    with running_servers(other.path) as servers, psycopg.connect(servers.database_url_owner) as connection:
        assert connection.execute("show work_mem").fetchone() == ("17MB",)


@pytest.mark.promise("IM-12", "OP-9")
def test_a_home_that_runs_is_saved_with_all_that_was_committed_before_while_others_write(
    home: Home, other: Home, target: Path, environment: dict[str, str]
) -> None:
    fill(home)
    committed: list[int] = []
    done = threading.Event()

    def write() -> None:
        with psycopg.connect(Postgres(home).url(OWNER_ROLE), autocommit=True) as connection:
            while not done.is_set():
                connection.execute("insert into kept values (%s, md5(random()::text))", [ROWS + len(committed) + 1])
                committed.append(ROWS + len(committed) + 1)

    with stack(home, environment):
        writer = threading.Thread(target=write)
        writer.start()
        try:
            await_true(lambda: len(committed) > 20)
            before = len(committed)
            saved(home, target, environment)
            during = len(committed) - before
            with psycopg.connect(Postgres(home).url(OWNER_ROLE)) as connection:
                slots = connection.execute("select count(*) from pg_replication_slots").fetchone()
        finally:
            done.set()
            writer.join()
    assert during > 0
    assert slots == (0,)  # nothing keeps the log for longer

    brought_back(other, target)

    found = ids(other)
    assert len(found) >= ROWS + before
    assert found == list(range(1, len(found) + 1))  # what was committed up to one moment, and nothing else


@pytest.mark.promise("IM-12")
def test_a_stack_that_ends_in_the_middle_ends_the_backup_without_a_file(
    home: Home, target: Path, environment: dict[str, str]
) -> None:
    fill(home)
    with stack(home, environment):
        server = service(home, "postgres")["pid"]
        killed = False

        def kill(_done: int, _of: int) -> None:
            nonlocal killed
            if not killed:
                killed = True
                os.kill(server, signal.SIGQUIT)

        with pytest.raises(DeployError, match="begin again") as refused:
            back_up(home, environment, target, kill)
    assert refused.value.code == "backup_failed"
    assert nothing_left(target)


def test_a_full_disk_ends_the_backup_without_a_file(home: Home, target: Path, environment: dict[str, str]) -> None:
    fill(home)
    program = (
        "import sys, resource, signal, os; from pathlib import Path\n"
        "from engramq.deploy.local.backup.taking import back_up\n"
        "from engramq.deploy.local.home import DeployError, Home\n"
        "from engramq.deploy.local.backup import taking\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "def limit(done, of): resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, resource.RLIM_INFINITY))\n"
        "try: back_up(Home(Path(sys.argv[1])), os.environ, Path(sys.argv[2]), limit)\n"
        "except DeployError as error: print(error)"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    command = [sys.executable, "-c", program, str(home.path), str(target)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=BOUND_S * 2)
    assert "cannot be written" in ended.stdout
    assert "File too large" in ended.stdout
    assert ended.stderr == ""
    assert nothing_left(target)
    assert len(ids(home)) == ROWS


def test_what_cannot_be_saved_is_refused_at_once(home: Home, target: Path, environment: dict[str, str]) -> None:
    def refusal(file: Path, **variables: str) -> DeployError:
        with pytest.raises(DeployError) as refused:
            saved(home, file, environment | variables)
        assert nothing_left(target)
        return refused.value

    assert refusal(target).code == "nothing_to_save"
    assert "docs/backup.md" in str(refusal(target, ENGRAMQ_DATABASE_URL="postgresql://x/y"))
    (home.postgres / "data").mkdir(parents=True)
    (home.postgres / "data" / "PG_VERSION").write_text("18\n")
    assert "Put it elsewhere" in str(refusal(home.path / "logs" / "x.backup"))
    there = target.with_name("there")
    there.write_text("mine")
    with pytest.raises(DeployError, match="there already"):
        saved(home, there, environment)
    assert there.read_text() == "mine"


@pytest.mark.promise("IM-12")
def test_a_backup_into_the_home_is_refused_by_whatever_way_it_leads_there(
    home: Home, target: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.postgres / "data").mkdir(parents=True)
    (home.postgres / "data" / "PG_VERSION").write_text("18\n")
    link = target.with_name("link")
    link.symlink_to(home.path)
    monkeypatch.chdir(home.path)
    for file in (Path("x.backup"), link / "x.backup", target.parent / ".." / target.parent.name / "link" / "x.backup"):
        with pytest.raises(DeployError, match="Put it elsewhere"):
            saved(home, file, environment)
        with pytest.raises(DeployError, match="Put it elsewhere"):
            saved(Home(link), file, environment)
    assert not (home.path / "x.backup").exists()


def test_a_database_that_cannot_be_saved_says_why(home: Home, target: Path, environment: dict[str, str]) -> None:
    fill(home)
    (home.postgres / "local.conf").write_text("max_wal_senders = 0\nmax_replication_slots = 0\n")
    with pytest.raises(CommandFailed, match="replication slots"):
        saved(home, target, environment)
    assert nothing_left(target)


@pytest.mark.promise("IM-12")
def test_a_backup_that_does_not_get_on_ends_when_the_log_that_is_kept_for_it_is_full(
    home: Home, target: Path, environment: dict[str, str]
) -> None:
    fill(home)
    (home.postgres / "local.conf").write_text(
        "max_slot_wal_keep_size = '16MB'\nmin_wal_size = '32MB'\nmax_wal_size = '32MB'\n"
    )
    written = False

    def write_much(_done: int, _of: int) -> None:
        nonlocal written
        if not written:
            written = True
            with psycopg.connect(Postgres(home).url(OWNER_ROLE), autocommit=True) as connection:
                for _ in range(8):
                    connection.execute("select pg_logical_emit_message(false, 'x', repeat('x', 1000))")
                    connection.execute("select pg_switch_wal()")
                connection.execute("checkpoint")

    with stack(home, environment), pytest.raises(DeployError, match="max_slot_wal_keep_size") as refused:
        back_up(home, environment, target, write_much)
    assert refused.value.code == "backup_too_slow"
    assert nothing_left(target)


def test_the_embedded_server_keeps_no_more_than_that_log(home: Home) -> None:
    with running_servers(home.path) as servers, psycopg.connect(servers.database_url_owner) as connection:
        assert connection.execute("show max_slot_wal_keep_size").fetchone() == (LOG_KEPT,)


def test_a_server_that_sends_nothing_is_not_waited_for_for_ever(
    home: Home, target: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home)
    silent = process.LaunchOrder(argv=("/bin/sh", "-c", "exec sleep 60"), environment=environment)
    monkeypatch.setattr(Postgres, "base_backup", lambda _self: silent)
    monkeypatch.setattr(taking, "STALL_BOUND_S", 0.2)
    with pytest.raises(DeployError, match="has sent nothing"):
        saved(home, target, environment)
    assert nothing_left(target)


def test_what_cannot_be_read_is_named_and_not_the_target(
    home: Home, target: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home)
    home.http_token.write_text("secret")
    read = Path.read_bytes

    def unreadable(path: Path) -> bytes:
        if path == home.http_token:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", unreadable)
    with pytest.raises(DeployError, match="http-token: Permission denied") as refused:
        saved(home, target, environment)
    assert refused.value.code == "backup_failed"
    assert str(target) not in str(refused.value)
    assert nothing_left(target)
