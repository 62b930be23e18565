"""Filtered vector search against an exact scan: recall at 10 for tenants and sectors of several sizes.

    python -m bench.filtered [--memories 100000] [--questions 50] [--marks]

One table holds tenants of 1, 10 and 50 % (and others); vectors and words are made up. What is measured is the vector
arm of a search as the product chooses it, index or scan, by the order of `similarity`; the truth is an exact scan under
the same filter. Prints a JSON line for each tenant, without a sector and with one (a fifth of the tenant); the target
is .99. With `--marks` all memories are one tenant's, and the filters are a tag and a project that 1 % of them have.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.common import PrivateStack, emit, percentile, private_stack
from bench.synthetic import Corpus, fill
from engramq.schemas.vocabulary import EVERY_PROJECT, Partition, Sector
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding, Sizes
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import rank_by_similarity
from tools.loading import Loaded

BENCH: Final = "filtered"
SHARES: Final = {"one": 0.01, "ten": 0.10, "half": 0.50, "others": 0.39}
TOP: Final = 10
RARE: Final = "rare"  # the tag, and the project, of 1 % of the memories
NO_WORDS: Final = Question("?")


async def measure_one(
    store: Store, namespace: str, embeddings: list[Embedding], filters: Filters
) -> tuple[list[float], list[float]]:
    """Return recall at 10 and the milliseconds of each question."""
    sizes = Sizes()
    recalls, taken = [], []
    for embedding in embeddings:

        async def nearest(tx: Transaction, embedding: Embedding = embedding, *, scan: bool = False) -> list[str]:
            found = rank_by_similarity(await find_candidates(tx, sizes, NO_WORDS, embedding, filters, scan=scan))
            return [found.candidates.ids[row] for row in found.order[:TOP]]

        started = time.perf_counter()
        found = await store.read(namespace, nearest)
        taken.append((time.perf_counter() - started) * 1000)
        true = await store.read(namespace, partial(nearest, scan=True))
        recalls.append(len(set(found) & set(true)) / len(true))
    return recalls, taken


async def measure(stack: PrivateStack, memories: int, questions: int) -> None:
    corpus = Corpus(memories, shares=SHARES)
    model_id = await fill(stack, corpus, BENCH)
    vectors: list[NDArray[np.float32]] = [corpus.query()[1] for _ in range(questions)]
    embeddings = [Embedding.of(model_id, vector) for vector in vectors]
    async with await Store.open(stack.database_url) as store:
        for namespace, share in SHARES.items():
            for sectors in (None, (Sector.EPISODIC,)):
                filters = Filters(partitions=(Partition.TRUSTED,), sectors=sectors)
                recalls, taken = await measure_one(store, namespace, embeddings, filters)
                emit(
                    BENCH, "tenant", synthetic=True, memories=memories, share=share, sector=sectors is not None,
                    recall_at_10=statistics.mean(recalls), least=min(recalls), p50_ms=percentile(taken, 0.5),
                    p95_ms=percentile(taken, 0.95), questions=questions, target=0.99,
                )  # fmt: skip


class Marked(Corpus):
    """A corpus of which one in a hundred has the tag, another one the project; all others are in another project."""

    def memories(self) -> Iterator[Loaded]:
        """Make the memories one after another."""
        for number, memory in enumerate(super().memories()):
            tags, project = ((RARE,) if number % 100 == 0 else ()), (RARE if number % 100 == 1 else "common")
            yield replace(memory, tags=tags, project=project)


async def measure_marks(stack: PrivateStack, memories: int, questions: int) -> None:
    corpus = Marked(memories)
    model_id = await fill(stack, corpus, BENCH)
    embeddings = [Embedding.of(model_id, corpus.query()[1]) for _ in range(questions)]
    trusted = Filters(partitions=(Partition.TRUSTED,), project=EVERY_PROJECT)
    cases = {
        "none": trusted,
        "sector": replace(trusted, sectors=(Sector.EPISODIC,)),
        "tag": replace(trusted, tags=(RARE,)),
        "project": replace(trusted, project=RARE),
    }
    async with await Store.open(stack.database_url) as store:
        for name, filters in cases.items():
            recalls, taken = await measure_one(store, "bench", embeddings, filters)
            emit(
                BENCH, "marks", synthetic=True, memories=memories, filter=name, recall_at_10=statistics.mean(recalls),
                least=min(recalls), p50_ms=percentile(taken, 0.5), p95_ms=percentile(taken, 0.95), questions=questions,
                target=0.99,
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--marks", action="store_true", help="tags and projects, in place of tenants")
    chosen = parser.parse_args()
    with private_stack() as stack:
        asyncio.run((measure_marks if chosen.marks else measure)(stack, chosen.memories, chosen.questions))


if __name__ == "__main__":
    main()
