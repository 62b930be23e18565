"""The whole language: every command, every reply, one union each."""

from typing import Final, get_args

from engramq.schemas.commands.base import Command, Reply, WriteReply
from engramq.schemas.commands.bulk import BatchImported, ImportBatch, Receipt
from engramq.schemas.commands.consent import (
    Decided,
    DecideProposal,
    ListProposals,
    NotProposed,
    ProposalList,
    Proposed,
    ProposeReclassification,
)
from engramq.schemas.commands.graph import (
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
from engramq.schemas.commands.links import (
    BatchConnected,
    BatchLink,
    BatchLinked,
    BatchRefusal,
    Connect,
    ConnectByQuery,
    Connected,
    Connects,
    Disconnect,
    Disconnected,
    LinkNewcomers,
    LinkRequest,
    Near,
    Newcomer,
    NewcomersNoted,
    OutcomeRecorded,
    QueryConnected,
    RecordOutcome,
    Resolved,
)
from engramq.schemas.commands.memories import (
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
from engramq.schemas.commands.system import (
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
from engramq.schemas.commands.trust import (
    Authenticate,
    Identity,
    Promoted,
    PromoteMemory,
    Purged,
    PurgeMemories,
    Verified,
    VerifyMemory,
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
    | VerifyMemory
    | PromoteMemory
    | PurgeMemories
    | Connect
    | Disconnect
    | ConnectByQuery
    | Connects
    | RecordOutcome
    | LinkNewcomers
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
    | Authenticate
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
    | Verified
    | Promoted
    | Purged
    | Connected
    | Disconnected
    | QueryConnected
    | BatchConnected
    | OutcomeRecorded
    | NewcomersNoted
    | Identity
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
    "Authenticate",
    "BatchConnected",
    "BatchImported",
    "BatchLink",
    "BatchLinked",
    "BatchRefusal",
    "ClassifySectors",
    "Command",
    "CommandReport",
    "Connect",
    "ConnectByQuery",
    "Connected",
    "Connects",
    "DecideProposal",
    "Decided",
    "DeleteEdge",
    "DeleteNode",
    "DeletionNeedsConsent",
    "Disconnect",
    "Disconnected",
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
    "Identity",
    "ImportBatch",
    "LinkNewcomers",
    "LinkRequest",
    "ListProposals",
    "ListRecentMemories",
    "MemoryChanged",
    "MemoryFound",
    "MemoryList",
    "MemoryStats",
    "NameAmbiguous",
    "Near",
    "Neighbors",
    "NewMemory",
    "Newcomer",
    "NewcomersNoted",
    "NodeAdded",
    "NodeFound",
    "NodeMissing",
    "NotProposed",
    "OutcomeRecorded",
    "PathReport",
    "PendingEmbedded",
    "Ping",
    "Pong",
    "PromoteMemory",
    "Promoted",
    "ProposalList",
    "ProposeReclassification",
    "Proposed",
    "PurgeMemories",
    "Purged",
    "QueryConnected",
    "QueryNeighbors",
    "QueueDepth",
    "Receipt",
    "Reclassified",
    "ReclassifySector",
    "RecordOutcome",
    "Reply",
    "Resolved",
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
    "Verified",
    "VerifyMemory",
    "WalkStartMissing",
    "WriteReply",
]
