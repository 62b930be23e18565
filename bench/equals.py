"""Whether equal vectors hide others in the vector index: recall at 10 of memories that are not among them.

    python -m bench.equals [--memories 20000] [--questions 50]

Of 20,000 made-up memories 0, 5, 20 and 50 % are one text with one vector, once of the namespace that is asked, once of
another one. Half of the questions are near that vector, half anywhere. The truth is an exact comparison of the others.
Prints a JSON line for each share and place; `near` and `far` are those halves; the target is .99.
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
from bench.synthetic import Corpus, fill, half
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding, Sizes
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import rank_by_similarity
from tools.loading import Loaded

BENCH: Final = "equals"
SHARES: Final = (0.0, 0.05, 0.2, 0.5)
PLACES: Final = {"own": "bench", "foreign": "others"}
TOP: Final = 10
TEXT: Final = "The nightly build passed"
NEAR: Final = 0.6  # length of the noise around the equal vector
NO_WORDS: Final = Question("?")


class Equal(Corpus):
    """A corpus of which a share is one text with one vector, in some namespace."""

    def __init__(self, size: int, share: float, namespace: str) -> None:
        super().__init__(size)
        self._share, self._namespace = share, namespace
        self.vector = self.query()[1]
        self.equal: set[str] = set()
        self.others: list[tuple[str, NDArray[np.float32]]] = []

    def memories(self) -> Iterator[Loaded]:
        """Make the memories one after another, the equal ones among the others."""
        turns = np.random.default_rng(2).random(self.size)
        for memory, turn in zip(super().memories(), turns, strict=True):
            if turn < self._share:
                self.equal.add(str(memory.id))
                yield replace(memory, content=TEXT, namespace=self._namespace, embedding=half(self.vector))
            else:
                vector = np.frombuffer(memory.embedding, dtype=">f2", offset=4).astype(np.float32)
                self.others.append((str(memory.id), vector))
                yield memory

    def near(self) -> NDArray[np.float32]:
        """Make the vector of a question near the equal ones."""
        noise = np.random.default_rng(len(self.others)).standard_normal(len(self.vector)) * NEAR
        mixed = self.vector + self._random.permutation(noise) / len(noise) ** 0.5
        unit: NDArray[np.float32] = (mixed / np.linalg.norm(mixed)).astype(np.float32)
        return unit

    def nearest(self, vector: NDArray[np.float32]) -> set[str]:
        """Return the ids of the nearest others, compared one by one."""
        cosines = np.stack([other for _, other in self.others]) @ vector
        return {self.others[row][0] for row in np.argsort(-cosines)[:TOP]}


async def measure(stack: PrivateStack, corpus: Equal, place: str, share: float, questions: int) -> None:
    model_id = await fill(stack, corpus, BENCH)
    vectors = {"near": [corpus.near() for _ in range(questions // 2)]}
    vectors["far"] = [corpus.query()[1] for _ in range(questions // 2)]
    filters, sizes = Filters(partitions=(Partition.TRUSTED,)), Sizes()
    recalls, taken = dict[str, list[float]](), list[float]()

    async def nearest(tx: Transaction, vector: NDArray[np.float32]) -> list[str]:
        embedding = Embedding.of(model_id, vector)
        found = rank_by_similarity(await find_candidates(tx, sizes, NO_WORDS, embedding, filters))
        ids = [found.candidates.ids[row] for row in found.order]
        return [memory_id for memory_id in ids if memory_id not in corpus.equal][:TOP]

    async with await Store.open(stack.database_url) as store:
        for kind, asked in vectors.items():
            for vector in asked:
                started = time.perf_counter()
                found = await store.read("bench", partial(nearest, vector=vector))
                taken.append((time.perf_counter() - started) * 1000)
                recalls.setdefault(kind, []).append(len(set(found) & corpus.nearest(vector)) / TOP)
    emit(
        BENCH, "recall", synthetic=True, memories=corpus.size, share=share, place=place,
        near=statistics.mean(recalls["near"]), far=statistics.mean(recalls["far"]),
        p50_ms=percentile(taken, 0.5), p95_ms=percentile(taken, 0.95), questions=questions, target=0.99,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--questions", type=int, default=50)
    chosen = parser.parse_args()
    for place, namespace in PLACES.items():
        for share in SHARES:
            with private_stack() as stack:
                corpus = Equal(chosen.memories, share, namespace)
                asyncio.run(measure(stack, corpus, place, share, chosen.questions))


if __name__ == "__main__":
    main()
