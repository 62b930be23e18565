"""What follows a store: its CPU beside that of the stores, told apart by a worker and a database role of its own."""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from bench.at_size import FEW, Load, Site
from bench.common import await_ready
from bench.processes import cpu_by_kind, cpu_seconds, with_descendants
from bench.settled import Watch
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.db.conninfo import WORKER_ROLE

ROLE: Final = "bench_following"
AFTERWARDS: Final = (WorkerKind.SECTORS, WorkerKind.EDGES, WorkerKind.UPKEEP)
CREATE: Final = sql.SQL("create role {} login in role {}").format(sql.Identifier(ROLE), sql.Identifier(WORKER_ROLE))


def measure_following(at: Site, load: Load) -> None:
    """Let a worker of its own do what follows the stores. Redis's share counts to the stores."""
    with psycopg.connect(at.stack.owner_url, autocommit=True) as connection:
        connection.execute(CREATE)
    at.stack.stop_workers()
    at.stack.start_worker(*(kind for kind in WorkerKind if kind not in AFTERWARDS))
    following = at.stack.start_worker(*AFTERWARDS, role=ROLE)
    await_ready(at.port)
    ratios, stores_ms, following_ms = [], [], []
    with Watch(at.stack) as watch:
        for number in range(-1, load.rounds):  # the first is not counted: models are loaded
            at.stored.clear()
            before, of_following = _cpu(at, watch.pid), _cpu_of(at, following)
            at.at_load(FEW, load.seconds, at.store)
            watch.wait(at.stored)
            theirs = _cpu_of(at, following) - of_following
            stores = _cpu(at, watch.pid) - before - theirs
            if number >= 0:
                ratios.append(theirs / stores)
                stores_ms.append(1000 * stores / len(at.stored))
                following_ms.append(1000 * theirs / len(at.stored))
    at.report.ratio("following_cpu", ratios, store_cpu_ms=statistics.median(stores_ms),
                    following_cpu_ms=statistics.median(following_ms))  # fmt: skip
    at.stack.stop_workers()
    at.stack.start_workers()
    await_ready(at.port)


def _cpu(at: Site, watching: int) -> float:
    """Return the CPU seconds of the whole stack so far; neither client nor watch belongs to it."""
    kinds = {name: kind for name, kind in at.stack.kinds.items() if name != "client"}
    return sum(cpu_by_kind(kinds, without=[watching]).values())


def _cpu_of(at: Site, worker: int) -> float:
    """Return the CPU seconds of the worker that follows, and of the server processes that serve it."""
    return cpu_seconds(with_descendants([worker]), ended=True) + cpu_seconds(_serving(at))


def _serving(at: Site) -> Iterator[int]:
    """Yield the ids of PostgreSQL's processes that serve the role, as their titles say."""
    for pid in with_descendants([at.stack.servers.postgres_process.pid]):
        title = Path(f"/proc/{pid}/cmdline")
        if title.exists() and f"postgres: {ROLE} ".encode() in title.read_bytes():
            yield pid
