"""Over the catalogue: tables of tenants can be spread by tenant, as Citus does it, without a change of code."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from engramq.workers.db import queries
from engramq.workers.db.queries import native, sized_sql
from tests.architecture.source import ROOT
from tests.conftest import Database
from tests.workers.tenants.statements import DIMENSIONS, STATEMENT

pytestmark = pytest.mark.promise("SC-6")

Connection = psycopg.Connection[Any]

# Kept whole on every server: small, and asked before a tenant is known.
DIRECTORY_KEYS = {"namespaces_namespace_key", "tokens_sha256_key"}
SHARED = {"embedding_models"}  # what foreign keys of tenants may refer to besides tenants' tables
NO_ACTION, CASCADE = "a", "c"

TABLES = """
    select c.oid, c.relname, a.atttypid::regtype::text as type, a.attnotnull as required
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant'
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
"""
UNIQUE_INDEXES = f"""
    select i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid, 1, true) as first
    from pg_index i where i.indisunique and i.indrelid in (select oid from ({TABLES}) t)
"""
FOREIGN_KEYS = f"""
    select
        k.conname as name, k.confrelid::regclass::text as refers_to, k.confupdtype::text as on_update,
        k.confdeltype::text as on_delete,
        (select attname from pg_attribute where attrelid = k.conrelid and attnum = k.conkey[1]) as own,
        (select attname from pg_attribute where attrelid = k.confrelid and attnum = k.confkey[1]) as theirs
    from pg_constraint k where k.contype = 'f' and k.conrelid in (select oid from ({TABLES}) t)
"""
TRIGGERS = "select tgname from pg_trigger where not tgisinternal"
NAMED = """
    select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'namespace'
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') order by 1
"""


def test_a_tenant_is_a_small_number_in_every_table(database: Database) -> None:
    tables = database.rows(TABLES)
    assert len(tables) > 14
    assert {(table["type"], table["required"]) for table in tables} == {("integer", True)}
    assert [row["relname"] for row in database.rows(NAMED)] == ["audit_log", "namespaces"]  # the one for who reads it


def test_every_key_begins_with_the_tenant(database: Database) -> None:
    keys = {row["name"]: row["first"] for row in database.rows(UNIQUE_INDEXES)}
    assert len(keys) > 20
    assert {name for name, first in keys.items() if first != "tenant"} == DIRECTORY_KEYS


def test_every_foreign_key_stays_within_its_tenant_and_cascades_no_update(database: Database) -> None:
    foreign = database.rows(FOREIGN_KEYS)
    assert len(foreign) > 8
    for item in foreign:
        assert item["on_update"] == NO_ACTION, item
        assert item["on_delete"] in (NO_ACTION, CASCADE), item
        assert item["refers_to"] in SHARED or item["own"] == item["theirs"] == "tenant", item


def test_no_table_has_a_trigger_but_those_that_a_cluster_drops(database: Database) -> None:
    names = {row["tgname"] for row in database.rows(TRIGGERS)}
    assert names == {"memories_written", "memory_came", "memory_changed"}
    dropped = (ROOT / "deploy/citus.sql").read_text("utf-8")
    assert all(f"drop trigger {name} on memories;" in dropped for name in names)


def scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the nodes of a plan that read a table."""
    if "Relation Name" in plan and plan["Node Type"] != "ModifyTable":
        yield plan
    for below in plan.get("Plans", ()):
        yield from scans(below)


def unnamed(connection: Connection, query: bytes, tables: set[str]) -> tuple[int, list[str]]:
    """Return how many scans of these tables a query's plan has, and the tables of those without the tenant."""
    row = connection.execute(b"explain (generic_plan, format json) " + native(query).text).fetchone()
    assert row is not None
    found = [scan for scan in scans(row[0][0]["Plan"]) if scan["Relation Name"] in tables]
    kinds = ("Index Cond", "Recheck Cond", "Filter")
    without = [item["Relation Name"] for item in found if not any("tenant =" in item.get(kind, "") for kind in kinds)]
    return len(found), without


def test_every_query_names_the_tenant_of_each_table_that_it_reads(database: Database) -> None:
    """As the planner sees it, without policies: each scan has a condition on the tenant, its own or its join's."""
    tables = {row["relname"] for row in database.rows(TABLES)}
    reading = 0
    wrong: dict[str, list[str]] = {}
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        for name in queries.names():
            text = sized_sql(name, DIMENSIONS)
            if STATEMENT.match(text.decode()):
                found, without = unnamed(connection, text, tables)
                reading += found > 0
                wrong |= {name: without} if without else {}
        forgotten = b"select from nodes n join memories m on m.node_id = n.id where n.tenant = %(tenant)s"
        _, without = unnamed(connection, forgotten, tables)
    assert reading > 70
    assert wrong == {}
    assert set(without) == {"memories_trusted", "memories_untrusted"}  # such a query would be noticed
