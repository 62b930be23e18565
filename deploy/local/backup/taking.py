"""Take a backup, in one file, while others read and write: a home's database, settings and token."""

import contextlib
import io
import os
import platform
import posixpath
import select
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Final

from engramq.deploy.local import settings
from engramq.deploy.local.backup.archive import CHUNK, ArchiveWriter, Header, members_of
from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.postgres import LOG_KEPT, OWNER_ROLE, Postgres
from engramq.deploy.local.embedded.servers import running_postgres
from engramq.deploy.local.home import DeployError, Home, exists
from engramq.deploy.local.new_file import Unwritable, new_file
from engramq.deploy.local.ownership import lock_home
from engramq.deploy.local.stack_hold import hold_stack
from engramq.workers.admin import Cluster, saving

DATA: Final = "postgres/data"
LOCAL_SETTINGS: Final = "postgres/local.conf"
BESIDE: Final = ("http-token", "embedder", "principal", "projects.json")  # files of the home beside the database
READY_BOUND_S: Final = 180.0
ENDING_BOUND_S: Final = 30.0
STALL_BOUND_S: Final = 300.0  # without a byte: the checkpoint that a backup begins with may take minutes
RETRY_S: Final = 0.05
_LOG_REMOVED: Final = "has already been removed"  # what PostgreSQL says of log that it has kept for long enough

ReportBytes = Callable[[int, int], None]
"""Called with the bytes that are done, and with about how many there are."""


@dataclass(frozen=True)
class TakenBackup:
    """A backup that is whole: what it says of itself, the bytes and files in it, and the bytes of the file."""

    header: Header
    bytes: int
    files: int
    file_bytes: int


def back_up(home: Home, environment: Mapping[str, str], target: Path, report: ReportBytes) -> TakenBackup:
    """Save a home in a file that is not there yet; whether its stack runs or not.

    It holds everything that was acknowledged before it began. `report` hears how far it is.

    Raises DeployError when the home has nothing to save, or a database elsewhere; or something went wrong, and there is
    no such file; CommandFailed when the database is not fit.
    """
    refuse_own_database(environment)
    postgres = Postgres(home)
    if not exists(postgres.data / "PG_VERSION"):
        raise DeployError("nothing_to_save", f"{home.path} holds no memories yet.")
    home.ensure()
    if home.path in target.resolve().parents:
        raise DeployError("backup_unwritable", f"{target} is in the home that it saves.", "Put it elsewhere.")
    try:
        with new_file(target) as out, _serving(home, environment), saving(postgres.url(OWNER_ROLE)) as cluster:
            with ArchiveWriter(out, _header(cluster)) as writer:
                for name in (LOCAL_SETTINGS, *BESIDE):
                    if (file := home.path / name).is_file():
                        text = file.read_bytes()
                        writer.file(name, io.BytesIO(text), len(text))
                _copy_cluster(postgres, writer, lambda done: report(done, cluster.bytes))
            written = out.tell()
    except Unwritable as problem:
        raise DeployError("backup_unwritable", str(problem)) from problem
    except OSError as problem:  # of the home, or of a program; the target's are Unwritable
        raise DeployError(
            "backup_failed", f"The backup failed at {problem.filename or home.path}: {problem.strerror or problem}."
        ) from problem
    return TakenBackup(writer.header, writer.contents.bytes, len(writer.contents.files), written)


def refuse_own_database(environment: Mapping[str, str]) -> None:
    """Raise where memories are on a server of the user's own, which has tools of its own."""
    if environment.get(settings.DATABASE_URL):
        raise DeployError(
            "own_database",
            f"{settings.DATABASE_URL} names a server of your own, and this command is for the embedded one.",
            "docs/backup.md tells how to save and restore yours.",
        )


def this_platform() -> str:
    """Return system and processor, as PostgreSQL's files depend on them."""
    machine = platform.machine().lower()
    return f"{sys.platform}-{ {'amd64': 'x86_64', 'arm64': 'aarch64'}.get(machine, machine) }"


def _header(cluster: Cluster) -> Header:
    return Header(
        engramq=version("engramq"),
        schema=cluster.schema,
        postgresql=cluster.postgresql,
        platform=this_platform(),
        made_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
    )


@contextlib.contextmanager
def _serving(home: Home, environment: Mapping[str, str]) -> Iterator[None]:
    """Have the home's PostgreSQL run within the block: in its running stack, which then stays up, else alone.

    Alone, so that a backup before an upgrade holds what was there before it, and nothing that fails is in its way.
    """
    deadline = time.monotonic() + READY_BOUND_S
    with contextlib.ExitStack() as held:
        while True:
            try:
                left_s = deadline - time.monotonic()
                hold = hold_stack(home, "backup", dict(environment), left_s, starts=False)
                held.enter_context(contextlib.closing(hold))
                break
            except DeployError as error:
                if error.code != "not_running":
                    raise
            try:
                held.callback(os.close, lock_home(home, "engramq backup"))
                held.enter_context(running_postgres(home))
                break
            except DeployError as error:
                # Somebody is just starting it, or stopping it, or takes a backup of it too.
                if error.code != "home_in_use" or time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_S)
        yield


def _copy_cluster(postgres: Postgres, writer: ArchiveWriter, report: Callable[[int], None]) -> None:
    with tempfile.TemporaryFile() as complaints:
        child = process.stream(postgres.base_backup(), complaints)
        assert child.stdout is not None
        try:
            broken = _copy_members(io.BufferedReader(_TimedReader(child.stdout), CHUNK), writer, report)
            failed = child.wait(ENDING_BOUND_S) != 0
        except subprocess.TimeoutExpired:
            broken = failed = True
        except _Stalled:
            raise DeployError(
                "backup_failed",
                f"PostgreSQL has sent nothing for {STALL_BOUND_S:.0f} s.",
                f"See {postgres.home.logs / 'postgres.log'} and the home's disk; then begin again.",
            ) from None
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
        if broken or failed:
            complaints.seek(0)
            raise _ended(postgres.home, complaints.read().decode(errors="replace").strip()[-500:])


def _ended(home: Home, complaint: str) -> DeployError:
    """Return why there is no backup, from the messages of pg_basebackup."""
    if _LOG_REMOVED in complaint:
        return DeployError(
            "backup_too_slow",
            f"More was written while the backup was under way than what the server keeps for it ({LOG_KEPT} of log).",
            f"Write to a faster disk, or raise max_slot_wal_keep_size in {home.postgres / 'local.conf'}.",
        )
    return DeployError(
        "backup_failed",
        f"PostgreSQL ended the backup: {complaint or 'it was stopped'}",
        f"See {home.logs / 'postgres.log'}; if the stack was stopped or started anew meanwhile, begin again.",
    )


class _Stalled(Exception):
    """Nothing has come for too long."""


class _TimedReader(io.RawIOBase):
    """Reads what a program writes, and waits for each part of it no longer than STALL_BOUND_S."""

    def __init__(self, source: IO[bytes]) -> None:
        self._descriptor = source.fileno()
        self._waiting = select.poll()
        self._waiting.register(self._descriptor, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self._waiting.poll(STALL_BOUND_S * 1000):
            raise _Stalled
        return os.readv(self._descriptor, [buffer])


def _copy_members(source: IO[bytes], writer: ArchiveWriter, report: Callable[[int], None]) -> bool:
    """Put what the server sends into the archive; return whether it broke off."""
    done = 0
    writer.folder(DATA)
    try:
        with tarfile.open(fileobj=source, mode="r|", bufsize=CHUNK) as tar:
            for member in members_of(tar):
                name = posixpath.normpath(f"{DATA}/{member.name}")  # some begin with a dot
                if member.isdir():
                    writer.folder(name)
                    continue
                content = tar.extractfile(member) if member.isfile() else None
                if content is None:
                    raise DeployError("backup_failed", f"{member.name} of the database is no file.")
                writer.file(name, content, member.size)
                done += member.size
                report(done)
        while source.read(CHUNK):  # else it would complain of nobody reading its last blocks
            pass
    except (tarfile.TarError, EOFError):
        return True
    return False
