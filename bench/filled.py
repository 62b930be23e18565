"""A store filled with made-up memories, for the benchmarks that need one."""

import asyncio
import time

from bench.common import PrivateStack, emit
from bench.synthetic import DIMENSIONS, Corpus
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.database import Store
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.upkeep import lexemes
from tools.loading import load


async def fill(stack: PrivateStack, corpus: Corpus, bench: str) -> int:
    """Load the corpus as if MiniLM had made its vectors; return the model's id."""
    started = time.perf_counter()
    embedder = MiniLmEmbedder()
    await embedder.warm()  # what is faster here is what a new store begins with
    spec = embedder.spec
    await embedder.aclose()
    async with await Store.open(stack.database_url) as store:
        model_id = await store.register_embedding_model(spec.name, spec.sha256, DIMENSIONS)
        count = await load(stack.owner_url, model_id, corpus.memories(), linked=True)
        for namespace in await store.namespaces():
            if await store.read(namespace, lambda tx: lexemes.is_worth_counting(tx, Partition.TRUSTED)):
                await store.write(namespace, lambda tx: lexemes.count_lexemes(tx, Partition.TRUSTED))
    seconds = time.perf_counter() - started
    emit(bench, "filled", synthetic=True, memories=count, seconds=seconds, model=spec.name, sha256=spec.sha256[:12])
    return model_id


def filled(stack: PrivateStack, corpus: Corpus, bench: str) -> int:
    """Do as `fill` does, outside any event loop."""
    return asyncio.run(fill(stack, corpus, bench))
