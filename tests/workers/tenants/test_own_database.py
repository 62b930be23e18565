"""A database of one's own whose owner is no superuser: everything holds there, and full text keeps its index."""

import random
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest

from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.conninfo import WORKER_ROLE
from engramq.workers.db.database import Store
from engramq.workers.db.migrate import migrate
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import SMALL_ROWS, Embedding, Sizes
from engramq.workers.search.candidates import Filters, choose_query, find_candidates
from engramq.workers.search.question import Question
from tests.conftest import Database, TestServers
from tests.workers.tenants.tables import furnish, snapshot, tenant_tables
from tools.loading import Loaded, load

DIMENSIONS = 384
ROWS = {"large": SMALL_ROWS + 300, "other": 200}  # large enough for the vector index
NAMES = 5_000
random_vectors = np.random.default_rng(11)
CONTENTS = b"select content from memories where node_id = any(%(ids)s)"
TRUSTED = Filters(partitions=(Partition.TRUSTED,))


@pytest.fixture(scope="module")
def owned(servers: TestServers, template: str) -> Iterator[Database]:
    """A database as a managed service gives one: a superuser has done what engramq migrate asks for, no more."""
    name, password = f"engramq_test_{uuid4().hex[:12]}", uuid4().hex
    servers.administer(f"create role {name} login password '{password}' nosuperuser nocreatedb nocreaterole")
    servers.administer(f"grant {WORKER_ROLE} to {name}")  # the template's migrations have made it
    servers.administer(f"create database {name} owner {name}")
    try:
        with psycopg.connect(servers.url(name), autocommit=True) as connection:
            connection.execute("create extension vector")
        url = servers.url(name, f"{name}:{password}")
        yield Database(name, url, url)
    finally:
        servers.administer(f"drop database {name} with (force)")
        servers.administer(f"drop role {name}")


def vector() -> Embedding:
    made = random_vectors.standard_normal(DIMENSIONS).astype(np.float32)
    return Embedding.of(1, made / np.linalg.norm(made))


def made(namespace: str, number: int) -> Loaded:
    return Loaded(
        id=UUID(uuid7()), namespace=namespace, embedding=vector().half,
        content=f"fact {number} about {random.choice(['pumps', 'valves', 'pipes'])} of {namespace}",
    )  # fmt: skip


@pytest.fixture
async def store(owned: Database) -> AsyncIterator[Store]:
    if not await migrate(owned.owner_url):  # the database is shared by the tests of this module
        async with await Store.open(owned.url) as store:
            yield store
        return
    async with await Store.open(owned.url) as store:
        model_id = await store.register_embedding_model("hash", "", DIMENSIONS)
        rows = [made(namespace, number) for namespace, count in ROWS.items() for number in range(count)]
        await load(owned.owner_url, model_id, rows, memory="64MB")
        with psycopg.connect(owned.owner_url, autocommit=True) as connection:
            connection.execute(
                "insert into nodes (id, tenant, label, name, partition) "
                "select gen_random_uuid(), tenant_of('large'), 'Entity', 'Node ' || n, 'trusted' "
                "from generate_series(1, %s) n",
                [NAMES],
            )
            connection.execute("analyze")
        yield store


async def explained(store: Store, query: bytes, values: dict[str, Any], namespace: str = "large") -> str:
    async def explain(tx: Transaction) -> str:
        assert await tx.row(b"select current_user as who, row_security_active('memories') as held") == {
            "who": WORKER_ROLE,
            "held": True,
        }
        return "\n".join(row["QUERY PLAN"] for row in await tx.rows(b"explain (analyze) " + query, **values))

    return await store.read(namespace, explain)


@pytest.mark.promise("SE-6")
@pytest.mark.parametrize("degraded", [False, True])
async def test_full_text_and_vectors_keep_their_indexes(store: Store, degraded: bool) -> None:
    async def choose(tx: Transaction) -> tuple[bytes, dict[str, Any]]:
        return await choose_query(tx, Sizes(), Question("fact 77"), None if degraded else vector(), TRUSTED)

    plan = await explained(store, *await store.read("large", choose))
    assert "memories_trusted_lexemes_idx" in plan
    assert ("memories_trusted_embedding_idx" in plan) is not degraded
    assert "memories_untrusted" not in plan


async def test_names_that_resemble_keep_their_index(store: Store) -> None:
    plan = await explained(store, sql("names_alike"), {"name": "node 77", "beginning": "node 77%", "limit": 5})
    assert plan.count("nodes_name_folded") >= 2
    assert "Seq Scan" not in plan


@pytest.mark.promise("SE-6", "MT-14")
async def test_a_search_finds_its_own_namespace_alone(store: Store) -> None:
    for namespace in ("large", "other"):
        found = await store.read(namespace, lambda tx: find_candidates(tx, Sizes(), Question("fact 77"), None, TRUSTED))
        ids = [UUID(item) for item in found.ids]
        rows = await store.read(namespace, lambda tx, ids=ids: tx.rows(CONTENTS, ids=ids))  # type: ignore[misc]
        assert len(rows) == len(ids) > 0
        assert all(row["content"].endswith(f"of {namespace}") for row in rows)
    gone = await store.read("nobody", lambda tx: find_candidates(tx, Sizes(), Question("fact 77"), None, TRUSTED))
    assert len(gone) == 0


@pytest.mark.promise("SE-6")
async def test_policies_hold_and_cascades_pass_them(store: Store, owned: Database) -> None:
    with psycopg.connect(owned.owner_url, autocommit=True) as connection:
        tenant = furnish(connection, "cascading")
        assert "cascading" in await store.namespaces()
        assert await store.read("large", lambda tx: tx.rows(b"select 1 from tokens")) == []
        for table in tenant_tables(connection):
            query = f"select count(*) as n from {table}".encode()
            assert await store.read("nobody", lambda tx, query=query: tx.row(query)) == {"n": 0}  # type: ignore[misc]

        async def erase(tx: Transaction) -> None:
            await tx.send(b"delete from nodes where id = any(%(ids)s)", ids=list(tenant.ids.values()))

        await store.write("nobody", erase)
        assert len(snapshot(connection, "cascading")["memories"]) == 4
        await store.write("cascading", erase)
        left = snapshot(connection, "cascading")
    # What hangs on nodes went with them; what outlives them stayed.
    assert {table for table, rows in left.items() if rows} == {
        "namespaces", "lexeme_counts", "deferred_links", "proposals", "approvals", "audit_log", "ledger", "loads",
        "tokens", "deleted_graph", "imported_rows", "changes", "lexeme_rebuilds", "webhooks",
        "webhook_outbox", "audit_chain", "memory_totals",  # until upkeep folds its notes
    }  # fmt: skip
