"""store_memory over MCP HTTP, beside embedding alone and one synced insert alone in the same run.

    python -m bench.store [--memories 10000,100000] [--callers 1,8,64,256] [--runs 5] [--seconds 2]

The memories that are there are made up (vectors and words), those that are stored are embedded for real. Prints JSON
lines: medians over the runs. `ratio` is the p50 of one caller over the p50 of embedding one text plus one insert with
both indexes and its commit; its target is 2.
"""

import argparse
import asyncio
import itertools
import statistics

import numpy as np

from bench.common import McpClient, closed_loop, emit, median_of, private_stack, timed
from bench.embedding import Texts
from bench.filled import filled
from bench.synthetic import Corpus
from schemas.commands import NewMemory
from schemas.vocabulary import DEFAULT_PRINCIPAL, Partition
from workers.models.minilm import MiniLmEmbedder
from workers.store.memories import Draft, send_insert
from workers.store.store import Store
from workers.store.transaction import Transaction
from workers.store.vectors import Embedding

BENCH = "store"
NAMESPACE = "bench"
TOKENS = 24  # of a stored text: a sentence or two of English words
ALONE = 60  # calls of each part by itself, the first third not counted


async def alone(database_url: str, model_id: int, contents: list[str]) -> tuple[list[float], list[float]]:
    """Return the milliseconds of embedding a content, and of inserting it."""
    model = MiniLmEmbedder()
    vectors: list[np.ndarray] = []

    async def embed(number: int) -> None:
        vectors.append((await model.embed([contents[number]]))[0])

    embedding_ms = await timed(embed, len(contents))
    await model.aclose()
    async with await Store.open(database_url) as store:

        async def insert(number: int) -> None:
            async def write(tx: Transaction) -> None:
                embedding = Embedding.of(model_id, vectors[number])
                draft = Draft(NewMemory(content=contents[number]), Partition.TRUSTED, DEFAULT_PRINCIPAL, embedding)
                await (await send_insert(tx, draft)).stored()

            await store.write(NAMESPACE, write)

        insert_ms = await timed(insert, len(contents))
    return embedding_ms[len(contents) // 3 :], insert_ms[len(contents) // 3 :]


def measure(memories: int, callers: list[int], runs: int, seconds: float) -> None:
    corpus = Corpus(memories)
    texts = Texts()
    contents = (f"{texts.of(TOKENS)} {number}" for number in itertools.count())

    async def keep(client: McpClient) -> None:
        await client.call("store_memory", content=next(contents))

    with private_stack() as stack:
        model_id = filled(stack, corpus, BENCH)
        stack.start_workers()
        port = stack.start_gateway(NAMESPACE)
        asyncio.run(closed_loop(port, 4, seconds, keep))  # not counted: caches fill
        parts = asyncio.run(alone(stack.database_url, model_id, [next(contents) for _ in range(ALONE)]))
        embedding_ms, insert_ms = (statistics.median(part) for part in parts)
        emit(BENCH, "alone", synthetic=True, memories=memories, embedding_p50_ms=embedding_ms, insert_p50_ms=insert_ms)
        for several in callers:
            figures = median_of([asyncio.run(closed_loop(port, several, seconds, keep)) for _ in range(runs)])
            if several == 1:
                figures["ratio"] = figures["p50_ms"] / (embedding_ms + insert_ms)
            emit(BENCH, "mcp_http", synthetic=True, memories=memories, callers=several, **figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", default="10000,100000")
    parser.add_argument("--callers", default="1,8,64,256")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    chosen = parser.parse_args()
    for memories in chosen.memories.split(","):
        measure(int(memories), [int(one) for one in chosen.callers.split(",")], chosen.runs, chosen.seconds)


if __name__ == "__main__":
    main()
