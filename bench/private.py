"""Measure what private memories of others cost a search: CPU of PostgreSQL with the policies and without the owner.

    python -m bench.private [--memories 110000] [--private 100000] [--questions 40] [--rounds 6]

So many made-up memories of one namespace, most of them private to `ada`. Each round asks all questions by the
statements of a search with the policies and views of now, and with those that know tenants alone, as they were before
anything was private; which comes first alternates. CPU is that of the one session's server process, so that load from
elsewhere counts little. `ada` sees all memories in both cases; `bob` sees with the policies what everybody does. The
target is 5 %.
"""

import argparse
import asyncio
import re
import statistics
from functools import partial
from pathlib import Path
from typing import Final

import psycopg

from bench.common import PrivateStack, emit, private_stack
from bench.synthetic import Corpus, fill
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding, Sizes
from engramq.workers.db.viewers import Viewer
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.question import Question

BENCH: Final = "private"
NAMESPACE: Final = "bench"
TENANT: Final = "(tenant = nullif(current_setting('app.tenant', true), '')::integer)"
OWNED: Final = (
    f"({TENANT} and (owner is null or owner between current_setting('app.owner_first', true) "
    "and current_setting('app.owner_last', true)))"
)
VIEWS: Final = ("memories_in_namespace", "nodes_in_namespace")
FILTERS: Final = Filters(partitions=(Partition.TRUSTED,))
Asked = list[tuple[Question, Embedding]]


def make_private(owner_url: str, count: int) -> None:
    """Let `ada` own so many memories; the vector index is made anew, since rows one by one take minutes."""
    with psycopg.connect(owner_url, autocommit=True) as owner:
        indexes = owner.execute(
            "select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) from pg_index i "
            "join pg_class c on c.oid = i.indexrelid join pg_am a on a.oid = c.relam "
            "where a.amname = 'hnsw' and i.indrelid = 'memories'::regclass"
        ).fetchall()
        for name, _ in indexes:
            owner.execute(f"drop index {name}".encode())
        owner.execute("update memories set owner = 'ada' where node_id in (select id from nodes limit %s)", [count])
        owner.execute("update nodes n set owner = m.owner from memories m where m.node_id = n.id")
        owner.execute("set maintenance_work_mem = '1GB'")
        for _, definition in indexes:
            owner.execute(definition.replace(" ON ONLY ", " ON ").encode())
        owner.execute("vacuum analyze")


class Guards:
    """The policies and views, with and without the owner."""

    def __init__(self, owner_url: str) -> None:
        self._url = owner_url
        with psycopg.connect(owner_url) as owner:
            self._views = {name: self._definition(owner, name) for name in VIEWS}

    def know_owners(self, known: bool) -> None:
        """Put the guards up that know owners, or those that do not."""
        condition = OWNED if known else TENANT
        with psycopg.connect(self._url) as owner:
            for table in ("memories", "nodes", "edges"):
                owner.execute(f"alter policy own_tenant on {table} using {condition} with check {condition}".encode())
            for name, definition in self._views.items():
                bare = re.sub(r"WHERE .*", f"where {TENANT}", definition, flags=re.DOTALL)
                owner.execute(f"create or replace view {name} as {definition if known else bare}".encode())

    @staticmethod
    def _definition(owner: psycopg.Connection, name: str) -> str:
        row = owner.execute("select pg_get_viewdef(%s::regclass)", [name]).fetchone()
        assert row is not None
        return str(row[0]).rstrip(";")


async def cpu_ms(store: Store, asked: Asked) -> float:
    """Ask all questions; return what each took of the server process on average, in milliseconds."""
    pids, sizes = set(), Sizes()  # which a process remembers

    async def search(tx: Transaction, question: Question, embedding: Embedding) -> float:
        pids.add(tx.exchange.connection.info.backend_pid)
        (pid,) = pids
        before = _cpu_ns(pid)
        await find_candidates(tx, sizes, question, embedding, FILTERS)
        return (_cpu_ns(pid) - before) / 1e6

    taken = [
        await store.read(NAMESPACE, partial(search, question=question, embedding=embedding))
        for question, embedding in asked
    ]
    return statistics.mean(taken)


def _cpu_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0])


async def measure(stack: PrivateStack, memories: int, private: int, questions: int, rounds: int) -> None:
    """Measure both cases for who owns what is private and for who does not."""
    corpus = Corpus(memories)
    model_id = await fill(stack, corpus, BENCH)
    make_private(stack.owner_url, private)
    asked = [
        (Question(text), Embedding.of(model_id, vector)) for text, vector in (corpus.query() for _ in range(questions))
    ]
    guards = Guards(stack.owner_url)
    async with await Store.open(stack.database_url, pool_size=1) as store:
        for name in ("ada", "bob"):
            seen = store.seen_by(Viewer.owning(name))
            taken: dict[bool, list[float]] = {True: [], False: []}
            for number in range(rounds):
                for known in (True, False) if number % 2 else (False, True):
                    await asyncio.to_thread(guards.know_owners, known)  # while the last read ends
                    await cpu_ms(seen, asked[:5])  # plans are made anew
                    taken[known].append(await cpu_ms(seen, asked))
            now, before = statistics.median(taken[True]), statistics.median(taken[False])
            emit(
                BENCH, "search", synthetic=True, memories=memories, private=private, viewer=name, questions=questions,
                rounds=rounds, cpu_ms=now, without_ms=before, ratio=now / before, target=1.05,
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=110_000)
    parser.add_argument("--private", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=6)
    chosen = parser.parse_args()
    with private_stack() as stack:
        asyncio.run(measure(stack, chosen.memories, chosen.private, chosen.questions, chosen.rounds))


if __name__ == "__main__":
    main()
