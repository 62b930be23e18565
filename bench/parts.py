"""Parts of `bench.all` beside searches, stores and edges: work after stores, stdio, two workers, an import."""

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from bench.at_size import FEW, MANY, NAMESPACE, Load, Site
from bench.common import ENGRAMQ, McpClient, Samples, await_ready, closed_loop
from bench.measured import Round, Watch
from bench.processes import Kind, cpu_by_kind, cpu_seconds, peak_rss_mb, with_descendants
from bench.stack import StdioClient, kinds_of, stack_processes, stdio_client, stop
from bench.yardsticks import batch_rate, shipped_embedder
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.db.conninfo import WORKER_ROLE
from engramq.workers.db.database import Store

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


WARMING: Final = 10  # calls that are not counted


def measure_front(at: Site, load: Load) -> None:
    """Let one client search over stdio; a home of its own has gateway and worker, over the servers that are filled."""
    at.stack.stop_workers()
    with tempfile.TemporaryDirectory(prefix="engramq-bench-", dir="/tmp") as home:
        environment = at.stack.environment(HOME=home, NAMESPACE=NAMESPACE)
        with stdio_client(environment) as client:
            client.initialize()
            client.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
            _search(at, client, WARMING)  # before the status, which fails while no worker lives yet
            home_kinds = kinds_of(stack_processes(environment))
            kinds = {**at.stack.kinds, **home_kinds, "front": Kind((client.process.pid,))}
            rounds = []
            for _ in range(load.rounds):
                before = cpu_by_kind(kinds)
                samples = _search(at, client, load.alone)
                used = {name: after - before[name] for name, after in cpu_by_kind(kinds).items()}
                rounds.append(Round(samples, {name: 1000 * cpu / load.alone for name, cpu in used.items()}))
            at.report.calls("search over stdio", 1, rounds)
        stop(environment)
    at.stack.start_workers()
    await_ready(at.port)


def _search(at: Site, client: StdioClient, calls: int) -> Samples:
    samples, began = Samples(), time.perf_counter()
    for number in range(2, calls + 2):
        started = time.perf_counter()
        reply = client.call(number, "search_memories", query=next(at.questions))
        assert reply["status"] == "success", reply
        samples.latencies_ms.append((time.perf_counter() - started) * 1000)
    samples.seconds = time.perf_counter() - began
    return samples


CORES: Final = 4  # fewer would measure the cores, not the workers


def measure_scaling(at: Site, load: Load) -> None:
    """Let many callers store, with one worker process and with two in turn."""
    if (cores := os.cpu_count() or 1) < CORES:
        at.report.tell("scaling_left_out", needs_cpus=CORES, has_cpus=cores)
        return
    ratios, rates = [], {1: list[float](), 2: list[float]()}
    with Watch(at.stack) as watch:
        for _ in range(load.rounds):
            for workers in (1, 2):
                at.stack.stop_workers()
                at.stack.start_workers(workers)
                await_ready(at.port)
                for counted in (False, True):  # models are loaded first
                    at.stored.clear()
                    per_s = at.at_load(MANY, load.seconds, at.store).per_s
                    watch.wait(at.stored)
                    rates[workers] += [per_s] if counted else []
            ratios.append(rates[2][-1] / rates[1][-1])
    at.report.ratio("workers_2_over_1", ratios, one_per_s=statistics.median(rates[1]),
                    two_per_s=statistics.median(rates[2]))  # fmt: skip


BATCH: Final = 128  # rows, as `engramq import` has by default
YARDSTICK_ROWS: Final = 4 * BATCH
IMPORT_S: Final = 3_600.0
BEFORE_S: Final = 3.0
SLICE_S: Final = 0.5  # of searching while the import runs


def measure_import(at: Site, rows: int) -> None:
    """Import so many rows alone, then as many while one caller searches."""
    contents = at.texts.mixed(rows + 1)
    before = asyncio.run(_batch_rate(at, contents))
    started = time.perf_counter()
    with _importing(at, contents[:rows]) as running:
        running.wait(IMPORT_S)
    seconds = time.perf_counter() - started
    rates = [before, asyncio.run(_batch_rate(at, contents))]
    at.report.ratio("import_rate", [rows / seconds / statistics.mean(rates)], rows=rows, rows_per_s=rows / seconds,
                    embedder_per_s=statistics.mean(rates), found=asyncio.run(_finds(at, contents[rows - 1])),
                    worker_peak_rss_mb=peak_rss_mb(at.stack.kinds["worker"].all_pids()))  # fmt: skip
    _measure_searches_meanwhile(at, at.texts.mixed(rows))


def _measure_searches_meanwhile(at: Site, contents: list[str]) -> None:
    quiet = asyncio.run(closed_loop(at.port, 1, BEFORE_S, at.search))
    busy = Samples()
    with _importing(at, contents) as running:
        while running.poll() is None:
            part = asyncio.run(closed_loop(at.port, 1, SLICE_S, at.search))
            busy.latencies_ms += part.latencies_ms
            busy.failures += part.failures
            busy.seconds += part.seconds
    figures = {"before": quiet.figures(), "during": busy.figures()}
    at.report.ratio("import_p95", [figures["during"]["p95_ms"] / figures["before"]["p95_ms"]], rows=len(contents),
                    before_p95_ms=figures["before"]["p95_ms"], during_p95_ms=figures["during"]["p95_ms"],
                    searches=figures["during"]["calls"], errors=figures["during"]["errors"])  # fmt: skip


@contextmanager
def _importing(at: Site, contents: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run `engramq import` on a file of these; raises when it has failed."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.writelines(json.dumps({"content": content}) + "\n" for content in contents)
        file.flush()
        command = [ENGRAMQ, "import", file.name, "--namespace", NAMESPACE, "--batch", str(BATCH)]
        running = subprocess.Popen(
            command, env=at.stack.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()
            if running.wait():
                raise subprocess.CalledProcessError(running.returncode, command)


async def _batch_rate(at: Site, contents: list[str]) -> float:
    async with await Store.open(at.stack.database_url) as store:
        embedder = await shipped_embedder(store)
    try:
        return await batch_rate(embedder, contents[:YARDSTICK_ROWS], BATCH)
    finally:
        await embedder.aclose()


async def _finds(at: Site, content: str) -> bool:
    """Say whether the last imported row is found by its content."""
    async with McpClient.connect(at.port) as client:
        found: dict[str, Any] = await client.call("search_memories", query=content[:500])
    return any(memory["content"] == content for memory in found["memories"])
