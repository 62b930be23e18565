"""Near-duplicates of a whole namespace: how long `engramq duplicates` takes, what it finds, what a searcher feels.

    python -m bench.duplicates [--memories 20000] [--exact 2000]

So many made-up sentences are loaded, of which some are there twice with an article and a mark more, some word for word,
and one many times. They are listed, while one caller searches, then merged. Before that as many as `--exact` says, each
compared with each by the same rules too. The embedder is `hash`. Prints JSON lines.
"""

import argparse
import asyncio
import json
import random
import subprocess
import tempfile
import time
from typing import Any, Final
from uuid import UUID

import psycopg

from bench.common import ENGRAMQ, McpClient, PrivateStack, Samples, closed_loop, emit, private_stack
from bench.processes import peak_rss_mb
from bench.synthetic import half
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE
from engramq.workers.db.database import Store
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.memories.duplicate_rules import groups
from engramq.workers.memories.duplicates import compared, read_compared
from tools.loading import Loaded, load

BENCH: Final = "duplicates"
VOCABULARY: Final = 5_000
LENGTH: Final = (12, 24)  # words of a sentence
NEAR_SHARE, EQUAL_SHARE, HEAP_SHARE = 0.02, 0.01, 0.02
SLICE_S: Final = 0.5  # of searching while it runs
IDS: Final = b"select node_id, model_id from memories where state = 'active' and superseded_by is null"


def sentences(count: int, seed: int) -> list[str]:
    """Return so many sentences, some of which say the same."""
    dice = random.Random(seed)
    words = ["".join(dice.choice("bdfgklmnprstvz") + dice.choice("aeiou") for _ in range(4)) for _ in range(VOCABULARY)]
    made: list[str] = []
    near, equal, heap = (int(share * count) for share in (NEAR_SHARE, EQUAL_SHARE, HEAP_SHARE))
    while len(made) < count - near - equal - heap:
        made.append(" ".join(dice.choices(words, k=dice.randint(*LENGTH))))
    made += [f"The {text}." for text in dice.sample(made, near)]
    made += dice.sample(made, equal) + [made[0]] * heap
    dice.shuffle(made)
    return made


def measured(stack: PrivateStack, port: int, *arguments: str) -> tuple[dict[str, Any], float, Samples]:
    """Run the command while one caller searches; return what it printed, how long it took, and the searches."""
    samples = Samples()
    with tempfile.TemporaryFile() as printed:
        started = time.perf_counter()
        command = [ENGRAMQ, "duplicates", "--json", *arguments]
        child = subprocess.Popen(command, env=stack.environment(), stdout=printed)
        while child.poll() is None:
            part = asyncio.run(closed_loop(port, 1, SLICE_S, search))
            samples.latencies_ms += part.latencies_ms
            samples.failures += part.failures
            samples.seconds += part.seconds
        seconds = time.perf_counter() - started
        printed.seek(0)
        assert child.returncode == 0, child.returncode
        return json.loads(printed.read()), seconds, samples


async def fill(stack: PrivateStack, count: int) -> None:
    """Load the sentences with their vectors."""
    embedder = HashEmbedder()
    made = sentences(count, seed=count)
    vectors = await embedder.embed(made)
    loaded = [
        Loaded(id=UUID(uuid7()), namespace=DEFAULT_NAMESPACE, content=text, embedding=half(vector))
        for text, vector in zip(made, vectors, strict=True)
    ]
    spec = embedder.spec
    async with await Store.open(stack.database_url) as store:
        model_id = await store.register_embedding_model(spec.name, spec.sha256, spec.dimensions)
        await load(stack.owner_url, model_id, loaded, linked=True)


async def search(client: McpClient) -> None:
    """Search for what is hardly there."""
    await client.call("search_memories", query="badika fogelo")


def measure(count: int, *, exact: bool) -> None:
    """Fill, list and merge so many."""
    with private_stack() as stack:
        asyncio.run(fill(stack, count))
        stack.start_workers(EMBEDDER="hash")
        port = stack.start_gateway(DEFAULT_NAMESPACE)
        asyncio.run(closed_loop(port, 1, 1.0, search))  # not counted: caches fill
        quiet = asyncio.run(closed_loop(port, 1, 3.0, search)).figures()
        emit(BENCH, "searches_before", memories=count, **quiet)
        listed, seconds, beside = measured(stack, port, "--limit", "10000")
        planted = sum(int(share * count) for share in (NEAR_SHARE, EQUAL_SHARE, HEAP_SHARE))
        tell("list", listed, seconds, beside, memories=count, planted=planted)
        if exact:
            by_scan = asyncio.run(exactly(stack, listed["similarity"]))
            goes = {one["id"] for group in listed["groups"] for one in group["goes"]}
            figures = {"exact": len(by_scan), "found": len(goes & by_scan), "besides": len(goes - by_scan)}
            emit(BENCH, "recall", memories=count, **figures)
        peak = peak_rss_mb(stack.kinds["worker"].all_pids())
        tell("merge", *measured(stack, port, "--merge", "--yes"), memories=count, worker_peak_rss_mb=peak)
        tell("again", *measured(stack, port), memories=count)


def tell(measure: str, printed: dict[str, Any], seconds: float, beside: Samples, **figures: Any) -> None:
    """Emit what a run printed, and the searches beside it."""
    known = {name: printed[name] for name in ("group_count", "duplicate_count", "similarity", "looked_at", "merged")}
    emit(BENCH, measure, seconds=seconds, **known, **figures)
    emit(BENCH, f"searches_beside_{measure}", **beside.figures())


async def exactly(stack: PrivateStack, similarity: float) -> set[str]:
    """Return the ids that would go if each memory were compared with each."""
    with psycopg.connect(stack.owner_url) as connection:
        rows = connection.execute(IDS).fetchall()
    ids: list[UUID] = [row[0] for row in rows]

    async with await Store.open(stack.database_url) as store:
        read = await store.read(DEFAULT_NAMESPACE, lambda tx: read_compared(tx, ids, rows[0][1]))
    return {str(one.id) for group in groups(compared(read).values(), similarity) for one, _ in group.goes}


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--exact", type=int, default=2_000)
    chosen = parser.parse_args()
    if chosen.exact:
        measure(chosen.exact, exact=True)
    if chosen.memories:
        measure(chosen.memories, exact=False)


if __name__ == "__main__":
    main()
