"""Plans that a session keeps serve the tenant that is larger than all others, too: they go by keys."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest
from msgspec import UNSET

from engramq.schemas.commands import (
    Activated,
    ClassifySectors,
    EdgeMissing,
    GetEdge,
    GetMemory,
    MemoryFound,
    OutcomeRecorded,
    RecordOutcome,
    SectorsClassified,
    Verified,
    VerifyMemory,
)
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE, Verification
from engramq.workers.db import vectors
from engramq.workers.db.queries import native, sized_sql, sql
from engramq.workers.db.transaction import LOOK_UP, Row
from engramq.workers.db.vectors import Sizes
from engramq.workers.links.rules import LinkRules
from engramq.workers.links.similarity import SimilarityLinker
from engramq.workers.sectors.handlers import Classifier
from tests.conftest import Database, TestServers, new_database
from tests.running import opened
from tests.workers.conftest import World
from tests.workers.db.test_keys import scans

pytestmark = pytest.mark.long  # thousands of rows are made once for all

TRUSTED = "memories_trusted"
ID = "00000000-0000-0000-0000-000000000001"
FILL = b"""
    with made as (
        insert into nodes (id, tenant, label, partition)
        select gen_random_uuid(), least(number, 300), 'Memory', 'trusted' from generate_series(1, 300) number,
            generate_series(1, case number when 300 then 10000 else 20 end)
        returning id, tenant, random() < .03 as is_old
    )
    insert into memories (
        node_id, partition, tenant, content, confidence, source, verification, state, lexemes, created_by,
        superseded_by, superseded_at
    )
    select id, 'trusted', tenant, 'x', 1, 'extracted', 'unverified', 'pending', '', 'me',
        case when is_old then gen_random_uuid() end, case when is_old then now() end from made
"""
LINKS = b"""
    with placed as (
        select tenant, node_id, row_number() over (partition by tenant order by node_id) as place from memories
    )
    insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin)
    select gen_random_uuid(), tenant, 'association', a.node_id, b.node_id, 'similar', .5, 'similarity'
    from placed a join placed b using (tenant) where b.place between a.place + 1 and a.place + 3
"""


@pytest.fixture(scope="module")
def large_beside_small(servers: TestServers, template: str) -> Iterator[str]:
    """The name of a database with a large tenant beside 299 small ones."""
    with new_database(servers, template) as database:
        with psycopg.connect(database.owner_url, autocommit=True) as owner:
            owner.execute(b"select make_tenant('t' || number) from generate_series(1, 300) number")
            owner.execute(FILL)
            owner.execute(b"analyze")
        yield database.name


@pytest.fixture
def filled(servers: TestServers, large_beside_small: str) -> Iterator[Database]:
    """A copy of it: to fill one takes 2 s."""
    with new_database(servers, large_beside_small) as database:
        yield database


@pytest.mark.promise("MT-19")
def test_what_rests_on_a_memory_is_found_by_what_it_cites(filled: Database) -> None:
    cited = b"jsonb_build_array(jsonb_build_object('memory_id', gen_random_uuid()))"
    filled.owner.execute(b"update memories set evidence = " + cited + b" where tenant = 300")
    filled.owner.execute(b"analyze")
    text, parameters = native(sql("resting_on"))
    given = {"tenant": "300", "ids": f"'{{{ID}}}'", "limit": "5"}
    values = ", ".join(given[parameter] for parameter in parameters)
    with psycopg.connect(filled.owner_url) as connection:
        for before in (LOOK_UP, sql("plan_anew")):
            connection.execute(native(before)[0])
        connection.execute(b"prepare kept as " + text)
        row = connection.execute(f"explain (format json) execute kept({values})".encode()).fetchone()
    assert row is not None
    assert "ground_keys" in str(row[0])
    indexes = re.findall(r"'Index Name': '(\w+)'", str(row[0]))
    assert any("ground" in name for name in indexes), indexes


LISTED = {
    "tenant": "300", "partitions": "'{trusted}'", "include_superseded": "false", "project_only": "false",
    "project": "'*'", "limit": "26", "sorts": "false",
}  # fmt: skip
SOME = b"select node_id from memories where tenant = 300 limit 30"
FEW = b"update memories set %s where tenant = 300 and node_id in (" + SOME + b")"


@pytest.mark.promise("OP-12")
def test_a_list_of_what_few_memories_have_reads_no_others(filled: Database) -> None:
    for change in (
        b"state = 'archived'", b"verification = 'rejected'", b"source_type = 'research'", b"created_by = 'lena'",
        b"project = 'small'", b"occurred_at = '2024-01-02'", b"valid_from = '2020-01-02'",
    ):  # fmt: skip
        filled.owner.execute(FEW % change)
    filled.owner.execute(b"update memories set state = 'archived' where tenant = 300 and state = 'pending'")
    filled.owner.execute(b"analyze")
    text, parameters = native(sql("recent_memories"))
    span = {"since": "'2024-01-01'", "until": "'2024-01-03'", "sorts": "true"}
    for asked in (
        {"states": "'{pending}'"}, {"verifications": "'{rejected,approved}'"}, {"source_type": "'research'"},
        {"created_by": "'lena'"}, {"project": "'small'", "project_only": "true"}, {"as_of": "'2020-06-01'"}, span,
    ):  # fmt: skip
        assert rows_read(filled, text, parameters, asked) < 200, asked
    filled.owner.execute(b"update memories set state = 'pending' where tenant = 300")
    filled.owner.execute(FEW % b"state = 'archived'")
    filled.owner.execute(b"analyze")
    assert rows_read(filled, text, parameters, {"states": "'{archived}'"}) < 200


def rows_read(filled: Database, text: bytes, parameters: Sequence[str], asked: Mapping[str, str]) -> int:
    """Return how many rows of trusted memories a query looks at as workers plan it."""
    values = ", ".join({**LISTED, **asked}.get(parameter, "null") for parameter in parameters)
    with psycopg.connect(filled.owner_url) as connection:
        connection.execute(b"set plan_cache_mode = force_custom_plan")
        connection.execute(b"select set_config('app.tenant', '300', true)")
        connection.execute(b"prepare kept as " + text)
        return looked_at(connection, values)


def looked_at(connection: psycopg.Connection[Any], values: str) -> int:
    """Return how many rows of trusted memories the statement `kept` looks at."""
    row = connection.execute(f"explain (analyze, format json) execute kept({values})".encode()).fetchone()
    assert row is not None
    read = [scan for scan in scans(row[0][0]["Plan"]) if scan["Relation Name"] == TRUSTED]
    return int(sum(scan["Actual Rows"] * scan["Actual Loops"] + scan.get("Rows Removed by Filter", 0) for scan in read))


def test_whether_there_are_other_projects_is_seen_without_a_look_at_memories(filled: Database) -> None:
    """As workers, whom policies hold: a search that shows nothing looked at all memories of a namespace."""
    filled.owner.execute(FEW % b"project = 'small'")
    filled.owner.execute(b"analyze")
    text, parameters = native(sql("project_beside"))
    with psycopg.connect(filled.url) as connection:
        connection.execute(b"select set_config('app.tenant', '300', true)")
        connection.execute(native(LOOK_UP)[0])
        connection.execute(b"prepare kept as " + text)
        for project in ("null", "'big'", "'small'"):
            values = ", ".join({"tenant": "300", "project": project}[parameter] for parameter in parameters)
            assert looked_at(connection, values) <= 2, project


@pytest.mark.promise("MT-19")
def test_an_erasure_a_look_up_and_what_follows_a_store_read_by_keys_in_a_large_tenant_beside_small_ones(
    filled: Database,
) -> None:
    filled.owner.execute(LINKS)
    filled.owner.execute(b"analyze")
    look_up, _ = native(LOOK_UP)
    given = {
        "tenant": "300", "ids": f"'{{{ID}}}'", "beside": "'{}'", "limit": "5", "embedders": "'{}'", "model_id": "1",
        "within_s": "0.5", "compared": "1000", "partitions": "'{trusted}'", "include_superseded": "false",
        "as_of": "null", "project": "'*'", "k": "5", "farthest": "1", "id": f"'{ID}'",
        "beginning_chars": "100", "verification": "'approved'",
        "lows": f"'{{{ID}}}'", "highs": f"'{{{ID}}}'", "command_id": f"'{ID}'",
    }  # fmt: skip
    erasing = ("lock_around", "around", "erase_memories")
    following = ("unlinked_memories", "unclassified_contents", "links_at")
    reading = (
        "memories_by_id",
        "links_of",
        "replaced_by",
        "memory_beginnings",
        "grounds",
        "owners_among",
        "link_notes",
    )
    reviewing = ("verify", "behind", "hidden_as_replaced", "confidences", "replacements")
    for query in (*map(sql, (*erasing, *following, *reading, *reviewing)), sized_sql("stored_together", 3)):
        text, parameters = native(query)
        with psycopg.connect(filled.owner_url) as connection:
            connection.execute(look_up)
            connection.execute(b"prepare kept as " + text)
            values = ", ".join(given[parameter] for parameter in parameters)
            row = connection.execute(f"explain (format json) execute kept({values})".encode()).fetchone()
        assert row is not None
        read = [
            scan.get("Index Cond") for scan in scans(row[0][0]["Plan"]) if scan["Relation Name"] in {TRUSTED, "edges"}
        ]
        assert read
        assert [condition for condition in read if not condition or " AND " not in condition] == [], text


def test_the_neighbours_of_a_new_memory_are_found_among_its_tenants_rows(filled: Database) -> None:
    text, parameters = native(sized_sql("nearest_exact", 3))
    given = {
        "tenant": "300", "embedding": "'[1,0,0]'", "partitions": "'{trusted}'", "partition": "'trusted'",
        "model_id": "1", "include_superseded": "false", "as_of": "null", "project": "'*'", "k": "5", "farthest": "1",
    }  # fmt: skip
    values = ", ".join(given[parameter] for parameter in parameters)
    with psycopg.connect(filled.owner_url) as connection:
        connection.execute(native(LOOK_UP)[0])
        connection.execute(b"prepare kept as " + text)
        row = connection.execute(f"explain (format json) execute kept({values})".encode()).fetchone()
    assert row is not None
    of_memories = [scan for scan in scans(row[0][0]["Plan"]) if scan["Relation Name"].startswith("memories")]
    assert {scan["Relation Name"] for scan in of_memories} == {TRUSTED}
    assert all("tenant" in scan.get("Index Cond", "") for scan in of_memories), of_memories


def test_the_neighbours_of_a_new_memory_among_many_are_found_by_the_vector_index(filled: Database) -> None:
    model = filled.rows("select register_embedding_model('three', '', 3) as id")[0]["id"]
    several = b"case when random() < .9 then random() end"  # the others are equal: most are outside of the index
    vector = b"array[1, coalesce(%b, 0), coalesce(%b, 0)]::halfvec" % (several, several)
    filled.owner.execute(b"update memories set embedding = %b, model_id = %d, state = 'active'" % (vector, model))
    filled.owner.execute(b"analyze")
    text, parameters = native(sized_sql("nearest_by_index", 3, model))
    assert "model_id" not in parameters
    given = LISTED | {"embedding": "'[1,0,0]'", "partition": "'trusted'", "as_of": "null", "k": "5", "farthest": "1"}
    values = ", ".join(given[parameter] for parameter in parameters)
    with psycopg.connect(filled.owner_url) as connection:
        connection.execute(native(LOOK_UP)[0])
        connection.execute(native("without_sorting")[0])
        connection.execute(b"prepare kept as " + text)
        row = connection.execute(f"explain (format json) execute kept({values})".encode()).fetchone()
    assert row is not None
    of_memories = [scan for scan in scans(row[0][0]["Plan"]) if scan["Relation Name"] == TRUSTED]
    by_index = {scan["Index Name"]: scan for scan in of_memories if "Index Name" in scan}
    assert "Order By" in by_index.pop("memories_trusted_embedding_idx")
    assert "vector_key =" in by_index["memories_trusted_tenant_vector_key_node_id_idx"]["Index Cond"]
    assert [name for name, scan in by_index.items() if "tenant =" not in scan["Index Cond"]] == []


@pytest.mark.own_database
@pytest.mark.parametrize("exact_rows", [vectors.EXACT_ROWS, 0])
async def test_what_a_store_sends_and_what_follows_it_is_planned_once_a_session(
    world: World, monkeypatch: pytest.MonkeyPatch, exact_rows: int
) -> None:
    """A third of PostgreSQL's time for a store went into the same plans again and again."""
    monkeypatch.setattr(vectors, "EXACT_ROWS", exact_rows)
    monkeypatch.setattr(vectors, "SMALL_ROWS", min(exact_rows, vectors.SMALL_ROWS))
    linker = SimilarityLinker(
        store=world.store, sizes=Sizes(), rules=world.services[LinkRules], threshold=0.5, debounce_s=0.0
    )
    world.use(Classifier(store=world.store, debounce_s=0.0), linker)
    for number in range(4):
        stored = (await world.keep(f"Heron {number} nests by the pond")).stored
        await world.ask(SectorsClassified, ClassifySectors(memory_ids=(stored.id,)))
        near = () if number % 2 else UNSET  # found by the store, or still to be looked for
        linker.schedule(DEFAULT_NAMESPACE, [Activated(memory_id=stored.id, near=near)])
        await linker.link_scheduled()
    rows = await list_prepared(world)
    kinds = r"insert into (?:ledger|nodes|memories|edges)|update ledger|links_made_at = now|standing_source =|<=> [$]"
    kinds += "|from deferred_links d|model_id, e.dimensions|of_late|as fingerprint|e.end_id, e.id"
    planned = [(found[0], row) for row in rows if (found := re.search(kinds, row["statement"]))]
    assert len({kind for kind, _ in planned}) == 13
    assert [row for _, row in planned if row["custom_plans"] or not row["generic_plans"]] == []


@pytest.mark.own_database
async def test_what_is_looked_up_and_reviewed_by_id_is_planned_once_a_session(world: World) -> None:
    """To plan it took longer than to carry it out."""
    ids = [(await world.keep(text)).stored.id for text in ("Ada knows Bob", "Bob knows Eve")]
    for memory_id in (*ids, *ids):
        await world.ask(EdgeMissing, GetEdge(source_name="Ada", target_name="Bob", relation="knows"))
        await world.ask(MemoryFound, GetMemory(memory_id=memory_id))
        await world.ask(Verified, VerifyMemory(memory_id=memory_id, verification=Verification.APPROVED))
        await world.ask(OutcomeRecorded, RecordOutcome(memory_ids=tuple(ids), signal=0.9))
    kinds = "join nodes s|m.content,|set verification|memory_usage"
    planned = [(found[0], row) for row in await list_prepared(world) if (found := re.search(kinds, row["statement"]))]
    assert len({kind for kind, _ in planned}) == 4, planned
    assert [row for _, row in planned if row["custom_plans"] or not row["generic_plans"]] == []


async def list_prepared(world: World) -> list[Row]:
    """Return the statements that sessions keep, and how often they were planned; a few sessions took turns."""
    asked = b"select statement, generic_plans, custom_plans from pg_prepared_statements"
    await asyncio.gather(*world.store._ending)  # else a new session is lent for one that ends a read
    async with AsyncExitStack() as lent:
        txs = [await lent.enter_async_context(opened(world.store, DEFAULT_NAMESPACE)) for _ in range(4)]
        return [row for tx in txs for row in await tx.rows(asked)]
