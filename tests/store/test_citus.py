"""Against the rules that Citus documents for distributed tables, over the catalogue and over every named query.

No Citus is at hand, so this says what follows from its documentation ("SQL Support and Workarounds", "Creating and
Modifying Distributed Objects", both of 12 and 13; its issues for CTEs that modify), and no more.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engramq.schemas.vocabulary import Partition
from engramq.workers.db import queries
from engramq.workers.db.database import Store
from engramq.workers.db.loads import open_load
from engramq.workers.db.queries import sized_sql
from engramq.workers.db.readiness import NotReady
from tests.conftest import Database
from tests.store.citus_rules import Rules
from tests.store.query_trees import Catalogue, Node, parsed, within
from tests.tenancy.statements import DIMENSIONS, PREDICATE, STATEMENT
from tests.tenancy.tables import furnish, tenant_tables

CITUS = Path(__file__).parents[2] / "deploy" / "citus.sql"
DISTRIBUTED = re.compile(r"create_distributed_table\('(\w+)', 'tenant'(, colocate_with => 'nodes')?\)")
REFERENCE = re.compile(r"create_reference_table\('(\w+)'\)")
FUNCTION = re.compile(r"create_distributed_function\('(\w+)\(")

VIEWS = ("memories_in_namespace", "nodes_in_namespace")
LOCAL = {"schema_migrations"}  # the coordinator's own: asked by no statement about tenants

# Questions about all tenants: functions, run on the coordinator as the owner, each of which reads all nodes; and why.
ACROSS_TENANTS = {
    "blank_audit": "within the tenant that was entered",
    "blank_audit_of_deleted": "within the tenant that was entered",
    "changed_namespaces": "upkeep: where something changed",
    "decaying_namespaces": "upkeep: whose links decay; of the directory alone",
    "delete_revoked_tokens": "within the tenant that was entered; of the directory alone",
    "every_namespace": "the command line; of the directory alone",
    "expiring_namespaces": "upkeep: where memories expire",
    "load_covered": "never called there: there are no loads",
    "loads_over": "upkeep: there are no loads there",
    "namespaces_to_tell": "webhooks that are due",
    "namespaces_without_pieces": "upkeep: where long memories lack their pieces",
    "outdated_namespaces": "upkeep: where something is older than it is kept",
    "rebuilding_namespaces": "upkeep: whose words are made anew",
    "retire_embedding_models": "upkeep: models that no tenant uses",
    "settle_changes": "upkeep: where nothing is left to be done",
    "token_owner": "sign-in; of the directory alone",
    "vectors_by_model": "checks: how many vectors there are of each model",
    "webhook_messages": "status and gauges: what webhooks have not taken",
}

# What the rules of tests/store/citus_rules.py find, and what makes it harmless.
LOADS = "nested: load_covered"  # never called there: there are no loads, so that the condition before it holds
OF_THE_NODE = "what it is compared with is on the same node"
HARMLESS = {
    "copy_ids": {"session: pg_current_snapshot": OF_THE_NODE},
    "copy_state": {"session: pg_current_snapshot": OF_THE_NODE},
    "ledger_begin": {"session: pg_backend_pid": "a node's session will do: no two have it at a time"},
    "note_change": {"session: pg_backend_pid": "a node's session will do: no two have it at a time"},
}


@pytest.fixture
def owner(database: Database) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        yield connection


def texts() -> Iterator[tuple[str, str]]:
    for name in queries.names():
        text = sized_sql(name, DIMENSIONS).decode()
        if STATEMENT.match(text):
            yield name, text


def in_citus() -> tuple[list[str], list[str]]:
    """Return what deploy/citus.sql distributes, in order, and what it keeps whole everywhere."""
    text = CITUS.read_text(encoding="utf-8")
    return [found[0] for found in DISTRIBUTED.findall(text)], REFERENCE.findall(text)


def rules_of(owner: psycopg.Connection[Any]) -> Rules:
    distributed, reference = in_citus()
    return Rules(Catalogue.read(owner), frozenset([*distributed, *VIEWS]), frozenset(reference))


@pytest.mark.promise("SC-6")
def test_every_table_has_its_place_in_the_cluster(owner: psycopg.Connection[Any]) -> None:
    distributed, reference = in_citus()
    rows = owner.execute(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') "
        "and not relispartition"
    ).fetchall()
    assert sorted([*distributed, *reference, *LOCAL]) == sorted(row[0] for row in rows)
    assert set(tenant_tables(owner)) - set(reference) == set(distributed)
    without = [name for name, colocated in DISTRIBUTED.findall(CITUS.read_text(encoding="utf-8")) if not colocated]
    assert without == [distributed[0]] == ["nodes"]  # all others are beside it


@pytest.mark.promise("SC-6")
def test_keys_are_what_citus_takes(owner: psycopg.Connection[Any]) -> None:
    """Unique constraints hold the tenant; foreign keys lead to the same tenant's rows or to what is whole everywhere,
    and to tables that are distributed before."""
    distributed, reference = in_citus()
    keys = owner.execute(
        "select i.indrelid::regclass::text, array(select a.attname from unnest(i.indkey::int2[]) k "
        "join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k) from pg_index i where i.indisunique "
        "and i.indrelid = any(%s::regclass[])", [distributed],
    ).fetchall()  # fmt: skip
    assert [table for table, columns in keys if "tenant" not in columns] == []
    foreign = owner.execute(
        "select conrelid::regclass::text, confrelid::regclass::text, array_position(conkey, (select attnum from "
        "pg_attribute where attrelid = conrelid and attname = 'tenant')), array_position(confkey, (select attnum from "
        "pg_attribute where attrelid = confrelid and attname = 'tenant')), confdeltype::text from pg_constraint "
        "where contype = 'f' and connamespace = 'public'::regnamespace and conparentid = 0"
    ).fetchall()
    assert len(foreign) > 8
    for table, refers_to, own, theirs, on_delete in foreign:
        if table in reference:
            assert refers_to in reference, table
        elif refers_to not in reference:
            assert own == theirs is not None, table
            assert distributed.index(refers_to) < distributed.index(table)
            assert on_delete in {"a", "c"}, table  # SET NULL and SET DEFAULT would reach the tenant


@pytest.mark.promise("SC-6")
def test_tables_have_nothing_that_citus_refuses(owner: psycopg.Connection[Any]) -> None:
    rules = "select tablename from pg_rules where schemaname = 'public'"
    triggers = "select tgname from pg_trigger where not tgisinternal"
    excluding = "select conname from pg_constraint where contype = 'x'"
    nested = "select relname from pg_class where relispartition and relkind = 'p'"
    for query in (rules, triggers, excluding, nested):
        assert owner.execute(query.encode()).fetchall() == [], query
    # From a sequence smaller than bigint nodes could take no numbers; inserts come by the coordinator, where it is one.
    small = owner.execute(
        "select c.relname from pg_attribute a join pg_class c on c.oid = a.attrelid where a.attidentity <> '' "
        "and c.relnamespace = 'public'::regnamespace and a.atttypid <> 'bigint'::regtype order by 1"
    ).fetchall()
    assert [row[0] for row in small] == ["embedding_models", "loads", "namespaces"]


@pytest.mark.promise("SC-6")
def test_functions_of_tables_are_on_every_node(owner: psycopg.Connection[Any]) -> None:
    """What indexes are made with, and what statements call beside a tenant's rows."""
    text = CITUS.read_text(encoding="utf-8")
    there = set(FUNCTION.findall(text))
    ours = {row[0] for row in owner.execute(
        "select proname from pg_proc where pronamespace = 'public'::regnamespace and not exists ("
        "select from pg_depend d where d.objid = pg_proc.oid and d.deptype = 'e')"
    ).fetchall()}  # fmt: skip
    assert there <= ours
    indexes = " ".join(
        row[0] for row in owner.execute("select indexdef from pg_indexes where schemaname = 'public'").fetchall()
    )
    assert {name for name in ours if f"{name}(" in indexes} - {"load_covered"} <= there
    assert "where model_id = %s'" in text  # instead of the condition that asks another table


@pytest.mark.promise("SC-6")
def test_every_statement_is_one_tenants_or_listed_with_its_reason(owner: psycopg.Connection[Any]) -> None:
    """SELECT FOR UPDATE, correlated subqueries, CTEs that modify: all work where the statement is one tenant's."""
    distributed, _ = in_citus()
    reading = re.compile(rf"\b(from|join|into|update|using)\s+({'|'.join([*distributed, 'memories_in_namespace'])})\b")
    wrong = [
        name for name, text in texts()
        if reading.search(text) and not PREDICATE.search(text) and not ("insert into" in text and "%(tenant)s" in text)
    ]  # fmt: skip
    assert wrong == []
    rows = owner.execute(
        "select proname, coalesce(prosrc, '') || coalesce(pg_get_functiondef(oid), '') from pg_proc "
        "where pronamespace = 'public'::regnamespace and prosecdef"
    ).fetchall()
    named = "|".join([*distributed, "tokens", "namespaces"])
    tables = re.compile(rf"\b(from|join|into|update|using)\s+\(*({named})\b", re.IGNORECASE)
    across = {name for name, text in rows if tables.search(text)} - {"make_tenant", "tenant_of"}
    assert across == set(ACROSS_TENANTS)


@pytest.fixture
def trees(owner: psycopg.Connection[Any]) -> dict[str, Node]:
    return {name: parsed(owner, name, text) for name, text in texts()}


@pytest.mark.promise("SC-6")
def test_no_statement_breaks_a_rule_of_citus(owner: psycopg.Connection[Any], trees: dict[str, Node]) -> None:
    rules = rules_of(owner)
    found = {
        name: sorted(rules.broken_by(tree) - {LOADS} - set(HARMLESS.get(name, ()))) for name, tree in trees.items()
    }
    assert {name: broken for name, broken in found.items() if broken} == {}
    for name, harmless in HARMLESS.items():
        assert rules.broken_by(trees[name]) >= set(harmless), name


@pytest.mark.promise("SC-6")
def test_functions_that_nodes_are_asked_for_are_there(owner: psycopg.Connection[Any], trees: dict[str, Node]) -> None:
    catalogue, (distributed, _) = Catalogue.read(owner), in_citus()
    called = {
        catalogue.functions[one][0]
        for tree in trees.values() if catalogue.tables_in(tree) & {*distributed, *VIEWS}
        for node in within(tree) for one in catalogue.calls(node) if one in catalogue.ours
    }  # fmt: skip
    there = set(FUNCTION.findall(CITUS.read_text(encoding="utf-8")))
    assert called <= there
    assert catalogue.called_by(there) <= there


BROKEN = {
    "volatile: clock_timestamp": "update edges set updated_at = clock_timestamp() where tenant = %(tenant)s",
    "volatile: random": "delete from edges where tenant = %(tenant)s and weight < random()",
    "stable: to_jsonb": "update edges set properties = to_jsonb(note) where tenant = %(tenant)s",
    "stable: timestamptz_pl_interval":
        "update edges set updated_at = updated_at + interval '1 day' where tenant = %(tenant)s",
    "lazy: now": "update edges set updated_at = coalesce(valid_until, now()) where tenant = %(tenant)s",
    "returning: to_jsonb": "delete from edges e where tenant = %(tenant)s returning to_jsonb(e)",
    "upsert: now": "insert into memory_usage (tenant, node_id) values (%(tenant)s, %(id)s) "
        "on conflict (tenant, node_id) do update set accessed_at = now()",
    "subquery: memory_usage": "insert into memory_usage (tenant, node_id, last_active_hours) values (%(tenant)s, "
        "%(id)s, (select active_hours from namespaces where tenant = %(tenant)s))",
    "tenant: nodes": "update nodes set tenant = %(other)s where tenant = %(tenant)s",
    "nested: memory_lexemes":
        "select memory_lexemes(tenant, content, null, null) from memories where tenant = %(tenant)s",
    "nested: ts_stat":
        "select s.word from memories, ts_stat('select lexemes from memories') s where tenant = %(tenant)s",
    "session: pg_advisory_xact_lock":
        "select pg_advisory_xact_lock(1) from memories where tenant = %(tenant)s",
    "sequence: nextval": "select nextval('audit_log_id_seq') from memories where tenant = %(tenant)s",
    "spread: memories": "select n.id, (select content from memories m where m.tenant = n.tenant and m.node_id = n.id) "
        "from nodes n where n.tenant = %(tenant)s",
    "order: nodes": "with made as (insert into nodes (id, tenant, label, partition) values (%(id)s, %(tenant)s, 'x', "
        "'trusted')) select count(*) from nodes where tenant = %(tenant)s",
    # A subquery that the planner takes up is none; one that is materialized is.
    "lazy: pulled up": "update edges e set updated_at = coalesce(e.valid_until, moment.now) "
        "from (select now() as now) moment where e.tenant = %(tenant)s",
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_the_rules_find_what_breaks_them(owner: psycopg.Connection[Any], rule: str) -> None:
    expected = rule.replace("pulled up", "now")
    assert rules_of(owner).broken_by(parsed(owner, "broken", BROKEN[rule])) == {expected}


@pytest.mark.anyio
@pytest.mark.own_database
async def test_the_tenant_is_set_by_a_statement_where_tables_are_sharded(database: Database) -> None:
    """The same rows as ever, and no bulk load; a cluster that passes settings on to no node is refused."""
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        furnish(connection, "ada")
        furnish(connection, "ben")
    contents = b"select content from memories"  # all that row-level security shows
    database.rows("delete from loads")
    async with await Store.open(database.url) as store:
        mine = await store.read("ben", lambda tx: tx.rows(contents))
    database.rows(f"alter database {database.name} set engramq.sharded to 'on'")
    with pytest.raises(NotReady, match="does not reach its nodes"):
        await Store.open(database.url)
    database.rows(f"alter database {database.name} set citus.propagate_set_commands to 'local'")
    # On a node the tenant is what a statement has set, whatever the function does on the coordinator.
    database.rows(
        "create or replace function enter_tenant(wanted integer, named text) returns void language sql as 'select'"
    )
    async with await Store.open(database.url) as store:
        assert await store.read("ben", lambda tx: tx.rows(contents)) == mine
        assert await store.write("ben", lambda tx: tx.rows(contents)) == mine
        assert await store.snapshot("ben", lambda tx: tx.rows(contents)) == mine
        await store.write("ben", lambda tx: open_load(tx, Partition.TRUSTED, 1))
    assert database.rows("select count(*) as n from loads") == [{"n": 0}]
