"""Export a tenant as lines of JSON, as docs/export.md describes them: read in pages, all from one snapshot."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Final
from uuid import UUID

import msgspec

from engramq.schemas.commands import ExportTenant, TenantExported
from engramq.schemas.exports import FORMAT, OF_NAMESPACE, VERSION
from engramq.schemas.faults import FaultCode, invalid, refuse
from engramq.schemas.fields import or_none
from engramq.schemas.ids import format_time
from engramq.schemas.parts import LONGEST_S, PART_BYTES, Part
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.db import audit
from engramq.workers.db.privacy import seeing_all_as_admin
from engramq.workers.db.readiness import packaged
from engramq.workers.db.transaction import Transaction
from engramq.workers.runner import Context, handles_without_transaction
from engramq.workers.tenants.export_check import ExportRefused, ExportWatch

ABOUT: Final = "An export"
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
class RecordSource:
    """One type of lines: where its rows come from."""

    type: str
    table: str
    query: str
    values: Mapping[str, Any] = field(default_factory=dict)


KINDS: Final = (
    RecordSource("memory", "memories", "export_memories"),
    RecordSource("node", "nodes", "export_nodes"),
    RecordSource("edge", "edges", "export_edges", {"layer": "knowledge"}),
    RecordSource("link", "edges", "export_edges", {"layer": "association"}),
    RecordSource("deferred_link", "deferred_links", "export_deferred_links"),
    RecordSource("tombstone", "link_tombstones", "export_tombstones"),
    RecordSource("proposal", "proposals", "export_proposals"),
    RecordSource("imported_row", "imported_rows", "export_imported_rows"),
)
AUDIT: Final = RecordSource("audit", "audit_log", "export_audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportChoice:
    """The options of an export; `project`: only the memories of this one, and their links."""

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
    for kind in (*KINDS, AUDIT) if wanted.audit else KINDS:
        counts[kind.type] = 0
        async for row in _rows(tx, kind, wanted):
            counts[kind.type] += 1
            # The text as PostgreSQL wrote it: numbers keep all their digits.
            yield f'{{"type":"{kind.type}",{row["line"][1:]}\n'.encode()
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


async def _rows(tx: Transaction, kind: RecordSource, wanted: ExportChoice) -> AsyncIterator[Mapping[str, Any]]:
    after: dict[str, Any] = dict(_FIRST)
    known = {"left_out": list(LEFT_OUT[kind.table]), "embeddings": wanted.embeddings, "project": wanted.project}
    while rows := await tx.rows(kind.query, **after, **known, **kind.values, limit=ROWS_AT_ONCE):
        for row in rows:
            yield row
        if len(rows) < ROWS_AT_ONCE:
            return
        after |= {name: value for name, value in rows[-1].items() if name in after}


async def checked_lines(tx: Transaction, wanted: ExportChoice) -> AsyncIterator[bytes]:
    """Yield the lines of an export as this release writes them; raises ExportRefused for one that nobody could read.

    Nobody is to delete a namespace whose export does not come back.
    """
    watch = ExportWatch(packaged().version)
    async for line in lines(tx, wanted, version("engramq")):
        watch.check(line)
        yield line


class Exporting:
    """The one export at a time that a process sends: it has a connection and a place in its mailbox meanwhile."""

    def __init__(self) -> None:
        self._is_busy = False

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the place within the block; raises EngramqError where another export has it."""
        if self._is_busy:
            raise refuse(FaultCode.OVERLOADED, "Another export is under way. Begin this one when that has ended.")
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False


@handles_without_transaction(ExportTenant)
async def export_tenant(command: ExportTenant, context: Context) -> TenantExported:
    """Send an export in parts, and note who has it. Another try would send lines of another moment: there is none."""
    envelope, principal = context.envelope, context.envelope.principal
    chosen = ExportChoice(project=or_none(command.project))
    if envelope.attempt > 1:
        raise refuse(FaultCode.UNAVAILABLE, "The worker that sent the export has gone.", recovery="Begin it again.")

    async def note(tx: Transaction) -> None:
        # Its author gave the name: only a digest, to compare with, since no erasure comes to this entry.
        new = {} if chosen.project is None else {"project_sha256": sha256(chosen.project.encode()).hexdigest()}
        await audit.write(tx, principal.name, AuditAction.EXPORT_TENANT, None, old={}, new=new)

    async def send(tx: Transaction) -> TenantExported:
        async with seeing_all_as_admin(tx, principal, ABOUT):
            if not await holds_any(tx, chosen):
                raise invalid("project", f"No memory is in project {chosen.project!r}.")
            await context.store.write(envelope.namespace, note)
            async with context.inspection.sending(command.channel) as sender:
                return await _send_parts(tx, chosen, sender.send)

    with context.services[Exporting].hold():
        try:
            async with asyncio.timeout(LONGEST_S):
                return await context.store.snapshot(envelope.namespace, send)
        except ExportRefused as problem:
            raise refuse(FaultCode.INTERNAL, f"A line of the export is wrong: {problem}") from problem
        except TimeoutError:
            raise refuse(FaultCode.UNAVAILABLE, f"The export took more than {LONGEST_S:.0f} s.") from None


async def _send_parts(tx: Transaction, chosen: ExportChoice, send: Callable[[Part], Awaitable[None]]) -> TenantExported:
    # To count what is between the memories of a project takes as long as to send it.
    total = int((await tx.only_row("export_size"))["records"]) if chosen.project is None else 0
    number, count, gathered = 0, -1, bytearray()  # the head is no record
    async for line in checked_lines(tx, chosen):
        gathered += line
        count += 1
        if len(gathered) >= PART_BYTES:
            await send(Part(number, count, total, is_last=False, lines=bytes(gathered)))
            number += 1
            gathered.clear()
    await send(Part(number, count - 1, total, is_last=True, lines=bytes(gathered)))  # nor is the end
    return TenantExported(records=count - 1)


def _line(record: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(record) + b"\n"
