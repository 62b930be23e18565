"""The guide to the tools on sessions, on the guide itself, and on the pipeline."""

from typing import Final

from engramq.gateway.mcp.guide.entry import Step, ToolGuide

_STORE: Final = Step(
    tool="store_memory", arguments={"content": "The release is planned for the first of May", "session": "planning"}
)

ENTRIES: Final = {
    "begin_session": ToolGuide(
        what="Starts a session afresh, under a name of your own or one that it makes, without references.",
        when="A new task begins, or a call refused a reference. Pass the session that it returns in every later call.",
        when_not="You want to go on where you left: call nothing, breadcrumbs last 24 hours. After 30 minutes of "
        "silence a new instance begins by itself, and the breadcrumbs stay.",
        cost="One Redis call, about 2 ms; no worker is asked.",
        returns="session and its instance, a number that is never used twice.",
        next="search_memories with the task, in this session.",
        example=Step(tool="begin_session", arguments={"session": "planning"}),
    ),
    "get_breadcrumbs": ToolGuide(
        what="Shows what this session stored last, recalled last, and touched, in order.",
        when="You are not sure what @stored and @recalled[N] stand for, or pick up a task after your context was lost.",
        when_not="You have the reply that you need in front of you.",
        cost="One Redis call, about 2 ms; no worker is asked. Looking keeps the breadcrumbs alive.",
        returns="last_stored_id, last_recalled_ids (as numbered by @recalled[N]), session_memory_ids, expires_at.",
        next="get_memory for an id whose content you no longer have.",
        before=(_STORE,),
        example=Step(tool="get_breadcrumbs", arguments={"session": "planning"}),
    ),
    "guide": ToolGuide(
        what="Explains the way of working (no topic), or one tool: what, when, when not, cost, returns, next, example.",
        when="You use engramq for the first time, are about to use a tool that you have not used, or a refusal "
        "surprises you.",
        when_not="You know what to do: the descriptions in the listing are enough for a call.",
        cost="Nothing: the gateway answers from its own memory, about 2 ms.",
        returns="topic and entry; not_found with topics for a word that it does not know.",
        next="Call the tool; example holds arguments that work.",
        example=Step(tool="guide", arguments={"topic": "overview"}),
    ),
    "get_command": ToolGuide(
        what="Tells what became of a write by its command_id: pending, running, done, failed or unknown.",
        when="A write answered pending, your connection broke in the middle of one, or a connect was deferred.",
        when_not="The write answered: its reply is final. Do not write again to be sure: ask here, or repeat the call "
        "with the idempotency_key that it had.",
        cost="One read, a few milliseconds. Only the same principal, or admin, sees it.",
        returns="status and reply, the answer that you would have got; null until it has ended.",
        next="pending or running: ask again in a second. failed: reply says why, and nothing was applied. unknown: no "
        "such command of yours, or one of more than a week ago.",
        before=(_STORE,),
        example=Step(tool="get_command", arguments={"command_id": "<command_id>"}),
    ),
    "audit": ToolGuide(
        what="Lists who did what to memories, links, edges, nodes and tokens, with old and new values and reasons, "
        "newest first. target takes a memory with its links and outcomes, or a node with its edges.",
        when="A memory is hidden, linked, verified or gone and you have to know who did that, when and why.",
        when_not="You want to know what a memory says: get_memory. The audit holds ids and changes, never contents.",
        cost="One read, a few milliseconds; with target, of all entries of the namespace. Needs the admin scope.",
        returns="entries and next_cursor, null at the end. Unknown ids have none.",
        next="What was done was wrong: restore_memory, verify_memory or disconnect undo most of it.",
        before=(_STORE,),
        example=Step(tool="audit", arguments={"target": "<stored.id>"}),
    ),
    "memory_stats": ToolGuide(
        what="Counts memories by partition, sector, state and project, links by origin, and what waits in the queues.",
        when="You judge how much is known at all and in which projects, or why things are slow (depth) or lost (dead).",
        when_not="You look for content: it shows none.",
        cost="Counts the whole namespace: milliseconds for thousands, longer for millions.",
        returns="memories, by_partition (both), by_sector, by_state, superseded, edges, queues, embedder; project, in "
        "which your calls are that name none, and projects, those with memories in partitions. Projects of captured "
        "turns alone need partitions=['untrusted'].",
        next="Search another project by project, all by '*'. A queue with dead commands: tell the operator.",
        example=Step(tool="memory_stats", arguments={}),
    ),
}
