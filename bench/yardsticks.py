"""Measure the parts of a call by themselves: the model, the SQL of a search, an insert. Ratios are taken to these.

Call each in the same round as what it is compared with: the machine's hour counts as much as the code.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bench.common import timed
from engramq.schemas.commands import NewMemory, SearchMemories
from engramq.schemas.fields import or_none
from engramq.schemas.vocabulary import DEFAULT_PRINCIPAL, Partition
from engramq.workers.db.database import Store
from engramq.workers.db.queries import Query
from engramq.workers.db.transaction import Lookup, Row, Sent, Transaction
from engramq.workers.db.vectors import Embedding, Sizes
from engramq.workers.embedders import minilm
from engramq.workers.embedders.interface import Embedder, Vectors
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.embedders.onnx_session import onnx_runtime
from engramq.workers.memories.change import erase_locked
from engramq.workers.memories.store import Draft, columns_of_draft
from engramq.workers.search.candidates import QuestionVectors, Tables
from engramq.workers.search.copies import SEARCHES_FIRST, Copies, CurrentCopy
from engramq.workers.search.search import Search, filters_of, question_of


@dataclass(slots=True)
class Statement:
    """One statement of a search; `waited_for`: so many statements had been sent when its rows were waited for."""

    query: Query
    values: dict[str, Any]
    waited_for: int = 0


@dataclass(slots=True)
class Recording(Transaction):
    """A transaction that remembers what was sent, and where the search waited for it."""

    statements: list[Statement] = field(default_factory=list)

    async def send(self, query: Query, **values: Any) -> Sent:
        """Send, and remember."""
        self.statements.append(statement := Statement(query, values))
        sent = await Transaction.send(self, query, **values)
        return _Noting(sent, statement, self.statements)  # type: ignore[return-value]  # as much of it as a search uses


@dataclass(slots=True)
class _Noting:
    """A sent statement that notes when its rows are waited for."""

    sent: Sent
    statement: Statement
    statements: list[Statement]

    async def fetchall(self) -> list[Row]:
        self.statement.waited_for = len(self.statements)
        return await self.sent.fetchall()

    async def fetchone(self) -> Row | None:
        self.statement.waited_for = len(self.statements)
        return await self.sent.fetchone()


@dataclass(frozen=True, slots=True)
class Asked:
    """A search: what it asks for, its vector, and the copy of the namespace that it uses, if it uses one."""

    command: SearchMemories
    embedding: Embedding
    copy: CurrentCopy | None = None


async def record(store: Store, namespace: str, asked: Asked, sizes: Sizes) -> list[Statement]:
    """Return the statements of this search, surroundings and shown memories included, those that prove a copy not."""
    statements: list[Statement] = []

    async def search(tx: Transaction) -> None:
        recording = Recording(tx.exchange, tx.namespace, tx.tenant)
        source = Tables(recording, sizes) if asked.copy is None else replace(asked.copy, ask=recording.look_up)
        filters = filters_of(asked.command, None)
        await Search(
            command=asked.command,
            question=question_of(asked.command, filters, UTC),
            filters=filters,
            source=source,
            vectors=QuestionVectors(asked.embedding),
            min_relevance=or_none(asked.command.min_relevance) or 0.0,
        ).run()
        statements[:] = recording.statements

    await store.read(namespace, search)
    return statements


async def replay(store: Store, namespace: str, statements: Sequence[Statement], *, lookups: bool = False) -> None:
    """Send the statements of a search again, in one transaction, waiting where the search waited.

    `lookups`: the search used a copy, and asks for what it still needs in one go.
    """
    if lookups:
        await store.look_up(namespace, [Lookup(statement.query, statement.values) for statement in statements])
        return

    async def again(tx: Transaction) -> None:
        under_way: list[tuple[Statement, Sent]] = []
        for number, statement in enumerate(statements, 1):
            under_way.append((statement, await tx.send(statement.query, **statement.values)))
            for earlier, sent in under_way:
                if earlier.waited_for == number:
                    await sent.fetchall()

    await store.read(namespace, again)


RUNS_AT_ONCE: Final = 2  # of R, one thread each
PARTITIONS: Final = (Partition.TRUSTED,)  # those of a search that names none
NOT_COUNTED: Final = 3  # the first so many of each part: caches fill, statements are prepared


class Float32Model:
    """The bundled model in float32, one text and one thread a run, whatever arithmetic the product uses."""

    def __init__(self) -> None:
        onnxruntime = onnx_runtime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # Fold the int8 weights to float32 at load, so that no int8 kernel is used.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        model = str(minilm.FOLDER / minilm.MODEL_FILE)
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(str(minilm.FOLDER / minilm.TOKENIZER_FILE))
        self._tokenizer.no_padding()

    def embed(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a text."""
        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        (vectors,) = self._session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        return np.asarray(vectors[0], dtype=np.float32)

    def rate(self, texts: Sequence[str]) -> float:
        """Return R: texts a second, two runs of one thread at a time."""
        with ThreadPoolExecutor(RUNS_AT_ONCE) as threads:
            list(threads.map(self.embed, texts[:NOT_COUNTED]))
            started = time.perf_counter()
            list(threads.map(self.embed, texts))
            return len(texts) / (time.perf_counter() - started)

    def cpu_ms(self, texts: Sequence[str]) -> float:
        """Return the CPU milliseconds of embedding a text, alone."""
        for text in texts[:NOT_COUNTED]:
            self.embed(text)
        started = time.process_time()
        for text in texts:
            self.embed(text)
        return (time.process_time() - started) * 1000 / len(texts)


async def shipped_embedder(store: Store) -> Embedder:
    """Return the embedder that workers have by default, with the arithmetic that the store began with."""
    embedder = MiniLmEmbedder()
    any(embedder.adopt(sha256) for sha256 in await store.embedding_models(embedder.spec.name))
    await embedder.warm()
    return embedder


async def embed_query(embedder: Embedder, query: str) -> Vectors:
    """Embed a question as a search does."""
    return await embedder.embed([query], questions=True)


async def embed_content(embedder: Embedder, content: str) -> Vectors:
    """Embed a content as a store does."""
    return await embedder.embed([content])


async def batch_rate(embedder: Embedder, texts: Sequence[str], batch: int) -> float:
    """Return how many texts a second are embedded in batches as large as those of an import, as many at once."""
    batches = [texts[start : start + batch] for start in range(0, len(texts), batch)]
    await embedder.embed(batches[0])
    room = asyncio.Semaphore(embedder.spec.batches.concurrent)

    async def one(several: Sequence[str]) -> None:
        async with room:
            await embedder.embed(several)

    started = time.perf_counter()
    await asyncio.gather(*(one(several) for several in batches))
    return len(texts) / (time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class Parts:
    """Measures parts of calls in this process, on a filled store, milliseconds each; the first few are not counted."""

    database_url: str
    namespace: str
    model_id: int

    async def of_search(self, questions: Sequence[str]) -> dict[str, list[float]]:
        """Return what embedding a question takes, and all SQL of a search for it in the tables."""
        async with await Store.open(self.database_url) as store:
            vectors, embedding_ms = await _embedded(store, embed_query, questions)
            asked = [Asked(*item) for item in self._asked(questions, vectors)]
            return {"embedding": embedding_ms, "sql": await self._sql(store, asked, Sizes())}

    async def of_copy(self, questions: Sequence[str]) -> dict[str, list[float]]:
        """Return what proving the copy of the namespace takes, and all other SQL of searches with it.

        Empty where the namespace is too large for a copy.
        """
        sizes, asked, proof_ms = Sizes(), list[Asked](), list[float]()
        async with await Store.open(self.database_url) as store:
            vectors, _ = await _embedded(store, embed_query, questions)
            copies = Copies(store, sizes)
            for _ in range(SEARCHES_FIRST):
                await copies.prepare(self.namespace, PARTITIONS)
            for command, embedding in self._asked(questions, vectors):
                started = time.perf_counter()
                question = question_of(command, filters_of(command, None), UTC)
                copy = await copies.find_current(self.namespace, PARTITIONS, question)
                proof_ms.append((time.perf_counter() - started) * 1000)
                if copy is None:
                    return {}
                asked.append(Asked(command, embedding, copy))
            return {"proof": proof_ms[NOT_COUNTED:], "sql_with_copy": await self._sql(store, asked, sizes)}

    def _asked(
        self, questions: Sequence[str], vectors: Sequence[NDArray[np.float32]]
    ) -> Iterator[tuple[SearchMemories, Embedding]]:
        for question, vector in zip(questions, vectors, strict=True):
            command = SearchMemories(query=question, partitions=PARTITIONS)
            yield command, Embedding.of(self.model_id, vector)

    async def _sql(self, store: Store, asked: Sequence[Asked], sizes: Sizes) -> list[float]:
        """Return the milliseconds of all that each search sends, with nothing else done."""
        searches = [await record(store, self.namespace, lookup, sizes) for lookup in asked]

        async def again(number: int) -> None:
            await replay(store, self.namespace, searches[number], lookups=asked[number].copy is not None)

        return (await timed(again, len(searches)))[NOT_COUNTED:]

    async def of_store(self, contents: Sequence[str]) -> dict[str, list[float]]:
        """Return what embedding a content takes, and inserting it with both indexes and a synced commit."""
        ids: list[UUID] = []
        async with await Store.open(self.database_url) as store:
            vectors, embedding_ms = await _embedded(store, embed_content, contents)

            async def insert(number: int) -> None:
                async def write(tx: Transaction) -> None:
                    embedding = Embedding.of(self.model_id, vectors[number])
                    memory = NewMemory(content=contents[number])
                    draft = Draft(memory, Partition.TRUSTED, DEFAULT_PRINCIPAL, embedding)
                    columns = columns_of_draft(draft)
                    ids.append(columns["id"])
                    await tx.send("insert_memory_node", **columns)
                    await tx.row("insert_memory", **columns, embedding=embedding.half, model_id=embedding.model_id)

                await store.write(self.namespace, write)

            insert_ms = await timed(insert, len(contents))
            # Else the sweep would find them and have them linked while something else is measured.
            await store.write(self.namespace, lambda tx: erase_locked(tx, dict.fromkeys(ids)))
        return {"embedding": embedding_ms, "insert": insert_ms[NOT_COUNTED:]}


async def _embedded(
    store: Store, embed: Callable[[Embedder, str], Awaitable[Vectors]], texts: Sequence[str]
) -> tuple[list[NDArray[np.float32]], list[float]]:
    """Return the vectors of texts, embedded one after the other, and the milliseconds of each."""
    embedder, vectors = await shipped_embedder(store), list[NDArray[np.float32]]()

    async def one(number: int) -> None:
        vectors.append((await embed(embedder, texts[number]))[0])

    try:
        taken = await timed(one, len(texts))
    finally:
        await embedder.aclose()
    return vectors, taken[NOT_COUNTED:]
