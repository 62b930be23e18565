"""PgBouncer before a PostgreSQL, on a port of its own: killed, started again, told how to pool."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.postgres import OWNER_ROLE
from engramq.workers.db.conninfo import WORKER_ROLE
from tests.faults.world import free_port
from tests.scale.binaries import find
from tests.scale.conftest import ENVIRONMENT
from tests.scale.standby import DATABASE, PostgresServer

BOUND_S: Final = 10.0
SERVERS: Final = 4  # connections to PostgreSQL, fewer than workers have callers: sessions change hands all the time


class PgBouncer:
    """One process, with a folder that the account it runs as can write to."""

    def __init__(self, folder: Path, server: PostgresServer, **given: str) -> None:
        self.port = free_port()
        self._folder = folder
        self._log = folder / "pgbouncer.log"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "users").write_text("".join(f'"{user}" ""\n' for user in (WORKER_ROLE, OWNER_ROLE)))
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(folder / "users"),
            "pool_mode": "transaction",
            "default_pool_size": str(SERVERS),
            "max_client_conn": "300",
            "server_login_retry": "0.2",
            "logfile": str(self._log),
            **({"user": "nobody"} if os.geteuid() == 0 else {}),
            **given,
        }
        words = "\n".join(f"{name} = {value}" for name, value in settings.items())
        databases = f"[databases]\n* = host=127.0.0.1 port={server.port}\n"
        (folder / "pgbouncer.ini").write_text(f"{databases}[pgbouncer]\n{words}\n")
        if os.geteuid() == 0:
            folder.chmod(0o777)

    def url(self, role: str = WORKER_ROLE, database: str = DATABASE) -> str:
        return f"postgresql://{role}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        program = shutil.which("pgbouncer") or find("pgbouncer", ENVIRONMENT)
        assert program is not None, "there is no pgbouncer: run `make test-scale`"
        libraries = ENVIRONMENT / "root" / "usr" / "lib"
        found = ":".join(str(path) for path in (libraries, *libraries.glob("*-linux-gnu")))
        environment = {**os.environ, "LD_LIBRARY_PATH": found}
        with self._log.open("ab") as log:
            if os.geteuid() == 0:
                self._log.chmod(0o666)
            self._process = subprocess.Popen(
                [program, "-q", str(self._folder / "pgbouncer.ini")], stdout=log, stderr=log, env=environment
            )
        assert process.wait_until(self._answers, BOUND_S), self.log()

    def _answers(self) -> bool:
        try:
            with psycopg.connect(f"{self.url(OWNER_ROLE)}?connect_timeout=2", autocommit=True):
                return True
        except psycopg.OperationalError:
            return False

    def log(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(BOUND_S)
            self._process = None


@contextmanager
def pooler(server: PostgresServer, **given: str) -> Iterator[PgBouncer]:
    """Run PgBouncer before a server for as long as the block lasts; `given` are settings of its own."""
    folder = Path(tempfile.mkdtemp(prefix="eq-pgb-"))
    bouncer = PgBouncer(folder, server, **given)
    try:
        bouncer.start()
        yield bouncer
    finally:
        bouncer.kill()
        shutil.rmtree(folder, ignore_errors=True)
