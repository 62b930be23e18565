"""Carries out the commands on the knowledge graph. An untrusted principal may write nothing here."""

import logging

from engramq.schemas.commands import (
    AddEdge,
    AddNode,
    ChangeNeedsConsent,
    ConsentNotNeeded,
    Decided,
    DecideProposal,
    DeletedList,
    DeleteEdge,
    DeleteNode,
    DeletionNeedsConsent,
    EdgeAdded,
    EdgeFound,
    EdgeList,
    EdgeMissing,
    EdgesMissing,
    FindPath,
    GetEdge,
    GetNodeByName,
    GraphDeleted,
    GraphRestored,
    ListDeleted,
    ListEdges,
    ListProposals,
    NameAmbiguous,
    Neighbors,
    NodeAdded,
    NodeFound,
    NodeMissing,
    NotProposed,
    PathReport,
    ProposalList,
    Proposed,
    ProposeReclassification,
    QueryNeighbors,
    Reclassified,
    ReclassifySector,
    Reply,
    RestoreGraph,
    WalkStartMissing,
)
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.fields import or_none
from engramq.schemas.vocabulary import ReclassifyStatus, Scope
from engramq.workers.db.transaction import Transaction
from engramq.workers.graph import consent, edges, nodes, proposals, reads, restoration, walks
from engramq.workers.graph.reclassification import actor_of, reclassify
from engramq.workers.runner import Context, handles, handles_without_transaction, require_admin

log = logging.getLogger(__name__)


@handles(AddNode)
async def add_node(tx: Transaction, command: AddNode, context: Context) -> NodeAdded:
    """Make a named node, or merge properties into the one that is there."""
    _require_trusted_principal(context)
    return await nodes.add_node(tx, context.envelope, command)


@handles(AddEdge)
async def add_edge(
    tx: Transaction, command: AddEdge, context: Context
) -> EdgeAdded | ChangeNeedsConsent | NameAmbiguous:
    """Write an edge, or merge into the one that is there; into a constitutive one only with consent."""
    _require_trusted_principal(context)
    return await edges.add_edge(tx, context.envelope, command)


@handles(DeleteEdge)
async def delete_edge(tx: Transaction, command: DeleteEdge, context: Context) -> GraphDeleted | DeletionNeedsConsent:
    """Remove an edge; a constitutive one only with consent."""
    _require_trusted_principal(context)
    return await edges.delete_edge(tx, context.envelope, command)


@handles(DeleteNode)
async def delete_node(tx: Transaction, command: DeleteNode, context: Context) -> GraphDeleted | DeletionNeedsConsent:
    """Remove a node with its edges; constitutive ones only with consent."""
    _require_trusted_principal(context)
    return await edges.delete_node(tx, context.envelope, command)


@handles(RestoreGraph)
async def restore_graph(tx: Transaction, command: RestoreGraph, context: Context) -> GraphRestored:
    """Undo a deletion, as far as nothing stands in its way."""
    require_admin(context.envelope.principal, "Restoring what was deleted")
    return await restoration.restore(tx, context.envelope, command)


@handles(ListDeleted)
async def list_deleted(tx: Transaction, command: ListDeleted, context: Context) -> DeletedList:
    """List the deletions that can be undone."""
    require_admin(context.envelope.principal, "Listing what was deleted")
    return await restoration.list_deleted(tx, command.limit)


async def log_reclassified(reply: Reply, command: ReclassifySector, context: Context) -> None:
    """Say in the log that an edge has another sector, once that is committed."""
    succeeded = isinstance(reply, Reclassified) and reply.status is ReclassifyStatus.SUCCESS
    if succeeded and isinstance(reply, Reclassified) and not context.replayed:
        log.info(
            "Edge reclassified",
            extra={
                "edge_id": reply.edge_id,
                "from_sector": reply.old_sector,
                "to_sector": reply.new_sector,
                "actor": actor_of(context.envelope, command),
                "command_id": context.envelope.id,
            },
        )


@handles(ReclassifySector, after=log_reclassified)
async def reclassify_sector(tx: Transaction, command: ReclassifySector, context: Context) -> Reclassified:
    """Give an edge its sector by hand."""
    principal, actor = context.envelope.principal, actor_of(context.envelope, command)
    if actor != principal.name and Scope.ADMIN not in principal.scopes:
        raise refuse(FaultCode.FORBIDDEN, f"To act as {actor!r} needs the scope {Scope.ADMIN.value!r}.")
    _require_trusted_principal(context)
    return await reclassify(tx, context.envelope, command)


@handles(ProposeReclassification)
async def propose(
    tx: Transaction, command: ProposeReclassification, context: Context
) -> Proposed | NotProposed | ConsentNotNeeded:
    """Propose another sector for an edge."""
    _require_trusted_principal(context)
    return await consent.propose(tx, context.envelope, command)


@handles(DecideProposal)
async def decide(tx: Transaction, command: DecideProposal, context: Context) -> Decided:
    """Approve or reject a proposal."""
    _require_trusted_principal(context)
    return await consent.decide(tx, context.envelope, command)


@handles(ListProposals)
async def list_proposals(tx: Transaction, command: ListProposals, _context: Context) -> ProposalList:
    """List proposals, newest first; a cursor is the position that the last page's next_cursor was."""
    shown, after = await proposals.list_proposals(tx, or_none(command.state), or_none(command.cursor))
    return ProposalList(proposals=shown, truncated=after is not None, next_cursor=after)


@handles(GetNodeByName)
async def get_node(tx: Transaction, command: GetNodeByName, _context: Context) -> NodeFound | NodeMissing:
    """Find a node by its name."""
    return await reads.get_node(tx, command)


@handles(GetEdge)
async def get_edge(tx: Transaction, command: GetEdge, _context: Context) -> EdgeFound | EdgeMissing:
    """Find an edge by the names of its ends and its relation."""
    return await reads.get_edge(tx, command)


@handles(ListEdges)
async def list_edges(tx: Transaction, command: ListEdges, _context: Context) -> EdgeList | EdgesMissing:
    """List the edges of a node; a cursor is the position that the last page's next_cursor was."""
    return await reads.list_edges(tx, command)


@handles_without_transaction(QueryNeighbors)
async def query_neighbors(command: QueryNeighbors, context: Context) -> Neighbors | WalkStartMissing:
    """Walk from a node; each step is a transaction of its own."""
    return await walks.neighbors(context.store, context.envelope.namespace, command)


@handles_without_transaction(FindPath)
async def find_path(command: FindPath, context: Context) -> PathReport | WalkStartMissing:
    """Search a path between two nodes; each step is a transaction of its own."""
    return await walks.path(context.store, context.envelope.namespace, command)


def _require_trusted_principal(context: Context) -> None:
    if context.envelope.principal.untrusted:
        raise refuse(FaultCode.FORBIDDEN, "An untrusted principal may not write to the graph.")
