"""The tools on memories."""

from typing import Final

from engramq.gateway.mcp.tools.tool import Items, Tool
from engramq.schemas.commands import (
    ForgetMemory,
    Forgotten,
    GetMemory,
    ImportMemories,
    ImportRecord,
    ImportRow,
    ListRecentMemories,
    MemoriesImported,
    MemoryChanged,
    MemoryFound,
    MemoryList,
    RestoreMemory,
    SearchMemories,
    Stored,
    StoreMemory,
    Superseded,
    SupersedeMemory,
    UpdateMemory,
)

TOOLS: Final = (
    Tool(
        name="store_memory",
        title="Store a memory",
        summary="Keep one fact for later conversations. Call it when you learn something that outlives this one: a "
        "preference, a decision with its reason, a fix, an outcome. Not for secrets, chatter or what a search just "
        "showed. Next read similar_memories: of an outdated one call supersede_memory, of a related one connect.",
        example='store_memory(content="Ada prefers tea", speaker="Ada")',
        parameters=StoreMemory,
        replies=(Stored,),
        detailed=True,
        everyday=("content", "source_type", "speaker", "occurred_at", "session"),
        session=True,
    ),
    Tool(
        name="search_memories",
        title="Search memories",
        summary="Find memories by meaning and words, best first. Call it before you act, plan or answer: once for the "
        "task, once for each person, project or tool in it. Something always comes back: judge it by similarity. For "
        "the newest call list_recent_memories. Once hits have helped or misled, call record_outcome.",
        example='search_memories(query="what does Ada drink?")',
        parameters=SearchMemories,
        replies=(MemoryList,),
        detailed=True,
        everyday=("query", "limit", "partitions", "since", "until", "session"),
        session=True,
        read_only=True,
    ),
    Tool(
        name="list_recent_memories",
        title="List recent memories",
        summary="List memories, newest first. Call it after a break, to see what was just written, or to review what "
        "is archived or rejected. To look for something call search_memories.",
        example="list_recent_memories(limit=20)",
        parameters=ListRecentMemories,
        replies=(MemoryList,),
        detailed=True,
        everyday=("limit", "cursor"),
        read_only=True,
    ),
    Tool(
        name="get_memory",
        title="Get a memory",
        summary="Read one memory by id, with its links; also a pending, archived or superseded one. Call it to see "
        "why a memory is hidden, or what is linked to it. Without an id call search_memories. If superseded_by is "
        "set, read that one next.",
        example='get_memory(memory_id="@recalled[0]")',
        parameters=GetMemory,
        replies=(MemoryFound,),
        detailed=True,
        ids=("memory_id",),
        read_only=True,
    ),
    Tool(
        name="supersede_memory",
        title="Supersede a memory",
        summary="Replace an old memory by a newer one: searches and lists hide the old one. Call it when a fact has "
        "changed, or was wrong and you have stored the right one. If both are true, call connect. If nothing replaces "
        "it, call forget_memory. restore_memory undoes it.",
        example='supersede_memory(old_memory_id="@recalled[0]", new_memory_id="@stored")',
        parameters=SupersedeMemory,
        replies=(Superseded,),
        detailed=True,
        everyday=("old_memory_id", "new_memory_id", "session"),
        ids=("old_memory_id", "new_memory_id"),
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="update_memory",
        title="Update a memory",
        summary="Correct what is said about a memory: date, speaker, sector, metadata. Call it when the content is "
        "right and that is not. For changed content call store_memory, then supersede_memory.",
        example='update_memory(memory_id="@stored", sector="episodic")',
        parameters=UpdateMemory,
        replies=(MemoryChanged,),
        detailed=True,
        ids=("memory_id",),
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="forget_memory",
        title="Forget a memory",
        summary="Hide a memory from searches and lists, or with erase remove it for good. Call it when you are asked "
        "to forget, or a memory is wrong and nothing replaces it; erase what must not be kept, such as a password. If "
        "something newer replaces it, call supersede_memory. restore_memory undoes hiding.",
        example='forget_memory(memory_id="@recalled[0]", reason="wrong person")',
        parameters=ForgetMemory,
        replies=(Forgotten,),
        bounded=True,
        everyday=("memory_id", "reason", "erase", "session"),
        ids=("memory_id",),
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="restore_memory",
        title="Restore a memory",
        summary="Bring back a memory that was archived or superseded. Call it when it was hidden by mistake, or what "
        "replaced it is wrong. An erased one is gone. For a rejected one call verify_memory.",
        example='restore_memory(memory_id="<id>")',
        parameters=RestoreMemory,
        replies=(MemoryChanged,),
        detailed=True,
        ids=("memory_id",),
        idempotent=True,
    ),
    Tool(
        name="import_memories",
        title="Import memories",
        summary="Keep many facts at once. Call it to bring over notes or logs. For one fact call store_memory. A "
        "bad row stops no other: get_command tells which were rejected.",
        example='import_memories(records=[{"content": "Ada prefers tea"}])',
        parameters=ImportMemories,
        replies=(MemoriesImported,),
        batches={"records": Items(taken=ImportRecord, kept=ImportRow, listed=False)},
        reports=True,
        destructive=True,
    ),
)
