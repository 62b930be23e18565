"""What privacy costs a search: the pages that PostgreSQL reads, which are the same on every machine (PV-6)."""

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from engramq.schemas.commands import ImportMemories, MemoriesImported
from engramq.schemas.commands.bulk import ImportRow
from engramq.schemas.envelope import Principal
from engramq.schemas.vocabulary import ALL_SCOPES, DEFAULT_NAMESPACE, Partition, Visibility
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding, HalfBytes, Sizes
from engramq.workers.db.viewers import Viewer
from engramq.workers.search.candidates import Filters, choose_query
from engramq.workers.search.question import Question
from tests.workers.conftest import World

ADA = Principal(name="ada", scopes=ALL_SCOPES)
QUESTION = "Where does heron 77 nest?"
MOST = 1.05
TENANT = "(tenant = nullif(current_setting('app.tenant', true), '')::integer)"
OWNED = (
    f"({TENANT} and (owner is null or owner between current_setting('app.owner_first', true) "
    "and current_setting('app.owner_last', true)))"
)
VIEWS = ("memories_in_namespace", "nodes_in_namespace")
FILTERS = Filters(partitions=(Partition.TRUSTED,))
# In the place of the model, for those that wait for it.
ANY_VECTOR = b"""
    update memories m set state = 'active', model_id = known.model_id, embedding = array(
        select sin(n * ascii(substr(m.node_id::text, 36)) + length(m.content))
        from generate_series(1, vector_dims(known.embedding::vector)) as n
    )::vector::halfvec
    from memories known where known.state = 'active' and m.state = 'pending'
"""


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


@pytest.fixture
def guards(world: World) -> Iterator[Guards]:
    guards = Guards(world.database.owner_url)
    yield guards
    guards.know_owners(True)


async def stored(world: World, name: str, count: int, visibility: Visibility) -> None:
    rows = tuple(
        ImportRow(content=f"{name.title()} says that heron {number} nests by pond {number % 7}", visibility=visibility)
        for number in range(count)
    )
    principal = Principal(name=name, scopes=ALL_SCOPES)
    imported = await world.ask(MemoriesImported, ImportMemories(records=rows), principal=principal)
    assert imported.accepted == count


async def pages(world: World, viewer: str, vector: Embedding) -> int:
    """Return how many pages a search of somebody reads, with what it takes to plan it."""

    async def explained(tx: Transaction) -> dict[str, Any]:
        query, values = await choose_query(tx, Sizes(), Question(QUESTION), vector, FILTERS)
        explain = partial(tx.row, b"explain (analyze, buffers, timing off, format json) " + query, **values)
        await explain()  # what the first one looks up in the catalogue
        row = await explain()
        assert row is not None
        found: dict[str, Any] = row["QUERY PLAN"][0]["Plan"]
        return found

    plan = await world.store.seen_by(Viewer.owning(viewer)).read(DEFAULT_NAMESPACE, explained)
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


@pytest.mark.own_database
@pytest.mark.promise("PV-6")
async def test_a_search_reads_no_more_for_being_private(world: World, guards: Guards) -> None:
    await stored(world, "ada", 900, Visibility.PRIVATE)
    await stored(world, "bob", 100, Visibility.SHARED)
    await world.keep(QUESTION, principal=ADA)
    world.database.owner.execute(ANY_VECTOR)
    world.database.owner.execute(b"vacuum analyze")
    (row,) = world.rows("select model_id, halfvec_send(embedding) as half from memories where state = 'active' limit 1")
    half = HalfBytes(row["half"])
    vector = Embedding(row["model_id"], int.from_bytes(half[:2]), half)
    read = {}
    for known in (True, False):
        await asyncio.to_thread(guards.know_owners, known)  # while the last read ends
        read[known] = {viewer: await pages(world, viewer, vector) for viewer in ("ada", "bob")}
    assert read[True]["ada"] <= read[False]["ada"] * MOST
    assert read[True]["bob"] < read[False]["bob"] / 2, "what others keep private is not read"
