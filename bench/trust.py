"""What trust costs: reads under row-level security beside the same reads without it, and promotions over MCP HTTP.

    python -m bench.trust [--memories 10000,100000] [--rounds 5] [--calls 60] [--promoted 2000] [--callers 1,8,64]

The memories are made up; a tenth belongs to another namespace. Reads go through the store: once as the workers' role,
which the policies hold, once as the owner, whom none holds, by turns on the same data, after a first round that is not
counted. `ratio` is p50 over p50; for searches it is to be at most 1.2. Then so many untrusted, verified memories are
promoted among `--memories` trusted ones, each once. Prints JSON lines.
"""

import argparse
import asyncio
import itertools
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import psycopg

from bench.common import McpClient, PrivateStack, emit, percentile, private_stack
from bench.filled import fill
from bench.synthetic import Corpus, half
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.conninfo import WORKER_ROLE, worker_conninfo
from engramq.workers.db.database import Store
from engramq.workers.db.memory_rows import read_memories
from engramq.workers.db.pool import Pool
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding, Sizes, send_nearest
from engramq.workers.memories import reading as recall
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.question import Question
from tools.loading import load

BENCH: Final = "trust"
NAMESPACE: Final = "bench"
SHARES: Final = {NAMESPACE: 0.9, "other": 0.1}
DIMENSIONS: Final = 384
SHOWN: Final = 5
TRUSTED: Final = (Partition.TRUSTED,)
HELD, FREE = "held", "free"
VOUCH: Final = b"update memories set verification = 'verified' where partition = 'untrusted'"

Read = Callable[[Transaction, int], Awaitable[object]]


def reads(corpus: Corpus, model_id: int, calls: int) -> dict[str, Read]:
    """Return the reads that are measured; each takes the number of a question."""
    asked = [corpus.query() for _ in range(calls)]
    embeddings = [Embedding(model_id, DIMENSIONS, half(vector)) for _, vector in asked]
    sizes, filters = Sizes(), Filters(partitions=TRUSTED)

    async def search(tx: Transaction, number: int, embedding: Embedding | None) -> None:
        found = await find_candidates(tx, sizes, Question(asked[number][0]), embedding, filters)
        await read_memories(tx, [UUID(one) for one in found.ids[:SHOWN]])

    async def hybrid(tx: Transaction, number: int) -> None:
        await search(tx, number, embeddings[number])

    async def by_words(tx: Transaction, number: int) -> None:
        await search(tx, number, None)

    async def nearest(tx: Transaction, number: int) -> None:
        await (await send_nearest(tx, sizes, embeddings[number], TRUSTED, k=SHOWN)).fetchall()

    async def recent(tx: Transaction, _number: int) -> None:
        await recall.recent(tx, recall.Listed(partitions=list(TRUSTED)), after=None, limit=10)

    return {"search": hybrid, "search_by_words": by_words, "nearest": nearest, "recent": recent}


async def compare(stack: PrivateStack, corpus: Corpus, model_id: int, chosen: argparse.Namespace) -> None:
    """Measure each read as either role, by turns."""
    held = worker_conninfo(stack.owner_url)
    free = held.replace(f"-c role={WORKER_ROLE}", "")
    async with Store(Pool(held, 1)) as worker, Store(Pool(free, 1)) as owner:
        for name, read in reads(corpus, model_id, chosen.calls).items():
            times: dict[str, list[float]] = {HELD: [], FREE: []}
            stores = [(HELD, worker), (FREE, owner)]
            for number, question in itertools.product(range(chosen.rounds + 1), range(chosen.calls)):
                for role, store in stores:
                    taken = await timed_read(store, read, question)
                    times[role] += [taken] if number else []
                stores.reverse()  # whoever comes second finds the caches warmer
            figures: dict[str, Any] = {
                f"{role}_p{share}_ms": percentile(taken, share / 100)
                for role, taken in times.items()
                for share in (50, 95)
            }
            ratio = statistics.median(times[HELD]) / statistics.median(times[FREE])
            emit(BENCH, "row_security", read=name, memories=corpus.size, calls=len(times[HELD]), **figures, ratio=ratio)


async def timed_read(store: Store, read: Read, question: int) -> float:
    """Return how many milliseconds a read in a transaction of its own took."""
    started = time.perf_counter()
    await store.read(NAMESPACE, lambda tx: read(tx, question))
    return (time.perf_counter() - started) * 1000


async def add_untrusted(stack: PrivateStack, corpus: Corpus, model_id: int) -> list[str]:
    """Load untrusted memories that somebody has verified; return their ids."""
    rows = [replace(one, namespace=NAMESPACE, partition=Partition.UNTRUSTED) for one in corpus.memories()]
    await load(stack.owner_url, model_id, rows)
    with psycopg.connect(stack.owner_url) as connection:
        connection.execute(VOUCH)
    return [str(one.id) for one in rows]


async def promote(port: int, ids: list[str], callers: int) -> list[float]:
    """Promote each memory once, so many at a time; return the milliseconds of each call."""
    left, taken = iter(ids), []

    async def caller() -> None:
        async with McpClient.connect(port) as client:
            for record_id in left:
                started = time.perf_counter()
                reply = await client.call("memory_promote_to_trusted", record_id=record_id)
                taken.append((time.perf_counter() - started) * 1000)
                assert reply["status"] == "promoted", reply

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())
    return taken


def measure(memories: int, chosen: argparse.Namespace) -> None:
    corpus = Corpus(memories, shares=SHARES)
    several = [int(one) for one in chosen.callers.split(",")]
    with private_stack() as stack:
        model_id = asyncio.run(fill(stack, corpus, BENCH))
        asyncio.run(compare(stack, corpus, model_id, chosen))
        ids = iter(asyncio.run(add_untrusted(stack, Corpus(chosen.promoted * len(several), seed=2), model_id)))
        stack.start_workers()
        port = stack.start_gateway(NAMESPACE)
        for callers in several:
            started = time.perf_counter()
            taken = asyncio.run(promote(port, list(itertools.islice(ids, chosen.promoted)), callers))
            figures: dict[str, Any] = {f"p{share}_ms": percentile(taken, share / 100) for share in (50, 95)}
            rate = len(taken) / (time.perf_counter() - started)
            emit(BENCH, "promotion", memories=memories, callers=callers, calls=len(taken), per_s=rate, **figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", default="10000,100000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--promoted", type=int, default=2_000)
    parser.add_argument("--callers", default="1,8,64")
    chosen = parser.parse_args()
    for memories in chosen.memories.split(","):
        measure(int(memories), chosen)


if __name__ == "__main__":
    main()
