"""Rates, latency, load time and memory of the bundled embedder: `python -m bench.embedding [--seconds 1]`.

Prints one JSON line per figure. Texts are made of common English words, one token each.
"""

import json
import random
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import click
import numpy as np
from anyio import to_thread

from engramq.workers.embedders import bundle
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.interface import Embedder
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.embedders.minilm_session import Arithmetic, Session, TokenEncoder
from engramq.workers.embedders.runs import in_runs

_WORDS = re.findall(
    r"\w+",
    "the of and to in is that for it was on are as with they at be this from have by one had not but what all were "
    "when we there can an your which their said if do will each about how up out them then she many some so these "
    "would other into has more her two like him see time could no make than first been its who now people my made "
    "over did down only way find use may water long little very after words called just where most know",
)
_SPECIAL_TOKENS = 2


def report(figure: str, **values: object) -> None:
    print(json.dumps({"bench": "embedding", "figure": figure, **values}), flush=True)


def resident_mb() -> float | None:
    """Resident memory in MB; None where the system has no /proc."""
    status = Path("/proc/self/statm")
    return round(int(status.read_text().split()[1]) * 4096 / 1e6, 1) if status.exists() else None


class Texts:
    """Never the same text twice, so that no cache answers."""

    def __init__(self) -> None:
        self._random = random.Random(17)

    def of(self, tokens: int) -> str:
        return " ".join(self._random.choices(_WORDS, k=tokens - _SPECIAL_TOKENS))

    def mixed(self, count: int) -> list[str]:
        """Lengths as in conversations: many short, few long."""
        return [self.of(min(240, 5 + int(self._random.expovariate(1 / 40)))) for _ in range(count)]


async def rate(embedder: Embedder, batch: Callable[[], list[str]], seconds: float) -> float:
    """Texts per second, after one batch that is not counted."""
    await embedder.embed(batch())
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        texts = batch()
        await embedder.embed(texts)
        done += len(texts)
    return round(done / (time.perf_counter() - began), 1)


def padding_rates(texts: list[str], rounds: int = 3) -> dict[str, float]:
    """The same tokens three ways, alternating: arrival order, sorted, and sorted in the runs that the embedder makes.

    Below the embedder's interface on purpose: through it, every call is sorted.
    """
    model = Session(bundle.FOLDER, Arithmetic.FLOAT32)
    encoded = TokenEncoder(bundle.FOLDER).encode(texts)
    ways = {
        "unsorted_texts_per_s": _in_runs_of_32(encoded),
        "sorted_texts_per_s": _in_runs_of_32(sorted(encoded, key=len)),
        "shipped_texts_per_s": [[encoded[row] for row in rows] for rows in in_runs([len(ids) for ids in encoded])],
    }
    took: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, runs in ways.items():
            began = time.perf_counter()
            for batch in runs:
                model.run(batch)
            took[way].append(time.perf_counter() - began)
    return {way: round(len(texts) / float(np.median(seconds)), 1) for way, seconds in took.items()}


def _in_runs_of_32(encoded: list[list[int]]) -> list[list[list[int]]]:
    return [encoded[start : start + 32] for start in range(0, len(encoded), 32)]


async def run(seconds: float, queries: int) -> None:
    texts = Texts()
    before = resident_mb()
    inner = MiniLmEmbedder()
    async with BatchingEmbedder(inner) as embedder:
        began = time.perf_counter()
        await embedder.warm()
        report("load", seconds=round(time.perf_counter() - began, 3), rss_before_mb=before, rss_mb=resident_mb())
        for tokens in (15, 60, 200):
            for size in (1, 32):
                per_second = await rate(inner, lambda t=tokens, s=size: [texts.of(t) for _ in range(s)], seconds)  # type: ignore[misc]
                report("rate", tokens=tokens, batch=size, texts_per_s=per_second)
        direct, batched = await query_latency(inner, embedder, texts, queries)
        report("query", inner=direct, batching=batched, ratio_p50=round(batched["p50_ms"] / direct["p50_ms"], 3))
        report("query under bulk", **await under_bulk(embedder, texts, queries))
        report("memory", rss_mb=resident_mb())
    # Last, because it loads a model of its own.
    report("mixed lengths", **await to_thread.run_sync(padding_rates, texts.mixed(256)))


async def query_latency(
    inner: Embedder, embedder: BatchingEmbedder, texts: Texts, queries: int
) -> tuple[dict[str, float], dict[str, float]]:
    """One short text, directly and through BatchingEmbedder, alternating so that both meet the same machine."""
    direct: list[float] = []
    batched: list[float] = []
    for _ in range(queries):
        for ask, took in ((inner.embed, direct), (embedder.embed, batched)):
            text = [texts.of(12)]
            began = time.perf_counter()
            await ask(text)
            took.append((time.perf_counter() - began) * 1000)
    return summary(direct), summary(batched)


async def under_bulk(embedder: BatchingEmbedder, texts: Texts, queries: int) -> dict[str, float]:
    """One short text while an import keeps the embedder busy."""
    took: list[float] = []
    async with anyio.create_task_group() as group:
        group.start_soon(partial(embedder.embed, texts.mixed(20_000), bulk=True))
        await anyio.sleep(0.2)
        for _ in range(min(queries, 50)):
            text = [texts.of(12)]
            began = time.perf_counter()
            await embedder.embed(text)
            took.append((time.perf_counter() - began) * 1000)
        group.cancel_scope.cancel()
    return summary(took)


def summary(took_ms: list[float]) -> dict[str, float]:
    p50, p95 = np.percentile(took_ms, [50, 95])
    return {"p50_ms": round(float(p50), 2), "p95_ms": round(float(p95), 2)}


@click.command()
@click.option("--seconds", default=1.0, show_default=True, help="Time per rate.")
@click.option("--queries", default=200, show_default=True, help="Texts per latency.")
def main(seconds: float, queries: int) -> None:
    """Measure the bundled embedder on this machine."""
    anyio.run(run, seconds, queries)


if __name__ == "__main__":
    main()
