"""Against the rules that Citus documents for distributed tables, over the catalogue and over every named query.

No Citus is at hand, so this says what follows from its documentation ("SQL Support and Workarounds", "Creating and
Modifying Distributed Objects", both of 12 and 13; its issues for CTEs that modify), and what Citus 14.0.1 refused when
engramq ran on it. `make test-citus` runs on one.
"""

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from engramq.schemas.vocabulary import Partition
from engramq.workers.db import queries
from engramq.workers.db.database import Store
from engramq.workers.db.loads import open_load
from engramq.workers.db.queries import sized_sql
from engramq.workers.db.readiness import NotReady
from engramq.workers.db.transaction import Transaction
from tests.architecture.source import ROOT
from tests.conftest import Database, statements_of
from tests.workers.db.citus_rules import Rules
from tests.workers.db.query_trees import SELECT, Catalogue, Node, body_of, parsed, run_by
from tests.workers.tenants.statements import DIMENSIONS, PREDICATE, STATEMENT
from tests.workers.tenants.tables import furnish, tenant_tables

CITUS = ROOT / "deploy" / "citus.sql"
DISTRIBUTED = re.compile(r"create_distributed_table\('(\w+)', 'tenant'(, colocate_with => 'nodes')?\)")
REFERENCE = re.compile(r"create_reference_table\('(\w+)'\)")

VIEWS = ("memories_in_namespace", "nodes_in_namespace", "memory_totals")
COUNTED = "memory_totals"  # kept by triggers, which Citus takes none of: a view in its place counts
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
    "stands_often": "never called there: deploy/citus.sql takes the call away",
    "unfolded_namespaces": "never called there: there are no kept totals",
    "uncompared_namespaces": "never called there: there are no kept totals",
    "token_owner": "sign-in; of the directory alone",
    "vectors_by_model": "checks: how many vectors there are of each model",
    "webhook_messages": "status and gauges: what webhooks have not taken",
}

NEVER_CALLED = {"load_covered", "stands_often"}
NOT_THERE = {"fold_totals", "mend_totals", "unfolded_namespaces", "uncompared_namespaces"}

# What the rules of tests/workers/db/citus_rules.py find, and what makes it harmless.
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
    assert sorted([*distributed, *reference, *LOCAL, COUNTED]) == sorted(row[0] for row in rows)
    assert set(tenant_tables(owner)) - set(reference) - {COUNTED} == set(distributed)
    assert f"drop table {COUNTED};\ncreate view {COUNTED} " in CITUS.read_text(encoding="utf-8")
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
    dropped = "'memories_written', 'memory_came', 'memory_changed'"
    triggers = f"select tgname from pg_trigger where not tgisinternal and tgname not in ({dropped})"
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


@pytest.mark.long
@pytest.mark.promise("SC-6")
def test_no_statement_breaks_a_rule_of_citus(owner: psycopg.Connection[Any], trees: dict[str, Node]) -> None:
    rules = rules_of(owner)
    found = {
        name: sorted(rules.broken_by(tree) - {LOADS} - set(HARMLESS.get(name, ()))) for name, tree in trees.items()
    }
    assert {name: broken for name, broken in found.items() if broken} == {}
    for name, harmless in HARMLESS.items():
        assert rules.broken_by(trees[name]) >= set(harmless), name


# How to have the statements of a function in plpgsql parsed; those in SQL are read from the catalogue.
CALLS = {
    "advance_audit_ids": "advance_audit_ids(1)",
    "blank_audit": "blank_audit(array[gen_random_uuid()], null)",
    "blank_audit_of_deleted": "blank_audit_of_deleted(1)",
    "drop_broken_indexes": "drop_broken_indexes()",
    "make_tenant": "make_tenant('new')",
    "register_embedding_model": "register_embedding_model('new', '', 8)",
    "retire_embedding_models": "retire_embedding_models(0)",
    "settle_changes": "settle_changes('sweep', array['ada'], array[now()])",
    "use_embedding_model": "use_embedding_model('newer', '', 8, 0)",
}


@pytest.mark.promise("SC-6")
def test_no_function_that_the_coordinator_runs_breaks_a_rule(owner: psycopg.Connection[Any]) -> None:
    """A SELECT may read all nodes where the function is listed for that; what writes names its tenant."""
    furnish(owner, "ada")
    rules = rules_of(owner)
    wrong: dict[str, set[str]] = {}
    procedural = {row[0] for row in owner.execute(
        "select proname from pg_proc p join pg_language l on l.oid = p.prolang where lanname = 'plpgsql' and prosecdef "
        "and pronamespace = 'public'::regnamespace and prorettype <> 'trigger'::regtype"  # the one is dropped there
    ).fetchall()}  # fmt: skip
    assert procedural - NOT_THERE == set(CALLS)
    for name in sorted({*ACROSS_TENANTS, *CALLS} - NEVER_CALLED - NOT_THERE):
        trees = run_by(owner, CALLS[name]) if name in CALLS else body_of(owner, name)
        assert trees, name
        for tree in trees:
            spread = "spread: " if tree["commandType"] == SELECT and name in ACROSS_TENANTS else " "
            broken = {rule for rule in rules.broken_by(tree) if not rule.startswith((spread, "session: "))}
            if broken:
                wrong[name] = wrong.get(name, set()) | broken
    assert wrong == {}


# What functions once did, and Citus refused.
BODIES = {
    "upsert: now": "insert into embedding_models (name, sha256, dimensions) values ('n', '', 1) "
        "on conflict (name, sha256, dimensions) do update set used_at = now()",
    "stable: timestamptz_mi_interval + spread: changes":
        "update changes c set swept = true from unnest(array['ada'], array[now()]) as given (name, looked_at) "
        "join namespaces n on n.namespace = given.name where c.tenant = n.tenant "
        "and c.minute < given.looked_at - c.counted::integer * interval '1 minute'",
}  # fmt: skip


@pytest.mark.parametrize("rules", BODIES)
def test_what_functions_of_the_coordinator_may_not_do_is_found(owner: psycopg.Connection[Any], rules: str) -> None:
    text = BODIES[rules]
    owner.execute(f"create function planted() returns void language plpgsql as $$ begin {text}; end $$".encode())
    try:
        found = {rule for tree in run_by(owner, "planted()") for rule in rules_of(owner).broken_by(tree)}
    finally:
        owner.execute("drop function planted()")
    assert found == set(rules.split(" + "))


# Functions of the owner that touch tenants' rows where the same transaction may have changed them as the worker: Citus
# refuses those. The others run in transactions of their own.
AFTER_WRITES = {"blank_audit", "blank_audit_of_deleted"}


@pytest.mark.promise("SC-6")
def test_the_script_mends_what_only_the_catalogue_shows(owner: psycopg.Connection[Any]) -> None:
    text = CITUS.read_text(encoding="utf-8")
    assert "as 'select false'" in text  # instead of the look at other tenants' rows that a column of memories takes
    assert "where model_id = %s'" in text  # instead of the condition of the vector index that reads another table
    for name in AFTER_WRITES:
        assert re.search(rf"alter function {name}\(.*\) security invoker;", text), name
    distributed, reference = in_citus()
    foreign = owner.execute(
        "select conname, conrelid::regclass::text, confrelid::regclass::text from pg_constraint "
        "where contype = 'f' and conparentid = 0 and confrelid = any(%s::regclass[])", [reference],
    ).fetchall()  # fmt: skip
    first, last = text.index("create_reference_table("), text.rindex("create_distributed_table(")
    for name, table, refers_to in foreign:
        if table in distributed:  # it goes before what it refers to becomes whole, and comes back at the end
            assert text.index(f"alter table {table} drop constraint {name};") < first
            assert text.index(f"alter table {table} add constraint {name} ") > last
        else:  # who writes it needs a right to write what it refers to
            assert f") on {refers_to} to engramq_worker;" in text
    generic = owner.execute(
        "select oid::text from pg_proc where proconfig::text like '%force_generic_plan%'"
    ).fetchall()
    reading = {Catalogue.read(owner).functions[row[0]][0] for row in generic} & set(readers(owner, distributed))
    assert reading - NEVER_CALLED == set()  # Citus has to know the tenant to plan


def readers(owner: psycopg.Connection[Any], tables: list[str]) -> list[str]:
    named = rf"\m({'|'.join(tables)})\M"
    found = owner.execute(
        "select proname from pg_proc where pronamespace = 'public'::regnamespace and pg_get_functiondef(oid) ~ %s "
        "and prokind = 'f'", [named],
    ).fetchall()  # fmt: skip
    return [row[0] for row in found]


STUBS = """
create function create_reference_table(name regclass) returns void language sql as 'select';
create function create_distributed_table(name regclass, by text, colocate_with text default '') returns void
language sql as 'select';
create function create_distributed_function(name regprocedure) returns void language sql as 'select';
"""


CHOICES_OF_TRUTH = """
select polname from pg_policy
where concat(pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
    ~* '\\mis (not )?(true|false|unknown)\\M'
"""
NUMBERS_WITHHELD = """
select sequence.relname from pg_class sequence
join pg_depend d on d.objid = sequence.oid and d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i')
where d.refobjid = any(%s::regclass[])
    and case when sequence.relkind = 'S' then not has_sequence_privilege('engramq_worker', sequence.oid, 'usage') end
"""


@pytest.mark.promise("SC-6")
@pytest.mark.own_database
def test_the_script_leaves_no_policy_and_no_sequence_that_citus_refuses(database: Database) -> None:
    """Citus transforms a policy's condition twice, and takes the numbers of rows from the sequence as the worker."""
    inserted, _ = in_citus()
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        owner.execute(STUBS.encode())
        with owner.transaction():
            for statement in statements_of(CITUS.read_text(encoding="utf-8")):  # as `make test-citus` does it
                owner.execute(statement.encode())
        assert owner.execute(CHOICES_OF_TRUTH.encode()).fetchall() == []
        assert owner.execute(NUMBERS_WITHHELD.encode(), [[*{*inserted} - {"loads"}]]).fetchall() == []  # no loads there
        owner.execute("set engramq.sharded to 'on'")
        with pytest.raises(psycopg.errors.RaiseException, match="spread already"):
            owner.execute(CITUS.read_bytes())


@pytest.mark.promise("SC-6")
@pytest.mark.own_database
def test_the_script_runs_and_lets_workers_blank_the_audit_log_and_no_more(database: Database) -> None:
    """All of it but what Citus itself does, for which functions of the same names stand."""
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        number = furnish(owner, "ada").number
        owner.execute(STUBS.encode())
        with owner.transaction():
            owner.execute(CITUS.read_bytes())
        owner.execute(
            "insert into audit_log (tenant, namespace, actor, action, target_id, old, reason) "
            "values (%s, 'ada', 'ada', 'update_node', gen_random_uuid(), '{\"properties\": {\"a\": 1}}', 'why')",
            [number],
        )
        owner.execute("set role engramq_worker")
        owner.execute("select set_config('app.tenant', %s, false)", [str(number)])
        for change in ("reason = 'other'", 'old = \'{"properties": {"a": 2}}\'', "actor = 'ben'"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                owner.execute(f"update audit_log set {change} where action = 'update_node'".encode())
        owner.execute(
            "select blank_audit(array_agg(target_id), gen_random_uuid()) from audit_log where action = 'update_node'"
        )
        left = owner.execute(
            "select reason, old from audit_log where action = 'update_node' and target_id not in "
            "(select id from nodes union select id from edges)"
        ).fetchall()
    assert left == [(None, {"properties": {}})] * len(left)
    assert left


@pytest.mark.own_database
async def test_plans_know_their_tenant_where_tables_are_sharded(database: Database) -> None:
    mode = b"select current_setting('plan_cache_mode') as mode"

    async def looked_up(tx: Transaction) -> object:
        await tx.send(queries.sql("look_up"))
        return (await tx.rows(mode))[0]["mode"]

    async with await Store.open(database.url) as store:
        assert await store.write("ada", looked_up) == "force_generic_plan"
    for setting in ("engramq.sharded to 'on'", "citus.propagate_set_commands to 'local'"):
        database.rows(f"alter database {database.name} set {setting}")
    async with await Store.open(database.url) as store:
        assert await store.write("ada", looked_up) == "force_custom_plan"


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
    "correlated: memories + spread: memories":
        "select namespace from namespaces n where exists (select 1 from memories m where m.tenant = n.tenant)",
    "copy: approvals": "insert into approvals (tenant, proposal_id, principal) "
        "select %(tenant)s, id, 'me' from unnest(%(ids)s::uuid[]) as id",
    "parameter: approvals": "insert into approvals (tenant, proposal_id, principal) "
        "select %(tenant)s, id, 'me' from unnest(%(ids)s::uuid[]) as id returning principal = %(mine)s::text",
    "lock: ends": "with gone as materialized (select id from edges where tenant = %(tenant)s), ends as materialized ("
        "select id from nodes where tenant = %(tenant)s and id in (select id from gone) for key share) insert "
        "into approvals (tenant, proposal_id, principal) select %(tenant)s, id, 'me' from ends returning principal",
    "columns: memories":
        "select count(*) from (select from memories where tenant = %(tenant)s limit 9) counted",
    "joined: memory_usage": "insert into memory_usage (tenant, node_id) select tenant, id from nodes "
        "where tenant = %(tenant)s returning node_id",
    "columns: memories + spread: memories": "select 1 where not exists (select from memories where model_id = 1)",
    "refers: approvals": "with approved as (insert into approvals (tenant, proposal_id, principal) "
        "select %(tenant)s, id, 'me' from unnest(%(ids)s::uuid[]) as id returning 1), made as (insert into proposals "
        "(tenant, id, action, proposed_by) select %(tenant)s, id, 'promote', 'me' from unnest(%(ids)s::uuid[]) as id "
        "returning 1) select count(*) from made",
    "unread: reembedding": "with over as (delete from reembedding where model_id <> 1) "
        "insert into reembedding (model_id, total, remaining, began_at) values (1, 1, 1, now())",
    # A subquery that the planner takes up is none; one that is materialized is.
    "lazy: pulled up": "update edges e set updated_at = coalesce(e.valid_until, moment.now) "
        "from (select now() as now) moment where e.tenant = %(tenant)s",
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_the_rules_find_what_breaks_them(owner: psycopg.Connection[Any], rule: str) -> None:
    expected = rule.replace("pulled up", "now").split(" + ")
    assert rules_of(owner).broken_by(parsed(owner, "broken", BROKEN[rule])) == set(expected)


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
    # On a node the tenant is what a statement has set, whatever the function does on the coordinator. The statement is
    # first: the directory that the function reads may be a node's.
    database.rows("""
        create or replace function enter_tenant(wanted integer, named text, owner_first text, owner_last text)
        returns void language plpgsql as $$
        begin
            if current_setting('app.tenant', true) is distinct from wanted::text
                or current_setting('app.owner_last', true) is distinct from owner_last
            then
                raise exception 'another namespace has this tenant' using errcode = 'EQ001';
            end if;
        end
        $$
    """)
    async with await Store.open(database.url) as store:
        assert await store.read("ben", lambda tx: tx.rows(contents)) == mine
        assert await store.write("ben", lambda tx: tx.rows(contents)) == mine
        assert await store.snapshot("ben", lambda tx: tx.rows(contents)) == mine
        await store.write("ben", lambda tx: open_load(tx, Partition.TRUSTED, 1))
    assert database.rows("select count(*) as n from loads") == [{"n": 0}]
