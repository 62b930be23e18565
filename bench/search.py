"""search_memories over MCP HTTP, beside embedding alone and the SQL alone in the same run.

    python -m bench.search [--memories 10000,100000] [--callers 1,8,64,256] [--runs 5] [--seconds 2]

The memories are made up (vectors and words), the questions are embedded for real. Prints JSON lines: medians over the
runs. `ratio` is the p50 of one caller over the p50 of embedding plus that of the SQL; its target is 2.
"""

import argparse
import asyncio
import itertools
import statistics
from uuid import UUID

from bench.common import McpClient, closed_loop, emit, median_of, private_stack, timed
from bench.filled import filled
from bench.synthetic import Corpus
from schemas.vocabulary import Partition
from workers.domain.question import Question
from workers.models.minilm import MiniLmEmbedder
from workers.store.memories import read_memories
from workers.store.search import Filters, find_candidates
from workers.store.store import Store
from workers.store.transaction import Transaction
from workers.store.vectors import Embedding, Sizes

BENCH = "search"
NAMESPACE = "bench"
SHOWN = 5
ALONE = 60  # calls of each part by itself, the first third not counted


async def alone(database_url: str, model_id: int, questions: list[str]) -> tuple[list[float], list[float]]:
    """Return the milliseconds of embedding a question, and of the SQL of a search for it."""
    model, sizes = MiniLmEmbedder(), Sizes()
    embeddings: list[Embedding] = []

    async def embed(number: int) -> None:
        (vector,) = await model.embed([questions[number]])
        embeddings.append(Embedding.of(model_id, vector))

    embedding_ms = await timed(embed, len(questions))
    await model.aclose()
    async with await Store.open(database_url) as store:

        async def search(number: int) -> None:
            async def read(tx: Transaction) -> None:
                question, filters = Question(questions[number]), Filters(partitions=(Partition.TRUSTED,))
                found = await find_candidates(tx, sizes, question, embeddings[number], filters)
                await read_memories(tx, [UUID(one.id) for one in found[:SHOWN]])

            await store.read(NAMESPACE, read)

        sql_ms = await timed(search, len(questions))
    return embedding_ms[len(questions) // 3 :], sql_ms[len(questions) // 3 :]


def measure(memories: int, callers: list[int], runs: int, seconds: float) -> None:
    corpus = Corpus(memories)
    questions = (f"{corpus.query()[0]} {number}" for number in itertools.count())

    async def search(client: McpClient) -> None:
        await client.call("search_memories", query=next(questions), limit=SHOWN)

    with private_stack() as stack:
        model_id = filled(stack, corpus, BENCH)
        stack.start_workers()
        port = stack.start_gateway(NAMESPACE)
        asyncio.run(closed_loop(port, 4, seconds, search))  # not counted: caches fill
        parts = asyncio.run(alone(stack.database_url, model_id, [next(questions) for _ in range(ALONE)]))
        embedding_ms, sql_ms = (statistics.median(part) for part in parts)
        emit(BENCH, "alone", synthetic=True, memories=memories, embedding_p50_ms=embedding_ms, sql_p50_ms=sql_ms)
        for several in callers:
            figures = median_of([asyncio.run(closed_loop(port, several, seconds, search)) for _ in range(runs)])
            if several == 1:
                figures["ratio"] = figures["p50_ms"] / (embedding_ms + sql_ms)
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
