"""search_memories over MCP HTTP, beside embedding alone and the SQL alone in the same run.

    python -m bench.search [--memories 10000,100000] [--callers 1,8,64,256] [--runs 5] [--seconds 2]

The memories are made up (vectors and words), the questions are embedded for real. Prints JSON lines: medians over the
runs. `ratio` is the p50 of one caller over the p50 of embedding plus that of the SQL; its target is 2.
"""

import asyncio
import itertools
from uuid import UUID

from bench.common import McpClient, private_stack, timed
from bench.filled import filled
from bench.over_mcp import Load, beside_parts, parse_options
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
                await read_memories(tx, [UUID(one) for one in found.ids[:SHOWN]])

            await store.read(NAMESPACE, read)

        sql_ms = await timed(search, len(questions))
    return embedding_ms[len(questions) // 3 :], sql_ms[len(questions) // 3 :]


def measure(memories: int, load: Load) -> None:
    corpus = Corpus(memories)
    questions = (f"{corpus.query()[0]} {number}" for number in itertools.count())

    async def search(client: McpClient) -> None:
        await client.call("search_memories", query=next(questions), limit=SHOWN)

    with private_stack() as stack:
        model_id = filled(stack, corpus, BENCH)
        stack.start_workers()
        port = stack.start_gateway(NAMESPACE)

        def parts() -> dict[str, list[float]]:
            embedding_ms, sql_ms = asyncio.run(
                alone(stack.database_url, model_id, [next(questions) for _ in range(ALONE)])
            )
            return {"embedding": embedding_ms, "sql": sql_ms}

        beside_parts(BENCH, memories, load, port, search, parts)


def main() -> None:
    sizes, load = parse_options(__doc__)
    for memories in sizes:
        measure(memories, load)


if __name__ == "__main__":
    main()
