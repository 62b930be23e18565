"""Run the embedded servers for a caller: PostgreSQL alone for the length of a block."""

import contextlib
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.postgres import HUNG_SIGNALS, Postgres
from engramq.deploy.local.embedded.postgres import STOP_SIGNALS as POSTGRES_SIGNALS
from engramq.deploy.local.embedded.redis import STOP_SIGNALS as REDIS_SIGNALS
from engramq.deploy.local.embedded.redis import Redis
from engramq.deploy.local.home import DeployError, Home

READY_BOUND_S = 60.0
REAPED_S = 5.0
# For orphans, by the names that a supervisor records: without them PostgreSQL would wait for its clients.
SERVER_SIGNALS: Mapping[str, Sequence[tuple[int, float]]] = {"postgres": HUNG_SIGNALS, "redis": REDIS_SIGNALS}


@contextlib.contextmanager
def running_postgres(home: Home) -> Iterator[Postgres]:
    """Run PostgreSQL alone, for the length of a block, on a home whose lock the caller holds.

    Raises DeployError when it cannot be started; the message has its last log lines.
    """
    server = Postgres(home)
    server.prepare()
    child = process.start(server.launch(), home.logs / "postgres.log")
    try:
        await_ready(server, child, home)
        yield server
    finally:
        stop_server(child, POSTGRES_SIGNALS)
        server.mend()


def await_ready(server: Postgres | Redis, child: subprocess.Popen[bytes], home: Home) -> None:
    """Wait until a server answers; raises DeployError with its last log lines where it does not."""
    ready = process.wait_until(lambda: server.is_ready() or child.poll() is not None, READY_BOUND_S)
    if ready and child.poll() is None:
        return
    name = type(server).__name__.lower()
    last_lines = (home.logs / f"{name}.log").read_text(errors="replace")[-1000:]
    raise DeployError("server_failed", f"{name} did not start:\n{last_lines}")


def stop_server(child: subprocess.Popen[bytes], signals: Sequence[tuple[int, float]]) -> None:
    """Send each signal in turn until the process has ended, and SIGKILL at last."""
    if (who := process.identify(child.pid)) is not None:
        process.end(who, (*signals, (signal.SIGKILL, 5.0)))
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(REAPED_S)  # a leader is a zombie before its threads have ended
