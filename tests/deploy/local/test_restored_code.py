"""What a restored database can run is compared with this release's own before any of it runs (security finding 10)."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from engramq.deploy.cli import main
from engramq.deploy.local.backup import code
from engramq.deploy.local.backup.code import foreign_code
from engramq.deploy.local.backup.restoring import restore_backup, verify_backup
from engramq.deploy.local.backup.taking import back_up
from engramq.deploy.local.embedded.postgres import OWNER_ROLE
from engramq.deploy.local.embedded.servers import running_postgres
from engramq.deploy.local.home import DeployError, Home
from engramq.schemas.command_line import ExitCode
from engramq.workers.migrating import migrate, run

pytestmark = pytest.mark.timeout(120)

# What the trap leaves says in which data folder it ran: the sessions of a probe that gave up may end long after it.
HOSTILE = """
    create function login_trap() returns event_trigger language plpgsql as $$
        begin copy (select 1) to program 'touch {0}$(pwd -P | tr / -)'; end $$;
    create event trigger trap on login execute function login_trap();
    alter event trigger trap enable always;
    create or replace function audit_ids_kept() returns bigint language sql immutable parallel safe return 1;
"""
NAMED = ("event trigger trap", "function public.audit_ids_kept()", "function public.login_trap()")


def report(_done: int, _of: int) -> None:
    """Nobody hears how far it is."""


@pytest.fixture(scope="module", autouse=True)
def own_code() -> Iterator[None]:
    """Read once what this release's database has, which makes one: nine times it took most of these tests' time."""
    read = code._own_code
    known: list[dict[str, str]] = []

    def read_once(home: Home) -> dict[str, str]:
        known.extend([] if known else [read(home)])
        return known[0]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(code, "_own_code", read_once)
        yield


@pytest.fixture
def folder() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="eq-"))  # short, for sockets
    place.chmod(0o711)
    yield place
    shutil.rmtree(place)


def a_home(folder: Path, statements: str = "") -> Home:
    """Make a home with this release's database, changed by these statements at the end."""
    home = Home(folder / "home")
    home.ensure()
    with running_postgres(home) as server:
        run(migrate(server.url(OWNER_ROLE)))
        if statements:
            with psycopg.connect(server.url(OWNER_ROLE), autocommit=True) as owner:
                owner.execute("set event_triggers = off")
                owner.execute(statements)
    return home


@pytest.mark.parametrize("beside", ["", "create database postgres"], ids=["now", "of_an_earlier_home"])
def test_the_releases_own_database_has_no_foreign_code(folder: Path, beside: str) -> None:
    file = folder / "own.backup"
    back_up(a_home(folder, beside), {}, file, report)
    assert verify_backup(file, report).code == ()
    restored = Home(folder / "restored")
    assert restore_backup(restored, {}, file, report, force=False).code == ()
    restored.ensure()
    with running_postgres(restored) as server, psycopg.connect(server.url(OWNER_ROLE)) as owner:
        assert owner.execute("select count(*) from schema_migrations").fetchone() is not None
    assert not (restored.postgres / "examined").exists()


def test_event_triggers_and_functions_of_others_are_named_and_refused_before_they_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "hostile.backup"
    home = a_home(folder, HOSTILE.format(folder / "ran"))
    back_up(home, {}, file, report)
    monkeypatch.setenv("ENGRAMQ_HOME", str(folder / "restored"))
    assert main(["restore", str(file), "--check"]) == ExitCode.DONE
    assert ", ".join(NAMED) in capsys.readouterr().err
    assert verify_backup(file, report).code == NAMED
    restored = Home(folder / "restored")
    with pytest.raises(DeployError) as refused:
        restore_backup(restored, {}, file, report, force=False)
    assert refused.value.code == "foreign_code"
    assert ", ".join(NAMED) in str(refused.value)
    assert not restored.postgres.exists()
    assert not restored.restoring.exists()
    assert restore_backup(restored, {}, file, report, force=False, trust_code=True).code == NAMED
    own = str((home.postgres / "data").resolve()).replace("/", "-")  # on the machine of the one who made it it may run
    assert [file.name for file in folder.glob("ran*")] == [f"ran{own}"]


def test_files_that_give_a_server_orders_are_foreign_and_settings_stay_as_they_were(folder: Path) -> None:
    ran, data = folder / "ran", a_home(folder).postgres / "data"
    settings = f"archive_mode = 'on'\narchive_command = 'touch {ran}'\nshared_preload_libraries = 'none_such'\n"
    (data / "postgresql.auto.conf").write_text(settings)
    assert foreign_code(data) == ()
    assert (data / "postgresql.auto.conf").read_text() == settings
    (data / "recovery.signal").touch()
    assert foreign_code(data) == ("file recovery.signal",)
    assert not ran.exists()
