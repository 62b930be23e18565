"""A database as version 6 left it, with rows of two tenants in every table, and what it says of them."""

from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from engramq.schemas.ids import uuid7
from engramq.schemas.tokens import new_token, token_digest
from tests.tenancy.tables import HALF

Connection = psycopg.Connection[Any]

NAMESPACES = ("ada's", "Øystein: 🪿 \\ ")
UNWRITTEN = "only asked"  # commands were refused there, so that only the ledger knows it
WORDS = ("goose", "pump", "naïve", "valve")
OLD_PREFIX = 4  # characters before a lexeme
MEMORIES = 40  # a namespace
MODEL = "select register_embedding_model('hash', '', 384)"
TABLES = (
    "namespaces", "nodes", "memories", "memory_usage", "lexeme_counts", "edges", "link_tombstones", "deferred_links",
    "co_retrievals", "proposals", "approvals", "audit_log", "ledger", "tokens",
)  # fmt: skip


class Tenant:
    """What was written of one namespace."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self.connection, self.namespace = connection, namespace
        self.ids = [UUID(uuid7()) for _ in range(MEMORIES)]
        self.command, self.token = UUID(uuid7()), new_token()
        self._write_memories()
        self._write_the_rest()

    def insert(self, table: str, **columns: Any) -> None:
        values = {"namespace": self.namespace, **columns}
        names, places = ", ".join(values), ", ".join(f"%({name})s" for name in values)
        self.connection.execute(f"insert into {table} ({names}) values ({places})".encode(), values)

    def _write_memories(self) -> None:
        self.insert("namespaces", active_hours=2.5)
        for number, memory in enumerate(self.ids):
            side = "untrusted" if number % 4 == 0 else "trusted"
            self.insert("nodes", id=memory, label="Memory", partition=side, external_id=f"e{number}")
            self.connection.execute(
                "insert into memories (node_id, partition, namespace, content, confidence, source, verification, state,"
                " lexemes, embedding, model_id, created_by, thread, position, speaker, occurred_at) values (%(id)s, "
                "%(side)s, %(namespace)s, %(content)s, 1, 'extracted', 'verified', 'active', memory_lexemes("
                "%(namespace)s, %(content)s, 'Ben', '2026-05-04'), %(half)s::halfvec, 1, 'ada', 't', %(number)s, 'Ben',"
                " '2026-05-04')",
                {"id": memory, "side": side, "namespace": self.namespace, "half": HALF, "number": number,
                 "content": f"{WORDS[number % len(WORDS)]} number{number} of {self.namespace}"},
            )  # fmt: skip
            self.insert("memory_usage", node_id=memory, access_count=number, helped=1)

    def _write_the_rest(self) -> None:
        named, far, proposal = (UUID(uuid7()) for _ in range(3))
        self.insert("nodes", id=named, label="Entity", name="Undine", partition="trusted", properties=Jsonb({"a": 1}))
        self.insert("nodes", id=far, label="Entity", name="Kuno", partition="trusted")
        edge: dict[str, Any] = {"id": UUID(uuid7()), "weight": 0.5, "origin": "agent"}
        self.insert("edges", **edge, layer="knowledge", source_id=named, target_id=far, relation="KNOWS")
        low, high = sorted(self.ids[:2])
        for one, other in zip(sorted(self.ids), sorted(self.ids)[1:], strict=False):
            link = edge | {"id": UUID(uuid7())}
            self.insert("edges", **link, layer="association", source_id=one, target_id=other, relation="supports")
        self.insert("link_tombstones", low_id=low, high_id=high)
        self.insert("co_retrievals", low_id=low, high_id=high, instances=["default:1"])
        self.connection.execute(
            "insert into lexeme_counts select %s, 'trusted', lexeme_prefix(%s) || 'goos', 9",
            [self.namespace, self.namespace],
        )
        self.insert(
            "deferred_links", id=UUID(uuid7()), source_id=low, target_id=high, request=Jsonb({}), principal=Jsonb({}),
            command_id=self.command,
        )  # fmt: skip
        self.insert(
            "proposals", id=proposal, action="delete", target_id=edge["id"], covers=[edge["id"]], proposed_by="ada",
            expires_at="2100-01-01",
        )  # fmt: skip
        self.insert("approvals", proposal_id=proposal, principal="ada")
        for number in range(3):
            self.insert("audit_log", actor="ada", action=f"a{number}", target_id=low, command_id=self.command)
        self.insert(
            "ledger", command_id=self.command, principal="ada", command="store_memory", idempotency_key="again",
            answer=Jsonb({"reply": self.namespace}), memory_id=low, fingerprint="f",
        )  # fmt: skip
        self.insert(
            "tokens", id=UUID(uuid7()), principal="ada", scopes=["read"], sha256=token_digest(self.token),
            created_by="ada",
        )  # fmt: skip


# Columns, since then; of nodes and edges also `created_by`, which memories had.
CHANGED = (
    *("tenant", "namespace", "lexemes", "lexeme", "load_id", "principal_untrusted", "superseded_at", "updated_by"),
    *("tags", "project", "valid_from", "valid_until", "expires_at", "superseded_from", "change"),
    *("links_decayed_at_hours", "language", "pieces", "standing", "place", "held_until", "move"),
)


def fill(connection: Connection) -> list[Tenant]:
    """Write both namespaces, and one of which there is a refusal alone."""
    connection.execute(MODEL)
    tenants = [Tenant(connection, namespace) for namespace in NAMESPACES]
    connection.execute(
        "insert into ledger (command_id, namespace, principal, command, answer) values (%s, %s, 'ada', 'ping', '{}')",
        [uuid7(), UNWRITTEN],
    )
    return tenants


def told(connection: Connection, namespace: str) -> dict[str, list[str]]:
    """Return all rows of a namespace by table, whichever version the database has; lexemes without their prefix."""
    found = connection.execute("select to_regproc('tenant_of') is not null").fetchone()
    assert found is not None
    prefix = "length(lexeme_prefix(tenant_of(%(namespace)s)))" if found[0] else str(OLD_PREFIX)
    whose = "t.tenant = tenant_of(%(namespace)s)" if found[0] else "t.namespace = %(namespace)s"
    queries = dict.fromkeys(TABLES, f"to_jsonb(t) - '{{{','.join(CHANGED)}}}'::text[]")
    for table in ("nodes", "edges"):
        queries[table] += " - 'created_by'"
    word = f"substr(word, 1 + {prefix})"
    queries["memories"] += (
        f" || jsonb_build_object('words', array(select {word} from unnest(tsvector_to_array(t.lexemes)) word "
        "order by 1))"
    )
    queries["lexeme_counts"] += f" || jsonb_build_object('word', (select {word} from (values (t.lexeme)) one (word)))"
    return {
        table: [
            row[0]
            for row in connection.execute(
                f"select ({shown})::text from {table} t where {whose} order by 1".encode(), {"namespace": namespace}
            ).fetchall()
        ]
        for table, shown in queries.items()
    }
