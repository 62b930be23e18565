"""The whole language: every command, every reply, one union each."""

from typing import Final, get_args

from engramq.schemas.commands.access import (
    CreateToken,
    ListTokens,
    RevokeToken,
    TokenCreated,
    TokenList,
    TokenRevoked,
)
from engramq.schemas.commands.base import Command, Reply, WriteReply
from engramq.schemas.commands.bulk import (
    BatchImported,
    ImportBatch,
    ImportList,
    ImportMemories,
    ImportRecord,
    ImportRow,
    ListImports,
    MemoriesImported,
    Receipt,
)
from engramq.schemas.commands.consent import (
    ConsentNotNeeded,
    Decided,
    DecideProposal,
    ListProposals,
    NotProposed,
    ProposalList,
    Proposed,
    ProposeReclassification,
)
from engramq.schemas.commands.duplicates import (
    DuplicateGroup,
    DuplicatesFound,
    DuplicatesGrouped,
    DuplicatesMerged,
    FindDuplicates,
    GroupDuplicates,
    MergeDuplicates,
)
from engramq.schemas.commands.graph import (
    AddEdge,
    AddNode,
    ChangeNeedsConsent,
    DeleteEdge,
    DeleteNode,
    DeletionNeedsConsent,
    EdgeAdded,
    EdgeFound,
    EdgeList,
    EdgeMissing,
    EdgesMissing,
    GetEdge,
    GetNodeByName,
    GraphDeleted,
    ListEdges,
    NameAmbiguous,
    NodeAdded,
    NodeFound,
    NodeMissing,
    Reclassified,
    ReclassifySector,
)
from engramq.schemas.commands.links import (
    Activated,
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
    LinkActivated,
    LinkRequest,
    LinksScheduled,
    Near,
    OutcomeRecorded,
    QueryConnected,
    RecordOutcome,
    Resolved,
)
from engramq.schemas.commands.memories import (
    BrowseMemories,
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
    AuditList,
    CommandReport,
    EdgeCount,
    GetCommand,
    ListAudit,
    MemoryStats,
    Ping,
    Pong,
    ProjectCount,
    QueueDepth,
    Stats,
)
from engramq.schemas.commands.tenants import DeleteTenant, DescribeTenant, TenantDeleted, TenantDescribed
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
from engramq.schemas.commands.undo import DeletedList, GraphRestored, ListDeleted, RestoreGraph
from engramq.schemas.commands.walks import FindPath, Neighbors, PathReport, QueryNeighbors, WalkStartMissing

AnyCommand = (
    StoreMemory
    | SearchMemories
    | ListRecentMemories
    | BrowseMemories
    | GetMemory
    | SupersedeMemory
    | UpdateMemory
    | ForgetMemory
    | RestoreMemory
    | VerifyMemory
    | PromoteMemory
    | PurgeMemories
    | FindDuplicates
    | GroupDuplicates
    | MergeDuplicates
    | DescribeTenant
    | DeleteTenant
    | Connect
    | Disconnect
    | ConnectByQuery
    | Connects
    | RecordOutcome
    | LinkActivated
    | EmbedPending
    | ClassifySectors
    | ImportBatch
    | ImportMemories
    | ListImports
    | AddNode
    | AddEdge
    | DeleteEdge
    | DeleteNode
    | RestoreGraph
    | ListDeleted
    | GetNodeByName
    | GetEdge
    | ListEdges
    | QueryNeighbors
    | FindPath
    | ReclassifySector
    | ProposeReclassification
    | DecideProposal
    | ListProposals
    | GetCommand
    | ListAudit
    | Authenticate
    | ListTokens
    | CreateToken
    | RevokeToken
    | MemoryStats
    | Ping
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
    | DuplicatesFound
    | DuplicatesGrouped
    | DuplicatesMerged
    | TenantDescribed
    | TenantDeleted
    | Connected
    | Disconnected
    | QueryConnected
    | BatchConnected
    | OutcomeRecorded
    | LinksScheduled
    | Identity
    | TokenList
    | TokenCreated
    | TokenRevoked
    | PendingEmbedded
    | SectorsClassified
    | BatchImported
    | MemoriesImported
    | ImportList
    | NodeAdded
    | EdgeAdded
    | ChangeNeedsConsent
    | NameAmbiguous
    | GraphDeleted
    | GraphRestored
    | DeletedList
    | DeletionNeedsConsent
    | NodeFound
    | NodeMissing
    | EdgeFound
    | EdgeMissing
    | EdgeList
    | EdgesMissing
    | Neighbors
    | WalkStartMissing
    | PathReport
    | Reclassified
    | Proposed
    | NotProposed
    | ConsentNotNeeded
    | Decided
    | ProposalList
    | CommandReport
    | AuditList
    | Stats
    | Pong
)

COMMANDS: Final[tuple[type[Command], ...]] = get_args(AnyCommand)

__all__ = [
    "COMMANDS",
    "Activated",
    "AddEdge",
    "AddNode",
    "AnyCommand",
    "AnyReply",
    "AuditList",
    "Authenticate",
    "BatchConnected",
    "BatchImported",
    "BatchLink",
    "BatchLinked",
    "BatchRefusal",
    "BrowseMemories",
    "ChangeNeedsConsent",
    "ClassifySectors",
    "Command",
    "CommandReport",
    "Connect",
    "ConnectByQuery",
    "Connected",
    "Connects",
    "ConsentNotNeeded",
    "CreateToken",
    "DecideProposal",
    "Decided",
    "DeleteEdge",
    "DeleteNode",
    "DeleteTenant",
    "DeletedList",
    "DeletionNeedsConsent",
    "DescribeTenant",
    "Disconnect",
    "Disconnected",
    "DuplicateGroup",
    "DuplicatesFound",
    "DuplicatesGrouped",
    "DuplicatesMerged",
    "EdgeAdded",
    "EdgeCount",
    "EdgeFound",
    "EdgeList",
    "EdgeMissing",
    "EdgesMissing",
    "EmbedPending",
    "FindDuplicates",
    "FindPath",
    "ForgetMemory",
    "Forgotten",
    "GetCommand",
    "GetEdge",
    "GetMemory",
    "GetNodeByName",
    "GraphDeleted",
    "GraphRestored",
    "GroupDuplicates",
    "Identity",
    "ImportBatch",
    "ImportList",
    "ImportMemories",
    "ImportRecord",
    "ImportRow",
    "LinkActivated",
    "LinkRequest",
    "LinksScheduled",
    "ListAudit",
    "ListDeleted",
    "ListEdges",
    "ListImports",
    "ListProposals",
    "ListRecentMemories",
    "ListTokens",
    "MemoriesImported",
    "MemoryChanged",
    "MemoryFound",
    "MemoryList",
    "MemoryStats",
    "MergeDuplicates",
    "NameAmbiguous",
    "Near",
    "Neighbors",
    "NewMemory",
    "NodeAdded",
    "NodeFound",
    "NodeMissing",
    "NotProposed",
    "OutcomeRecorded",
    "PathReport",
    "PendingEmbedded",
    "Ping",
    "Pong",
    "ProjectCount",
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
    "RestoreGraph",
    "RestoreMemory",
    "RevokeToken",
    "SearchMemories",
    "SectorsClassified",
    "Stats",
    "StoreMemory",
    "Stored",
    "SupersedeMemory",
    "Superseded",
    "TenantDeleted",
    "TenantDescribed",
    "TokenCreated",
    "TokenList",
    "TokenRevoked",
    "UpdateMemory",
    "Verified",
    "VerifyMemory",
    "WalkStartMissing",
    "WriteReply",
]
