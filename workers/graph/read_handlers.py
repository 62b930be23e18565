"""Reads of the knowledge graph: handlers that the `recall` kind includes."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import UNSET

from engramq.schemas.commands import (
    Command,
    FindPath,
    GetEdge,
    GetNodeByName,
    ListProposals,
    ProposalList,
    QueryNeighbors,
)
from engramq.workers.db.database import Store
from engramq.workers.graph import consent, walks
from engramq.workers.graph import reads as graph_reads
from engramq.workers.queue.contract import Handler, Job, Outcome


@dataclass(frozen=True, slots=True)
class GraphReader:
    """The handlers. None of them changes anything."""

    store: Store

    async def get_node(self, job: Job) -> Outcome:
        """Carry out GetNodeByName."""
        command = job.envelope.command
        assert isinstance(command, GetNodeByName)
        return Outcome(await self.store.read(job.envelope.namespace, lambda tx: graph_reads.get_node(tx, command)))

    async def get_edge(self, job: Job) -> Outcome:
        """Carry out GetEdge."""
        command = job.envelope.command
        assert isinstance(command, GetEdge)
        return Outcome(await self.store.read(job.envelope.namespace, lambda tx: graph_reads.get_edge(tx, command)))

    async def neighbors(self, job: Job) -> Outcome:
        """Carry out QueryNeighbors."""
        command = job.envelope.command
        assert isinstance(command, QueryNeighbors)
        return Outcome(await walks.neighbors(self.store, job.envelope.namespace, command))

    async def path(self, job: Job) -> Outcome:
        """Carry out FindPath."""
        command = job.envelope.command
        assert isinstance(command, FindPath)
        return Outcome(await walks.path(self.store, job.envelope.namespace, command))

    async def proposals(self, job: Job) -> Outcome:
        """Carry out ListProposals."""
        command = job.envelope.command
        assert isinstance(command, ListProposals)
        state = None if command.state is UNSET else command.state
        shown, more = await self.store.read(job.envelope.namespace, lambda tx: consent.list_proposals(tx, state))
        return Outcome(ProposalList(proposals=shown, truncated=more))


def handlers(store: Store) -> Mapping[type[Command], Handler]:
    """Return the handlers of every read of the graph."""
    reader = GraphReader(store)
    return {
        GetNodeByName: reader.get_node,
        GetEdge: reader.get_edge,
        QueryNeighbors: reader.neighbors,
        FindPath: reader.path,
        ListProposals: reader.proposals,
    }
