"""PostgreSQL on TCP ports of its own: a primary and the standbys that follow it, stopped, killed and promoted.

The programs are those that engramq embeds. Each server trusts whoever reaches its port on this machine.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.postgres import OWNER_ROLE, Postgres
from engramq.deploy.local.home import Home
from engramq.workers.db.conninfo import WORKER_ROLE
from tests.faults.world import free_port

BOUND_S: Final = 30.0
DATABASE: Final = "engramq"


class PostgresServer:
    """One server on a cluster in `data`, as its superuser sees it."""

    def __init__(self, programs: Postgres, data: Path, port: int | None = None) -> None:
        self._programs = programs
        self.data = data
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._copies: list[PostgresServer] = []

    def url(self, role: str = WORKER_ROLE, database: str = DATABASE) -> str:
        return f"postgresql://{role}@127.0.0.1:{self.port}/{database}"

    @property
    def socket(self) -> Path:
        return self._programs.home.postgres_sockets / f".s.PGSQL.{self.port}"

    @property
    def owner_url(self) -> str:
        return self.url(OWNER_ROLE)

    def start(self, **given: str) -> None:
        """Start with these settings and return when it answers reads."""
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self._programs.home.postgres_sockets),
            "unix_socket_permissions": "0700",
            "hba_file": str(self._programs.home.postgres / "trusting.hba"),
            "ident_file": str(self._programs.home.postgres / "engramq.ident"),
            "dynamic_shared_memory_type": "mmap",
            "fsync": "off",
            "wal_level": "replica",
            "max_wal_senders": "10",
            "hot_standby": "on",
            "hot_standby_feedback": "on",
            # A standby must have room for at least as many as its primary.
            "max_connections": "150",
            "wal_receiver_status_interval": "1s",
            **given,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        launch = self._programs.program("postgres", "-D", str(self.data), *options)
        self._process = process.start(launch, self.data.parent / f"{self.data.name}.log")
        assert process.wait_until(self._answers, BOUND_S), (self.data.parent / f"{self.data.name}.log").read_text()

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.url(OWNER_ROLE, "postgres"), connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False

    def ask(self, query: str, *values: Any, database: str = DATABASE) -> list[dict[str, Any]]:
        """Run a query as the superuser."""
        with psycopg.connect(self.url(OWNER_ROLE, database), autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def kill(self) -> None:
        """End it as a crash would: its processes end when they see that the first one is gone."""
        if self._process is None:
            return
        for item in process.working_in(self.data, "postgres"):
            os.kill(item.pid, signal.SIGKILL)
        self._process.wait(BOUND_S)
        self._process = None
        assert process.wait_until(lambda: not process.working_in(self.data, "postgres"), BOUND_S)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def pause(self) -> None:
        """Let it answer nobody, without closing any connection."""
        for item in process.working_in(self.data, "postgres"):
            os.kill(item.pid, signal.SIGSTOP)

    def resume(self) -> None:
        for item in process.working_in(self.data, "postgres"):
            os.kill(item.pid, signal.SIGCONT)

    def standby(self, name: str) -> "PostgresServer":
        """Copy the cluster to follow this one."""
        copy = self.data.with_name(name)
        done = process.run(
            self._programs.by_caller(
                "pg_basebackup", f"--pgdata={copy}", f"--port={self.port}", "--checkpoint=fast", "--no-sync",
                "--write-recovery-conf", "--wal-method=stream",
            ),
            BOUND_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        if os.geteuid() == 0:
            for path in (copy, *copy.rglob("*")):
                os.chown(path, *self._programs.account.owner, follow_symlinks=False)
        with (copy / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = 'host=127.0.0.1 port={self.port} user={OWNER_ROLE}'\n")
        self._copies.append(PostgresServer(self._programs, copy))
        return self._copies[-1]

    def end(self) -> None:
        """End it, and its copies with it."""
        for copy in self._copies:
            copy.end()
        self.kill()

    def promote(self) -> None:
        """Make it a primary and return when it is."""
        self.ask("select pg_promote(true, 30)", database="postgres")

    def log(self) -> str:
        return (self.data.parent / f"{self.data.name}.log").read_text()


@contextmanager
def primary(**given: str) -> Iterator[PostgresServer]:
    """Run a server with an empty database for as long as the block lasts; standbys made of it go with it."""
    folder = Path(tempfile.mkdtemp(prefix="eq-pg-"))
    home = Home(folder / "home")
    home.ensure()
    programs = Postgres(home, fsync=False)
    server = PostgresServer(programs, programs.data)
    try:
        programs.prepare()
        hba = home.postgres / "trusting.hba"
        hba.write_text("local all all trust\nhost all all 127.0.0.1/32 trust\n"
                       "local replication all trust\nhost replication all 127.0.0.1/32 trust\n")  # fmt: skip
        if os.geteuid() == 0:
            os.chown(hba, *programs.account.owner)
        server.start(**given)
        server.ask(f"create database {DATABASE}", database="postgres")
        yield server
    finally:
        server.end()
        shutil.rmtree(folder, ignore_errors=True)
