"""The whole language: every command, every reply, one union each."""

from typing import Final, get_args

from schemas.commands.base import Command, Reply, WriteReply
from schemas.commands.bulk import BatchImported, ImportBatch, Receipt
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
    | CommandReport
    | Stats
    | Pong
    | Swept
)

COMMANDS: Final[tuple[type[Command], ...]] = get_args(AnyCommand)

__all__ = [
    "COMMANDS",
    "AnyCommand",
    "AnyReply",
    "BatchImported",
    "ClassifySectors",
    "Command",
    "CommandReport",
    "EdgeCount",
    "EmbedPending",
    "ForgetMemory",
    "Forgotten",
    "GetCommand",
    "GetMemory",
    "ImportBatch",
    "ListRecentMemories",
    "MemoryChanged",
    "MemoryFound",
    "MemoryList",
    "MemoryStats",
    "NewMemory",
    "PendingEmbedded",
    "Ping",
    "Pong",
    "QueueDepth",
    "Receipt",
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
    "WriteReply",
]
