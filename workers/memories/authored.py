"""What a purge takes of a principal besides its memories: the named nodes, edges and links that it wrote.

Nodes on which edges of others hang stay, since those edges would go with them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.commands import AddEdge, AddNode, Command, Purged
from engramq.schemas.envelope import Envelope
from engramq.schemas.records import GraphPreview
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.db import audit
from engramq.workers.db.json_values import Jsonb
from engramq.workers.db.memory_rows import lock
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.deferred import drop_by_id
from engramq.workers.memories.purge_filters import Filters

COUNT: Final = sql("authored_count")
EDGES: Final = sql("authored_edges")
LINKS: Final = sql("authored_links")
NODES: Final = sql("authored_nodes")
ERASE_EDGES: Final = sql("erase_authored_edges")
ERASE_LINKS: Final = sql("erase_authored_links")
LOCK_NODES: Final = sql("lock_authored_nodes")
ERASE_NODES: Final = sql("erase_authored_nodes")
BLANK: Final = sql("blank_answers")

BEGINNING: Final = UUID(int=0)  # of the ids, which count up

Erase = Callable[[Transaction, Filters, Sequence[Row]], Awaitable[list[Row]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of things that a principal writes: how they are found and erased, and how the audit log calls that."""

    found_by: bytes
    erase: Erase
    action: AuditAction

    async def find(self, tx: Transaction, filters: Filters, after: UUID, limit: int) -> list[Row]:
        """Return the first of these things, by their ids, that come after one."""
        return await tx.rows(self.found_by, **asdict(filters), after_id=after, limit=limit, hung_on=False)


async def _erase_edges(tx: Transaction, filters: Filters, rows: Sequence[Row]) -> list[Row]:
    gone = await tx.rows(ERASE_EDGES, **asdict(filters), ids=_ids(rows))
    await _blank(tx, AddEdge, "edge_id", gone, {"relation": "", "properties": {}})
    return gone


async def _erase_links(tx: Transaction, filters: Filters, rows: Sequence[Row]) -> list[Row]:
    await lock(tx, *set(chain.from_iterable((row["source_id"], row["target_id"]) for row in rows)))
    gone = await tx.rows(ERASE_LINKS, **asdict(filters), ids=_ids(rows))
    return gone + await drop_by_id(tx, _ids(rows), "What its principal wrote was purged while it waited.")


async def _erase_nodes(tx: Transaction, filters: Filters, rows: Sequence[Row]) -> list[Row]:
    locked = await tx.rows(LOCK_NODES, **asdict(filters), ids=_ids(rows))
    gone = await tx.rows(ERASE_NODES, ids=_ids(locked))
    await _blank(tx, AddNode, "node_id", gone, {"label": "", "name": "", "properties": {}})
    return gone


# In this order: a node that only its own edges hold goes after them.
KINDS: Final = (
    Kind(found_by=EDGES, erase=_erase_edges, action=AuditAction.DELETE_EDGE),
    Kind(found_by=LINKS, erase=_erase_links, action=AuditAction.DISCONNECT),
    Kind(found_by=NODES, erase=_erase_nodes, action=AuditAction.DELETE_NODE),
)


async def erase(tx: Transaction, envelope: Envelope, kind: Kind, filters: Filters, rows: Sequence[Row]) -> None:
    """Erase those of these things that the purge still takes, and note each in the audit log, by ids alone."""
    for row in await kind.erase(tx, filters, rows):
        old: dict[str, Any] = {name: str(row[name]) for name in ("source_id", "target_id") if name in row}
        old |= {"constitutive": True} if row.get("constitutive") else {}
        await audit.record(
            tx, envelope, kind.action, row["id"], old=old, new={}, reason=audit.reason_of(envelope.command)
        )


async def tell_listed(tx: Transaction, reply: Purged, filters: Filters) -> None:
    """Add to a reply what a purge would take of the graph, and what of the principal's it would leave."""
    row = await tx.row(COUNT, **asdict(filters))
    assert row is not None
    reply.edge_count, reply.constitutive_count = row["edges"], row["constitutive"]
    reply.link_count, reply.node_count = row["links"], row["nodes"]
    edges, links, nodes = [await kind.find(tx, filters, BEGINNING, limits.PURGED_SHOWN) for kind in KINDS]
    reply.edge_previews, reply.link_previews, reply.node_previews = _named(edges), _named(links), _named(nodes)
    await tell_kept(tx, reply, filters, row["kept"])


async def tell_kept(tx: Transaction, reply: Purged, filters: Filters, count: int | None = None) -> None:
    """Add to a reply which nodes of the principal are left to the edges of others that hang on them."""
    if count is None:
        row = await tx.row(COUNT, **asdict(filters))
        assert row is not None
        count = row["kept"]
    kept = await tx.rows(NODES, **asdict(filters), after_id=BEGINNING, limit=limits.PURGED_SHOWN, hung_on=True)
    reply.kept_node_count, reply.kept_node_previews = count or 0, _named(kept)


def named(ids: Sequence[str]) -> list[GraphPreview]:
    """Return what names things in a reply; previews are read later: see workers/previews.py."""
    return [GraphPreview(id=one, preview=None) for one in ids]


async def _blank(tx: Transaction, wrote: type[Command], field: str, gone: Sequence[Row], blank: dict[str, Any]) -> None:
    """Take what is gone out of the stored answers of the commands that wrote it."""
    if gone:
        command = str(wrote.__struct_config__.tag)
        names = [str(row["id"]) for row in gone]
        await tx.send(BLANK, command=command, field=field, names=names, blank=Jsonb(blank))


def _named(rows: Sequence[Row]) -> list[GraphPreview]:
    return named([str(row["id"]) for row in rows])


def _ids(rows: Sequence[Row]) -> list[UUID]:
    return [row["id"] for row in rows]
