"""Export a tenant as lines of JSON, as docs/export.md describes them: read in pages, all from one snapshot."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import msgspec

from engramq.schemas.exports import FORMAT, OF_NAMESPACE, VERSION
from engramq.schemas.ids import format_time
from engramq.workers.db.transaction import Transaction

ROWS_AT_ONCE: Final = 200  # a page of the largest memories is about 10 MB then, in a script of four bytes 30

# Columns that no export has, by table: the tenant's number and what only this database can use.
LEFT_OUT: Final[Mapping[str, tuple[str, ...]]] = {
    "memories": (
        "tenant", "node_id", "embedding", "model_id", "pieces", "lexemes", "load_id", "told_on", "vector_key",
        "repeated",
    ),
    "memory_usage": ("tenant", "node_id"),
    "nodes": ("tenant", "partition", "owner"),
    "edges": ("tenant", "layer"),
    "deferred_links": ("tenant",),
    "link_tombstones": ("tenant",),
    "proposals": ("tenant",),
    "imported_rows": ("tenant",),
    "approvals": ("tenant", "proposal_id"),
    "audit_log": ("tenant", "namespace", "brought_at", "brought_from"),
}  # fmt: skip
# Tables that no export has: secrets, what engramq makes by itself, and what is forgotten within days anyway. What was
# deleted from the graph is no content of the namespace any more; webhooks are about servers, not about what is known.
# The chain of the audit log speaks of the order in which this installation came to its entries.
TABLES_LEFT_OUT: Final = frozenset(
    {
        "tokens", "ledger", "lexeme_counts", "lexeme_rebuilds", "loads", "co_retrievals", "namespaces", "deleted_graph",
        "changes", "memory_totals", "webhooks", "webhook_outbox", "audit_chain",
    }
)  # fmt: skip

_FIRST: Final = {
    "after_id": UUID(int=0), "after_other": UUID(int=0), "after_entry": 0, "after_digest": b""
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """One type of lines: where its rows come from."""

    type: str
    table: str
    query: str
    values: Mapping[str, Any] = field(default_factory=dict)


PARTS: Final = (
    Part("memory", "memories", "export_memories"),
    Part("node", "nodes", "export_nodes"),
    Part("edge", "edges", "export_edges", {"layer": "knowledge"}),
    Part("link", "edges", "export_edges", {"layer": "association"}),
    Part("deferred_link", "deferred_links", "export_deferred_links"),
    Part("tombstone", "link_tombstones", "export_tombstones"),
    Part("proposal", "proposals", "export_proposals"),
    Part("imported_row", "imported_rows", "export_imported_rows"),
)
AUDIT: Final = Part("audit", "audit_log", "export_audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportChoice:
    """What an export has besides what every export has; `project`: the memories of this one alone, and their links."""

    audit: bool = False
    embeddings: bool = False
    project: str | None = None


NOTHING_CHOSEN: Final = (
    "No memory of namespace {namespace!r} is in project {choice.project!r}; engramq projects lists them."
)


async def holds_any(tx: Transaction, wanted: ExportChoice) -> bool:
    """Return whether any memory is in the project that is asked for; an export of another would be empty."""
    if wanted.project is None:
        return True
    row = await tx.row("project_is_used", project=wanted.project)
    return row is not None and bool(row["used"])


async def lines(tx: Transaction, wanted: ExportChoice, release: str) -> AsyncIterator[bytes]:
    """Yield the lines of an export, each with its line end; `release` is the version of engramq that writes it.

    The first says what it is, the last how many of each type there were: without that one it was broken off.
    """
    await tx.send("plan_by_keys")
    yield _line(await _head(tx, wanted, release))
    counts: dict[str, int] = {}
    for part in (*PARTS, AUDIT) if wanted.audit else PARTS:
        counts[part.type] = 0
        async for row in _rows(tx, part, wanted):
            counts[part.type] += 1
            # The text as PostgreSQL wrote it: numbers keep all their digits.
            yield f'{{"type":"{part.type}",{row["line"][1:]}\n'.encode()
    yield _line({"type": "end", "counts": counts})


async def _head(tx: Transaction, wanted: ExportChoice, release: str) -> dict[str, Any]:
    row = await tx.only_row("export_head")
    return {
        "type": FORMAT,
        "version": VERSION,
        "engramq": release,
        "schema": row["schema_version"],
        "namespace": tx.namespace,
        "exported_at": format_time(row["exported_at"]),
        **{name: row[name] for name in OF_NAMESPACE},
        "audit": wanted.audit,
        "embeddings": wanted.embeddings,
        **({} if wanted.project is None else {"project": wanted.project}),
    }


async def _rows(tx: Transaction, part: Part, wanted: ExportChoice) -> AsyncIterator[Mapping[str, Any]]:
    after: dict[str, Any] = dict(_FIRST)
    known = {"left_out": list(LEFT_OUT[part.table]), "embeddings": wanted.embeddings, "project": wanted.project}
    while rows := await tx.rows(part.query, **after, **known, **part.values, limit=ROWS_AT_ONCE):
        for row in rows:
            yield row
        if len(rows) < ROWS_AT_ONCE:
            return
        after |= {name: value for name, value in rows[-1].items() if name in after}


def _line(record: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(record) + b"\n"
