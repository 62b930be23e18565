"""search_memories over MCP HTTP, beside embedding alone and the SQL alone in the same run; and what boosts cost.

    python -m bench.search [--memories 10000,100000] [--callers 1,8,64,256] [--runs 5] [--seconds 2] [--words 3,8]

The memories are made up (vectors and words), the questions are embedded for real. They have so many made-up words: 3 to
8 are 24 tokens, 2 to 4 are 14, as many as LoCoMo's questions have. Prints JSON lines: medians over the runs. `ratio` is
the p50 of one caller over the p50 of embedding plus that of all SQL of a search; its target is 1.3. `boosts` compares
searches in one process, each question with and without links, usefulness and idle time; every memory has some links.
"""

import asyncio
import itertools
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from uuid import UUID

import psycopg

from bench.common import McpClient, emit, private_stack, timed
from bench.measured import Load, beside_parts, numbers, options, sizes_and_load
from bench.synthetic import Corpus, filled
from bench.yardsticks import Parts
from engramq.schemas.commands import SearchMemories
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.database import Store
from engramq.workers.db.memory_rows import read_memories
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding, Sizes
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.search.candidates import Filters, QuestionVectors, Tables, find_candidates
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import Measure, by_relevance
from engramq.workers.search.search import find

BENCH = "search"
NAMESPACE = "bench"
LINKS = 4  # that agents have asserted for each memory, about; the other end is one of the next few
REACH = 20
SHOWN = 5
LINK = b"""
insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin)
select gen_random_uuid(), a.tenant, 'association', least(a.id, b.id), greatest(a.id, b.id), 'supports', 0.75, 'agent'
from (select id, tenant, row_number() over (order by id) as place from nodes where tenant = tenant_of(%(namespace)s)) a
join (select id, row_number() over (order by id) as place from nodes where tenant = tenant_of(%(namespace)s)) b
    on b.place between a.place + 1 and a.place + %(reach)s and random() < %(links)s::float8 / %(reach)s
"""
ALONE = 60  # calls of each part by itself


def link(owner_url: str) -> int:
    """Assert links between the memories that are there; return how many."""
    with psycopg.connect(owner_url) as connection, connection.cursor() as cursor:
        cursor.execute(LINK, {"links": LINKS / 2, "reach": REACH, "namespace": NAMESPACE})
        count = cursor.rowcount
        cursor.execute(b"analyze edges")
    return count


async def boosts(database_url: str, model_id: int, questions: list[str]) -> dict[str, Any]:
    """Return the median milliseconds of a search without its embedding, with boosts and without."""
    model, sizes = MiniLmEmbedder(), Sizes()
    commands = [SearchMemories(query=question, limit=SHOWN) for question in questions]
    embeddings = [Embedding.of(model_id, item) for item in await model.embed(questions)]
    await model.aclose()
    vectors = [QuestionVectors(embedding) for embedding in embeddings]
    taken: dict[str, list[float]] = {"with": [], "without": []}
    async with await Store.open(database_url) as store:

        async def ranked(tx: Transaction, number: int) -> None:
            question, filters = Question(questions[number]), Filters(partitions=(Partition.TRUSTED,))
            found = await find_candidates(tx, sizes, question, embeddings[number], filters)
            order = by_relevance(Measure.of(question, found), found).order
            await read_memories(tx, [UUID(found.ids[row]) for row in order[:SHOWN]])

        async def both(number: int) -> None:
            async def boosted(tx: Transaction) -> object:
                return await find(Tables(tx, sizes), commands[number], vectors[number])

            works: dict[str, Callable[[Transaction], Awaitable[object]]]
            works = {"with": boosted, "without": partial(ranked, number=number)}
            for name, work in works.items():
                started = time.perf_counter()
                await store.read(NAMESPACE, work)
                taken[name].append((time.perf_counter() - started) * 1000)

        await timed(both, len(questions))
    return {f"{name}_p50_ms": statistics.median(times[len(times) // 3 :]) for name, times in taken.items()}


def measure(memories: int, load: Load, words: tuple[int, int]) -> None:
    corpus = Corpus(memories)
    emit(BENCH, "questions", synthetic=True, words=words)
    questions = (f"{corpus.text(*words)} {number}" for number in itertools.count())

    async def search(client: McpClient) -> None:
        await client.call("search_memories", query=next(questions), limit=SHOWN)

    with private_stack() as stack:
        model_id = filled(stack, corpus, BENCH)
        stack.start_workers()
        port = stack.start_gateway(NAMESPACE)

        def parts() -> dict[str, list[float]]:
            alone = Parts(stack.database_url, NAMESPACE, model_id)
            return asyncio.run(alone.of_search([next(questions) for _ in range(ALONE)]))

        linked = link(stack.owner_url)
        lifting = asyncio.run(boosts(stack.database_url, model_id, [next(questions) for _ in range(ALONE)]))
        emit(BENCH, "boosts", synthetic=True, memories=memories, links=linked, **lifting)
        beside_parts(BENCH, memories, load, port, search, parts)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--words", default="3,8")
    chosen = parser.parse_args()
    sizes, load = sizes_and_load(chosen)
    least, most = numbers(chosen.words)
    for memories in sizes:
        measure(memories, load, (least, most))


if __name__ == "__main__":
    main()
