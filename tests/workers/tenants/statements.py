"""Every named query as somebody would run it who forgot the tenant: its predicates taken out."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.types.json import Json, Jsonb

from engramq.workers.db import queries
from engramq.workers.db.queries import native, sized_sql
from tests.workers.tenants.tables import HALF, NAME, SECRET, Tenant

DIMENSIONS = 384
PREDICATE = re.compile(r"(\w+\.)?tenant = (%\(tenant\)s|\w+\.tenant)")
STATEMENT = re.compile(r"\s*\(?\s*(select|insert|update|delete|with)\b", re.IGNORECASE)
WRITES = re.compile(r"\b(insert into|update|delete from)\s+\w", re.IGNORECASE)
LOCKS = re.compile(r"\bfor (no key )?update\b|\bfor key share\b", re.IGNORECASE)
IDS_AS_TEXT = re.compile(r"%\((\w+)\)s::text::uuid\[\]")
# About the database itself, or the owner's.
NOT_A_TENANTS = re.compile(
    r"schema_migrations|length\(.*as loaded\b|pg_advisory|pg_try_advisory|pg_indexes|register_embedding_model|pg_roles"
    r"|changed_namespaces|decaying_namespaces|expiring_namespaces|unfolded_namespaces|uncompared_namespaces|outdated_namespaces|rebuilding_namespaces|settle_changes"
    r"|namespaces_to_tell|webhook_messages\("
    r"|loads_over|drop_broken_indexes|pg_inherits|statement_timeout"
    r"|pg_available_extensions|pg_stats|pg_clear_attribute_stats|pg_total_relation_size|pg_ls_waldir|pg_switch_wal|pg_reload_conf"
    r"|clock_timestamp\(\) as now|pg_create_physical_replication_slot|pg_database_size"
    r"|take_settings|pg_backend_pid"
)

# What a parameter is, by its name; else by its type.
BY_NAME: dict[str, Any] = {
    "partitions": ["trusted", "untrusted"],
    "partition": "trusted",
    "question": SECRET,
    "questions": f'["{SECRET}"]',
    "name": NAME,
    "names": [NAME],
    "beginning": f"{NAME.lower()}%",
    "source_name": NAME,
    "target_name": f"{NAME}'s sister",
    "relation": "KNOWS",
    "layer": "knowledge",
    "cleared": ["thread"],
    "origin": "agent",
    "sector": "semantic",
    "memory_sector": "semantic",
    "sector_source": "auto",
    "state": "active",
    "verification": "verified",
    "source": "extracted",
    "action": "delete",
    "principal": "ada",
    "writer": "ada",
    "actor": "ada",
    "idempotency_key": "again",
    "keys": ["is_constitutive"],
    "thread": None,
    "tags": None,
    "project": "*",
    "sectors": None,
    "min_sector_confidence": 0.5,
    "states": None,
    "verifications": None,
    "source_type": None,
    "created_by": None,
    "since": None,
    "until": None,
    "before": None,
    "after_weight": None,
    "as_of": None,
    "valid_from": None,
    "valid_until": None,
    "label": None,
    "source_label": None,
    "target_label": None,
    "new_sector": None,
    "asked_days": None,
    "ef_search": "100",
    "timeout": "10s",
    "memory": "64MB",
    "farthest": 2.0,
    "candidates": 50,
    "postings": 1000,
    "half_length": 50.0,
    "size": 100,
    "older_than_s": 0.0,
    "sample": 1000,
    "rare": 0,
    "days": 7,
    "digests": [bytes(16)],
    "after_digest": b"",
    "identity": [bytes(16)],
    "scopes": ["read"],
    "sha256": "0" * 64,
    "lines": [],
    "vectors": [],
    "piece_vectors": ["{}"],
}
BY_TYPE: dict[str, Any] = {
    "text": "x",
    "text[]": ["x"],
    "bytea[]": [b"x"],
    "integer": 1,
    "integer[]": [1],
    "bigint": 50,
    "bigint[]": [1],
    "smallint": 1,
    "smallint[]": [1],
    "double precision": 0.5,
    "double precision[]": [0.5],
    "real": 0.5,
    "boolean": True,
    "boolean[]": [True],
    "timestamp with time zone": datetime.now(UTC),
    "timestamp with time zone[]": [datetime.now(UTC)],
    "json": Json([{"id": "0190f0f0-0000-7000-8000-000000000001", "partition": "trusted", "identity": r"\x01"}]),
    "jsonb": Jsonb({}),
    "jsonb[]": [Jsonb({})],
    "halfvec": HALF,
    "pg_snapshot": "1:1:",  # before anything was written
    "interval": timedelta(hours=1),
    "tstzrange": "[2026-01-01, 2026-01-02)",
    "tstzmultirange": "{[2026-01-01, 2026-01-02)}",
}


BY_TYPE_ALONE = {"jsonb", "jsonb[]", "halfvec", "pg_snapshot", "tstzrange", "tstzmultirange"}


class Statement:
    """One query without its predicates, and the types of its parameters."""

    def __init__(self, name: str, text: str, types: dict[str, str]) -> None:
        self.name, self.text, self.types = name, PREDICATE.sub("true", text), types
        self.reads_only = not WRITES.search(text)
        self.locks = LOCKS.search(text) is not None

    def values(self, tenant: Tenant) -> Iterator[dict[str, Any]]:
        """Return parameters that name everything of the tenant: for each kind of id once."""
        for item in tenant.ids.values():
            yield {name: self._value(name, type_name, tenant, item) for name, type_name in self.types.items()}
            if "uuid" not in self.types.values():
                return

    def _value(self, name: str, type_name: str, tenant: Tenant, one: Any) -> Any:
        if name == "namespace":
            return tenant.namespace
        if name == "tenant":
            return tenant.number
        if type_name == "uuid":
            return one
        if type_name == "uuid[]":
            return sorted(tenant.ids.values())
        if type_name == "uuid[] as text":
            return "{" + ",".join(str(item) for item in sorted(tenant.ids.values())) + "}"
        if name in BY_NAME and type_name not in BY_TYPE_ALONE:
            known = BY_NAME[name]
            return [known] if type_name.endswith("[]") and not isinstance(known, list) else known
        return BY_TYPE[type_name]


def statements(connection: psycopg.Connection[Any]) -> list[Statement]:
    """Return the queries of the library that are about tenants."""
    found = []
    for name in queries.names():
        text = sized_sql(name, DIMENSIONS).decode()
        if not STATEMENT.match(text) or NOT_A_TENANTS.search(text):
            continue
        names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
        found.append(Statement(name, text, _types(connection, name, text, names)))
    return found


def _types(connection: psycopg.Connection[Any], name: str, text: str, names: list[str]) -> dict[str, str]:
    prepared = native(text.encode()).text.decode()
    if text.lstrip().startswith("("):  # which PREPARE does not take
        prepared = f"with x as (select 1) {prepared}"
    connection.execute(f"prepare of_{name} as {prepared}".encode())
    as_text = set(IDS_AS_TEXT.findall(text))
    row = connection.execute(
        "select parameter_types::text[] from pg_prepared_statements where name = %s", [f"of_{name}"]
    ).fetchone()
    assert row is not None
    types = dict(zip(names, row[0], strict=True))
    return types | dict.fromkeys(as_text, "uuid[] as text")
