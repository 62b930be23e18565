"""What idle tenants cost: `python -m bench.idle_tenants`. Linux only (reads /proc).

Runs PostgreSQL, Redis and one worker of the kinds upkeep and recall over so many namespaces, none of which is in use.
Prints a JSON line for each count: the CPU time of worker and PostgreSQL as a share of one core. Each namespace has one
memory that is finished. What a first look at everything costs is over before the measurement begins.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from bench.common import emit
from bench.processes import cpu_seconds, with_descendants
from engramq.deploy.embedded.servers import Servers, running_servers
from engramq.workers.db.conninfo import WORKER_ROLE
from engramq.workers.db.migrate import migrate

KINDS: Final = ("upkeep", "recall")
END_S: Final = 20.0
MODEL: Final = "select register_embedding_model('idle', '', 384)"
TENANTS: Final = "select count(make_tenant('idle-' || n)) from generate_series(1, %s) as n"
NODES: Final = """
    insert into nodes (id, tenant, label, partition)
    select gen_random_uuid(), tenant, 'Memory', 'trusted' from namespaces
"""
MEMORIES: Final = """
    insert into memories (
        node_id, partition, tenant, content, confidence, source, verification, state, created_by, created_at, lexemes,
        embedding, model_id, sector, sector_source, links_made_at
    )
    select
        n.id, 'trusted', n.tenant, 'a fact', 1, 'extracted', 'unverified', 'active', 'bench', now() - interval '1 hour',
        memory_lexemes(n.tenant, 'a fact', null, null), array_fill(0.05::real, array[384])::vector::halfvec, %s,
        'semantic', 'auto', now()
    from nodes n
"""


def fill(url: str, tenants: int) -> None:
    """Make so many namespaces with a finished memory each, last changed an hour ago."""
    with psycopg.connect(url, autocommit=True) as connection:
        (model,) = connection.execute(MODEL).fetchone() or (None,)
        connection.execute(TENANTS, [tenants])
        connection.execute(NODES)
        connection.execute(MEMORIES, [model])
        connection.execute("vacuum analyze")


@contextmanager
def worker(servers: Servers, home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker of these kinds."""
    environment = {
        **os.environ,
        "ENGRAMQ_DATABASE_URL": servers.postgres.url(WORKER_ROLE),
        "ENGRAMQ_REDIS_URL": servers.redis_url,
        "ENGRAMQ_EMBEDDER": "hash",
        "ENGRAMQ_HOME": str(home),
    }
    with (home / "worker.log").open("wb") as log:
        started = subprocess.Popen(
            [sys.executable, "-m", "engramq", "worker", *KINDS], env=environment, stdout=log, stderr=log
        )
    try:
        yield started
    finally:
        started.terminate()
        started.wait(END_S)


def measure(tenants: int, *, settle_s: float, over_s: float) -> None:
    """Print what so many idle namespaces cost over a while."""
    with tempfile.TemporaryDirectory(prefix="engramq-bench-") as folder:
        home = Path(folder)
        with running_servers(home) as servers:
            asyncio.run(migrate(servers.database_url_owner))
            fill(servers.database_url_owner, tenants)
            with worker(servers, home) as process:
                time.sleep(settle_s)
                if process.poll() is not None:
                    raise RuntimeError((home / "worker.log").read_text(errors="replace")[-2000:])
                before, began = _used(servers, process), time.perf_counter()
                time.sleep(over_s)
                used, elapsed = _used(servers, process) - before, time.perf_counter() - began
    emit("idle_tenants", "idle_cpu", tenants=tenants, over_s=elapsed, percent_of_a_core=100 * used / elapsed)


def _used(servers: Servers, process: "subprocess.Popen[bytes]") -> float:
    """Return the CPU seconds so far; PostgreSQL's with those of sessions that are gone."""
    below = with_descendants([servers.postgres_process.pid])
    return cpu_seconds([process.pid]) + cpu_seconds(below, ended=True)


def main() -> None:
    """Measure for each count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", default="10,1000,5000")
    parser.add_argument("--settle-s", type=float, default=75.0, help="longer than all work takes its first turn")
    parser.add_argument("--over-s", type=float, default=60.0)
    chosen = parser.parse_args()
    for tenants in map(int, chosen.tenants.split(",")):
        measure(tenants, settle_s=chosen.settle_s, over_s=chosen.over_s)


if __name__ == "__main__":
    main()
