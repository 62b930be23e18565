"""`engramq backup`: a home's database, its owner's settings and its token, in one file, while others read and write."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import posixpath
import secrets
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
from typing import IO, Final

from engramq.deploy import settings
from engramq.deploy.backup.archive import CHUNK, Header, Writer, members_of
from engramq.deploy.client import take_lease
from engramq.deploy.embedded import process
from engramq.deploy.embedded.postgres import OWNER_ROLE, Postgres
from engramq.deploy.embedded.servers import lock_home, running_postgres
from engramq.deploy.home import DeployError, Home
from engramq.workers.cli.cluster import Cluster, saving

PARTIAL: Final = ".partial"  # after the name of a file that is being written
DATA: Final = "postgres/data"
LOCAL_SETTINGS: Final = "postgres/local.conf"
HTTP_TOKEN: Final = "http-token"  # noqa: S105 - the name of a file
READY_BOUND_S: Final = 180.0
ENDING_BOUND_S: Final = 30.0
RETRY_S: Final = 0.05

Tell = Callable[[int, int], None]
"""Called with the bytes that are done, and with about how many there are."""


@dataclass(frozen=True)
class Taken:
    """A backup that is whole: what it says of itself, the bytes and files in it, and the bytes of the file."""

    header: Header
    bytes: int
    files: int
    file_bytes: int


def back_up(home: Home, environment: Mapping[str, str], target: Path, tell: Tell) -> Taken:
    """Save a home in a file that is not there yet; whether its stack runs or not.

    What was acknowledged before this began is in it. `tell` hears how far it is.

    Raises:
        DeployError: the home has nothing to save, or a database elsewhere; or something went wrong, and there is no
            such file.
        CommandFailed: the database is not fit.
    """
    refuse_own_database(environment)
    postgres = Postgres(home)
    if not (postgres.data / "PG_VERSION").exists():
        raise DeployError("nothing_to_save", f"{home.path} holds no memories yet.")
    home.ensure()
    if home.path in target.resolve().parents:
        raise DeployError("backup_unwritable", f"{target} is in the home that it saves.", "Put it elsewhere.")
    with _written(target) as out, _serving(home, environment), saving(postgres.url(OWNER_ROLE)) as cluster:
        with Writer(out, _header(cluster)) as writer:
            _add_text(writer, LOCAL_SETTINGS, home.postgres / "local.conf")
            _add_text(writer, HTTP_TOKEN, home.http_token)
            _copy_cluster(postgres, writer, lambda done: tell(done, cluster.bytes))
        written = out.tell()
    return Taken(writer.header, writer.contents.bytes, len(writer.contents.files), written)


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


def _add_text(writer: Writer, name: str, file: Path) -> None:
    if file.is_file():
        text = file.read_bytes()
        writer.file(name, io.BytesIO(text), len(text))


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
                lease = take_lease(home, "backup", dict(environment), left_s, command=None)
                held.enter_context(contextlib.closing(lease))
                break
            except DeployError as error:
                if error.code != "not_running":
                    raise
            try:
                held.callback(os.close, lock_home(home))
                held.enter_context(running_postgres(home))
                break
            except DeployError as error:
                # Somebody is just starting it, or stopping it, or takes a backup of it too.
                if error.code != "home_in_use" or time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_S)
        yield


def _copy_cluster(postgres: Postgres, writer: Writer, tell: Callable[[int], None]) -> None:
    with tempfile.TemporaryFile() as complaints:
        child = process.stream(postgres.base_backup(), complaints)
        assert child.stdout is not None
        try:
            broken = _copy_members(child.stdout, writer, tell)
            failed = child.wait(ENDING_BOUND_S) != 0
        except subprocess.TimeoutExpired:
            broken = failed = True
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
        if broken or failed:
            complaints.seek(0)
            told = complaints.read().decode(errors="replace").strip()[-500:]
            raise DeployError(
                "backup_failed",
                f"PostgreSQL ended the backup: {told or 'it was stopped'}",
                f"See {postgres.home.logs / 'postgres.log'}; if the stack was stopped or started anew meanwhile, "
                "begin again.",
            )


def _copy_members(source: IO[bytes], writer: Writer, tell: Callable[[int], None]) -> bool:
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
                tell(done)
        while source.read(CHUNK):  # else it would complain of nobody reading its last blocks
            pass
    except (tarfile.TarError, EOFError):
        return True
    return False


@contextlib.contextmanager
def _written(target: Path) -> Iterator[IO[bytes]]:
    """Open what a backup goes to. It has its name once it is whole and on the disk; only its owner may read it."""
    if target.exists():
        raise DeployError("backup_unwritable", f"{target} is there already.", "Give another name, or remove it.")
    partial = target.with_name(f"{target.name}.{secrets.token_hex(4)}{PARTIAL}")  # of this backup alone
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb", CHUNK) as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            partial.replace(target)
            sync_folder(target.absolute().parent)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as problem:
        raise DeployError(
            "backup_unwritable", f"The backup cannot be written to {target}: {problem.strerror or problem}."
        ) from problem


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
