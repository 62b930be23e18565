"""An import beside the embedder's own batch rate, and what it does to somebody who searches meanwhile."""

import asyncio
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from bench.at_size import NAMESPACE, Site
from bench.common import ENGRAMQ, McpClient, Samples, closed_loop
from bench.processes import peak_rss_mb
from bench.yardsticks import batch_rate, shipped_embedder
from engramq.workers.db.database import Store

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
