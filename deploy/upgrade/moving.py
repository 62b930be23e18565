"""Moves a home's database to the major version of PostgreSQL that this release brings.

The old server's own programs serve the old files; the new ones dump them, and restore into a new cluster beside. When
every table has as many rows as before, the folders change their names, and the old one stays. Until then the old one is
what it was, so whoever is killed begins anew.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from engramq.deploy.embedded import postgres, process, versions
from engramq.deploy.embedded.postgres import OWNER_ROLE, POSTGRESQL, Postgres, probe
from engramq.deploy.embedded.servers import SERVER_SIGNALS, lock_home
from engramq.deploy.home import PRIVATE, DeployError, Home
from engramq.deploy.supervisor.state import end_predecessor
from engramq.deploy.upgrade.clients import Clients, Rows
from engramq.workers.cli.new_file import sync_folder

OLD_PORT: Final = 5433  # of sockets; 5432 is the one that clients use
NEW_PORT: Final = 5434
START_BOUND_S: Final = 300.0  # the old server may have a crash to recover from
SYNC_BOUND_S: Final = 3_600.0
ROOM: Final = 128 * 2**20  # bytes that a new cluster has beyond what is put into it
UNCHANGED: Final = "The old files are what they were; see upgrade.log in the home's folder logs."

Tell = Callable[[str], None]
"""Called with a sentence on each step."""


@dataclass(frozen=True)
class Moved:
    """A move that is done: the major versions, what was compared, and where the old files are."""

    before: int
    after: int
    tables: int
    rows: int
    kept: Path


def move(home: Home, tell: Tell, given: Path | None = None) -> Moved | None:
    """Move the home's database; None when there is nothing to move. `given`: the old programs' folder.

    Raises:
        DeployError: the home is in use, there are no old programs, no room, or a step failed: then the old files are
            what they were.
    """
    data = home.postgres / "data"
    before = versions.cluster_version(data)
    if before is None or not versions.is_older(data, POSTGRESQL):
        return None
    home.ensure()
    with contextlib.ExitStack() as held:
        held.callback(os.close, lock_home(home))
        server = Postgres(home)
        binaries = versions.old_binaries(before, given)
        _require_room(server.data)
        # A supervisor that was killed may have left its servers.
        end_predecessor(home.state, SERVER_SIGNALS)
        server.mend()
        server.prepare_home()
        server.configure()
        work = _workplace(server)
        tell(f"The database is of PostgreSQL {before}; it is moved to {POSTGRESQL}, which takes minutes for millions.")
        try:
            rows = _dump(server, binaries, work, tell)
            _restore(server, work, rows, tell)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)  # the disk may be full of it
            raise
        kept = _swap(server, work, before)
        counts = [count for tables in rows.values() for count in tables.values()]
        return Moved(before, POSTGRESQL, len(counts), sum(counts), kept)


def _require_room(data: Path) -> None:
    size = sum(path.lstat().st_blocks * 512 for path in data.rglob("*"))
    needed, free = 2 * size + ROOM, shutil.disk_usage(data).free
    if free < needed:
        raise DeployError(
            "no_room",
            f"The move needs {needed / 2**20:,.0f} MB beside the old files, and {free / 2**20:,.0f} MB are free.",
            "Make room, or move the home to another disk (ENGRAMQ_HOME).",
        )


def _workplace(server: Postgres) -> Path:
    """Return an empty folder of the server's account; what a move left there that was broken off goes."""
    work = server.home.postgres / "upgrading"
    for orphan in process.working_in(work / "data", "postgres"):
        process.end(orphan, postgres.STOP_SIGNALS)
    for stale in server.home.postgres_sockets.glob(".s.PGSQL.543[34]*"):
        stale.unlink()
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(server.data.with_name(versions.UPGRADED), ignore_errors=True)
    work.mkdir(mode=PRIVATE)
    os.chown(work, *server.owner)
    return work


@contextlib.contextmanager
def _running(server: Postgres, launch: process.Launch, port: int) -> Iterator[Clients]:
    """Run a server for the length of a block; raises DeployError when it does not start."""
    log = server.home.logs / "upgrade.log"
    child = process.start(launch, log)
    socket = server.socket.with_name(f".s.PGSQL.{port}")
    try:
        process.wait_until(lambda: _answers(socket) or child.poll() is not None, START_BOUND_S)
        if not _answers(socket):
            said = log.read_text(errors="replace")[-500:].strip()
            raise DeployError("upgrade_failed", f"PostgreSQL did not start: {said}", UNCHANGED)
        yield Clients(server, port)
    finally:
        for number, bound_s in postgres.STOP_SIGNALS:
            if child.poll() is None:
                process.signal_group(child.pid, number)
                process.wait_until(lambda: child.poll() is not None, bound_s)


def _answers(socket: Path) -> bool:
    return probe(socket, OWNER_ROLE, "postgres") == "ready"


def _dump(server: Postgres, binaries: Path, work: Path, tell: Tell) -> dict[str, Rows]:
    """Write roles and databases of the old cluster into the workplace; return how many rows its tables have."""
    with _running(server, server.beside(server.data, OLD_PORT, binaries, autovacuum="off"), OLD_PORT) as old:
        tell("The old server runs. Its data are written to a file ...")
        (work / "roles.sql").write_text(old.roles())
        rows: dict[str, Rows] = {}
        for number, database in enumerate(old.databases()):
            old.dump(database, work / f"{number}.dump")
            rows[database] = old.rows(database)
        return rows


def _restore(server: Postgres, work: Path, rows: dict[str, Rows], tell: Tell) -> None:
    """Make a new cluster in the workplace, fill it, and compare; it is on the disk when this returns."""
    data = work / "data"
    server.make_cluster(data)
    # Unsynced until it is whole: a power cut in between costs another try.
    launch = server.beside(
        data, NEW_PORT, fsync="off", autovacuum="off", max_wal_size="4GB", maintenance_work_mem="256MB"
    )
    with _running(server, launch, NEW_PORT) as new:
        tell("The new server runs. It reads them, and builds its indexes ...")
        new.make_roles((work / "roles.sql").read_text())
        for number, (database, before) in enumerate(rows.items()):
            new.restore(database, work / f"{number}.dump")
            after = new.rows(database)
            if after != before:
                differing = sorted(
                    table for table in before.keys() | after.keys() if before.get(table) != after.get(table)
                )
                raise DeployError("upgrade_failed", f"Tables differ after the move: {', '.join(differing)}.", UNCHANGED)
    synced = process.run(server.sync(data), SYNC_BOUND_S)
    if synced.returncode != 0:
        raise DeployError(
            "upgrade_failed", f"The new files cannot be synced: {synced.stderr.strip()[-300:]}", UNCHANGED
        )


def _swap(server: Postgres, work: Path, before: int) -> Path:
    """Give the new cluster the old one's name; return the one that the old one has now."""
    data = server.data
    kept = data.with_name(f"data.before-{POSTGRESQL}-of-{before}")
    if kept.exists():
        kept = kept.with_name(f"{kept.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    upgraded = data.with_name(versions.UPGRADED)
    (work / "data").rename(upgraded)
    sync_folder(data.parent)
    data.rename(kept)
    # Killed here, the next start does what follows: see versions.settle.
    upgraded.rename(data)
    sync_folder(data.parent)
    shutil.rmtree(work, ignore_errors=True)
    return kept
