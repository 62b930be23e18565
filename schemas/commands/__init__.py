"""The whole language: every command, every reply, one union each."""

from typing import Final, get_args

from schemas.commands.base import Command, Reply, WriteReply
from schemas.commands.bulk import BatchImported, ImportBatch, Receipt
from schemas.commands.consent import (
    Decided,
    DecideProposal,
    ListProposals,
    NotProposed,
    ProposalList,
    Proposed,
    ProposeReclassification,
)
from schemas.commands.graph import (
    AddEdge,
    AddNode,
    DeleteEdge,
    DeleteNode,
    DeletionNeedsConsent,
    EdgeAdded,
    EdgeFound,
    EdgeMissing,
    FindPath,
    GetEdge,
    GetNodeByName,
    GraphDeleted,
    NameAmbiguous,
    Neighbors,
    NodeAdded,
    NodeFound,
    NodeMissing,
    PathReport,
    QueryNeighbors,
    Reclassified,
    ReclassifySector,
    WalkStartMissing,
)
from schemas.commands.memories import (
    ClassifySectors,
    EmbedPending,
    ForgetMemory,
    Forgotten,
    GetMemory,
    ListRecentMemories,
    MemoryChanged,
    MemoryFound,
    MemoryList,
    NewMemory,
    PendingEmbedded,
    RestoreMemory,
    SearchMemories,
    SectorsClassified,
    Stored,
    StoreMemory,
    Superseded,
    SupersedeMemory,
    UpdateMemory,
)
from schemas.commands.system import (
    CommandReport,
    EdgeCount,
    GetCommand,
    MemoryStats,
    Ping,
    Pong,
    QueueDepth,
    Stats,
    Sweep,
    Swept,
)

AnyCommand = (
    StoreMemory
    | SearchMemories
    | ListRecentMemories
    | GetMemory
    | SupersedeMemory
    | UpdateMemory
    | ForgetMemory
    | RestoreMemory
    | EmbedPending
    | ClassifySectors
    | ImportBatch
    | AddNode
    | AddEdge
    | DeleteEdge
    | DeleteNode
    | GetNodeByName
    | GetEdge
    | QueryNeighbors
    | FindPath
    | ReclassifySector
    | ProposeReclassification
    | DecideProposal
    | ListProposals
    | GetCommand
    | MemoryStats
    | Ping
    | Sweep
)

AnyReply = (
    Stored
    | MemoryList
    | MemoryFound
    | Superseded
    | MemoryChanged
    | Forgotten
    | PendingEmbedded
    | SectorsClassified
    | BatchImported
    | NodeAdded
    | EdgeAdded
    | NameAmbiguous
    | GraphDeleted
    | DeletionNeedsConsent
    | NodeFound
    | NodeMissing
    | EdgeFound
    | EdgeMissing
    | Neighbors
    | WalkStartMissing
    | PathReport
    | Reclassified
    | Proposed
    | NotProposed
    | Decided
    | ProposalList
    | CommandReport
    | Stats
    | Pong
    | Swept
)

COMMANDS: Final[tuple[type[Command], ...]] = get_args(AnyCommand)

__all__ = [
    "COMMANDS",
    "AddEdge",
    "AddNode",
    "AnyCommand",
    "AnyReply",
    "BatchImported",
    "ClassifySectors",
    "Command",
    "CommandReport",
    "DecideProposal",
    "Decided",
    "DeleteEdge",
    "DeleteNode",
    "DeletionNeedsConsent",
    "EdgeAdded",
    "EdgeCount",
    "EdgeFound",
    "EdgeMissing",
    "EmbedPending",
    "FindPath",
    "ForgetMemory",
    "Forgotten",
    "GetCommand",
    "GetEdge",
    "GetMemory",
    "GetNodeByName",
    "GraphDeleted",
    "ImportBatch",
    "ListProposals",
    "ListRecentMemories",
    "MemoryChanged",
    "MemoryFound",
    "MemoryList",
    "MemoryStats",
    "NameAmbiguous",
    "Neighbors",
    "NewMemory",
    "NodeAdded",
    "NodeFound",
    "NodeMissing",
    "NotProposed",
    "PathReport",
    "PendingEmbedded",
    "Ping",
    "Pong",
    "ProposalList",
    "ProposeReclassification",
    "Proposed",
    "QueryNeighbors",
    "QueueDepth",
    "Receipt",
    "Reclassified",
    "ReclassifySector",
    "Reply",
    "RestoreMemory",
    "SearchMemories",
    "SectorsClassified",
    "Stats",
    "StoreMemory",
    "Stored",
    "SupersedeMemory",
    "Superseded",
    "Sweep",
    "Swept",
    "UpdateMemory",
    "WalkStartMissing",
    "WriteReply",
]
