"""What a purge that archives takes of a principal besides its memories: its named nodes and edges.

They go as agents delete them, each under an entry of its own in the audit log, by which `engramq graph restore` brings
it back. Links have no such way back and stay; those of memories that are archived are hidden with these. No consent is
asked for: whoever purges may erase all of it.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from engramq.schemas.envelope import Envelope
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.graph.deletions import delete_edges, delete_nodes, edge_as_it_was, entered_many
from engramq.workers.memories.authored import EDGES, LOCK_NODES, NODES, Kind, ids_of
from engramq.workers.memories.purge_filters import Filters

LOCK_EDGES: Final = sql("lock_authored_edges")
BARE_NODES: Final = sql("bare_nodes")


async def _archive_edges(tx: Transaction, envelope: Envelope, filters: Filters, rows: Sequence[Row]) -> None:
    locked = await tx.rows(LOCK_EDGES, **asdict(filters), ids=ids_of(rows))
    olds = {row["id"]: edge_as_it_was(row) | ({"constitutive": True} if row["constitutive"] else {}) for row in locked}
    await delete_edges(tx, await entered_many(tx, envelope, AuditAction.DELETE_EDGE, olds))


async def _archive_nodes(tx: Transaction, envelope: Envelope, filters: Filters, rows: Sequence[Row]) -> None:
    locked = await tx.rows(LOCK_NODES, **asdict(filters), ids=ids_of(rows))
    bare = await tx.rows(BARE_NODES, ids=ids_of(locked))
    olds = {row["id"]: {"label": row["label"], "edges": 0} for row in bare}
    await delete_nodes(tx, await entered_many(tx, envelope, AuditAction.DELETE_NODE, olds))


KINDS: Final = (Kind(found_by=EDGES, take=_archive_edges), Kind(found_by=NODES, take=_archive_nodes))
