"""Make a home of a backup, after all of the backup was found to be as it was written: `engramq restore`.

The database is written beside its place, under a name that every start refuses, and renamed when it is whole and on the
disk. So a home that was being restored is what it was before, named as unfinished, or restored.
"""

import contextlib
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from engramq.deploy.local.backup import taking
from engramq.deploy.local.backup.archive import CHUNK, ArchiveContents, ArchiveReader, Damaged, Header
from engramq.deploy.local.backup.code import foreign_code
from engramq.deploy.local.embedded.postgres import POSTGRESQL, Postgres
from engramq.deploy.local.home import PRIVATE, DeployError, Home
from engramq.deploy.local.hooks.notes import start_over
from engramq.deploy.local.new_file import sync_folder
from engramq.deploy.local.ownership import lock_home
from engramq.deploy.local.supervisor.state import end_predecessor
from engramq.workers.migrating import newest_schema

BLOCK: Final = 4096  # bytes that a file takes at least
FIRST_START_BYTES: Final = 64 * 2**20  # bytes that a first start needs beyond what it was given
AUTO_SETTINGS: Final = f"{taking.DATA}/postgresql.auto.conf"  # what ALTER SYSTEM has written
_PLACE: Final = "postgres/"
_DATA_FOLDER: Final = taking.DATA.removeprefix(_PLACE)
CODE_SHOWN: Final = 20  # names


@dataclass(frozen=True)
class RestoredBackup:
    """The restored (or verified) backup: its header, bytes and files, and where the old data are now, if any were.

    `settings`: the files in it that set something of the server; settings can name programs that it runs. `code`: what
    its database can run that a database of this release has not.
    """

    header: Header
    bytes: int
    files: int
    settings: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    moved_to: Path | None = None


def verify_backup(file: Path, report: taking.ReportBytes) -> RestoredBackup:
    """Read all of a backup, and return what it holds when this release can restore it here.

    It is unpacked beside the system's other temporary files, to see what its database can run.

    Raises DeployError when it cannot be read, is cut, damaged, or for another release, server or machine.
    """
    with _open_backup(file) as source:
        reader = ArchiveReader(source)
        contents, settings = _verify_contents(reader, source, report)
        with tempfile.TemporaryDirectory(prefix="eq-") as folder:
            scratch = Home(Path(folder))
            _require_space(scratch, contents, "Make room, or set TMPDIR to a folder on another disk.")
            _unpack(reader, scratch, contents, report)
            code = foreign_code(scratch.restoring / _DATA_FOLDER)
        return RestoredBackup(reader.header, contents.bytes, len(contents.files), settings, code)


def restore_backup(
    home: Home,
    environment: Mapping[str, str],
    file: Path,
    report: taking.ReportBytes,
    *,
    force: bool,
    trust_code: bool = False,
) -> RestoredBackup:
    """Make a home of a backup. With `force` what the home holds is moved aside within it first.

    Raises DeployError as `verify_backup` does, and when its database can run what this release's cannot without
    `trust_code`, the home is in use or holds something, or there is no room: then nothing was changed. Where it
    could not be written to, what there was still is, or is named.
    """
    taking.refuse_own_database(environment)
    with _open_backup(file) as source, contextlib.ExitStack() as held:
        try:
            there = home.path.exists()
            if there:
                _lock_unused(home, held, force=force)
            reader = ArchiveReader(source)
            contents, settings = _verify_contents(reader, source, report)
            _require_space(home, contents, "Make room, or set ENGRAMQ_HOME to a folder on another disk.")
            if not there:
                home.path.mkdir(mode=PRIVATE, parents=True)
                _lock_unused(home, held, force=force)
            _unpack(reader, home, contents, report)
            code = _judge_code(home, trust_code=trust_code)
            moved_to = _put_in_place(home)
        except OSError as problem:
            raise DeployError(
                "restore_failed", f"{problem.filename or home.path}: {problem.strerror or problem}."
            ) from problem
        return RestoredBackup(reader.header, contents.bytes, len(contents.files), settings, code, moved_to)


def _judge_code(home: Home, *, trust_code: bool) -> tuple[str, ...]:
    """Return what the unpacked database can run that this release's cannot; raises DeployError unless it is trusted."""
    try:
        code = foreign_code(home.restoring / _DATA_FOLDER)
        sync_folder(home.restoring)
        if code and not trust_code:
            raise DeployError(
                "foreign_code",
                f"Its database can run what a database of this engramq has not: {named_code(code)}.",
                "Restore only what you trust: see what it is, then give --trust-code.",
            )
    except BaseException:
        shutil.rmtree(home.restoring, ignore_errors=True)
        raise
    return code


def named_code(code: Sequence[str]) -> str:
    """Return the names of code, some of them where they are many."""
    more = f" and {len(code) - CODE_SHOWN} more" if len(code) > CODE_SHOWN else ""
    return ", ".join(code[:CODE_SHOWN]) + more


class _BackupFile(io.FileIO):
    """A file whose errors are reported with its name."""

    def readinto(self, buffer: Any, /) -> int | None:
        try:
            return super().readinto(buffer)
        except OSError as problem:
            raise _unreadable(Path(str(self.name)), problem) from problem


@contextlib.contextmanager
def _open_backup(file: Path) -> Iterator[IO[bytes]]:
    try:
        kind = file.stat().st_mode
        if not stat.S_ISREG(kind):
            raise DeployError(
                "backup_unreadable",
                f"{file} is no regular file, and a backup is read twice.",
                "Write it to a file first, and restore that.",
            )
        raw = _BackupFile(file)
    except OSError as problem:
        raise _unreadable(file, problem) from problem
    with io.BufferedReader(raw, CHUNK) as source:
        yield source


def _unreadable(file: Path, problem: OSError) -> DeployError:
    return DeployError("backup_unreadable", f"{file} cannot be read: {problem.strerror or problem}.")


def _sets_something(text: bytes) -> bool:
    """Whether a file of settings has more than comments."""
    return any(line.strip() and not line.strip().startswith(b"#") for line in text.splitlines())


def _verify_contents(
    reader: ArchiveReader, source: IO[bytes], report: taking.ReportBytes
) -> tuple[ArchiveContents, tuple[str, ...]]:
    """Read all of it; return what it holds, and those of its files that set something of the server."""
    _refuse_unfit(reader.header)
    whole = os.fstat(source.fileno()).st_size
    contents, settings = ArchiveContents(), list[str]()
    for entry in reader.entries():
        if entry.name not in (taking.LOCAL_SETTINGS, *taking.BESIDE, taking.DATA) and not entry.name.startswith(
            f"{taking.DATA}/"
        ):
            raise Damaged(f"it names {entry.name!r}")
        if entry.chunks is None:
            contents.folders.append(entry.name)
            continue
        size, sets = 0, entry.name == taking.LOCAL_SETTINGS
        for chunk in entry.chunks:
            size += len(chunk)
            sets = sets or (entry.name == AUTO_SETTINGS and _sets_something(chunk))
            report(source.tell(), whole)
        if sets:
            settings.append(entry.name)
        contents.files[entry.name] = {"bytes": size}
    if f"{taking.DATA}/PG_VERSION" not in contents.files:
        raise Damaged("there is no database in it")
    return contents, tuple(sorted(settings))


def _refuse_unfit(header: Header) -> None:
    known = newest_schema()
    if header.schema > known:
        raise DeployError(
            "backup_newer",
            f"The backup has schema {header.schema}, made by engramq {header.engramq}; this one knows {known}.",
            "Install that release of engramq, or a later one.",
        )
    elsewhere = (
        "restore it there, and bring over what it holds: engramq export there, engramq import here, for each namespace."
    )
    if header.postgresql != POSTGRESQL:
        raise DeployError(
            "other_postgres",
            f"The backup is of PostgreSQL {header.postgresql}; this engramq brings PostgreSQL {POSTGRESQL}.",
            f"Install engramq {header.engramq} beside, {elsewhere}",
        )
    if header.platform != taking.this_platform():
        raise DeployError(
            "other_platform",
            f"The backup was made on {header.platform}; PostgreSQL's files do not fit {taking.this_platform()}.",
            f"On a machine of that kind {elsewhere}",
        )


def _lock_unused(home: Home, held: contextlib.ExitStack, *, force: bool) -> None:
    """Keep every stack away from the home while `held` is; refuse one that runs or holds something."""
    home.refuse_others()
    held.callback(os.close, lock_home(home, "engramq restore"))
    if _is_used(home.postgres) or _is_used(home.redis):
        if not force:
            raise DeployError(
                "home_not_empty",
                f"{home.path} holds memories.",
                "Choose another ENGRAMQ_HOME; or give --force, which moves them aside and deletes nothing.",
            )
        # A supervisor that was killed may have left its servers.
        end_predecessor(home)
        Postgres(home).mend()


def _is_used(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except FileNotFoundError:
        return False


def _require_space(home: Home, contents: ArchiveContents, otherwise: str) -> None:
    needed = sum(-(-int(file["bytes"]) // BLOCK) * BLOCK for file in contents.files.values())
    needed += BLOCK * len(contents.folders) + FIRST_START_BYTES
    place = next(folder for folder in (home.path, *home.path.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if _is_used(home.restoring):
        free += sum(path.lstat().st_blocks * 512 for path in home.restoring.rglob("*"))  # a broken-off one goes first
    if free < needed:
        raise DeployError(
            "no_room",
            f"The backup needs {needed / 2**20:,.0f} MB, and {free / 2**20:,.0f} MB are free in {place}.",
            otherwise,
        )


def _unpack(reader: ArchiveReader, home: Home, contents: ArchiveContents, report: taking.ReportBytes) -> None:
    """Write all of it into the folder for the unfinished, and from there to the disk."""
    shutil.rmtree(home.restoring, ignore_errors=True)  # what one left that was broken off
    home.restoring.mkdir(mode=PRIVATE)
    written = 0

    def count(size: int) -> None:
        nonlocal written
        written += size
        report(written, contents.bytes)

    try:
        for entry in reader.entries():
            path = home.restoring / entry.name.removeprefix(_PLACE)
            if entry.chunks is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                _write(path, entry.chunks, count)
    except BaseException:
        # The file is another one by now, the disk is full, or somebody pressed Ctrl-C: what was there before still is.
        shutil.rmtree(home.restoring, ignore_errors=True)
        raise
    for folder, _, files in os.walk(home.restoring):
        Path(folder).chmod(PRIVATE)
        for name in files:
            with Path(folder, name).open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(folder))


def _write(path: Path, chunks: Iterator[bytes], count: Callable[[int], None]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        for chunk in chunks:
            out.write(chunk)
            count(len(chunk))


def _put_in_place(home: Home) -> Path | None:
    """Move aside what is in the way, and give the restored database its name; return where the former data are."""
    moved_to = None
    start_over(home)  # what hooks noted as captured may be in the former data alone
    places = {home.restoring / name: home.path / name for name in taking.BESIDE}
    beside = {restored: place for restored, place in places.items() if restored.exists()}
    of_data = {home.embedder, home.principal}  # of the former data, whatever the backup has
    in_the_way = [folder for folder in (home.redis, home.postgres) if _is_used(folder)]
    if in_the_way:
        in_the_way[:0] = [place for place in sorted(of_data | {*beside.values()}) if place.exists()]
        moved_to = home.path / f"replaced-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
        moved_to.mkdir(mode=PRIVATE)
        for former in in_the_way:
            former.rename(moved_to / former.name)
        sync_folder(moved_to)
    elif home.postgres.exists():
        home.postgres.rmdir()
    for stale in of_data:
        stale.unlink(missing_ok=True)
    for restored, place in beside.items():
        restored.replace(place)
    home.restoring.rename(home.postgres)
    sync_folder(home.path)
    return moved_to
