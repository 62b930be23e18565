"""Rows of one tenant in every table that has tenants, written as the owner of the database."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from engramq.schemas.ids import new_token, token_digest, uuid7

SECRET = "the vault is behind the third pump"
NAME = "Undine"  # of the tenant's named node
HALF = "[" + ",".join(["0.05"] * 384) + "]"
KINDS = (
    "memory", "pending", "other", "untrusted", "node", "far", "edge", "link", "proposal",
    "command", "token", "webhook", "message", "deferred",
)  # fmt: skip


@dataclass(frozen=True)
class Tenant:
    """Ids by what they are of."""

    namespace: str
    number: int
    ids: dict[str, UUID]
    token: str


def tenant_tables(connection: psycopg.Connection[Any]) -> list[str]:
    """Return every table that has tenants, partitions not counted."""
    rows = connection.execute(
        "select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant' "
        "where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1"
    )
    return [row[0] for row in rows.fetchall()]


def snapshot(connection: psycopg.Connection[Any], namespace: str) -> dict[str, list[str]]:
    """Return all rows of a tenant as text, by table."""
    return {
        table: [
            row[0]
            for row in connection.execute(
                f"select t::text from {table} t where tenant = tenant_of(%s) order by 1".encode(), [namespace]
            ).fetchall()
        ]
        for table in tenant_tables(connection)
    }


def furnish(connection: psycopg.Connection[Any], namespace: str) -> Tenant:
    """Write at least one row of a tenant into every table."""
    ids = {kind: UUID(uuid7()) for kind in KINDS}
    token = new_token()
    number = _numbered(connection, namespace)
    insert = _Insert(connection, number)
    model = connection.execute("select register_embedding_model('hash', '', 384)").fetchone()
    assert model is not None
    for kind in ("memory", "other", "pending", "untrusted"):
        side = "untrusted" if kind == "untrusted" else "trusted"
        insert("nodes", id=ids[kind], label="Memory", partition=side, external_id=f"{namespace}-{kind}")
        vector = {} if kind == "pending" else {"embedding": HALF, "model_id": model[0]}
        connection.execute(
            "insert into memories (node_id, partition, tenant, content, confidence, source, verification, state, "
            "lexemes, embedding, model_id, created_by, thread, created_at) values (%(id)s, %(side)s, %(tenant)s, "
            "%(content)s, 1, 'extracted', %(verification)s, %(state)s, memory_lexemes(%(tenant)s, %(content)s, "
            "null, null), %(embedding)s::halfvec, %(model_id)s, 'ada', 'talk', now() - interval '1 hour')",
            {
                "id": ids[kind], "side": side, "tenant": number, "content": f"{SECRET} of {namespace}, {kind}",
                "verification": "verified" if kind == "untrusted" else "unverified",
                "state": "active" if vector else "pending", "embedding": None, "model_id": None, **vector,
            },
        )  # fmt: skip
        insert("memory_usage", node_id=ids[kind], access_count=3)
    for kind, name in (("node", NAME), ("far", f"{NAME}'s sister")):
        insert("nodes", id=ids[kind], label="Entity", name=name, partition="trusted")
    insert(
        "edges", id=ids["edge"], layer="knowledge", source_id=ids["node"], target_id=ids["far"], relation="KNOWS",
        weight=0.5, origin="agent", properties='{"is_constitutive": true}', memory_sector="semantic",
    )  # fmt: skip
    low, high = sorted((ids["memory"], ids["other"]))
    insert(
        "edges", id=ids["link"], layer="association", source_id=low, target_id=high, relation="similar", weight=0.05,
        origin="similarity", declared_from=low,
    )  # fmt: skip
    insert("lexeme_counts", partition="trusted", lexeme="xxxxpump", memories=99)
    insert("loads", partition="trusted", model_id=model[0])
    insert("link_tombstones", low_id=low, high_id=high)
    insert("co_retrievals", low_id=low, high_id=high, instances=["default:1"])
    insert(
        "deferred_links", id=ids["deferred"], source_id=ids["memory"], target_id=ids["pending"],
        request="{}", principal='{"name": "ada"}', command_id=ids["command"],
    )  # fmt: skip
    insert(
        "proposals", id=ids["proposal"], action="delete", target_id=ids["edge"], covers=[ids["edge"]],
        proposed_by="ada", expires_at="2100-01-01",
    )  # fmt: skip
    insert(
        "deleted_graph", deletion=1, id=UUID(uuid7()), is_node=True, deleted_at=datetime.now(UTC), created_by="ada",
        record=Jsonb({"label": "Entity", "name": f"{namespace}-gone", "created_at": "2020-01-01T00:00:00+00:00"}),
    )  # fmt: skip
    insert("imported_rows", digest=bytes(16), memory_id=ids["memory"], trusted=True)
    insert("lexeme_rebuilds", former_languages=["simple"])
    _told_of(insert, ids)
    insert("changes", minute="2020-01-01", backend=1)
    insert("approvals", proposal_id=ids["proposal"], principal="ada")
    insert(
        "audit_log",
        namespace=namespace,
        actor="ada",
        action="update",
        target_id=ids["memory"],
        command_id=ids["command"],
        reason=f"{SECRET} of {namespace}",
    )
    insert("audit_chain", place=1, entry=1, salt=bytes(16), digest=bytes(32), hash=bytes(32))
    insert(
        "ledger", command_id=ids["command"], principal="ada", command="store_memory", idempotency_key="again",
        principal_untrusted=False, answer="{}", created_at="2020-01-01", memory_id=ids["memory"],
    )  # fmt: skip
    insert("tokens", id=ids["token"], principal="ada", scopes=["read"], sha256=token_digest(token), created_by="ada")
    return Tenant(namespace, number, ids, token)


def _told_of(insert: "_Insert", ids: dict[str, UUID]) -> None:
    """Write a webhook, and a message that it did not take."""
    insert(
        "webhooks", id=ids["webhook"], url="https://receiver.example/hook", events=["memory.stored"], with_content=True,
        key_id="x", created_by="ada",
    )  # fmt: skip
    insert(
        "webhook_outbox", id=ids["message"], webhook_id=ids["webhook"], event="memory.stored", memory_id=ids["memory"],
        told=Jsonb({"memory_id": str(ids["memory"])}), dead_at="2020-01-01",
    )  # fmt: skip


def _numbered(connection: psycopg.Connection[Any], namespace: str) -> int:
    row = connection.execute("select make_tenant(%s)", [namespace]).fetchone()
    assert row is not None
    return int(row[0])


class _Insert:
    def __init__(self, connection: psycopg.Connection[Any], number: int) -> None:
        self._connection, self._number = connection, number

    def __call__(self, table: str, **columns: Any) -> None:
        values = {"tenant": self._number, **columns}
        names, places = ", ".join(values), ", ".join(f"%({name})s" for name in values)
        self._connection.execute(f"insert into {table} ({names}) values ({places})".encode(), values)
