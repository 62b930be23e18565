"""The tools on links between memories: what an agent asserts, and what helped."""

from typing import Final

from engramq.gateway.mcp.tools.tool import Items, Tool
from engramq.schemas.commands import (
    BatchConnected,
    BatchLink,
    Connect,
    ConnectByQuery,
    Connected,
    Connects,
    Disconnect,
    Disconnected,
    LinkRequest,
    OutcomeRecorded,
    QueryConnected,
    RecordOutcome,
)

TOOLS: Final = (
    Tool(
        name="connect",
        title="Connect two memories",
        summary="Say how two memories are related, so that searches for one lift the other. Call it when one "
        "explains, supports or contradicts the other and the words alone do not show it. Mere likeness is "
        "linked by itself. If one replaces the other, call supersede_memory. For facts about named things call "
        "graph_add_edge.",
        example='connect(source="@stored", target="@recalled[0]", relation="supports")',
        parameters=Connect,
        replies=(Connected,),
        everyday=("source", "target", "relation", "note", "session"),
        ids=("source", "target"),
        destructive=True,
    ),
    Tool(
        name="disconnect",
        title="Disconnect two memories",
        summary="Remove the link between two memories; it does not come back by itself. Call it when it leads searches "
        "to what does not belong. If only its relation is wrong, call connect with if_exists update. If a memory is "
        "wrong, call supersede_memory.",
        example='disconnect(source="@recalled[0]", target="@recalled[1]", guard_relation="similar")',
        parameters=Disconnect,
        replies=(Disconnected,),
        ids=("source", "target"),
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="connect_by_query",
        title="Connect memories by query",
        summary="Link the memories that best match two queries, if both are sure enough. Call it when you know both by "
        "what they say, not by id; first with dry_run. If you have just stored or recalled them, call connect.",
        example='connect_by_query(source_query="why we chose Redis", target_query="queue latency", dry_run=true)',
        parameters=ConnectByQuery,
        replies=(QueryConnected,),
        bounded=True,
        destructive=True,
    ),
    Tool(
        name="connects",
        title="Connect in a batch",
        summary="Make many links at once; bad ones are reported by index. Call it to link a whole set: the steps of a "
        "plan, what a report rests on. For one link call connect. Then correct and resend the items in errors.",
        example='connects(edges=[{"source": "@recalled[0]", "target": "@recalled[1]"}], atomic=true)',
        parameters=Connects,
        replies=(BatchConnected,),
        session=True,
        batches={"edges": Items(taken=LinkRequest, kept=BatchLink, ids=("source", "target"))},
        destructive=True,
    ),
    Tool(
        name="record_outcome",
        title="Record an outcome",
        summary="Say how much memories helped (1) or misled (0): it moves their rank and links those that helped. "
        "Call it when a task that relied on them has ended. Not for memories that you only read. It says nothing "
        "about truth: of a false one call supersede_memory.",
        example='record_outcome(memory_ids=["@recalled[0]", "@recalled[1]"], signal=0.9)',
        parameters=RecordOutcome,
        replies=(OutcomeRecorded,),
        everyday=("memory_ids", "signal", "note", "session"),
        ids=("memory_ids",),
    ),
)
