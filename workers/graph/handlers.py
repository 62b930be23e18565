"""The `edges` kind: writes to the knowledge graph, reclassification, and consent; links are in modules of their own."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from engramq.schemas.commands import (
    AddEdge,
    AddNode,
    Command,
    DecideProposal,
    DeleteEdge,
    DeleteNode,
    ProposeReclassification,
    Reclassified,
    ReclassifySector,
    WriteReply,
)
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.vocabulary import ReclassifyStatus, Scope, WorkerKind
from engramq.workers.db.ledger import Ledger
from engramq.workers.db.transaction import Transaction
from engramq.workers.graph import consent
from engramq.workers.graph import edges as graph_edges
from engramq.workers.graph import nodes as graph_nodes
from engramq.workers.graph.reclassification import actor_of, reclassify
from engramq.workers.queue.contract import Actor, Handler, Job, Outcome

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weaver:
    """The handlers of the kind. An untrusted principal may write nothing here."""

    ledger: Ledger

    async def add_node(self, job: Job) -> Outcome:
        """Carry out AddNode."""
        command = job.envelope.command
        assert isinstance(command, AddNode)
        return await self._run(job, lambda tx: graph_nodes.add_node(tx, command))

    async def add_edge(self, job: Job) -> Outcome:
        """Carry out AddEdge."""
        command = job.envelope.command
        assert isinstance(command, AddEdge)
        return await self._run(job, lambda tx: graph_edges.add_edge(tx, command))

    async def delete_edge(self, job: Job) -> Outcome:
        """Carry out DeleteEdge."""
        command = job.envelope.command
        assert isinstance(command, DeleteEdge)
        return await self._run(job, lambda tx: graph_edges.delete_edge(tx, job.envelope, command))

    async def delete_node(self, job: Job) -> Outcome:
        """Carry out DeleteNode."""
        command = job.envelope.command
        assert isinstance(command, DeleteNode)
        return await self._run(job, lambda tx: graph_edges.delete_node(tx, job.envelope, command))

    async def reclassify(self, job: Job) -> Outcome:
        """Carry out ReclassifySector; once it is committed, say so in the log."""
        command, envelope = job.envelope.command, job.envelope
        assert isinstance(command, ReclassifySector)
        actor = actor_of(envelope, command)
        if actor != envelope.principal.name and Scope.ADMIN not in envelope.principal.scopes:
            raise refuse(FaultCode.FORBIDDEN, f"To act as {actor!r} needs the scope {Scope.ADMIN.value!r}.")
        outcome = await self._run(job, lambda tx: reclassify(tx, envelope, command))
        reply = outcome.reply
        assert isinstance(reply, Reclassified)
        if reply.status is ReclassifyStatus.SUCCESS and not outcome.replayed:
            log.info(
                "Edge reclassified",
                extra={
                    "edge_id": reply.edge_id,
                    "from_sector": reply.old_sector,
                    "to_sector": reply.new_sector,
                    "actor": actor,
                    "command_id": envelope.id,
                },
            )
        return outcome

    async def propose(self, job: Job) -> Outcome:
        """Carry out ProposeReclassification."""
        command = job.envelope.command
        assert isinstance(command, ProposeReclassification)
        return await self._run(job, lambda tx: consent.propose(tx, job.envelope, command))

    async def decide(self, job: Job) -> Outcome:
        """Carry out DecideProposal."""
        command = job.envelope.command
        assert isinstance(command, DecideProposal)
        return await self._run(job, lambda tx: consent.decide(tx, job.envelope, command))

    async def _run(self, job: Job, effect: Callable[[Transaction], Awaitable[WriteReply]]) -> Outcome:
        if job.envelope.principal.untrusted:
            raise refuse(FaultCode.FORBIDDEN, "An untrusted principal may not write to the graph.")
        recorded = await self.ledger.run(job, effect)
        return Outcome(recorded.reply, replayed=recorded.replayed)


def actor(weaver: Weaver, *others: Mapping[type[Command], Handler]) -> Actor:
    """Return the worker kind; `others` are the handlers of its commands that are not on the knowledge graph."""
    return Actor(
        WorkerKind.EDGES,
        {
            AddNode: weaver.add_node,
            AddEdge: weaver.add_edge,
            DeleteEdge: weaver.delete_edge,
            DeleteNode: weaver.delete_node,
            ReclassifySector: weaver.reclassify,
            ProposeReclassification: weaver.propose,
            DecideProposal: weaver.decide,
            **{command: handler for one in others for command, handler in one.items()},
        },
    )
