"""Row-level security: the second lock. A transaction sees and writes one namespace whatever its queries forget."""

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from engramq.workers.db import queries
from engramq.workers.db.conninfo import worker_conninfo
from engramq.workers.db.queries import sized_sql
from tests.conftest import CITUS, Database
from tests.workers.tenants.statements import PREDICATE, Statement, statements
from tests.workers.tenants.tables import Tenant, furnish, snapshot, tenant_tables

Connection = psycopg.Connection[Any]

VICTIM, OTHER = "victim", "other"
VIEWS = ("memories_in_namespace", "nodes_in_namespace")
POLICY = "(tenant = (NULLIF(current_setting('app.tenant'::text, true), ''::text))::integer)"
PRIVATE = (
    f"({POLICY} AND ((owner IS NULL) OR ((owner >= current_setting('app.owner_first'::text, true)) AND "
    "(owner <= current_setting('app.owner_last'::text, true)))))"
)
# Tables whose rows may be private, and which rows.
WITH_OWNERS = {
    "nodes": "and label = 'Memory'", "memories": "", "edges": "and layer = 'association'", "audit_log": "",
    "memory_totals": "",
}  # fmt: skip
WHEREABOUTS = (OTHER, "", None)  # the namespace that was entered; None: none ever was
# By statements, which reach the nodes of a cluster too.
SEEN_BY = "set local app.owner_first to {viewer}; set local app.owner_last to {viewer}"
LEAST = 30  # read queries that have to find something when they may


@pytest.fixture
def owner(database: Database) -> Iterator[Connection]:
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def worker(database: Database) -> Iterator[Connection]:
    with psycopg.connect(worker_conninfo(database.url), autocommit=True) as connection:
        if not CITUS:  # plan each query once, not for each of its 14 ids
            connection.execute("set plan_cache_mode to force_generic_plan")
        yield connection


@pytest.fixture(scope="module")
def library(shared_database: Database) -> list[Statement]:
    """The named queries that are about tenants, each prepared once to learn the types of its parameters."""
    with psycopg.connect(shared_database.owner_url) as connection:
        return statements(connection)


@pytest.fixture
def victim(owner: Connection) -> Tenant:
    furnish(owner, OTHER)
    return furnish(owner, VICTIM)


def number_of(connection: Connection, namespace: str) -> int | None:
    row = connection.execute("select tenant_of(%s)", [namespace]).fetchone()
    return row[0] if row else None


def enter(connection: Connection, namespace: str | None) -> None:
    if namespace is not None:
        number = number_of(connection, namespace) if namespace else None
        connection.execute(sql.SQL("set local app.tenant to {}").format(str(number or "")))


Try = tuple[dict[str, Any], list[Any]]  # the parameters of a query, and its rows


def tries(
    connection: Connection,
    within: str | None,
    statement: Statement,
    tenant: Tenant,
    viewer: str | None = None,
    *,
    undo: bool = True,
) -> list[Try]:
    """Run a query with all parameters that name something of the tenant, but what it has no right to write.

    What only reads runs in one transaction with all of them; what writes would change what its next run finds.
    """
    every, done = list(statement.values(tenant)), []
    for group in [every] if statement.reads_only else [[each] for each in every]:
        try:
            with connection.transaction(force_rollback=undo):
                enter(connection, within)
                if viewer is not None:
                    connection.execute(sql.SQL(SEEN_BY).format(viewer=viewer))
                for values in group:
                    cursor = connection.execute(statement.text.encode(), values, prepare=True)
                    done.append((values, cursor.fetchall() if cursor.description else []))
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.IntegrityError):
            assert not statement.reads_only, statement.name
    return done


@pytest.mark.promise("SE-6")
@pytest.mark.one_server
def test_every_table_with_tenants_is_guarded(owner: Connection) -> None:
    """The policy is there and says the same of reading and of writing; a table that is forgotten is named."""
    for table in tenant_tables(owner):
        row = owner.execute(
            "select c.relrowsecurity, p.polname, p.polcmd, pg_get_expr(p.polqual, c.oid), "
            "pg_get_expr(p.polwithcheck, c.oid), p.polroles::regrole[]::text[] "
            "from pg_class c left join pg_policy p on p.polrelid = c.oid where c.oid = %s::regclass",
            [table],
        ).fetchall()
        assert len(row) == 1, table
        guarded, name, command, using, check, roles = row[0]
        assert (guarded, name, command, roles) == (True, "own_tenant", "*", ["engramq_worker"]), table
        assert using == check == (PRIVATE if table in WITH_OWNERS else POLICY), table


@pytest.mark.promise("SE-6", "MT-14")
@pytest.mark.parametrize("within", WHEREABOUTS)
def test_a_query_without_any_condition_sees_one_namespace(
    owner: Connection, worker: Connection, victim: Tenant, within: str | None
) -> None:
    other, mine = [(number_of(owner, item),) for item in (OTHER, VICTIM)]
    for table in (*tenant_tables(owner), *VIEWS):
        query = sql.SQL("select tenant from {}").format(sql.Identifier(table))
        assert mine in owner.execute(query).fetchall() or table in VIEWS, f"furnish writes no {table}"
        with worker.transaction():
            enter(worker, within)
            assert set(worker.execute(query).fetchall()) == ({other} if within else set()), table
        with worker.transaction():
            enter(worker, VICTIM)
            assert set(worker.execute(query).fetchall()) == {mine}, table


@pytest.mark.promise("SE-6", "MT-14")
@pytest.mark.parametrize("within", [OTHER, None])
def test_no_named_query_that_forgot_its_tenant_reaches_another(
    owner: Connection, worker: Connection, library: list[Statement], victim: Tenant, within: str | None
) -> None:
    """Each query of the library, its predicates gone, with the victim's name and ids as parameters."""
    before = snapshot(owner, VICTIM)
    for statement in library:
        for values, rows in tries(worker, within, statement, victim, undo=False):
            told = repr(rows)
            assert f"of {VICTIM}" not in told, statement.name
            assert f"{VICTIM}-" not in told, statement.name  # an external id
            if statement.reads_only:
                echoed = {repr(value) for value in values.values()}
                shown = [str(item) for item in victim.ids.values() if str(item) in told and repr(item) not in echoed]
                assert shown == [], statement.name
    assert snapshot(owner, VICTIM) == before


@pytest.mark.promise("PV-1")
@pytest.mark.parametrize("viewer", ["bob", None])
def test_no_named_query_reaches_what_is_private_to_another(
    owner: Connection, worker: Connection, library: list[Statement], victim: Tenant, viewer: str | None
) -> None:
    """Each query of the library in the namespace itself, with the ids of private memories as parameters."""
    for table, rows in WITH_OWNERS.items():
        owner.execute(f"update {table} set owner = 'ada' where tenant = tenant_of(%s) {rows}".encode(), [VICTIM])
    for statement in library:
        for _, found in tries(worker, VICTIM, statement, victim, viewer):
            assert f"of {VICTIM}" not in repr(found), statement.name


@pytest.mark.promise("SE-6")
def test_the_same_queries_find_what_their_own_namespace_holds(
    worker: Connection, library: list[Statement], victim: Tenant
) -> None:
    """So that the test above shows something: most queries do find the victim's rows when they are let."""
    finding = set()
    for statement in library:
        if statement.reads_only and any(
            any(row) for _, rows in tries(worker, VICTIM, statement, victim) for row in rows
        ):
            finding.add(statement.name)
    assert len(finding) >= LEAST, sorted(finding)


@pytest.mark.promise("SE-6")
@pytest.mark.parametrize("within", WHEREABOUTS)
def test_nobody_writes_into_another_namespace(
    owner: Connection, worker: Connection, victim: Tenant, within: str | None
) -> None:
    tenant = number_of(owner, VICTIM)
    values = {
        "audit_log": f"(tenant, namespace, actor, action) values ({tenant}, 'victim', 'a', 'x')",
        "namespaces": "(namespace) values ('third')",
        "ledger": f"(command_id, tenant, principal, command) values (gen_random_uuid(), {tenant}, 'a', 'ping')",
        "nodes": f"(id, tenant, label, partition) values (gen_random_uuid(), {tenant}, 'Entity', 'trusted')",
        "tokens": "(id, tenant, principal, scopes, sha256, created_by) "
        f"values (gen_random_uuid(), {tenant}, 'a', '{{admin}}', repeat('0', 64), 'a')",
    }
    for table, row in values.items():
        refused(worker, within, f"insert into {table} {row}")


@pytest.mark.promise("SE-6")
@pytest.mark.one_server
def test_nobody_moves_rows_into_another_namespace(worker: Connection, victim: Tenant) -> None:
    refused(worker, OTHER, "update nodes set tenant = tenant_of('victim')")
    refused(worker, OTHER, "update edges set tenant = tenant_of('victim')")


def refused(connection: Connection, within: str | None, statement: str) -> None:
    """Assert that the workers' role has no right to this."""

    def attempt() -> None:
        with connection.transaction():
            enter(connection, within)
            connection.execute(statement.encode())

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        attempt()


@pytest.mark.promise("SE-6", "SE-8")
@pytest.mark.parametrize(
    "query",
    [
        "select 1 from memories_trusted",
        "select 1 from memories_untrusted",
        "update memories_trusted set content = ''",
        "delete from memories_untrusted",
        "select sha256 from tokens",
        "update tokens set principal = 'x'",
        "update tokens set scopes = '{admin}'",
        "delete from tokens",
        "insert into memories_in_namespace (node_id) values (gen_random_uuid())",
        "update nodes_in_namespace set name = 'x'",
    ],
)
def test_there_is_no_way_round(worker: Connection, victim: Tenant, query: str) -> None:
    """Partitions have no rights of their own, digests cannot be read, and the views cannot be written."""
    refused(worker, VICTIM, query)


@pytest.mark.promise("SE-6")
@pytest.mark.one_server
def test_functions_that_look_past_the_policies_are_few_and_closed_to_others(owner: Connection) -> None:
    rows = owner.execute(
        "select proname, proconfig, exists (select from aclexplode(coalesce(proacl, acldefault('f', proowner))) a "
        "where a.grantee = 0) from pg_proc where prosecdef and pronamespace = 'public'::regnamespace order by 1"
    ).fetchall()
    assert [row[0] for row in rows] == [
        "advance_audit_ids", "blank_audit", "blank_audit_of_deleted", "changed_namespaces", "decaying_namespaces",
        "delete_revoked_tokens", "drop_broken_indexes", "every_namespace", "expiring_namespaces", "fold_totals",
        "load_covered", "loads_over", "make_tenant", "mend_totals", "namespaces_to_tell", "namespaces_without_pieces",
        "note_memories_written", "note_total", "outdated_namespaces", "rebuilding_namespaces",
        "register_embedding_model", "retire_embedding_models",
        "settle_changes", "stands_often", "tenant_of", "token_owner", "uncompared_namespaces", "unfolded_namespaces",
        "use_embedding_model",
        "vectors_by_model", "webhook_messages",
    ]  # fmt: skip
    for name, settings, public in rows:
        assert "search_path=public, pg_temp" in settings, name
        assert not public, name


@pytest.mark.promise("MT-14")
def test_every_query_about_tenants_names_its_tenant(owner: Connection) -> None:
    """The first lock: policies come second. Only what asks across tenants, through a function, and a move name none."""
    guarded = re.compile(rf"\b(from|join|into|update)\s+({'|'.join((*tenant_tables(owner), *VIEWS))})\b")
    without = []
    for name in queries.names():
        text = sized_sql(name, 384).decode()
        named = PREDICATE.search(text) or ("insert into" in text and "%(tenant)s" in text)
        if guarded.search(text) and not named:
            without.append(name)
    assert without == []
