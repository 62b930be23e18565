"""store_memory over MCP HTTP, beside embedding alone and one synced insert alone in the same run.

    python -m bench.store [--memories 10000,100000] [--callers 1,8,64,256] [--runs 5] [--seconds 2]

The memories that are there are made up (vectors and words), those that are stored are embedded for real. Prints JSON
lines: medians over the runs. `ratio` is the p50 of one caller over the p50 of embedding one text plus one insert with
both indexes and its commit; its target is 2.
"""

import asyncio
import itertools

import numpy as np

from bench.common import McpClient, private_stack, timed
from bench.embedding import Texts
from bench.filled import filled
from bench.over_mcp import Load, beside_parts, parse_options
from bench.synthetic import Corpus
from engramq.schemas.commands import NewMemory
from engramq.schemas.vocabulary import DEFAULT_PRINCIPAL, Partition
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.memories.store import INSERT, Draft, columns_of

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
                await tx.row(INSERT, **columns_of(draft), embedding=embedding.half, model_id=embedding.model_id)

            await store.write(NAMESPACE, write)

        insert_ms = await timed(insert, len(contents))
    return embedding_ms[len(contents) // 3 :], insert_ms[len(contents) // 3 :]


def measure(memories: int, load: Load) -> None:
    corpus = Corpus(memories)
    texts = Texts()
    contents = (f"{texts.of(TOKENS)} {number}" for number in itertools.count())

    async def keep(client: McpClient) -> None:
        await client.call("store_memory", content=next(contents))

    with private_stack() as stack:
        model_id = filled(stack, corpus, BENCH)
        stack.start_workers()
        port = stack.start_gateway(NAMESPACE)

        def parts() -> dict[str, list[float]]:
            embedding_ms, insert_ms = asyncio.run(
                alone(stack.database_url, model_id, [next(contents) for _ in range(ALONE)])
            )
            return {"embedding": embedding_ms, "insert": insert_ms}

        beside_parts(BENCH, memories, load, port, keep, parts)


def main() -> None:
    sizes, load = parse_options(__doc__)
    for memories in sizes:
        measure(memories, load)


if __name__ == "__main__":
    main()
