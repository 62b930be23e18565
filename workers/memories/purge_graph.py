"""Take a principal's nodes, edges and links away, as a purge of its memories does.

Nodes on which edges of others hang stay, since those edges would go with them; the properties that the principal wrote
go, those that others wrote last stay. Deletions that are kept to be restored go too, and so do proposals: those that
the principal made, and those about its edges.

A purge that archives takes nodes and edges as agents delete them, each under an entry of its own in the audit log, by
which `engramq graph restore` brings it back. Links have no such way back and stay; those of memories that are archived
are hidden with these. No consent is asked for: a caller that may purge may erase all of it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, Final, Self
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.commands import AddEdge, AddNode, Purged, PurgeMemories
from engramq.schemas.envelope import Envelope, PrincipalId
from engramq.schemas.fields import or_none
from engramq.schemas.records import GraphPreview, MemoryPreview
from engramq.schemas.vocabulary import AuditAction, Partition
from engramq.workers.db import audit, ledger
from engramq.workers.db.memory_rows import lock
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.db.viewers import Viewer
from engramq.workers.graph.deletions import delete_edges, delete_nodes, edge_as_it_was, note_deletions
from engramq.workers.graph.taking_back import ChangedBy, list_changed
from engramq.workers.links.deferred import drop_by_id

BEGINNING: Final = UUID(int=0)  # of the ids, which count up

LINKS_STAY: Final = (
    "Links that this principal made stay: only a purge that erases takes them. "
    "Those of archived memories are hidden with these."
)
# What the audit log tells of a thing that is erased: ids, and what counts them.
_AS_TEXT: Final = ("source_id", "target_id", "proposal_id")
_AS_IT_IS: Final = ("deletion", "property_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeFilters:
    """The conditions under which a purge takes a memory; None: no condition."""

    created_by: str | None
    source_type: str | None
    thread: str | None
    project: str | None
    partition: Partition | None
    since: datetime | None
    until: datetime | None
    unarchived: bool  # it is not archived already
    private: bool  # it is private
    # Private memories are their owner's, also those that a hook wrote or another principal handed over.
    owners: list[str] = field(default_factory=list)
    taken_by: UUID | None = None  # or it rests on what this command has taken, and is shared or private to the reader
    reader: str | None = None

    @classmethod
    def of(cls, command: PurgeMemories, reader: str | None = None) -> Self:
        """Return the filters of a command; `reader`: who owns what its caller alone sees."""
        names = cls.__dataclass_fields__.keys() - {"owners", "taken_by", "reader"}
        given: dict[str, Any] = {name: or_none(getattr(command, name)) for name in names}
        author = given["created_by"]
        both = () if author is None else (PrincipalId(author), PrincipalId(author, untrusted=True))
        owners = [owner for identity in both if (owner := Viewer.of(identity).owner) is not None]
        return cls(**given | {"unarchived": command.unarchived or command.archive}, owners=owners, reader=reader)

    @property
    def take_private(self) -> bool:
        """Whether what is private to others goes too, unshown.

        Not where the filters ask for what is in a memory: by the count its thread or project could be guessed.
        """
        return (self.source_type, self.thread, self.project) == (None, None, None)

    @property
    def take_graph(self) -> bool:
        """Whether nodes, edges and links are taken too: they have an author and a time, and nothing else of these."""
        of_memories = (self.source_type, self.thread, self.project, self.partition)
        return self.created_by is not None and set(of_memories) == {None} and not self.private

    @property
    def changes(self) -> ChangedBy:
        """The changes that the principal made to edges and nodes of others."""
        assert self.created_by is not None
        return ChangedBy(self.created_by, self.since, self.until)


Take = Callable[[Transaction, Envelope, PurgeFilters, Sequence[Row]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphKind:
    """One kind of things that a principal writes: the query that lists them, and how those that a purge takes go.

    `stays`: the things themselves stay, so that what is queued about them does too.
    """

    listed_by: str
    take: Take
    stays: bool = False


async def _erase_edges(tx: Transaction, envelope: Envelope, filters: PurgeFilters, rows: Sequence[Row]) -> None:
    gone = await tx.rows("erase_authored_edges", **asdict(filters), ids=ids_of(rows))
    await _blank_edges(tx, gone)
    await _note(tx, envelope, AuditAction.DELETE_EDGE, gone)
    await _erase_about(tx, envelope, gone)


async def _erase_links(tx: Transaction, envelope: Envelope, filters: PurgeFilters, rows: Sequence[Row]) -> None:
    await lock(tx, *set(chain.from_iterable((row["source_id"], row["target_id"]) for row in rows)))
    gone = await tx.rows("erase_authored_links", **asdict(filters), ids=ids_of(rows))
    gone += await drop_by_id(tx, ids_of(rows), "Its principal's graph was purged while it waited.")
    await _note(tx, envelope, AuditAction.DISCONNECT, gone)


async def _erase_nodes(tx: Transaction, envelope: Envelope, filters: PurgeFilters, rows: Sequence[Row]) -> None:
    locked = await tx.rows("lock_authored_nodes", **asdict(filters), ids=ids_of(rows))
    gone = await tx.rows("erase_authored_nodes", ids=ids_of(locked))
    await _blank_nodes(tx, gone)
    await _note(tx, envelope, AuditAction.DELETE_NODE, gone)


async def _empty_nodes(tx: Transaction, envelope: Envelope, filters: PurgeFilters, rows: Sequence[Row]) -> None:
    """Take the principal's properties from its nodes that stay. They are counted alone: keys can say what values do."""
    locked = await tx.rows("lock_authored_nodes", **asdict(filters), ids=ids_of(rows))
    await ledger.blank(tx, AddNode, "node_id", ids_of(locked), {"properties": {}})
    emptied = await tx.rows("empty_authored_nodes", **asdict(filters), ids=ids_of(locked))
    await _note(tx, envelope, AuditAction.ERASE_PROPERTIES, emptied)


async def _erase_deletions(tx: Transaction, envelope: Envelope, filters: PurgeFilters, rows: Sequence[Row]) -> None:
    gone = await tx.rows("erase_deletions", **asdict(filters), ids=ids_of(rows))
    edges = [row for row in gone if not row["is_node"]]
    await _blank_edges(tx, edges)
    await _blank_nodes(tx, [row for row in gone if row["is_node"]])
    await _note(tx, envelope, AuditAction.ERASE_DELETED, gone)
    await _erase_about(tx, envelope, edges)


async def _erase_proposals(tx: Transaction, envelope: Envelope, filters: PurgeFilters, rows: Sequence[Row]) -> None:
    gone = await tx.rows("erase_proposals", **asdict(filters), ids=ids_of(rows))
    await _note(tx, envelope, AuditAction.ERASE_PROPOSAL, gone)


# In this order: a node that only its own edges hold goes after them, and what somebody deletes meanwhile is found last.
ERASED: Final = (
    GraphKind(listed_by="authored_edges", take=_erase_edges),
    GraphKind(listed_by="authored_links", take=_erase_links),
    GraphKind(listed_by="authored_nodes", take=_erase_nodes),
    GraphKind(listed_by="authored_nodes_left", take=_empty_nodes, stays=True),
    GraphKind(listed_by="authored_deletions", take=_erase_deletions),
    GraphKind(listed_by="authored_proposals", take=_erase_proposals),
)


async def _erase_about(tx: Transaction, envelope: Envelope, edges: Sequence[Row]) -> None:
    """Erase proposals about edges that are gone. A proposer locks the edge, so nobody makes another proposal."""
    if edges:
        gone = await tx.rows("erase_proposals_about", ids=ids_of(edges))
        await _note(tx, envelope, AuditAction.ERASE_PROPOSAL, gone)


async def _note(tx: Transaction, envelope: Envelope, action: AuditAction, gone: Sequence[Row]) -> None:
    """Note in the audit log, by ids alone, that these things are erased; what it said of them in words goes."""
    await audit.blank(tx, envelope, ids_of(gone))
    for row in gone:
        old: dict[str, Any] = {name: str(row[name]) for name in _AS_TEXT if name in row}
        old |= {name: row[name] for name in _AS_IT_IS if name in row}
        old |= {"constitutive": True} if row.get("constitutive") else {}
        await audit.record(tx, envelope, action, row["id"], old=old, new={"erased": True})


async def _blank_edges(tx: Transaction, gone: Sequence[Row]) -> None:
    await ledger.blank(tx, AddEdge, "edge_id", ids_of(gone), {"relation": "", "properties": {}})


async def _blank_nodes(tx: Transaction, gone: Sequence[Row]) -> None:
    await ledger.blank(tx, AddNode, "node_id", ids_of(gone), {"label": "", "name": "", "properties": {}})


async def _archive_edges(tx: Transaction, envelope: Envelope, filters: PurgeFilters, rows: Sequence[Row]) -> None:
    locked = await tx.rows("lock_authored_edges", **asdict(filters), ids=ids_of(rows))
    olds = {row["id"]: edge_as_it_was(row) | ({"constitutive": True} if row["constitutive"] else {}) for row in locked}
    await delete_edges(tx, await note_deletions(tx, envelope, AuditAction.DELETE_EDGE, olds))


async def _archive_nodes(tx: Transaction, envelope: Envelope, filters: PurgeFilters, rows: Sequence[Row]) -> None:
    locked = await tx.rows("lock_authored_nodes", **asdict(filters), ids=ids_of(rows))
    bare = await tx.rows("bare_nodes", ids=ids_of(locked))
    olds = {row["id"]: {"label": row["label"], "edges": 0} for row in bare}
    await delete_nodes(tx, await note_deletions(tx, envelope, AuditAction.DELETE_NODE, olds))


ARCHIVED: Final = (
    GraphKind(listed_by="authored_edges", take=_archive_edges),
    GraphKind(listed_by="authored_nodes", take=_archive_nodes),
)


async def tell_listed(tx: Transaction, reply: Purged, filters: PurgeFilters) -> None:
    """Add to a reply what a purge would take of the graph, and what it would leave of the principal's."""
    counts = await tell_left(tx, reply, filters)
    reply.edge_count, reply.constitutive_count, reply.node_count = (
        counts["edges"], counts["constitutive"], counts["nodes"]
    )  # fmt: skip
    reply.edge_previews = await _first(tx, filters, "authored_edges")
    reply.node_previews = await _first(tx, filters, "authored_nodes")
    if not filters.unarchived:
        reply.link_count, reply.link_previews = counts["links"], await _first(tx, filters, "authored_links")
        reply.deleted_count, reply.proposal_count = counts["deleted"], counts["proposals"]
        reply.emptied_count = counts["emptied"]


async def tell_left(tx: Transaction, reply: Purged, filters: PurgeFilters) -> Row:
    """Add to a reply what is left: nodes on which edges of others hang, links if archived, what of others was changed.

    Return the counts of what the principal wrote and is there.
    """
    counts = await tx.only_row("authored_count", **asdict(filters))
    reply.kept_node_count = counts["kept"]
    reply.kept_node_previews = await _first(tx, filters, "authored_nodes", hung_on=True)
    if filters.unarchived and counts["links"]:
        reply.notice = LINKS_STAY
    others = await list_changed(tx, filters.changes, limits.PURGED_SHOWN)
    reply.changed_edge_count, reply.changed_edge_previews = others.edges, preview_named(others.edge_ids)
    reply.changed_node_count, reply.changed_node_previews = others.nodes, preview_named(others.node_ids)
    reply.changed_memory_count = others.memories
    reply.changed_memory_previews = [MemoryPreview(id=memory_id, preview=None) for memory_id in others.memory_ids]
    return counts


def preview_named(ids: Sequence[str]) -> list[GraphPreview]:
    """Return what names things in a reply; previews are read later: see workers/replies.py."""
    return [GraphPreview(id=thing_id, preview=None) for thing_id in ids]


async def _first(tx: Transaction, filters: PurgeFilters, query: str, *, hung_on: bool = False) -> list[GraphPreview]:
    limit = limits.PURGED_SHOWN
    rows = await tx.rows(query, **asdict(filters), after_id=BEGINNING, limit=limit, hung_on=hung_on)
    return preview_named([str(row["id"]) for row in rows])


def ids_of(rows: Sequence[Row]) -> list[UUID]:
    """Return the ids of rows."""
    return [row["id"] for row in rows]
