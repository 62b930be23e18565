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
        summary="Assert how two memories are related. A link of yours is never displaced and lifts both in searches.",
        example='connect(source="@stored", target="@recalled[0]", relation="supports")',
        parameters=Connect,
        replies=(Connected,),
        core=True,
        ids=("source", "target"),
        destructive=True,
    ),
    Tool(
        name="disconnect",
        title="Disconnect two memories",
        summary="Remove the link between two memories. An automatic one is not made again by automatic writers.",
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
        summary="Link the memories that best match two queries, if both matches are sure enough.",
        example='connect_by_query(source_query="why we chose Redis", target_query="queue latency", dry_run=true)',
        parameters=ConnectByQuery,
        replies=(QueryConnected,),
        bounded=True,
        destructive=True,
    ),
    Tool(
        name="connects",
        title="Connect in a batch",
        summary="Assert up to 200 links at once, each as in connect; bad ones are reported by index.",
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
        summary="Say how much memories helped (1) or misled (0): it moves their rank and links those that helped.",
        example='record_outcome(memory_ids=["@recalled[0]", "@recalled[1]"], signal=0.9)',
        parameters=RecordOutcome,
        replies=(OutcomeRecorded,),
        core=True,
        ids=("memory_ids",),
    ),
)
