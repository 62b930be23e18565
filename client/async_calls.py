"""The calls of `AsyncMemory`. Written by `make clients` from docs/openapi.json: edit neither."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

from engramq.client import operations
from engramq.client import parameters as takes
from engramq.client.operation import Operation, ReplyT
from engramq.schemas import commands as said


class AsyncCalls(ABC):
    """One method an operation; each raises EngramqFailure."""

    @abstractmethod
    async def _call(self, operation: Operation[ReplyT], given: Mapping[str, Any]) -> ReplyT:
        """Carry a call out and return its reply."""

    async def store(self, content: str, **options: Unpack[takes.Store]) -> said.Stored:
        """Keep one fact for later conversations."""
        return await self._call(operations.STORE, {"content": content, **options})

    async def recent(self, **options: Unpack[takes.Recent]) -> said.MemoryList:
        """List memories, newest first."""
        return await self._call(operations.RECENT, {**options})

    async def search(self, query: str, **options: Unpack[takes.Search]) -> said.MemoryList:
        """Find memories by meaning and words, best first."""
        return await self._call(operations.SEARCH, {"query": query, **options})

    async def get(self, memory_id: str, **options: Unpack[takes.Get]) -> said.MemoryFound:
        """Read one memory by id, with its links; also a pending, archived or superseded one."""
        return await self._call(operations.GET, {"memory_id": memory_id, **options})

    async def update(self, memory_id: str, **options: Unpack[takes.Update]) -> said.MemoryChanged:
        """Correct what is said about a memory: date, speaker, sector, metadata."""
        return await self._call(operations.UPDATE, {"memory_id": memory_id, **options})

    async def forget(self, memory_id: str, **options: Unpack[takes.Forget]) -> said.Forgotten:
        """Hide a memory from searches and lists, or with erase remove it for good."""
        return await self._call(operations.FORGET, {"memory_id": memory_id, **options})

    async def supersede(
        self, old_memory_id: str, new_memory_id: str, **options: Unpack[takes.Supersede]
    ) -> said.Superseded:
        """Replace an old memory by a newer one: searches and lists hide the old one."""
        return await self._call(
            operations.SUPERSEDE, {"old_memory_id": old_memory_id, "new_memory_id": new_memory_id, **options}
        )

    async def restore(self, memory_id: str, **options: Unpack[takes.Restore]) -> said.MemoryChanged:
        """Bring back a memory that was archived or superseded."""
        return await self._call(operations.RESTORE, {"memory_id": memory_id, **options})

    async def import_many(
        self, records: Sequence[Mapping[str, Any]], **options: Unpack[takes.ImportMany]
    ) -> said.MemoriesImported:
        """Keep many facts at once."""
        return await self._call(operations.IMPORT_MANY, {"records": records, **options})

    async def verify(
        self,
        memory_id: str,
        verification: Literal["unverified", "verified", "approved", "rejected"],
        **options: Unpack[takes.Verify],
    ) -> said.Verified:
        """Say how far a memory is vouched for; a rejected one is hidden."""
        return await self._call(operations.VERIFY, {"memory_id": memory_id, "verification": verification, **options})

    async def promote(self, record_id: str, **options: Unpack[takes.Promote]) -> said.Promoted:
        """Move a verified or approved memory from untrusted to trusted, so that searches show it."""
        return await self._call(operations.PROMOTE, {"record_id": record_id, **options})

    async def connect(self, source: str, target: str, **options: Unpack[takes.Connect]) -> said.Connected:
        """Say how two memories are related, so that searches for one lift the other."""
        return await self._call(operations.CONNECT, {"source": source, "target": target, **options})

    async def disconnect(self, source: str, target: str, **options: Unpack[takes.Disconnect]) -> said.Disconnected:
        """Remove the link between two memories; it does not come back by itself."""
        return await self._call(operations.DISCONNECT, {"source": source, "target": target, **options})

    async def connect_by_query(
        self, source_query: str, target_query: str, **options: Unpack[takes.ConnectByQuery]
    ) -> said.QueryConnected:
        """Link the memories that best match two queries, if both are sure enough."""
        return await self._call(
            operations.CONNECT_BY_QUERY, {"source_query": source_query, "target_query": target_query, **options}
        )

    async def connect_many(
        self, edges: Sequence[Mapping[str, Any]], **options: Unpack[takes.ConnectMany]
    ) -> said.BatchConnected:
        """Make many links at once; bad ones are reported by index."""
        return await self._call(operations.CONNECT_MANY, {"edges": edges, **options})

    async def record_outcome(
        self, memory_ids: Sequence[str], signal: float, **options: Unpack[takes.RecordOutcome]
    ) -> said.OutcomeRecorded:
        """Say how much memories helped (1) or misled (0): it moves their rank and links those that helped."""
        return await self._call(operations.RECORD_OUTCOME, {"memory_ids": memory_ids, "signal": signal, **options})

    async def add_node(self, name: str, **options: Unpack[takes.AddNode]) -> said.NodeAdded:
        """Make a named node, or merge properties into it."""
        return await self._call(operations.ADD_NODE, {"name": name, **options})

    async def get_node(self, name: str, **options: Unpack[takes.GetNode]) -> said.NodeFound | said.NodeMissing:
        """Read a node by its exact name, or see names that resemble it."""
        return await self._call(operations.GET_NODE, {"name": name, **options})

    async def add_edge(
        self, source_name: str, target_name: str, relation: str, **options: Unpack[takes.AddEdge]
    ) -> said.EdgeAdded | said.ChangeNeedsConsent | said.NameAmbiguous:
        """Write a directed fact about two named things; missing nodes are made."""
        return await self._call(
            operations.ADD_EDGE,
            {"source_name": source_name, "target_name": target_name, "relation": relation, **options},
        )

    async def list_edges(self, **options: Unpack[takes.ListEdges]) -> said.EdgeList | said.EdgesMissing:
        """See every edge of a node, heaviest first, or one by edge_id."""
        return await self._call(operations.LIST_EDGES, {**options})

    async def delete_edge(
        self, edge_id: str, **options: Unpack[takes.DeleteEdge]
    ) -> said.GraphDeleted | said.DeletionNeedsConsent:
        """Remove an edge."""
        return await self._call(operations.DELETE_EDGE, {"edge_id": edge_id, **options})

    async def delete_node(
        self, node_id: str, **options: Unpack[takes.DeleteNode]
    ) -> said.GraphDeleted | said.DeletionNeedsConsent:
        """Remove a node and all its edges."""
        return await self._call(operations.DELETE_NODE, {"node_id": node_id, **options})

    async def get_edge(
        self, source_name: str, target_name: str, relation: str, **options: Unpack[takes.GetEdge]
    ) -> said.EdgeFound | said.EdgeMissing:
        """Verify a fact: read the edge of exactly this source, target and relation, or null."""
        return await self._call(
            operations.GET_EDGE,
            {"source_name": source_name, "target_name": target_name, "relation": relation, **options},
        )

    async def neighbors(
        self, node_name: str, **options: Unpack[takes.Neighbors]
    ) -> said.Neighbors | said.WalkStartMissing:
        """See what surrounds a node, nearest and most relevant first."""
        return await self._call(operations.NEIGHBORS, {"node_name": node_name, **options})

    async def find_path(
        self, start_node: str, end_node: str, **options: Unpack[takes.FindPath]
    ) -> said.PathReport | said.WalkStartMissing:
        """See how two nodes are connected: a shortest path over edges in either direction."""
        return await self._call(operations.FIND_PATH, {"start_node": start_node, "end_node": end_node, **options})

    async def reclassify_edge(
        self,
        source_name: str,
        target_name: str,
        relation: str,
        new_sector: str,
        **options: Unpack[takes.ReclassifyEdge],
    ) -> said.Reclassified:
        """Choose the sector of a graph edge by hand, for good."""
        return await self._call(
            operations.RECLASSIFY_EDGE,
            {
                "source_name": source_name,
                "target_name": target_name,
                "relation": relation,
                "new_sector": new_sector,
                **options,
            },
        )

    async def propose_reclassification(
        self, edge_id: str, new_sector: str, **options: Unpack[takes.ProposeReclassification]
    ) -> said.Proposed | said.NotProposed | said.ConsentNotNeeded:
        """Ask for consent to another sector of a constitutive edge, or join who asked: your approval, for 48 h."""
        return await self._call(
            operations.PROPOSE_RECLASSIFICATION, {"edge_id": edge_id, "new_sector": new_sector, **options}
        )

    async def decide_proposal(
        self, proposal_id: str, decision: Literal["approve", "reject"], **options: Unpack[takes.DecideProposal]
    ) -> said.Decided:
        """Approve or reject a proposal."""
        return await self._call(
            operations.DECIDE_PROPOSAL, {"proposal_id": proposal_id, "decision": decision, **options}
        )

    async def list_proposals(self, **options: Unpack[takes.ListProposals]) -> said.ProposalList:
        """See proposals, newest first, and what each would do."""
        return await self._call(operations.LIST_PROPOSALS, {**options})

    async def begin_session(self, **options: Unpack[takes.BeginSession]) -> dict[str, Any]:
        """Begin afresh: @stored and @recalled[N] are cleared."""
        return await self._call(operations.BEGIN_SESSION, {**options})

    async def breadcrumbs(self, session: str) -> dict[str, Any]:
        """See which memories this session stored and recalled, as @stored and @recalled[N] number them."""
        return await self._call(operations.BREADCRUMBS, {"session": session})

    async def guide(self, **options: Unpack[takes.Guide]) -> dict[str, Any]:
        """Read how to work with this memory, or what one tool costs and returns, with an example that works."""
        return await self._call(operations.GUIDE, {**options})

    async def get_command(self, command_id: str) -> said.CommandReport:
        """Learn what became of a write; reply holds its answer once it is done or failed."""
        return await self._call(operations.GET_COMMAND, {"command_id": command_id})

    async def audit(self, **options: Unpack[takes.Audit]) -> said.AuditList:
        """See who changed what, newest first; of a memory its links and outcomes too."""
        return await self._call(operations.AUDIT, {**options})

    async def stats(self, **options: Unpack[takes.Stats]) -> said.Stats:
        """Count memories by partition, sector, state and project, links, and what waits in the queues."""
        return await self._call(operations.STATS, {**options})
