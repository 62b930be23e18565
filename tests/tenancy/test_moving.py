"""A tenant is moved to another database: every row is there, none is here, whatever the move was killed by."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from engramq.schemas.tokens import token_digest
from engramq.workers.auth.tokens import owner_of
from engramq.workers.db.database import Store
from engramq.workers.db.errors import Held, Moved
from engramq.workers.tenants.copying import COPIED, NOT_COPIED, Copier, Pass, Unlike
from engramq.workers.tenants.moving import CannotMove, Step
from tests.conftest import Database, TestServers, new_database
from tests.tenancy.moving import HERE, THERE, abort, killed_at, move, move_back
from tests.tenancy.tables import NAME, Tenant, furnish, tenant_tables

pytestmark = [pytest.mark.anyio, pytest.mark.own_database]

NAMESPACE = "undine"
MINE = b"select content from memories where tenant = %(tenant)s order by content"


@pytest.fixture
def second(servers: TestServers, template: str) -> Iterator[Database]:
    """Another database, which has a tenant and a model of its own already: no number is the same in both."""
    with new_database(servers, template) as database:
        database.rows("select register_embedding_model('another', '', 8)")
        database.rows("select make_tenant('somebody')")
        yield database


@pytest.fixture
def tenant(database: Database) -> Tenant:
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        furnish(connection, "ada")
        return furnish(connection, NAMESPACE)


def rows_of(database: Database, namespace: str, tables: tuple[str, ...] = COPIED) -> dict[str, list[Any]]:
    """Return the rows of a tenant by table, without what is another number in another database."""
    found: dict[str, list[Any]] = {}
    for table in tables:
        rows = database.rows(
            f"select to_jsonb(t) - %s::text[] as told, to_jsonb(t) ->> 'lexemes' as words, "
            f"to_hex(t.tenant) || ':' as prefix from {table} t where tenant = tenant_of(%s) order by 1::text",
            ["tenant", "model_id", "load_id", "lexemes"],
            namespace,
        )
        found[table] = [(row["told"], (row["words"] or "").replace(row["prefix"], "")) for row in rows]
    return found


def audited(database: Database) -> list[dict[str, Any]]:
    return database.rows("select actor, action, new from audit_log where tenant = tenant_of(%s) order by id", NAMESPACE)


def standing(database: Database) -> list[dict[str, Any]]:
    return database.rows("select standing, place, move from namespaces where namespace = %s", NAMESPACE)


def without_the_moves(found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return found | {"audit_log": [one for one in found["audit_log"] if one[0]["action"] != "move_tenant"]}


def assert_moved(database: Database, second: Database, before: dict[str, list[Any]]) -> None:
    """Nothing lost, nothing doubled, nothing left."""
    assert without_the_moves(rows_of(second, NAMESPACE)) == before
    left = rows_of(database, NAMESPACE, (*COPIED, "loads", "changes", "lexeme_counts"))
    assert all(rows == [] for rows in left.values())
    assert standing(database) == [{"standing": "left", "place": THERE, "move": None}]
    assert standing(second) == [{"standing": None, "place": None, "move": None}]
    assert [one["action"] for one in audited(second)].count("move_tenant") == 1


def test_every_table_of_tenants_is_copied_or_says_why_not(database: Database) -> None:
    with psycopg.connect(database.owner_url) as connection:
        assert set(tenant_tables(connection)) == {*COPIED, *NOT_COPIED}


async def test_every_row_moves_and_others_stay(database: Database, second: Database, tenant: Tenant) -> None:
    before, adas = rows_of(database, NAMESPACE), rows_of(database, "ada")
    moved = await move(NAMESPACE, database.owner_url, second.owner_url)
    assert moved.rows == sum(len(rows) for rows in before.values())
    assert_moved(database, second, before)
    told = {"from": "primary", "to": THERE}
    assert audited(second)[-1] == {"actor": "operator", "action": "move_tenant", "new": told}
    assert rows_of(database, "ada") == adas
    (model,) = second.rows(
        "select distinct e.name from memories m join embedding_models e on e.id = m.model_id "
        "where m.tenant = tenant_of(%s)",
        NAMESPACE,
    )
    assert model == {"name": "hash"}
    # The target goes on with the model that it had chosen.
    chosen = second.rows("select name from embedding_models order by chosen_at desc")
    assert chosen == [{"name": "another"}, {"name": "hash"}]
    # Its next entry of the audit log has a number of its own.
    entry = "insert into audit_log (tenant, namespace, actor, action) values (tenant_of(%s), 'undine', 'ada', 'update')"
    second.rows(entry, NAMESPACE)


async def test_whoever_enters_is_told_where_the_tenant_is(database: Database, second: Database, tenant: Tenant) -> None:
    async with await Store.open(database.url) as store, await Store.open(second.url, makes_tenants=False) as there:
        mine = await store.read(NAMESPACE, lambda tx: tx.rows(MINE))
        await move(NAMESPACE, database.owner_url, second.owner_url)
        with pytest.raises(Moved):
            await store.enter(NAMESPACE)
        await there.enter(NAMESPACE)
        for work in (store.read, store.write, store.snapshot, store.write_at_length):
            with pytest.raises(Moved) as moved:
                await work(NAMESPACE, lambda tx: tx.rows(MINE))
            assert moved.value.place == THERE
        assert await there.read(NAMESPACE, lambda tx: tx.rows(MINE)) == mine
        assert NAMESPACE not in await store.namespaces()
        assert NAMESPACE in await there.namespaces()
    assert database.rows("select * from token_owner(%s)", "x") == []


async def test_a_token_counts_where_its_tenant_is(database: Database, second: Database, tenant: Tenant) -> None:
    digest = token_digest(tenant.token)
    async with await Store.open(database.url) as here, await Store.open(second.url, makes_tenants=False) as there:
        assert (await owned_by(here, digest), await owned_by(there, digest)) == (NAMESPACE, None)
        await move(NAMESPACE, database.owner_url, second.owner_url)
        assert (await owned_by(here, digest), await owned_by(there, digest)) == (None, NAMESPACE)


async def owned_by(store: Store, digest: str) -> str | None:
    owner = await owner_of(store, digest)
    return None if owner is None else owner.namespace


@pytest.mark.parametrize("step", [Step.LEFT, Step.COMPARED])
async def test_a_token_is_not_unknown_while_nobody_serves_its_tenant(
    database: Database, second: Database, tenant: Tenant, step: Step
) -> None:
    digest = token_digest(tenant.token)
    await killed_at(step, NAMESPACE, database.owner_url, second.owner_url)
    async with await Store.open(database.url) as here, await Store.open(second.url, makes_tenants=False) as there:
        for store in (here, there):
            with pytest.raises(Held):
                await owner_of(store, digest)
            assert await owner_of(store, token_digest("another")) is None
        await move(NAMESPACE, database.owner_url, second.owner_url)
        assert (await owned_by(here, digest), await owned_by(there, digest)) == (None, NAMESPACE)


@pytest.mark.parametrize("step", [step for step in Step if step is not Step.DONE])
async def test_a_move_that_was_killed_goes_on(database: Database, second: Database, tenant: Tenant, step: Step) -> None:
    before = rows_of(database, NAMESPACE)
    await killed_at(step, NAMESPACE, database.owner_url, second.owner_url)
    await move(NAMESPACE, database.owner_url, second.owner_url)
    assert_moved(database, second, before)


@pytest.mark.parametrize("step", [Step.BEGUN, Step.COPYING, Step.COPIED, Step.HELD, Step.LEFT, Step.COMPARED])
async def test_a_move_that_was_killed_is_taken_back(
    database: Database, second: Database, tenant: Tenant, step: Step
) -> None:
    before = rows_of(database, NAMESPACE)
    await killed_at(step, NAMESPACE, database.owner_url, second.owner_url)
    await abort(NAMESPACE, database.owner_url, second.owner_url)
    assert standing(database) == [{"standing": None, "place": None, "move": None}]
    assert standing(second) == []
    assert rows_of(database, NAMESPACE) == before
    async with await Store.open(database.url) as store:
        await store.write(NAMESPACE, lambda tx: tx.rows(MINE))
    with pytest.raises(CannotMove, match="not being moved"):
        await abort(NAMESPACE, database.owner_url, second.owner_url)


async def test_who_came_for_a_tenant_whose_move_was_taken_back_is_sent_to_where_it_stays(
    database: Database, second: Database, tenant: Tenant
) -> None:
    """A worker that heard of the move keeps in mind where the tenant was to be."""
    await killed_at(Step.LEFT, NAMESPACE, database.owner_url, second.owner_url)
    async with await Store.open(second.url, makes_tenants=False) as there:
        for work in (there.read, there.write):
            with pytest.raises(Held):
                await work(NAMESPACE, lambda tx: tx.rows(MINE))
        await abort(NAMESPACE, database.owner_url, second.owner_url)
        for work in (there.read, there.write):
            with pytest.raises(Moved) as moved:
                await work(NAMESPACE, lambda tx: tx.rows(MINE))
            assert moved.value.place == HERE


async def test_what_has_arrived_is_not_taken_back(database: Database, second: Database, tenant: Tenant) -> None:
    await killed_at(Step.ARRIVED, NAMESPACE, database.owner_url, second.owner_url)
    with pytest.raises(CannotMove, match="has arrived"):
        await abort(NAMESPACE, database.owner_url, second.owner_url)
    await move(NAMESPACE, database.owner_url, second.owner_url)
    with pytest.raises(CannotMove, match="not being moved"):
        await abort(NAMESPACE, database.owner_url, second.owner_url)


async def test_it_moves_back_and_there_again(database: Database, second: Database, tenant: Tenant) -> None:
    before = rows_of(database, NAMESPACE)
    await move(NAMESPACE, database.owner_url, second.owner_url)
    await move_back(NAMESPACE, database.owner_url, second.owner_url)
    assert without_the_moves(rows_of(database, NAMESPACE)) == before
    assert standing(second) == [{"standing": "left", "place": "primary", "move": None}]
    await move(NAMESPACE, database.owner_url, second.owner_url)
    assert without_the_moves(rows_of(second, NAMESPACE)) == before
    assert [one["action"] for one in audited(second)].count("move_tenant") == 3


async def test_while_it_is_held_it_is_read_and_writes_wait(
    database: Database, second: Database, tenant: Tenant
) -> None:
    async with await Store.open(database.url) as store:
        await killed_at(Step.HELD, NAMESPACE, database.owner_url, second.owner_url)
        assert await store.read(NAMESPACE, lambda tx: tx.rows(MINE))
        with pytest.raises(Held):
            await store.write(NAMESPACE, lambda tx: tx.rows(MINE))
        database.rows("update namespaces set held_until = now() where namespace = %s", NAMESPACE)  # 30 s later
        await store.write(NAMESPACE, lambda tx: tx.rows(MINE))


async def test_what_a_hold_lets_in_that_ended_too_early_is_moved_too(
    database: Database, second: Database, tenant: Tenant
) -> None:
    """What is written between the last copy and the end, by whoever found the hold over."""
    wrote = []

    def tell(step: Step) -> None:
        if step is Step.LEFT:
            wrote.append(database.rows(
                "update memories set content = 'late' where tenant = %s and node_id = %s returning content",
                tenant.number, tenant.ids["memory"],
            ))  # fmt: skip
            database.rows("delete from edges where tenant = %s and id = %s", tenant.number, tenant.ids["edge"])

    await move(NAMESPACE, database.owner_url, second.owner_url, tell)
    assert wrote == [[{"content": "late"}]]
    here = "tenant = tenant_of(%s)"
    assert second.rows(f"select count(*) as n from memories where content = 'late' and {here}", NAMESPACE) == [{"n": 1}]
    assert second.rows(f"select count(*) as n from edges where layer = 'knowledge' and {here}", NAMESPACE) == [{"n": 0}]


async def test_what_changes_while_it_is_copied_is_moved_as_it_is_in_the_end(
    database: Database, second: Database, tenant: Tenant
) -> None:
    """A promotion, an erasure, two nodes that change their names for each other's."""
    told = list[Step]()

    def tell(step: Step) -> None:
        told.append(step)
        if step is Step.COPIED and told.count(step) == 1:
            names = "select name from nodes where tenant = %s and id = %s"
            (one,), (other,) = (database.rows(names, tenant.number, tenant.ids[which]) for which in ("node", "far"))
            for which, name in (("node", "x"), ("far", one["name"]), ("node", other["name"])):
                change = "update nodes set name = %s where tenant = %s and id = %s"
                database.rows(change, name, tenant.number, tenant.ids[which])
            database.rows(
                "with n as (update nodes set partition = 'trusted' where tenant = %s and id = %s) "
                "update memories set partition = 'trusted' where tenant = %s and node_id = %s",
                *(tenant.number, tenant.ids["untrusted"]) * 2,
            )
            database.rows("delete from nodes where tenant = %s and id = %s", tenant.number, tenant.ids["other"])

    await move(NAMESPACE, database.owner_url, second.owner_url, tell)
    found = second.rows(
        "select partition, count(*) as n from memories where tenant = tenant_of(%s) group by 1", NAMESPACE
    )
    assert found == [{"partition": "trusted", "n": 3}]
    assert second.rows("select name from nodes where id = %s", tenant.ids["far"]) == [{"name": NAME}]


@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_copy_that_turns_out_unlike_in_the_end_can_be_taken_back_or_mended(
    database: Database, second: Database, tenant: Tenant, goes_on: bool
) -> None:
    before = rows_of(database, NAMESPACE)

    def tell(step: Step) -> None:
        if step is Step.LEFT:
            second.rows("delete from edges where tenant = tenant_of(%s)", NAMESPACE)

    with pytest.raises(Unlike, match="edges"):
        await move(NAMESPACE, database.owner_url, second.owner_url, tell)
    async with await Store.open(database.url) as store:
        await store.write(NAMESPACE, lambda tx: tx.rows(MINE))
    (found,) = standing(database)
    assert (found["standing"], found["move"]["step"]) == (None, "copying")
    if goes_on:
        await move(NAMESPACE, database.owner_url, second.owner_url)
        assert_moved(database, second, before)
    else:
        await abort(NAMESPACE, database.owner_url, second.owner_url)
        assert standing(database) == [{"standing": None, "place": None, "move": None}]
        assert standing(second) == []
        assert second.rows("select 1 from memories") == []
        assert rows_of(database, NAMESPACE) == before


@pytest.mark.parametrize(
    ("meanwhile", "looks_at_all"),
    [("select 1", False), ("""update namespaces set move = jsonb_set(move, '{since,there}', '"another"')""", True)],
)
async def test_a_move_that_was_killed_when_it_had_left_compares_what_changed_alone(
    database: Database, second: Database, tenant: Tenant, monkeypatch: pytest.MonkeyPatch,
    meanwhile: str, looks_at_all: bool,
) -> None:  # fmt: skip
    """Nobody serves the tenant meanwhile. Another server there is looked at as a whole."""
    run = Copier.run
    looked = list[bool]()

    async def noted(self: Copier, since: int | None = None) -> Pass:
        looked.append(since is None)
        return await run(self, since)

    await killed_at(Step.LEFT, NAMESPACE, database.owner_url, second.owner_url)
    database.rows("update memories set content = 'late' where tenant = %s and node_id = %s",
                  tenant.number, tenant.ids["memory"])  # fmt: skip
    before = rows_of(database, NAMESPACE)
    database.rows(meanwhile)
    monkeypatch.setattr(Copier, "run", noted)
    await move(NAMESPACE, database.owner_url, second.owner_url)
    assert looked == [looks_at_all]
    assert_moved(database, second, before)


async def test_a_row_that_the_target_never_takes_is_said_by_its_constraint(
    database: Database, second: Database, tenant: Tenant
) -> None:
    told = list[Step]()
    second.rows("create unique index one_of_a_tenant on nodes (tenant, partition)")
    with pytest.raises(CannotMove, match=r"constraint '\w+' of 'nodes"):
        await move(NAMESPACE, database.owner_url, second.owner_url, told.append)
    second.rows("drop index one_of_a_tenant")
    second.rows("alter table memories add constraint takes_none check (false)")
    with pytest.raises(psycopg.errors.CheckViolation):
        await move(NAMESPACE, database.owner_url, second.owner_url, told.append)
    assert Step.COPIED not in told
    await abort(NAMESPACE, database.owner_url, second.owner_url)
    assert standing(second) == []


async def test_it_is_refused_before_anything_is_held(database: Database, second: Database, tenant: Tenant) -> None:
    with pytest.raises(CannotMove, match="no namespace"):
        await move("nobody", database.owner_url, second.owner_url)
    with pytest.raises(CannotMove, match="same database"):
        await move(NAMESPACE, database.owner_url, database.owner_url)
    with pytest.raises(CannotMove, match="does not own"):
        await move(NAMESPACE, database.owner_url, second.url)
    second.rows("select make_tenant(%s)", NAMESPACE)
    with pytest.raises(CannotMove, match="already"):
        await move(NAMESPACE, database.owner_url, second.owner_url)
    assert standing(database) == [{"standing": None, "place": None, "move": None}]
    assert json.dumps(standing(second)) == json.dumps(standing(database))
